#include <nlohmann/json.hpp>

#include "drill/run/drill.h"
#include "weir/version.h"

namespace weir::drill {
namespace {

using Json = nlohmann::ordered_json;

double ms(Nanos time) {
  return static_cast<double>(time.count() / 1'000) / 1'000.0;
}

Json tally_json(const char* what, std::string_view name, const Tally& tally) {
  Json rungs = Json::object();
  for (const auto& [rung, count] : tally.rungs) rungs[rung] = count;
  Json statuses = Json::object();
  for (const auto& [status, count] : tally.statuses) statuses[std::to_string(status)] = count;
  Json out;
  out[what] = name;
  out["calls"] = tally.calls;
  out["allowed"] = tally.allowed;
  out["allowed_by_itself"] = tally.by_itself;
  out["limited"] = tally.limited;
  out["refused"] = tally.refused;
  out["errors"] = tally.errors;
  out["other"] = tally.other;
  out["timed_out"] = tally.timed_out;
  out["cut"] = tally.cut;
  out["statuses"] = std::move(statuses);
  out["rungs"] = std::move(rungs);
  out["p50_ms"] = ms(tally.latency.quantile(0.5));
  out["p99_ms"] = ms(tally.latency.quantile(0.99));
  out["p999_ms"] = ms(tally.latency.quantile(0.999));
  out["max_ms"] = ms(tally.latency.max());
  return out;
}

Json route_json(const std::string& route, const RouteTally& tally) {
  Json out = tally_json("route", route, tally.all);
  out["clients"] = Json::array();
  for (std::size_t i = 0; i < kClientKinds; ++i) {
    if (tally.kinds[i].calls == 0) continue;
    out["clients"].push_back(
        tally_json("kind", to_string(static_cast<ClientKind>(i)), tally.kinds[i]));
  }
  return out;
}

Json phases_json(const DrillReport& report) {
  Json out = Json::array();
  for (std::size_t i = 0; i < report.scenario.phases.size(); ++i) {
    const Phase& phase = report.scenario.phases[i];
    Json routes = Json::array();
    for (std::size_t r = 0; r < report.routes.size(); ++r) {
      routes.push_back(route_json(report.routes[r], report.tallies[i][r]));
    }
    Json each;
    each["phase"] = phase.name;
    each["length_ms"] = ms(phase.length);
    each["calm"] = phase.is_calm();
    if (i < report.findings.size()) each["finding"] = report.findings[i];
    each["routes"] = std::move(routes);
    out.push_back(std::move(each));
  }
  return out;
}

Json bounds_json(const DrillReport& report) {
  Json out = Json::array();
  for (const BoundCheck& check : report.bounds) {
    out.push_back({{"route", check.route},
                   {"rule", check.rule},
                   {"spared", check.spared},
                   {"admitted", check.admitted},
                   {"limit", check.limit},
                   {"most", check.most ? Json(*check.most) : Json(nullptr)},
                   {"held", check.held()},
                   {"timeline", check.timeline}});
  }
  return out;
}

Json forecast_json(const Forecast& forecast) {
  Json out = Json::array();
  for (const Forecast::Row& row : forecast.rows) {
    out.push_back({{"what", row.what},
                   {"unit", row.is_time ? "ms" : "calls"},
                   {"predicted", row.predicted ? Json(*row.predicted) : Json(nullptr)},
                   {"measured", row.measured},
                   {"bound", row.is_bound}});
  }
  return out;
}

Json usage_json(const UsageReport& usage) {
  Json out = {{"journalled", usage.journalled},
              {"settled", usage.settled},
              {"unsettled", usage.unsettled},
              {"put_aside", usage.put_aside},
              {"rules", Json::array()}};
  if (usage.settled_after) out["settled_after_ms"] = ms(*usage.settled_after);
  if (!usage.fault.empty()) out["fault"] = usage.fault;
  for (const UsageCheck& check : usage.rules) {
    out["rules"].push_back({{"route", check.route},
                            {"rule", check.rule},
                            {"acknowledged", check.served},
                            {"unanswered", check.unanswered},
                            {"billed", check.billed},
                            {"overspent", check.overspent},
                            {"most_overspent", check.most_overspent},
                            {"cap", check.cap ? Json(*check.cap) : Json(nullptr)}});
  }
  return out;
}

// A tenth of a second each, of all routes.
Json timeline_json(const DrillReport& report) {
  Json out = {{"step_ms", ms(DrillReport::kMoment)}};
  for (const char* name : {"allowed", "limited", "refused", "failed", "degraded", "slowest_ms"}) {
    out[name] = Json::array();
  }
  out["rungs"] = Json::object();
  for (const DrillReport::Moment& moment : report.moments) {
    for (const auto& [rung, count] : moment.rungs) out["rungs"][rung] = Json::array();
  }
  for (const DrillReport::Moment& moment : report.moments) {
    out["allowed"].push_back(moment.allowed);
    out["limited"].push_back(moment.limited);
    out["refused"].push_back(moment.refused);
    out["failed"].push_back(moment.failed);
    out["degraded"].push_back(moment.degraded);
    out["slowest_ms"].push_back(ms(moment.slowest));
    for (auto& [rung, series] : out["rungs"].items()) {
      const auto found = moment.rungs.find(rung);
      series.push_back(found == moment.rungs.end() ? 0 : found->second);
    }
  }
  return out;
}

}  // namespace

std::string to_json(const DrillReport& report) {
  Json out = {{"scenario", report.scenario.name},
              {"about", report.scenario.about},
              {"subject", report.subject},
              {"weir", kVersion},
              {"good", report.good()},
              {"machine", report.machine},
              {"began", report.began}};
  if (report.findings.empty()) out["cost"] = report.cost;  // of a stranger's calls nobody knows it
  if (!report.store_version.empty()) out["store"] = report.store_version;
  out["phases"] = phases_json(report);
  out["bounds"] = bounds_json(report);
  if (!report.forecast.rows.empty()) out["forecast"] = forecast_json(report.forecast);
  if (report.usage) out["usage"] = usage_json(*report.usage);
  if (report.first_degraded) out["first_degraded_ms"] = ms(*report.first_degraded);
  if (report.breaker_opened) out["breaker_opened_after_ms"] = ms(*report.breaker_opened);
  if (report.recovery) out["recovery_ms"] = ms(*report.recovery);
  if (report.breaker_openings) out["breaker_openings"] = *report.breaker_openings;
  if (report.log_lines) out["log_lines"] = *report.log_lines;
  out["expectations"] = Json::array();
  for (const Expectation& each : report.expectations) {
    out["expectations"].push_back({{"text", each.text}, {"met", each.met}, {"found", each.found}});
  }
  out["timeline"] = timeline_json(report);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace weir::drill
