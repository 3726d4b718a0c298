#include "guard/bound_policy.h"

#include <algorithm>

#include "guard/compose.h"
#include "policy/match.h"

namespace weir::guard {

BoundPolicy::BoundPolicy(Policy policy, std::uint64_t generation, NamePool& names,
                         render::Metrics& metrics, Ceilings& ceilings, Instant loaded_at,
                         const BoundPolicy* before)
    : policy_(std::move(policy)),
      generation_(generation),
      loaded_at_(loaded_at),
      domains_(model(), names, metrics, ceilings, loaded_at, before ? &before->domains_ : nullptr) {
  const std::vector<policy::Route>& routes = model().routes;
  routes_.reserve(routes.size());
  for (const policy::Route& route : routes) {
    BoundRoute bound{.route = &route,
                     .name = names.keep(route.name),
                     .rules = {},
                     .slot = static_cast<std::uint32_t>(routes_.size()),
                     .metrics = metrics.route_slot(route.name),
                     .ceiling = route.ceiling ? ceilings.of(route.name) : nullptr};
    for (const policy::Rule& rule : route.rules) {
      BoundRule& kept = bound.rules.emplace_back(
          BoundRule{&rule, names.keep(rule.name), {}, rule.shadow || route.shadow, {}});
      kept.outline = outline_of(kept);
      for (const policy::Source& source : rule.by) kept.sources.push_back(names.keep(source.text));
      by_identity_[rule.identity].all.push_back(&rule);
    }
    routes_.push_back(std::move(bound));
  }
  for (auto& [identity, rules] : by_identity_) {
    rules.loaded_at =
        before ? before->loaded_before(identity, rules).value_or(loaded_at) : loaded_at;
  }
  for (BoundRoute& route : routes_) {
    for (const BoundRule& rule : route.rules) {
      route.loaded_at = std::max(route.loaded_at, by_identity_[rule.rule->identity].loaded_at);
    }
  }
  for (const policy::Domain& domain : model().domains) {
    for (const policy::DomainScope& scope : domain.scopes) {
      for (const policy::Rule& rule : scope.route.rules) {
        Rules& rules = by_identity_[rule.identity];
        rules.all.push_back(&rule);
        rules.loaded_at = std::max(rules.loaded_at, domains_.find(domain.name)->loaded_at);
      }
    }
  }
  if (!model().default_route.empty()) {
    const auto found = model().matcher->by_name(model().default_route);
    if (found) default_ = &routes_[*found];
  }
}

const BoundRoute* BoundPolicy::find(std::string_view name) const noexcept {
  const std::optional<std::uint32_t> found = model().matcher->by_name(name);
  return found ? &routes_[*found] : default_;
}

// Absent: those were others.
std::optional<Instant> BoundPolicy::loaded_before(std::uint64_t identity,
                                                  const Rules& rules) const noexcept {
  const auto found = by_identity_.find(identity);
  if (found == by_identity_.end()) return std::nullopt;
  const auto same = [](const policy::Rule* a, const policy::Rule* b) {
    return a->numbers == b->numbers && a->overrides == b->overrides;
  };
  const Rules& before = found->second;
  if (!std::equal(before.all.begin(), before.all.end(), rules.all.begin(), rules.all.end(), same))
    return std::nullopt;
  return before.loaded_at;
}

Instant BoundPolicy::loaded_at(std::uint64_t identity) const noexcept {
  const auto found = by_identity_.find(identity);
  return found == by_identity_.end() ? loaded_at_ : found->second.loaded_at;
}

Instant BoundPolicy::loaded_at(std::span<const store::Counter> counters) const noexcept {
  Instant latest{};
  for (const store::Counter& counter : counters) {
    const auto found = by_identity_.find(counter.identity);
    if (found != by_identity_.end()) latest = std::max(latest, found->second.loaded_at);
  }
  return latest == Instant{} ? loaded_at_ : latest;
}

const limit::Numbers* BoundPolicy::numbers_of(std::uint64_t identity,
                                              std::uint32_t stamp) const noexcept {
  const auto found = by_identity_.find(identity);
  if (found == by_identity_.end()) return nullptr;
  for (const policy::Rule* rule : found->second.all) {
    if (rule->numbers.stamp == stamp) return &rule->numbers;
    for (const auto& [value, numbers] : rule->overrides) {
      if (numbers.stamp == stamp) return &numbers;
    }
  }
  return &found->second.all.front()->numbers;
}

}  // namespace weir::guard
