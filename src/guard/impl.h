#pragma once

#include <memory>
#include <mutex>
#include <optional>

#include "base/name_pool.h"
#include "base/snapshot.h"
#include "guard/bound_policy.h"
#include "guard/plan.h"
#include "render/metrics.h"
#include "store/local_store.h"
#include "weir/guard.h"

namespace weir {

// The facade's inside: what doors of this repository may reach besides the public Guard.
class Guard::Impl {
 public:
  Impl(Policy policy, const GuardOptions& options, std::unique_ptr<store::LocalStore> store);
  ~Impl();

  using PolicyRef = SnapshotCell<guard::BoundPolicy>::Ref;
  PolicyRef policy() const noexcept { return current_.read(); }

  Decision check(std::string_view route, const guard::Values& values,
                 CheckOptions options) noexcept;
  Decision check_request(const HttpRequest& request, CheckOptions options) noexcept;
  // What a request is answered that no route is for: as `unmatched` says, and counted.
  Decision decide_unmatched(std::uint64_t cost) noexcept;
  // What a request is answered that no reading of would be safe; counted under its route.
  Decision refuse_invalid(std::string_view route, std::uint64_t cost,
                          render::Metrics::RouteSlot slot) noexcept;
  Result<void> refund(const Decision& decision);
  Result<void> reset(std::string_view route, const guard::Values& values);
  Result<void> reload(Policy policy);

  render::Metrics& metrics() noexcept { return metrics_; }
  Clock& clock() noexcept { return *clock_; }
  store::LocalStore& store() noexcept { return *store_; }
  const KeyHasher& hasher() const noexcept { return hasher_; }
  const ValueDigester& digester() const noexcept { return digester_; }

 private:
  Decision decide(const guard::BoundPolicy& policy, const guard::BoundRoute& route,
                  const guard::Values& values, CheckOptions options) noexcept;
  void ask_local(const guard::Plan& plan, Decision& decision) noexcept;
  void by_policy(const guard::Plan& plan, Decision& decision) noexcept;
  Decision tell(Decision decision, render::Metrics::RouteSlot route,
                std::optional<Nanos> took = {}) noexcept;

  Clock* clock_;
  Observer* observer_;
  NamePool names_;
  render::Metrics metrics_;
  KeyHasher hasher_;
  ValueDigester digester_;
  std::unique_ptr<store::LocalStore> store_;
  std::mutex reloading_;
  SnapshotCell<guard::BoundPolicy> current_;
};

}  // namespace weir
