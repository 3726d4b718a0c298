#include <nlohmann/json.hpp>

#include "drill/run/drill.h"
#include "drill/run/in_words.h"

namespace weir::drill {
namespace {

using Json = nlohmann::ordered_json;

std::string padded(std::string text, std::size_t width, bool right = false) {
  if (text.size() < width) {
    const std::string blanks(width - text.size(), ' ');
    text = right ? blanks + text : text + blanks;
  }
  return text;
}

double ms(Nanos time) {
  return static_cast<double>(time.count() / 1'000) / 1'000.0;
}

std::string rungs_of(const Tally& tally) {
  std::string out;
  for (const auto& [rung, count] : tally.rungs) {
    out += (out.empty() ? "" : " ") + rung + ":" + std::to_string(count);
  }
  return out;
}

std::string row(const std::string& route, const Tally& tally) {
  const auto number = [](std::uint64_t n) { return padded(std::to_string(n), 9, true); };
  return "  " + padded(route, 14) + number(tally.calls) + number(tally.allowed) +
         number(tally.limited) + number(tally.refused) + number(tally.other + tally.unanswered) +
         padded(in_words(tally.latency.quantile(0.5)), 12, true) +
         padded(in_words(tally.latency.quantile(0.99)), 12, true) + "  " + rungs_of(tally) + "\n";
}

Json tally_json(const std::string& route, const Tally& tally) {
  Json rungs = Json::object();
  for (const auto& [rung, count] : tally.rungs) rungs[rung] = count;
  return {{"route", route},
          {"calls", tally.calls},
          {"allowed", tally.allowed},
          {"limited", tally.limited},
          {"refused", tally.refused},
          {"other", tally.other},
          {"unanswered", tally.unanswered},
          {"rungs", std::move(rungs)},
          {"p50_ms", ms(tally.latency.quantile(0.5))},
          {"p99_ms", ms(tally.latency.quantile(0.99))},
          {"p999_ms", ms(tally.latency.quantile(0.999))},
          {"max_ms", ms(tally.latency.max())}};
}

}  // namespace

std::string to_text(const DrillReport& report) {
  std::string out = report.scenario.name + ": " + report.scenario.about + "\n";
  for (std::size_t i = 0; i < report.scenario.phases.size(); ++i) {
    const Phase& phase = report.scenario.phases[i];
    out += "\n" + phase.name + ", " + in_words(phase.length) + "\n  " + padded("", 14);
    for (const char* head : {"calls", "allowed", "limited", "refused", "failed"}) {
      out += padded(head, 9, true);
    }
    out += padded("p50", 12, true) + padded("p99", 12, true) + "  decided by\n";
    for (std::size_t r = 0; r < report.routes.size(); ++r) {
      out += row(report.routes[r], report.tallies[i][r]);
    }
  }
  out += "\nmost that one key was admitted in one window\n";
  for (const BoundCheck& check : report.bounds) {
    const std::string most = check.most ? std::to_string(*check.most) : "unbounded";
    out += std::string("  ") + (check.held() ? "ok    " : "BROKEN") + "  " +
           padded(check.route, 14) + padded(std::to_string(check.admitted), 6, true) + " of " +
           most + "  (" + check.rule + "; with the store " + std::to_string(check.limit) + ")\n";
  }
  out += "\n";
  for (const Expectation& each : report.expectations) {
    out += std::string(each.met ? "ok      " : "FAILED  ") + each.text + ": " + each.found + "\n";
  }
  out += "times that the breaker opened: " + std::to_string(report.breaker_openings) +
         "; lines that were logged: " + std::to_string(report.log_lines) + "\n";
  return out;
}

std::string to_json(const DrillReport& report) {
  Json out = {{"scenario", report.scenario.name},
              {"about", report.scenario.about},
              {"good", report.good()}};
  out["phases"] = Json::array();
  for (std::size_t i = 0; i < report.scenario.phases.size(); ++i) {
    const Phase& phase = report.scenario.phases[i];
    Json routes = Json::array();
    for (std::size_t r = 0; r < report.routes.size(); ++r) {
      routes.push_back(tally_json(report.routes[r], report.tallies[i][r]));
    }
    out["phases"].push_back({{"phase", phase.name},
                             {"length_ms", ms(phase.length)},
                             {"calm", phase.is_calm()},
                             {"routes", std::move(routes)}});
  }
  out["bounds"] = Json::array();
  for (const BoundCheck& check : report.bounds) {
    out["bounds"].push_back({{"route", check.route},
                             {"rule", check.rule},
                             {"admitted", check.admitted},
                             {"limit", check.limit},
                             {"most", check.most ? Json(*check.most) : Json(nullptr)},
                             {"held", check.held()}});
  }
  if (report.recovery) out["recovery_ms"] = ms(*report.recovery);
  out["breaker_openings"] = report.breaker_openings;
  out["log_lines"] = report.log_lines;
  out["expectations"] = Json::array();
  for (const Expectation& each : report.expectations) {
    out["expectations"].push_back({{"text", each.text}, {"met", each.met}, {"found", each.found}});
  }
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace weir::drill
