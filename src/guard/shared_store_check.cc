#include <string>
#include <utility>

#include "guard/shared_store.h"
#include "policy/load.h"
#include "policy/store_url.h"

namespace weir::guard {

namespace {

// Says what `what` needs and how to get it, where this release cannot do it on a shared store.
Error not_here(std::string what) {
  return Error{ErrorCode::failed_precondition, "store: " + std::move(what)};
}

Result<void> check_route(const policy::Route& route, const std::string& kind) {
  if (route.when_store_fails == FailurePolicy::settle) {
    return not_here(kind + " '" + route.name +
                    "' settles while the store is away, and this release has no journal; "
                    "say `when_store_fails: bounded` or `closed` for it");
  }
  return {};
}

}  // namespace

Result<void> SharedStore::check(const policy::Model& model) {
  const policy::StoreSpec& spec = model.store;
  const auto url = policy::parse_store_url(spec.url);
  if (!url) return url.error();
  if (spec.fallback_url) {
    const auto second = policy::parse_store_url(*spec.fallback_url);
    if (!second) return second.error();
    if (second->kind == policy::StoreKind::memory || second->kind == policy::StoreKind::cluster) {
      return not_here(
          "`fallback` is one server; allowed: redis://, rediss://, redis+unix://, "
          "redis+sentinel://");
    }
    if (url->kind == policy::StoreKind::cluster) {
      return not_here("a cluster with a `fallback` is not in this release; take `fallback` out");
    }
  }
  if (spec.client_clock)
    return not_here("`clock: client` is not in this release; the store's own clock is used");
  if (spec.regions > 1)
    return not_here("several regions are not in this release; take `regions` out");
  for (const policy::Route& route : model.routes) {
    if (auto fits = check_route(route, "route"); !fits) return fits;
  }
  if (const auto undecided = policy::undecided_domains(model); !undecided.empty()) {
    return Error{ErrorCode::invalid_argument,
                 "domain '" + undecided.front() +
                     "' does not say what happens while the store cannot be asked; allowed: "
                     "`protects: security, side_effects, capacity or nothing` in its file, under "
                     "`rls`, or as --protects"};
  }
  for (const policy::Domain& domain : model.domains) {
    for (const policy::DomainScope& scope : domain.scopes) {
      if (auto fits = check_route(scope.route, "domain"); !fits) return fits;
    }
  }
  return {};
}

}  // namespace weir::guard
