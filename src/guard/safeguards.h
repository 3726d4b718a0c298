#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_digest.h"
#include "guard/circuit_desk.h"
#include "guard/lease_desk.h"
#include "guard/plan.h"
#include "guard/shared_limit.h"
#include "policy/model.h"
#include "render/exposition.h"
#include "weir/breaker_registry.h"
#include "weir/concurrency.h"
#include "weir/guard.h"

namespace weir::guard {

// The breakers and concurrency limits of a policy.
//
// Guarantees:  a reload keeps the state of whatever stays; a breaker with another window, and a
//              limit that counts by other sources, begin anew.
// Threads:     any.
class Safeguards {
 public:
  // One entry of `concurrency:`.
  struct Limit {
    std::vector<policy::Source> by;
    KeyedConcurrency all;
    std::shared_ptr<SharedLimit> shared;   // by the fleet; null: it is this process's own
    std::atomic<std::uint64_t> absent{0};  // asks that lacked a value

    Limit(std::vector<policy::Source> sources, KeyedConcurrency units,
          std::shared_ptr<SharedLimit> of_fleet)
        : by(std::move(sources)), all(std::move(units)), shared(std::move(of_fleet)) {}
  };

  Safeguards(const policy::Model& model, Clock& clock, BreakerListener listener);

  // The breakers that were and that are: nobody has been told yet of what changed. Whoever applies
  // hands them to deliver() once it holds no lock.
  std::vector<Breaker> apply(const policy::Model& model);
  static void deliver(const std::vector<Breaker>& breakers) noexcept;
  // Those that the policy shares go by the store from now on; with nulls none does. What is given
  // lives until that.
  void share(CircuitDesk* circuits, LeaseDesk* leases);

  // Errors:      not_found, with the names that there are.
  Result<Breaker> breaker(std::string_view name) const;
  Result<std::shared_ptr<Limit>> limit(std::string_view name) const;
  // Which of a limit's counters these values are.
  // Errors:      invalid_argument: a value that it does not count by, as a misspelt name is.
  static Result<std::string> key(std::string_view name, Limit& limit,
                                 std::span<const Descriptor> descriptors,
                                 const ValueDigester& digester);

  std::vector<BreakerSnapshot> breakers() const;
  std::vector<ConcurrencySnapshot> limits() const;
  void write_metrics(render::Exposition& out) const;

 private:
  void share_all();

  Clock& clock_;
  std::mutex sharing_;
  CircuitDesk* circuits_ = nullptr;
  LeaseDesk* leases_ = nullptr;
  std::atomic<bool> shares_leases_{false};
  std::set<std::string, std::less<>> shared_breakers_;
  BreakerRegistry breakers_;
  mutable std::shared_mutex mutex_;
  std::map<std::string, std::shared_ptr<Limit>, std::less<>> limits_;
};

}  // namespace weir::guard
