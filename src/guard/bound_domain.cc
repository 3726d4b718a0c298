#include "guard/bound_domain.h"

#include <algorithm>
#include <unordered_map>

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

// Whether every limit of a domain was in it before, and as large.
bool had_all(const BoundDomain& before, const BoundDomain& now) {
  std::unordered_multimap<std::string_view, const policy::Rule*> had;
  for (const BoundLimit& limit : before.limits) {
    if (limit.rule != nullptr) had.emplace(limit.path, limit.rule);
  }
  return std::all_of(now.limits.begin(), now.limits.end(), [&](const BoundLimit& limit) {
    if (limit.rule == nullptr) return true;
    const auto [from, to] = had.equal_range(limit.path);
    return std::any_of(from, to, [&](const auto& each) {
      return each.second->identity == limit.rule->identity &&
             each.second->numbers == limit.rule->numbers &&
             each.second->overrides == limit.rule->overrides;
    });
  });
}

}  // namespace

BoundDomains::BoundDomains(const policy::Model& model, NamePool& names, render::Metrics& metrics,
                           Ceilings& ceilings, Instant loaded_at, const BoundDomains* before)
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
    const BoundDomain* const had = before ? before->find(domain.name) : nullptr;
    bound.loaded_at = had != nullptr && had_all(*had, bound) ? had->loaded_at : loaded_at;
    domains_.push_back(std::move(bound));
  }
}

const BoundDomain* BoundDomains::find(std::string_view name) const noexcept {
  const auto found = model_.matcher->by_domain(name);
  return found ? &domains_[*found] : nullptr;
}

}  // namespace weir::guard
