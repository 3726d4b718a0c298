#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/counter_hasher.h"
#include "base/key_digest.h"
#include "base/raw_array.h"
#include "guard/bound_domain.h"
#include "guard/rate_limiter.h"
#include "limit/numbers.h"
#include "store/counter.h"
#include "store/local_store.h"

namespace weir::guard {

// What the descriptors of one ask meet in a domain, and the counters it is about. Descriptors that
// are equal share a counter, which is charged for all of them.
//
// Large, and keeps its room: made once and used for many asks.
class DomainPlan {
 public:
  struct Met {
    const BoundLimit* limit = nullptr;  // null: none, or one that the request brought
    std::optional<LimitOverride> brought;
    std::optional<std::size_t> counter;  // absent: nothing is counted
    bool replaced = false;               // by a limit that another descriptor meets

    bool unlimited() const noexcept {
      return !replaced && limit != nullptr && limit->rule == nullptr;
    }
  };
  // What the ask says of a counter beyond what the store needs.
  struct Asked {
    const BoundLimit* limit = nullptr;
    bool quota = false;
    bool late = false;  // reports what was used: what does not fit drains the rest
  };

  DomainPlan() = default;
  DomainPlan(const DomainPlan&) = delete;
  DomainPlan& operator=(const DomainPlan&) = delete;

  // False where the ask is beyond the stated bounds: a value above kMaxValueBytes, or more than
  // store::kMaxCounters different counters.
  bool make(const RateLimitAsk& ask, const BoundDomain& domain, std::uint32_t generation,
            const CounterHasher& hasher, const ValueDigester& digester);

  std::span<const Met> met() const noexcept { return met_; }
  std::span<store::Counter> counters() noexcept { return {counters_.data(), count_}; }
  std::span<const store::Counter> counters() const noexcept { return {counters_.data(), count_}; }
  std::span<const Asked> asked() const noexcept { return {asked_.data(), count_}; }
  std::uint64_t cost() const noexcept { return cost_; }  // the largest of a counter
  // Whether counters()[i] is of a limit in shadow, which denies nobody.
  bool watches(std::size_t i) const noexcept { return counters_[i].shadow && !asked_[i].quota; }
  // Bit i: counters()[i] is of a quota, which denies together with the others.
  std::uint64_t quotas() const noexcept;
  std::uint64_t late() const noexcept;  // the same of late reports
  // Of the limits it counts by, the one whose scope is the strictest while the store cannot be
  // asked; those in shadow have no say beside others. Requires: there is a counter.
  const BoundLimit& strictest() const noexcept;

 private:
  void find_limits(const RateLimitAsk& ask, const BoundDomain& domain);
  void put_out_of_force() noexcept;
  std::size_t room_for_keys(const RateLimitAsk& ask, const BoundDomain& domain) const;
  static std::size_t name_size(const Met& met, const AskedDescriptor& descriptor,
                               const BoundDomain& domain);
  std::string_view write_name(const Met& met, const AskedDescriptor& descriptor,
                              const BoundDomain& domain, std::uint64_t identity);
  bool add_configured(Met& met, const AskedDescriptor& descriptor, const RateLimitAsk& ask,
                      const BoundDomain& domain);
  bool add_brought(Met& met, const AskedDescriptor& descriptor, const RateLimitAsk& ask,
                   const BoundDomain& domain);
  bool add(Met& met, const store::Counter& counter, const Asked& asked);

  std::uint32_t generation_ = 0;
  const CounterHasher* hasher_ = nullptr;
  const ValueDigester* digester_ = nullptr;
  std::vector<Met> met_;
  std::size_t count_ = 0;
  std::uint64_t cost_ = 0;
  RawArray<store::Counter, store::kMaxCounters> counters_;
  RawArray<Asked, store::kMaxCounters> asked_;
  RawArray<limit::Numbers, store::kMaxCounters> brought_numbers_;
  // Room for every key, allotted before the first is written, so that views of them hold.
  std::vector<char> keys_;
  std::size_t keys_used_ = 0;
  std::string entries_;  // of a descriptor that brings its limit, one after another
};

}  // namespace weir::guard
