#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/name_pool.h"
#include "guard/rate_limiter.h"
#include "ladder/ceiling.h"
#include "policy/model.h"
#include "render/metrics.h"

namespace weir::guard {

// The ceilings of this process, by the name of what they cap.
//
// Threads:     any.
class Ceilings {
 public:
  ladder::Ceiling* of(const std::string& name) {
    std::lock_guard lock(mutex_);
    return &ceilings_[name];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, ladder::Ceiling> ceilings_;  // nodes never move
};

// A limit of a domain in force, with names that outlive it.
struct BoundLimit {
  const policy::DescriptorLimit* limit = nullptr;
  const policy::Rule* rule = nullptr;  // null: unlimited
  std::string_view path;
  std::string_view name;
  std::string_view metadata;
  LimitUnit unit = LimitUnit::unknown;
  // What holds for it while the store cannot be asked.
  const policy::Route* scope = nullptr;
  ladder::Ceiling* ceiling = nullptr;  // of its scope, in this process; kept across reloads
};

struct BoundDomain {
  const policy::Domain* domain = nullptr;
  std::string_view name;
  std::vector<BoundLimit> limits;          // in the places of Domain::limits
  render::Metrics::RouteSlot metrics = 0;  // a domain counts as a route does
  BoundLimit brought;  // stands for limits that requests bring: the root's scope
  // Counters are kept as envoyproxy/ratelimit keeps them, under names that begin so.
  std::optional<std::string_view> envoyproxy_prefix;
  Instant loaded_at{};  // of its numbers: see BoundPolicy
};

// The domains of a policy in force.
//
// Threads:     immutable once built.
class BoundDomains {
 public:
  // `before`: those that these replace; null: none.
  // Requires: `model` outlives this, `names` every decision made with it.
  BoundDomains(const policy::Model& model, NamePool& names, render::Metrics& metrics,
               Ceilings& ceilings, Instant loaded_at, const BoundDomains* before);

  // Null where no domain has that name.
  const BoundDomain* find(std::string_view name) const noexcept;

 private:
  const policy::Model& model_;
  std::vector<BoundDomain> domains_;
};

// The unit of a period, where the protocol has one for it.
LimitUnit unit_of(policy::PeriodUnit unit, std::uint32_t multiplier) noexcept;

}  // namespace weir::guard
