#pragma once

#include <cstdint>
#include <span>

#include "store/counter.h"
#include "weir/clock.h"

namespace weir::store {

enum class LocalOutcome : std::uint8_t {
  decided,      // every finding is filled in
  exhausted,    // no room for another live key; nothing was charged
  unavailable,  // could not decide (a store of the caller's own said so): the failure policy holds
};

struct LocalAnswer {
  LocalOutcome outcome = LocalOutcome::decided;
  bool allowed = false;  // every counter that may deny fitted, and all were charged
};

// A store that answers at once, in this process: the memory store, or one of the caller's own.
class LocalStore {
 public:
  virtual ~LocalStore() = default;

  // Decides all counters as one atomic step at `now`: where one that may deny does not fit, none is
  // charged.
  //
  // Guarantees:  where it is denied nothing changes, refunds and resets of the same ask included.
  // Requires:    findings.size() == counters.size(); at most kMaxCounters; no two counters with one
  //              digest.
  // Threads:     any number at once.
  virtual LocalAnswer decide(std::span<const Counter> counters, Instant now,
                             std::span<Finding> findings) noexcept = 0;

  // Says that these counters are decided next, so that the memory they stand in is on its way while
  // the caller does something else. Changes nothing.
  virtual void expect(std::span<const Counter>) const noexcept {}

  // Live counters, about.
  virtual std::uint64_t keys() const noexcept = 0;
};

inline constexpr std::size_t kMaxCounters = 64;

}  // namespace weir::store
