#include <nlohmann/json.hpp>

#include "ladder/explain.h"

namespace weir::ladder {
namespace {

using Json = nlohmann::ordered_json;

// A whole number where it is one, as everywhere else in our JSON.
Json milliseconds(std::int64_t ns) {
  constexpr std::int64_t kMillisecond = 1'000'000;
  if (ns % kMillisecond == 0) return ns / kMillisecond;
  return static_cast<double>(ns) / 1e6;
}

Json bounds_json(const std::vector<RuleBound>& bounds) {
  Json out = Json::array();
  for (const RuleBound& bound : bounds)
    out.push_back({{"rule", bound.rule}, {"most", bound.most ? Json(*bound.most) : Json(nullptr)}});
  return out;
}

Json rule_json(const ExplainedRule& rule) {
  Json out = {{"rule", rule.name},
              {"algorithm", to_string(rule.numbers.algorithm)},
              {"limit", rule.numbers.limit},
              {"period_ms", milliseconds(rule.numbers.period_ns)},
              {"burst", rule.numbers.burst},
              {"most_in_window", rule.most_in_window},
              {"most_in_any_period", rule.most_in_period},
              {"in_words", rule.counted}};
  if (rule.shadow) out["shadow"] = true;
  if (rule.meter) out["meter"] = true;
  if (rule.exemptions > 0) out["exemptions"] = rule.exemptions;
  if (rule.overrides > 0) {
    out["overrides"] = rule.overrides;
    out["most_in_window_of_overrides"] = rule.most_of_overrides;
  }
  return out;
}

Json state_json(const StateOfStore& state) {
  Json answers = Json::array();
  for (const Answer& answer : state.answers)
    answers.push_back(
        {{"verdict", to_string(answer.verdict)}, {"status", answer.status}, {"when", answer.when}});
  return {{"store", to_string(state.state)},
          {"in_words", state.meaning},
          {"answers", std::move(answers)},
          {"bounds", bounds_json(state.bounds)}};
}

Json route_json(const Explanation& explanation, const ExplainedRoute& route) {
  Json out = {{"route", route.name},
              {"store", explanation.store},
              {"workers", explanation.workers},
              {"matches", route.matches},
              {"policy", to_string(route.policy)},
              {"because", route.policy_reason}};
  if (explanation.embedded && explanation.workers > 1) out["counted_in_each_worker"] = true;
  if (!explanation.clock.empty()) out["clock"] = explanation.clock;
  if (explanation.regions > 1) out["regions"] = explanation.regions;
  if (route.heading != route.name) out["heading"] = route.heading;
  if (!route.decided) out["policy"] = nullptr;
  if (route.protects) out["protects"] = to_string(*route.protects);
  if (!route.ceiling.empty()) out["ceiling"] = route.ceiling;
  for (const ExplainedRule& rule : route.rules) out["rules"].push_back(rule_json(rule));
  for (const StateOfStore& state : route.states) out["states"].push_back(state_json(state));
  if (!route.besides.empty()) out["besides"] = route.besides;
  if (route.outage) {
    Json outage = {{"length_ms", milliseconds(route.outage->length.count())},
                   {"back_within_ms", milliseconds(route.outage->back_within.count())},
                   {"bounds", bounds_json(route.outage->bounds)}};
    if (route.outage->all_keys) outage["all_keys"] = *route.outage->all_keys;
    out["outage"] = std::move(outage);
  }
  return out;
}

}  // namespace

std::string explain_json(const Explanation& explanation) {
  std::string out;
  for (const ExplainedRoute& route : explanation.routes)
    out += route_json(explanation, route)
               .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
           "\n";
  if (explanation.plan) out += outage_json(*explanation.plan) + "\n";
  for (const ExplainedSafeguard& safeguard : explanation.safeguards)
    out += Json{{safeguard.kind, safeguard.name}, {"facts", safeguard.facts}}.dump(
               -1, ' ', false, nlohmann::json::error_handler_t::replace) +
           "\n";
  return out;
}

}  // namespace weir::ladder
