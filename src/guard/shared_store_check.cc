#include <algorithm>
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

// Most charges that a log may hold on a shared store. A script reads what is over in one go, while
// everybody else waits: of so many some 6 ms, well within a deadline.
constexpr std::uint32_t kMostLogged = 10'000;

std::uint32_t most_of(const policy::Rule& rule) {
  std::uint32_t most = rule.numbers.limit;
  for (const auto& [value, numbers] : rule.overrides) most = std::max(most, numbers.limit);
  return most;
}

// The rules' logs are not too long for a server that others wait for.
Result<void> check_logs(std::string_view kind, const policy::Route& route) {
  for (const policy::Rule& rule : route.rules) {
    if (rule.numbers.algorithm != Algorithm::sliding_log || most_of(rule) <= kMostLogged) continue;
    return Error{ErrorCode::invalid_argument,
                 std::string(kind) + " '" + route.name + "', limit '" + rule.name +
                     "': " + std::to_string(most_of(rule)) +
                     " charges in a sliding_log are more than a shared store holds, " +
                     std::to_string(kMostLogged) +
                     ": the server reads them in one go while everybody waits; say `algorithm: "
                     "sliding_window`, gcra or fixed_window, or a lower limit"};
  }
  return {};
}

bool meters(const policy::Route& route) {
  return route.when_store_fails == FailurePolicy::settle &&
         std::any_of(route.rules.begin(), route.rules.end(),
                     [](const policy::Rule& rule) { return rule.meter; });
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
  }
  for (const policy::Route& route : model.routes) {
    if (auto logs = check_logs("route", route); !logs) return logs;
    if (!meters(route)) continue;
    const bool alone = spec.workers.of && *spec.workers.of == 1;
    if (model.journal && (alone || !model.journal->ledger.empty())) continue;
    if (model.journal) {
      return Error{ErrorCode::failed_precondition,
                   "journal.ledger: route '" + route.name +
                       "' settles on a store that several workers can share, and a request that "
                       "comes to two of them is on one bill only where they have one ledger; say "
                       "`ledger: postgresql://...` for a fleet, or, where this is the only worker, "
                       "`ledger: sqlite:" +
                       model.journal->folder + "/ledger.db`"};
    }
    return Error{
        ErrorCode::failed_precondition,
        "journal: route '" + route.name +
            "' settles while the store is away, and the policy names no folder for what it "
            "serves; say `journal: /var/lib/weir/journal`, or `when_store_fails: bounded`"};
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
      if (auto logs = check_logs("domain", scope.route); !logs) return logs;
      if (!meters(scope.route)) continue;
      return not_here("domain '" + scope.route.name +
                      "' settles, which routes of a policy file can and domains cannot in this "
                      "release; say `when_store_fails: bounded` or `closed` for it");
    }
  }
  return {};
}

}  // namespace weir::guard
