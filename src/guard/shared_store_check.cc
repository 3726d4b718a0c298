#include <algorithm>
#include <string>
#include <utility>

#include "guard/shared_store.h"
#include "policy/load.h"
#include "policy/store_url.h"

namespace weir::guard {

namespace {

// What a policy asks of a shared store that it cannot have: all of it, a line each, since whoever
// mends the first would learn of the next by failing again.
class Wants {
 public:
  void add(ErrorCode code, const std::string& what) {
    if (error_.message.empty()) error_.code = code;
    error_.message += (error_.message.empty() ? "" : "\n") + what;
  }
  // Says what `what` needs and how to get it, where this release cannot do it on a shared store.
  void not_here(const std::string& what) { add(ErrorCode::failed_precondition, "store: " + what); }
  Result<void> result() && {
    if (error_.message.empty()) return {};
    return std::move(error_);
  }

 private:
  Error error_{ErrorCode::failed_precondition, {}};
};

// Most charges that a log may hold on a shared store. A script reads what is over in one go, while
// everybody else waits: of so many some 6 ms, well within a deadline.
constexpr std::uint32_t kMostLogged = 10'000;

std::uint32_t most_of(const policy::Rule& rule) {
  std::uint32_t most = rule.numbers.limit;
  for (const auto& [value, numbers] : rule.overrides) most = std::max(most, numbers.limit);
  return most;
}

// The rules' logs are not too long for a server that others wait for.
void check_logs(std::string_view kind, const policy::Route& route, Wants& wants) {
  for (const policy::Rule& rule : route.rules) {
    if (rule.numbers.algorithm != Algorithm::sliding_log || most_of(rule) <= kMostLogged) continue;
    wants.add(ErrorCode::invalid_argument,
              std::string(kind) + " '" + route.name + "', limit '" + rule.name +
                  "': " + std::to_string(most_of(rule)) +
                  " charges in a sliding_log are more than a shared store holds, " +
                  std::to_string(kMostLogged) +
                  ": the server reads them in one go while everybody waits; say `algorithm: "
                  "sliding_window`, gcra or fixed_window, or a lower limit");
  }
}

bool meters(const policy::Route& route) {
  return route.when_store_fails == FailurePolicy::settle &&
         std::any_of(route.rules.begin(), route.rules.end(),
                     [](const policy::Rule& rule) { return rule.meter; });
}

// What the usage of metered routes is recorded in, and settled in: said once, of the first route.
void check_metered(const policy::Model& model, Wants& wants) {
  const auto metered = std::find_if(model.routes.begin(), model.routes.end(), meters);
  if (metered == model.routes.end()) return;
  const bool alone = model.store.workers.of && *model.store.workers.of == 1;
  if (model.journal && (alone || !model.journal->ledger.empty())) return;
  const std::string folder = "/var/lib/weir/journal";
  const std::string on_one_bill =
      "settles on a store that several workers can share, and a request that comes to two of them "
      "is on one bill only where they have one ledger";
  if (model.journal) {
    return wants.add(ErrorCode::failed_precondition,
                     "journal.ledger: route '" + metered->name + "' " + on_one_bill +
                         "; say `ledger: postgresql://...` for a fleet, or, where this is the only "
                         "worker, `ledger: sqlite:" +
                         (model.journal->folder.empty() ? folder : model.journal->folder) +
                         "/ledger.db`");
  }
  const std::string field = "routes." + metered->name + ": ";
  if (alone) {
    return wants.add(ErrorCode::failed_precondition,
                     field +
                         "settles while the store is away, and the policy names no folder for what "
                         "it serves; say `journal: " +
                         folder + "` at the root, or `when_store_fails: bounded` here");
  }
  wants.add(ErrorCode::failed_precondition,
            field + on_one_bill + "; say `journal: {folder: " + folder +
                ", ledger: postgresql://...}` at the root for a fleet, or, where this is the only "
                "worker, `ledger: sqlite:" +
                folder + "/ledger.db`; or `when_store_fails: bounded` here");
}

void check_domains(const policy::Model& model, Wants& wants) {
  if (const auto undecided = policy::undecided_domains(model); !undecided.empty()) {
    wants.add(ErrorCode::invalid_argument,
              "domain '" + undecided.front() +
                  "' does not say what happens while the store cannot be asked; allowed: "
                  "`protects: security, side_effects, capacity or nothing` in its file, under "
                  "`rls`, or as --protects");
  }
  for (const policy::Domain& domain : model.domains) {
    for (const policy::DomainScope& scope : domain.scopes) {
      check_logs("domain", scope.route, wants);
      if (!meters(scope.route)) continue;
      wants.not_here("domain '" + scope.route.name +
                     "' settles, which routes of a policy file can and domains cannot in this "
                     "release; say `when_store_fails: bounded` or `closed` for it");
    }
  }
}

}  // namespace

Result<void> SharedStore::check(const policy::Model& model) {
  const policy::StoreSpec& spec = model.store;
  const auto url = policy::parse_store_url(spec.url);
  if (!url) return url.error();
  Wants wants;
  if (spec.fallback_url) {
    const auto second = policy::parse_store_url(*spec.fallback_url);
    if (!second) return second.error();
    if (second->kind == policy::StoreKind::memory || second->kind == policy::StoreKind::cluster) {
      wants.not_here(
          "`fallback` is one server; allowed: redis://, rediss://, redis+unix://, "
          "redis+sentinel://");
    }
  }
  for (const policy::Route& route : model.routes) check_logs("route", route, wants);
  check_metered(model, wants);
  check_domains(model, wants);
  return std::move(wants).result();
}

}  // namespace weir::guard
