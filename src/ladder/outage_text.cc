#include <algorithm>
#include <nlohmann/json.hpp>

#include "ladder/outage.h"
#include "policy/duration.h"

namespace weir::ladder {
namespace {

using Json = nlohmann::ordered_json;
using Units = std::optional<std::uint64_t>;

constexpr std::size_t kName = 32;

std::string right(const std::string& text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

std::string left(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

std::string words(const Units& units, const char* absent) {
  return units ? std::to_string(*units) : absent;
}

// To the millisecond, as one speaks of it: "13.5s".
std::string spoken(Nanos time) {
  using std::chrono::milliseconds;
  const std::int64_t ms = std::chrono::round<milliseconds>(time).count();
  if (ms < 1'000 || ms % 1'000 == 0 || ms >= 60'000) return policy::to_text(milliseconds(ms));
  std::string part = std::to_string(1'000 + ms % 1'000).substr(1);
  part.erase(part.find_last_not_of('0') + 1);
  return std::to_string(ms / 1'000) + "." + part + "s";
}

Json json(const Units& units) {
  return units ? Json(*units) : Json(nullptr);
}

Json ms(Nanos time) {
  if (time.count() % 1'000'000 == 0) return time.count() / 1'000'000;
  return static_cast<double>(time.count() / 1'000) / 1'000.0;
}

// A line of text no longer than a screen is wide, and what follows under its beginning.
void sentence(std::string& out, std::string_view label, std::string_view text) {
  constexpr std::size_t kLabel = 19;
  constexpr std::size_t kWidth = 100 - kLabel;
  std::string line = left("  " + std::string(label), kLabel);
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    if (used > 0 && used + 1 + end > kWidth) {
      out += line + "\n";
      line.assign(kLabel, ' ');
      used = 0;
    }
    if (used > 0) line += ' ';
    line += text.substr(0, end);
    used += end + (used > 0 ? 1 : 0);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  out += line + "\n";
}

void routes_text(std::string& out, const OutagePlan& plan) {
  out += "\n  " + left("in that time, at most", kName) + right("asked", 14) +
         right("with the store", 17) + right("without it", 17) + "\n";
  for (const OutageOfRoute& route : plan.routes) {
    out += "  " + left(route.name, kName) + right(words(route.offered, "-"), 14) +
           right(words(route.with_store, "-"), 17) + right(words(route.most, "unbounded"), 17) +
           "\n";
  }
  out += "  " + left("all routes", kName) + right(words(plan.offered, "-"), 14) + right("", 17) +
         right(words(plan.most, "unbounded"), 17) + "\n";
}

void instead_text(std::string& out, const OutagePlan& plan) {
  if (plan.instead.empty()) return;
  out += "\n  " + left("if instead", kName) + right("found within", 14) +
         right("without it for", 17) + right("admitted", 17) + "\n";
  for (const OutageInstead& each : plan.instead) {
    out += "  " + left(each.knob, kName) + right(spoken(each.detection), 14) +
           right(spoken(each.without), 17) + right(words(each.most, "unbounded"), 17) + "\n";
  }
}

}  // namespace

std::string outage_text(const OutagePlan& plan) {
  std::string out = "an outage of " + policy::to_text(plan.outage) + ", " +
                    std::to_string(plan.workers) + (plan.workers == 1 ? " worker" : " workers");
  if (plan.regions > 1) out += " in each of " + std::to_string(plan.regions) + " regions";
  out += "\n";
  std::string found = "If it hangs, a call waits " + spoken(plan.deadline) + ", until " +
                      std::to_string(plan.failures) + " in a row have failed: ";
  found += plan.arrivals_known
               ? "on each worker " + spoken(plan.detection) + " after the first of them came."
               : spoken(plan.deadline) + " after the last of them came.";
  sentence(out, "found out", found + " If it refuses, nobody waits.");
  sentence(out, "without it for",
           "at most " + spoken(plan.without()) + ": " + spoken(plan.outage) + " away, then " +
               spoken(plan.cooldown) + " until a probe asks, then " + spoken(plan.ramp) +
               " until every key asks it again.");
  routes_text(out, plan);
  instead_text(out, plan);
  return out;
}

std::string outage_json(const OutagePlan& plan) {
  Json out = {{"outage_ms", ms(plan.outage)},       {"workers", plan.workers},
              {"detection_ms", ms(plan.detection)}, {"cooldown_ms", ms(plan.cooldown)},
              {"ramp_ms", ms(plan.ramp)},           {"without_ms", ms(plan.without())}};
  if (plan.regions > 1) out["regions"] = plan.regions;
  out["routes"] = Json::array();
  for (const OutageOfRoute& route : plan.routes) {
    out["routes"].push_back({{"route", route.name},
                             {"offered", json(route.offered)},
                             {"with_store", json(route.with_store)},
                             {"most", json(route.most)}});
  }
  out["offered"] = json(plan.offered);
  out["most"] = json(plan.most);
  out["instead"] = Json::array();
  for (const OutageInstead& each : plan.instead) {
    out["instead"].push_back({{"knob", each.knob},
                              {"detection_ms", ms(each.detection)},
                              {"without_ms", ms(each.without)},
                              {"most", json(each.most)}});
  }
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace weir::ladder
