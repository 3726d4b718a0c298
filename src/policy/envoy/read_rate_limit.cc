#include "policy/envoy/read_rate_limit.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "policy/identity.h"
#include "policy/rule_draft.h"

namespace weir::policy {

const std::vector<std::string_view> kEnvoyFields = {
    "domain",         "key",       "value",    "descriptors",       "rate_limit",
    "unit",           "unlimited", "name",     "requests_per_unit", "shadow_mode",
    "quota_mode",     "replaces",  "metadata", "detailed_metric",   "value_to_metric",
    "share_threshold"};

namespace {

constexpr std::uint64_t kMaxMultiplier = 100'000;

std::string lowered(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::optional<PeriodUnit> read_unit(FaultList& faults, const Value& at) {
  const std::string unit = at.node->is_scalar() ? lowered(at.node->text) : "";
  const auto period = parse_period(unit);
  if (period && period->unit != PeriodUnit::exact && period->count == 1 && !unit.empty() &&
      (unit.front() < '0' || unit.front() > '9'))
    return period->unit;
  faults.add(*at.node, at.path, "is no unit",
             "second, minute, hour, day, week, month or year, in any case");
  return std::nullopt;
}

void read_replaces(FaultList& faults, const Value& at, DescriptorLimit& limit) {
  for (const Value& item : read_list(faults, at, 1'000, Lone::refused)) {
    MapReader map(faults, item, "an item of replaces", {"name"}, kEnvoyFields);
    if (!map.is_map()) continue;
    const auto name = map.get("name");
    const auto text = name ? read_text(faults, *name) : std::nullopt;
    if (!name)
      faults.add_silent(*item.node, item.path, "names no limit", "name: the name of a limit");
    else if (text && *text == limit.name)
      faults.add(*name->node, name->path, "is the limit itself", "the name of another limit");
    else if (text)
      limit.replaces.push_back(*text);
  }
}

// Proxies write the name into header lines of their own making, as it is.
std::string read_name(FaultList& faults, const Value& at) {
  const std::string name = read_text(faults, at).value_or("");
  const auto is_control = [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; };
  if (std::any_of(name.begin(), name.end(), is_control)) {
    faults.add(*at.node, at.path, "holds a control character, which would break header lines",
               "text without control characters");
    return {};
  }
  if (std::any_of(name.begin(), name.end(),
                  [](char c) { return c < 0 || c == '"' || c == '\\'; })) {
    faults.warn(
        *at.node, at.path,
        "is not plain ASCII without '\"' and '\\': proxies put it into header lines as it is");
  }
  return name;
}

PeriodSpec period_of_unit(const RateLimitSaid& said, bool calendar) {
  const PeriodSpec units{.unit = said.limit.unit, .count = said.limit.unit_multiplier};
  if (calendar) return units;
  // Epoch-divided: a week has 7 days from a Thursday on, a month 30 and a year 365.
  const auto even = period_of(units, Algorithm::gcra);
  return PeriodSpec{.unit = PeriodUnit::exact, .exact = even ? even->length : Nanos(0)};
}

}  // namespace

std::optional<bool> read_envoy_bool(FaultList& faults, const Value& at) {
  const std::string text =
      at.node->is_scalar() && !at.node->quoted ? lowered(at.node->text) : std::string();
  for (const char* word : {"true", "yes", "on", "y"})
    if (text == word) return true;
  for (const char* word : {"false", "no", "off", "n"})
    if (text == word) return false;
  faults.add(*at.node, at.path, "is neither true nor false", "true or false");
  return std::nullopt;
}

std::optional<RateLimitSaid> read_rate_limit(FaultList& faults, const Value& at) {
  const std::size_t before = faults.count();
  MapReader map(faults, at, "a rate_limit",
                {"unit", "requests_per_unit", "unlimited", "name", "replaces", "algorithm", "burst",
                 "unit_multiplier", "meter"},
                kEnvoyFields);
  if (!map.is_map()) return std::nullopt;
  RateLimitSaid said;
  if (const auto value = map.get("unlimited"))
    said.unlimited = read_envoy_bool(faults, *value).value_or(false);
  const auto unit = map.get("unit");
  if (unit && said.unlimited)
    faults.add_silent(*unit->node, unit->path, "stands beside unlimited", "one of the two");
  else if (unit)
    said.limit.unit = read_unit(faults, *unit).value_or(PeriodUnit::second);
  else if (!said.unlimited)
    faults.add_silent(*at.node, at.path, "says no 'unit'", "unit, or unlimited: true");
  if (const auto value = map.get("requests_per_unit"))
    said.limit.requests_per_unit =
        static_cast<std::uint32_t>(read_integer(faults, *value, 0, kMaxUnits).value_or(0));
  else if (!said.unlimited)
    faults.warn(*at.node, at.path, "says no 'requests_per_unit', which is 0: it blocks everything");
  if (const auto value = map.get("name")) said.limit.name = read_name(faults, *value);
  if (const auto value = map.get("replaces")) read_replaces(faults, *value, said.limit);
  if (const auto value = map.get("algorithm"))
    said.algorithm = read_choice<Algorithm>(faults, *value,
                                            {{"gcra", Algorithm::gcra},
                                             {"fixed_window", Algorithm::fixed_window},
                                             {"sliding_window", Algorithm::sliding_window},
                                             {"sliding_log", Algorithm::sliding_log}});
  if (const auto value = map.get("burst")) said.burst = read_integer(faults, *value, 1, kMaxUnits);
  if (const auto value = map.get("unit_multiplier"))
    said.limit.unit_multiplier =
        static_cast<std::uint32_t>(read_integer(faults, *value, 1, kMaxMultiplier).value_or(1));
  if (const auto value = map.get("meter")) said.meter = read_bool(faults, *value).value_or(false);
  if (faults.count() > before) return std::nullopt;
  return said;
}

std::optional<Rule> make_domain_rule(FaultList& faults, const Value& at, const RateLimitSaid& said,
                                     std::string_view domain,
                                     const std::vector<DescriptorLevel>& levels, bool calendar) {
  RuleDraft draft{.requests = said.limit.requests_per_unit,
                  .per = period_of_unit(said, calendar),
                  .algorithm = said.algorithm.value_or(Algorithm::fixed_window),
                  .burst = said.burst};
  std::vector<DraftProblem> problems;
  if (said.burst && *draft.algorithm != Algorithm::gcra)
    problems.push_back(
        {"burst",
         "belongs to gcra; this limit counts by " + std::string(to_string(*draft.algorithm)),
         "algorithm: gcra, or no burst"});
  const auto numbers =
      problems.empty() ? build_numbers(draft, *draft.algorithm, problems) : std::nullopt;
  for (const DraftProblem& problem : problems) {
    const std::string_view field = problem.field == "requests" ? "requests_per_unit"
                                   : problem.field == "per"    ? "unit"
                                                               : problem.field;
    const YamlNode* node = at.node->find(field);
    faults.add(node != nullptr ? *node : *at.node, joined(at.path, field), problem.what,
               problem.allowed);
  }
  if (!numbers) return std::nullopt;
  Rule rule{.name = said.limit.path,
            .numbers = *numbers,
            .per = draft.per,
            .shadow = said.limit.shadow,
            .meter = said.meter,
            .place = said.limit.place};
  // In the order of the way, not sorted: [a, b] and [b, a] are different ways. A level whose values
  // are counted together is part of the identity itself.
  std::vector<Source> way;
  for (const DescriptorLevel& level : levels) {
    const std::string text = level.shares ? level.key + "=" + level.value : level.key;
    way.push_back({.kind = SourceKind::input, .name = text, .text = text});
    if (!level.shares) rule.by.push_back(way.back());
  }
  rule.identity_text = identity_text(Owner::domain, domain, way, draft.per, *draft.algorithm);
  rule.identity = identity_hash(rule.identity_text);
  return rule;
}

}  // namespace weir::policy
