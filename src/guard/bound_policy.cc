#include "guard/bound_policy.h"

#include "policy/match.h"

namespace weir::guard {
BoundPolicy::BoundPolicy(Policy policy, std::uint64_t generation, NamePool& names,
                         render::Metrics& metrics, Ceilings& ceilings, Instant loaded_at)
    : policy_(std::move(policy)),
      generation_(generation),
      loaded_at_(loaded_at),
      domains_(model(), names, metrics, ceilings) {
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
          BoundRule{&rule, names.keep(rule.name), {}, rule.shadow || route.shadow});
      for (const policy::Source& source : rule.by) kept.sources.push_back(names.keep(source.text));
      by_identity_[rule.identity].push_back(&rule);
    }
    routes_.push_back(std::move(bound));
  }
  for (const policy::Domain& domain : model().domains) {
    for (const policy::DomainScope& scope : domain.scopes) {
      for (const policy::Rule& rule : scope.route.rules) {
        by_identity_[rule.identity].push_back(&rule);
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

const limit::Numbers* BoundPolicy::numbers_of(std::uint64_t identity,
                                              std::uint32_t stamp) const noexcept {
  const auto found = by_identity_.find(identity);
  if (found == by_identity_.end()) return nullptr;
  for (const policy::Rule* rule : found->second) {
    if (rule->numbers.stamp == stamp) return &rule->numbers;
    for (const auto& [value, numbers] : rule->overrides) {
      if (numbers.stamp == stamp) return &numbers;
    }
  }
  return &found->second.front()->numbers;
}

}  // namespace weir::guard
