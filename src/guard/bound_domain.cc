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

namespace {

// No route's name holds a zero byte.
std::string ceiling_name(const policy::Domain& domain, std::uint32_t scope) {
  std::string name("domain");
  name += '\0';
  name += domain.name;
  name += '\0';
  return name + domain.scopes[domain.scopes[scope].ceiling_scope].path;
}

BoundLimit bind(const policy::DescriptorLimit& limit, const policy::Domain& domain, NamePool& names,
                Ceilings& ceilings) {
  const policy::Route& scope = domain.scopes[limit.scope].route;
  return {.limit = &limit,
          .rule = limit.rule ? &scope.rules[*limit.rule] : nullptr,
          .path = names.keep(limit.path),
          .name = names.keep(limit.name),
          .metadata = names.keep(limit.metadata_json),
          .unit = unit_of(limit.unit, limit.unit_multiplier),
          .scope = &scope,
          .ceiling = scope.ceiling ? ceilings.of(ceiling_name(domain, limit.scope)) : nullptr};
}

}  // namespace

BoundDomains::BoundDomains(const policy::Model& model, NamePool& names, render::Metrics& metrics,
                           Ceilings& ceilings)
    : model_(model) {
  domains_.reserve(model.domains.size());
  for (const policy::Domain& domain : model.domains) {
    const policy::Route& root = domain.scopes.front().route;
    BoundDomain bound{
        .domain = &domain,
        .name = names.keep(domain.name),
        .limits = {},
        .metrics = metrics.route_slot(domain.name),
        .brought = {.path = names.keep(domain.name),
                    .scope = &root,
                    .ceiling = root.ceiling ? ceilings.of(ceiling_name(domain, 0)) : nullptr},
        .envoyproxy_prefix = {}};
    if (model.rls.envoyproxy_prefix) {
      bound.envoyproxy_prefix = names.keep(*model.rls.envoyproxy_prefix);
    }
    bound.limits.reserve(domain.limits.size());
    for (const policy::DescriptorLimit& limit : domain.limits) {
      bound.limits.push_back(bind(limit, domain, names, ceilings));
    }
    domains_.push_back(std::move(bound));
  }
}

const BoundDomain* BoundDomains::find(std::string_view name) const noexcept {
  const auto found = model_.matcher->by_domain(name);
  return found ? &domains_[*found] : nullptr;
}

}  // namespace weir::guard
