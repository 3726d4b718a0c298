#include "policy/read_route.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "policy/path.h"
#include "policy/read_limit.h"
#include "policy/rule_draft.h"

namespace weir::policy {
namespace {

std::optional<std::string> read_method(FaultList& faults, const Value& at) {
  const auto text = read_text(faults, at);
  if (!text) return std::nullopt;
  const bool good = text->size() <= 32 && std::all_of(text->begin(), text->end(), [](char c) {
                      return (c >= 'A' && c <= 'Z') || c == '-' || c == '_';
                    });
  if (good) return text;
  faults.add(*at.node, at.path, "is no method", "a method in capitals, such as GET");
  return std::nullopt;
}

void read_methods(FaultList& faults, const Value& at, Match& match) {
  for (const Value& item : read_list(faults, at, 16, Lone::is_a_list_of_one)) {
    auto method = read_method(faults, item);
    if (!method) continue;
    if (std::find(match.methods.begin(), match.methods.end(), *method) != match.methods.end())
      faults.add(*item.node, item.path, "stands twice", "each method once");
    else
      match.methods.push_back(*std::move(method));
  }
}

void read_path(FaultList& faults, const Value& at, Match& match) {
  auto text = read_text(faults, at);
  if (!text) return;
  const bool prefix = text->ends_with('*');
  std::string path = prefix ? text->substr(0, text->size() - 1) : *text;
  if (path.find('*') != std::string::npos) {
    faults.add(*at.node, at.path, "has a '*' before its end", "/login, /api/* or /api*");
    return;
  }
  std::array<char, kMaxPathBytes> buffer;
  const auto normal = normalise_path(path, buffer);
  if (!normal) {
    faults.add(*at.node, at.path, "is no path", "a path that begins with '/', without a query");
    return;
  }
  std::string wanted(*normal);
  if (prefix && path.ends_with('/') && wanted != "/") wanted += '/';
  if (wanted != path) {
    faults.add(*at.node, at.path, "is not how requests are compared: they are normalised first",
               wanted + (prefix ? "*" : ""));
    return;
  }
  match.path = std::move(path);
  match.prefix = prefix;
}

void read_host(FaultList& faults, const Value& at, Match& match) {
  const auto text = read_text(faults, at);
  if (!text) return;
  const bool good = text->size() <= 253 && std::all_of(text->begin(), text->end(), [](char c) {
                      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
                             c == '.' || c == '_' || c == '[' || c == ']' || c == ':';
                    });
  const bool port = text->find(':') != std::string::npos && text->front() != '[';
  if (good && !port && !text->ends_with('.') && !(text->front() == '[' && text->back() != ']'))
    match.host = *text;
  else
    faults.add(*at.node, at.path, "is no host to match",
               "one name in lower case, without port and '*'");
}

void read_match(const RouteScope& scope, const Value& at, Route& route) {
  MapReader map(scope.faults, at, "a match", {"method", "path", "host"});
  if (!map.is_map()) return;
  const std::size_t faults_before = scope.faults.count();
  Match match{.place = {scope.faults.file(), at.node->line, at.node->column}};
  if (const auto value = map.get("method")) read_methods(scope.faults, *value, match);
  if (const auto value = map.get("path")) read_path(scope.faults, *value, match);
  if (const auto value = map.get("host")) read_host(scope.faults, *value, match);
  if (!map.has("method") && !map.has("path") && !map.has("host"))
    scope.faults.add_silent(*at.node, at.path, "matches nothing in particular",
                            "at least one of method, path and host");
  // Half a match would fit requests that nobody meant.
  if (scope.faults.count() == faults_before) route.matches.push_back(std::move(match));
}

void read_limits(const RouteScope& scope, const Value& at, Route& route) {
  const LimitScope limits{.faults = scope.faults,
                          .inputs = scope.inputs,
                          .ipv6_prefix = scope.ipv6_prefix,
                          .route = route.name,
                          .protects = route.protects};
  for (const Value& item : read_list(scope.faults, at, kMaxRules, Lone::refused))
    if (auto rule = read_limit(limits, item)) route.rules.push_back(*std::move(rule));
}

void read_overspend(FaultList& faults, const Value& at, Route& route) {
  Overspend out;
  if (at.node->is_map()) {
    MapReader map(faults, at, "an overspend", {"cap"});
    const auto cap = map.get("cap");
    if (!cap) {
      if (!map.has("cap")) faults.add_silent(*at.node, at.path, "says no 'cap'", "{cap: N}");
      return;
    }
    const auto value = read_integer(faults, *cap, 1, kMaxUnits);
    if (!value) return;
    out.cap = *value;
  } else if (at.node->is_scalar() && at.node->text == "forgive") {
    out.mode = OverspendMode::forgive;
  } else if (at.node->is_scalar() && at.node->text == "bill") {
    out.mode = OverspendMode::bill;
  } else {
    faults.add(*at.node, at.path, "is no way to settle",
               "forgive, bill (both need a ceiling), or {cap: N} units a key and window");
    return;
  }
  route.overspend = out;
}

void read_reservations(FaultList& faults, const Value& at, Route& route) {
  MapReader map(faults, at, "reservations", {"on_expiry", "expire"});
  if (!map.is_map()) return;
  ReservationRule out;
  if (const auto value = map.get("expire"))
    out.expire = read_duration(faults, *value, kLeastReservation, kMostReservation);
  if (!map.has("on_expiry"))
    faults.add_silent(*at.node, at.path, "says no 'on_expiry'",
                      "on_expiry: full, last_heartbeat or zero");
  const auto value = map.get("on_expiry");
  if (!value) return;
  const auto chosen = read_choice<OnExpiry>(faults, *value,
                                            {{"full", OnExpiry::full},
                                             {"last_heartbeat", OnExpiry::last_heartbeat},
                                             {"zero", OnExpiry::zero}});
  if (!chosen) return;
  out.on_expiry = *chosen;
  route.reservations = out;
}

// Reservations are of usage that is recorded.
void check_reservations(FaultList& faults, MapReader& map, const Route& route) {
  const YamlNode* const at = map.at().node->find("reservations");
  if (at == nullptr) return;
  const bool metered = std::any_of(route.rules.begin(), route.rules.end(),
                                   [](const Rule& rule) { return rule.meter && !rule.shadow; });
  if (route.when_store_fails == FailurePolicy::settle && metered && !route.shadow) return;
  faults.add_silent(*at, joined(map.at().path, "reservations"),
                    "belongs to routes that settle and have a metered rule",
                    "protects: revenue and meter: true on a limit, or no reservations");
}

void check_rules(const RouteScope& scope, const std::string& path, const Route& route) {
  std::unordered_map<std::string_view, const Rule*> identities;
  for (std::size_t i = 0; i < route.rules.size(); ++i) {
    const Rule& rule = route.rules[i];
    const auto [first, fresh] = identities.emplace(rule.identity_text, &rule);
    if (fresh) continue;
    scope.faults.add(rule.place.line, rule.place.column, joined(path, "limits"), rule.name,
                     "counts what the limit on line " + std::to_string(first->second->place.line) +
                         " counts: same sources, period and algorithm, so one counter for both",
                     "one of them, or a name: of its own");
  }
}

// Names tell a route's rules apart in answers; those made from equal numbers get their algorithm.
void settle_names(const RouteScope& scope, const std::string& path, Route& route) {
  std::unordered_map<std::string, int> uses;
  for (const Rule& rule : route.rules) ++uses[rule.name];
  for (Rule& rule : route.rules) {
    if (uses[rule.name] == 1) continue;
    if (rule.identity_text.starts_with("name "))
      scope.faults.add(rule.place.line, rule.place.column, joined(path, "limits"), rule.name,
                       "names more than one rule of the route", "each name once");
    else
      rule.name.append(" (").append(to_string(rule.numbers.algorithm)).append(")");
  }
}

}  // namespace

const std::string_view kFailureChoices =
    "protects: security or side_effects (closed: refused with 503 until the store is back), "
    "capacity (bounded: each worker admits its part of the limit), revenue (settle: its part; "
    "beyond it metered rules are served, recorded and settled later), nothing (open: allowed "
    "unchecked); or outright when_store_fails: closed, bounded, settle or open";

void read_failure_policy(FaultList& faults, MapReader& map, Route& route) {
  if (const auto at = map.get("protects"))
    route.protects = read_choice<Protects>(faults, *at,
                                           {{"security", Protects::security},
                                            {"side_effects", Protects::side_effects},
                                            {"capacity", Protects::capacity},
                                            {"revenue", Protects::revenue},
                                            {"nothing", Protects::nothing}});
  if (route.protects) route.when_store_fails = failure_policy_of(*route.protects);
  if (const auto at = map.get("when_store_fails")) {
    const auto chosen = read_choice<FailurePolicy>(faults, *at,
                                                   {{"closed", FailurePolicy::closed},
                                                    {"bounded", FailurePolicy::bounded},
                                                    {"settle", FailurePolicy::settle},
                                                    {"open", FailurePolicy::open}});
    if (chosen) route.when_store_fails = *chosen;
    route.failure_policy_given = chosen.has_value();
  }
  if (const auto value = map.get("ceiling")) route.ceiling = read_ceiling(faults, *value);
  if (const auto value = map.get("overspend")) read_overspend(faults, *value, route);
  if (const auto value = map.get("journal"))
    route.journal_always =
        read_choice<bool>(faults, *value, {{"always", true}, {"outage", false}}).value_or(true);
}

// What the failure policy, ceiling and overspend of a route demand of each other.
void check_failure_policy(FaultList& faults, MapReader& map, const Route& route) {
  const YamlNode& node = *map.at().node;
  const std::string& path = map.at().path;
  const bool settles = route.when_store_fails == FailurePolicy::settle;
  const bool metered = std::any_of(route.rules.begin(), route.rules.end(),
                                   [](const Rule& rule) { return rule.meter; });
  if (map.has("overspend") && !settles)
    faults.add_silent(*node.find("overspend"), joined(path, "overspend"),
                      "belongs to routes that settle; this one is " +
                          std::string(to_string(route.when_store_fails)),
                      "protects: revenue, when_store_fails: settle, or no overspend");
  if (map.has("journal") && !settles)
    faults.add_silent(*node.find("journal"), joined(path, "journal"),
                      "belongs to routes that settle; this one is " +
                          std::string(to_string(route.when_store_fails)),
                      "protects: revenue, when_store_fails: settle, or no journal here");
  if (settles && metered && !route.overspend && !map.has("overspend"))
    faults.add_silent(node, path, "serves metered rules beyond its part, but says not how far",
                      "overspend: {cap: N} units a key and window, or forgive or bill under "
                      "a ceiling");
  if (settles && !metered && !route.rules.empty())
    faults.warn(node, path,
                "settles, but none of its rules has meter: true, so nothing is "
                "served beyond its part");
  const YamlNode* overspend = node.find("overspend");
  if (route.overspend && route.overspend->mode != OverspendMode::cap && !route.ceiling &&
      !map.has("ceiling"))
    faults.add(overspend != nullptr ? *overspend : node, joined(path, "overspend"),
               "has no end of its own and needs a ceiling", "ceiling: N per second beside it");
  if (route.ceiling && map.has("ceiling") && route.when_store_fails == FailurePolicy::closed)
    faults.warn(*node.find("ceiling"), joined(path, "ceiling"),
                "means nothing where everything is refused while the store is away");
}

Route read_route(const RouteScope& scope, const std::string& name, const Value& at) {
  Route route{.name = name, .place = {scope.faults.file(), at.node->line, at.node->column}};
  MapReader map(scope.faults, at, "a route",
                {"match", "limits", "protects", "when_store_fails", "ceiling", "overspend",
                 "journal", "reservations", "shadow"});
  if (!map.is_map()) return route;
  read_failure_policy(scope.faults, map, route);
  if (const auto value = map.get("match"))
    for (const Value& item : read_list(scope.faults, *value, kMaxMatches, Lone::is_a_list_of_one))
      read_match(scope, item, route);
  const auto limits = map.get("limits");
  if (limits) read_limits(scope, *limits, route);
  if (!map.has("limits"))
    scope.faults.add_silent(*at.node, at.path, "has no limits",
                            "limits: a list, such as [5 per minute by ip]; [] limits nothing");
  if (const auto value = map.get("reservations")) read_reservations(scope.faults, *value, route);
  if (const auto value = map.get("shadow"))
    route.shadow = read_bool(scope.faults, *value).value_or(false);
  const bool limits_something = limits && !limits->node->items.empty();
  if (limits_something && !map.has("protects") && !map.has("when_store_fails"))
    scope.faults.add_silent(*at.node, at.path, "does not say what happens when its store is away",
                            std::string(kFailureChoices));
  else
    check_failure_policy(scope.faults, map, route);
  check_reservations(scope.faults, map, route);
  check_rules(scope, at.path, route);
  settle_names(scope, at.path, route);
  assign_slots(route);
  return route;
}

}  // namespace weir::policy
