#include "policy/read_limit.h"

#include <algorithm>

#include "policy/address.h"
#include "policy/rule_draft.h"
#include "policy/short_form.h"

namespace weir::policy {
namespace {

Place place_of(const FaultList& faults, const YamlNode& node) {
  return Place{.file = faults.file(), .line = node.line, .column = node.column};
}

void read_sources(const LimitScope& scope, const Value& at, const std::vector<std::string>& names,
                  std::vector<Source>& out) {
  for (const std::string& name : names) {
    Problem problem;
    if (auto source = parse_source(name, scope.inputs, problem))
      out.push_back(*std::move(source));
    else
      scope.faults.add(at.node->line, at.node->column, at.path, name, problem.what,
                       problem.allowed);
  }
}

std::optional<RuleDraft> read_short(const LimitScope& scope, const Value& at) {
  Problem problem;
  const auto parsed = parse_short_limit(at.node->text, problem);
  if (!parsed) {
    // `[5 per minute by ip, user]` is two items to YAML.
    Problem ignored;
    if (parse_source(at.node->text, scope.inputs, ignored))
      problem = {"is a source by itself: inside [ ] a ',' ends the limit before it",
                 "quotes around the whole limit, or one limit a line"};
    scope.faults.add(*at.node, at.path, problem.what, problem.allowed);
    return std::nullopt;
  }
  RuleDraft draft{.requests = parsed->requests, .per = parsed->per};
  read_sources(scope, at, parsed->by, draft.by);
  if (draft.by.size() != parsed->by.size()) return std::nullopt;
  return draft;
}

std::optional<PeriodSpec> read_period(FaultList& faults, const Value& at) {
  const auto period = at.node->is_scalar() ? parse_period(at.node->text) : std::nullopt;
  if (period) return period;
  const std::string& text = at.node->text;
  const bool bare = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  faults.add(*at.node, at.path, bare ? "has no unit" : "is no period", std::string(kPeriodForm));
  return std::nullopt;
}

std::string missing(std::string_view field) {
  return "says no '" + std::string(field) + "'";
}

// requests, per and burst: what a limit and a ceiling share.
bool read_rate(FaultList& faults, MapReader& map, RuleDraft& draft) {
  bool good = true;
  if (const auto requests = map.get("requests")) {
    const auto value = read_integer(faults, *requests, 0, kMaxUnits);
    good = value.has_value();
    draft.requests = value.value_or(0);
  } else {
    good = false;
    if (!map.has("requests"))
      faults.add_silent(*map.at().node, map.at().path, missing("requests"),
                        "requests: a whole number from 0 to 4294967295 (0 blocks)");
  }
  if (const auto per = map.get("per")) {
    const auto value = read_period(faults, *per);
    good = good && value;
    draft.per = value.value_or(PeriodSpec{});
  } else {
    good = false;
    if (!map.has("per"))
      faults.add_silent(*map.at().node, map.at().path, missing("per"),
                        "per: " + std::string(kPeriodForm));
  }
  if (const auto burst = map.get("burst")) {
    draft.burst = read_integer(faults, *burst, 1, kMaxUnits);
    good = good && draft.burst;
  }
  return good;
}

void read_flag(FaultList& faults, MapReader& map, std::string_view field, bool& out) {
  if (const auto at = map.get(field)) out = read_bool(faults, *at).value_or(out);
}

void read_by(const LimitScope& scope, MapReader& map, RuleDraft& draft) {
  const auto at = map.get("by");
  if (!at) return;
  for (const Value& item : read_list(scope.faults, *at, kMaxSources, Lone::is_a_list_of_one))
    if (const auto name = read_text(scope.faults, item))
      read_sources(scope, item, {*name}, draft.by);
}

void read_how(const LimitScope& scope, MapReader& map, RuleDraft& draft) {
  if (const auto at = map.get("algorithm"))
    draft.algorithm = read_choice<Algorithm>(scope.faults, *at,
                                             {{"gcra", Algorithm::gcra},
                                              {"fixed_window", Algorithm::fixed_window},
                                              {"sliding_window", Algorithm::sliding_window},
                                              {"sliding_log", Algorithm::sliding_log}});
  if (const auto at = map.get("name")) {
    const auto name = read_text(scope.faults, *at);
    if (name && !is_rule_name(*name))
      scope.faults.add(*at->node, at->path, "cannot name a rule",
                       "1 to 128 printable ASCII characters without '\"' and '\\'");
    else
      draft.name = name.value_or("");
  }
  read_flag(scope.faults, map, "shadow", draft.shadow);
  read_flag(scope.faults, map, "strict", draft.strict);
  read_flag(scope.faults, map, "meter", draft.meter);
}

void report(const LimitScope& scope, const Value& at, const std::vector<DraftProblem>& problems) {
  for (const DraftProblem& problem : problems) {
    const YamlNode* field = at.node->is_map() ? at.node->find(problem.field) : nullptr;
    const Value where = field != nullptr ? Value{field, joined(at.path, problem.field)} : at;
    scope.faults.add(*where.node, where.path, problem.what, problem.allowed);
  }
}

void read_address_exemption(const LimitScope& scope, const Value& item, const std::string& text,
                            Rule& rule) {
  if (auto block = parse_cidr(text)) {
    rule.exempt.push_back(Exemption{.text = text, .block = block});
    return;
  }
  const auto meant = network_of(text);
  scope.faults.add(*item.node, item.path,
                   meant ? "has bits after its prefix" : "is no address and no block of them",
                   meant ? to_text(*meant) : "an address, or a block such as 10.0.0.0/8");
}

void read_exempt(const LimitScope& scope, MapReader& map, Rule& rule) {
  const auto at = map.get("exempt");
  if (!at) return;
  const bool by_ip = std::any_of(rule.by.begin(), rule.by.end(), [](const Source& source) {
    return source.kind == SourceKind::ip;
  });
  if (!by_ip && rule.by.size() != 1) {
    scope.faults.add_silent(*at->node, at->path, "needs to know which value it is about",
                            "exempt on a rule that counts by one source, or by ip");
    return;
  }
  for (const Value& item : read_list(scope.faults, *at, kMaxExemptions, Lone::refused)) {
    const auto text = read_text(scope.faults, item);
    if (!text) continue;
    if (by_ip)
      read_address_exemption(scope, item, *text, rule);
    else
      rule.exempt.push_back(Exemption{.text = *text, .block = std::nullopt});
  }
}

// The value of an override as the key will hold it.
std::optional<std::string> override_value(const LimitScope& scope, const Rule& rule,
                                          const YamlNode& key, const std::string& path) {
  if (rule.by.front().kind != SourceKind::ip) return key.text;
  const auto address = Address::parse(key.text);
  if (!address) {
    scope.faults.add(key, path, "is no address", "an IPv4 or IPv6 address");
    return std::nullopt;
  }
  return std::string(key_bytes(grouped(*address, scope.ipv6_prefix)));
}

// `VALUE: N`, or `VALUE: {requests: N, burst: B}`.
std::optional<RuleDraft> read_override(const LimitScope& scope, const Value& at,
                                       const RuleDraft& base) {
  RuleDraft draft = base;
  if (at.node->is_map()) {
    MapReader map(scope.faults, at, "an override", {"requests", "burst"});
    const auto requests = map.get("requests");
    if (!requests) {
      if (!map.has("requests"))
        scope.faults.add_silent(*at.node, at.path, missing("requests"), "requests: a whole number");
      return std::nullopt;
    }
    const auto value = read_integer(scope.faults, *requests, 0, kMaxUnits);
    if (const auto burst = map.get("burst")) {
      draft.burst = read_integer(scope.faults, *burst, 1, kMaxUnits);
      if (!draft.burst) return std::nullopt;
    }
    draft.requests = value.value_or(0);
    return value ? std::optional(draft) : std::nullopt;
  }
  const auto value = read_integer(scope.faults, at, 0, kMaxUnits);
  draft.requests = value.value_or(0);
  if (draft.requests == 0) draft.burst.reset();
  return value ? std::optional(draft) : std::nullopt;
}

void read_overrides(const LimitScope& scope, MapReader& map, const RuleDraft& base, Rule& rule) {
  const auto at = map.get("override");
  if (!at) return;
  if (rule.by.size() != 1) {
    scope.faults.add_silent(*at->node, at->path, "needs to know which value it is about",
                            "override on a rule that counts by exactly one source");
    return;
  }
  if (!at->node->is_map() || at->node->fields.size() > kMaxOverrides) {
    scope.faults.add(*at->node, at->path, "is no map of values, or too long a one",
                     "VALUE: N, at most " + std::to_string(kMaxOverrides));
    return;
  }
  for (const auto& [key, node] : at->node->fields) {
    const Value entry{node, joined(at->path, key->text)};
    const auto value = override_value(scope, rule, *key, entry.path);
    const auto draft = read_override(scope, entry, base);
    if (!value || !draft) continue;
    std::vector<DraftProblem> problems;
    const auto numbers = build_numbers(*draft, rule.numbers.algorithm, problems);
    report(scope, entry, problems);
    if (numbers && !rule.overrides.emplace(*value, *numbers).second)
      scope.faults.add(*key, entry.path, "is one value with an override above it",
                       "each value once");
  }
}

std::optional<Rule> read_long(const LimitScope& scope, const Value& at) {
  MapReader map(scope.faults, at, "a limit",
                {"requests", "per", "by", "algorithm", "burst", "name", "shadow", "strict", "meter",
                 "exempt", "override"});
  if (!map.is_map()) return std::nullopt;
  RuleDraft draft{.place = place_of(scope.faults, *at.node)};
  const bool rate = read_rate(scope.faults, map, draft);
  read_by(scope, map, draft);
  read_how(scope, map, draft);
  if (!rate) return std::nullopt;
  std::vector<DraftProblem> problems;
  auto rule = build_rule(draft, scope.route, scope.protects, problems);
  report(scope, at, problems);
  if (!rule) return std::nullopt;
  read_exempt(scope, map, *rule);
  read_overrides(scope, map, draft, *rule);
  return rule;
}

}  // namespace

std::optional<Rule> read_limit(const LimitScope& scope, const Value& at) {
  if (!at.node->is_scalar()) return read_long(scope, at);
  auto draft = read_short(scope, at);
  if (!draft) return std::nullopt;
  draft->place = place_of(scope.faults, *at.node);
  std::vector<DraftProblem> problems;
  auto rule = build_rule(*draft, scope.route, scope.protects, problems);
  report(scope, at, problems);
  return rule;
}

std::optional<Ceiling> read_ceiling(FaultList& faults, const Value& at) {
  const std::vector<std::string> no_inputs;
  const LimitScope scope{.faults = faults, .inputs = no_inputs, .route = {}, .protects = {}};
  std::optional<RuleDraft> draft;
  if (at.node->is_scalar()) {
    Problem problem;
    const auto parsed = parse_short_limit(at.node->text, problem);
    if (!parsed || !parsed->by.empty()) {
      faults.add(
          *at.node, at.path,
          parsed ? "counts by something, but a ceiling holds all keys together" : problem.what,
          "N per [K] second|minute|hour|day, without 'by'");
      return std::nullopt;
    }
    draft = RuleDraft{.requests = parsed->requests, .per = parsed->per};
  } else {
    MapReader map(faults, at, "a ceiling", {"requests", "per", "burst"});
    RuleDraft read;
    if (map.is_map() && read_rate(faults, map, read)) draft = read;
  }
  if (!draft) return std::nullopt;
  draft->algorithm = Algorithm::gcra;
  if (draft->requests == 0) {
    faults.add(*at.node, at.path, "lets nothing through",
               "at least 1; to refuse all, "
               "when_store_fails: closed");
    return std::nullopt;
  }
  std::vector<DraftProblem> problems;
  const auto rule = build_rule(*draft, "", std::nullopt, problems);
  report(scope, at, problems);
  if (!rule) return std::nullopt;
  return Ceiling{.numbers = rule->numbers, .text = rule->name};
}

}  // namespace weir::policy
