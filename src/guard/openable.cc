#include "guard/openable.h"

#include "guard/shared_store.h"
#include "policy/store_url.h"

namespace weir::guard {
namespace {

// Usage is recorded of routes alone: a domain that should be, and is not, would be given away.
Result<void> check_metered(const policy::Model& model) {
  if (!model.journal) return {};
  for (const policy::Domain& domain : model.domains) {
    for (const policy::DomainScope& scope : domain.scopes) {
      for (const policy::Rule& rule : scope.route.rules) {
        if (!rule.meter || scope.route.when_store_fails != FailurePolicy::settle) continue;
        return Error{ErrorCode::failed_precondition,
                     "journal: domain '" + scope.route.name +
                         "' settles, which routes of a policy file can and domains cannot in this "
                         "release"};
      }
    }
  }
  return {};
}

}  // namespace

Result<void> check_keys(const policy::Model& model, bool shared) {
  if (shared || !model.rls.envoyproxy_prefix) return {};
  return Error{
      ErrorCode::failed_precondition,
      "rls.keys: 'envoyproxy' needs the store that envoyproxy/ratelimit counts in; name it "
      "as `store: redis://...`, or say `keys: weir`"};
}

Result<void> check_openable(const policy::Model& model) {
  if (auto fits = check_metered(model); !fits) return fits;
  const bool shared = !model.store.url.starts_with("memory:");
  if (auto fits = check_keys(model, shared); !fits) return fits;
  return shared ? SharedStore::check(model) : Result<void>();
}

policy::StoreSpec fallback_spec(const policy::StoreSpec& spec) {
  const policy::StoreUrl url = policy::parse_store_url(*spec.fallback_url).value();
  policy::StoreSpec of = spec;
  of.url = *spec.fallback_url;
  of.fallback_url.reset();
  if (!url.username.empty() || !url.password.empty()) {
    of.username.clear();
    of.password_file.clear();
  }
  if (of.tls) of.tls->server_name.clear();
  return of;
}

}  // namespace weir::guard
