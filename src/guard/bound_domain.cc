#include "guard/bound_domain.h"

#include "policy/match.h"

namespace weir::guard {

LimitUnit unit_of(policy::PeriodUnit unit, std::uint32_t multiplier) noexcept {
  if (multiplier != 1) return LimitUnit::unknown;
  switch (unit) {
    case policy::PeriodUnit::second:
      return LimitUnit::second;
    case policy::PeriodUnit::minute:
      return LimitUnit::minute;
    case policy::PeriodUnit::hour:
      return LimitUnit::hour;
    case policy::PeriodUnit::day:
      return LimitUnit::day;
    case policy::PeriodUnit::week:
      return LimitUnit::week;
    case policy::PeriodUnit::month:
      return LimitUnit::month;
    case policy::PeriodUnit::year:
      return LimitUnit::year;
    case policy::PeriodUnit::exact:
      break;
  }
  return LimitUnit::unknown;
}

BoundDomains::BoundDomains(const policy::Model& model, NamePool& names, render::Metrics& metrics)
    : model_(model) {
  domains_.reserve(model.domains.size());
  for (const policy::Domain& domain : model.domains) {
    BoundDomain bound{.domain = &domain,
                      .name = names.keep(domain.name),
                      .limits = {},
                      .metrics = metrics.route_slot(domain.name),
                      .when_store_fails = domain.scopes.front().route.when_store_fails};
    bound.limits.reserve(domain.limits.size());
    for (const policy::DescriptorLimit& limit : domain.limits) {
      const policy::Route& scope = domain.scopes[limit.scope].route;
      bound.limits.push_back({.limit = &limit,
                              .rule = limit.rule ? &scope.rules[*limit.rule] : nullptr,
                              .path = names.keep(limit.path),
                              .name = names.keep(limit.name),
                              .metadata = names.keep(limit.metadata_json),
                              .unit = unit_of(limit.unit, limit.unit_multiplier),
                              .when_store_fails = scope.when_store_fails});
    }
    domains_.push_back(std::move(bound));
  }
}

const BoundDomain* BoundDomains::find(std::string_view name) const noexcept {
  const auto found = model_.matcher->by_domain(name);
  return found ? &domains_[*found] : nullptr;
}

}  // namespace weir::guard
