#pragma once

#include <cstdint>
#include <mutex>

#include "limit/numbers.h"
#include "limit/step.h"
#include "weir/clock.h"

namespace weir::ladder {

// The last brake: a cap on all keys of a route together, in this process alone, needing nothing
// that can be down.
//
// Guarantees:  as limit::take() on one counter.
// Threads:     any.
class Ceiling {
 public:
  // Charges `cost` if it fits.
  limit::Step take(const limit::Numbers& numbers, Instant now, std::uint64_t cost) noexcept {
    std::lock_guard lock(mutex_);
    if (stamp_ != numbers.stamp) {
      // The ceiling was changed by a reload: what is used stays used where the period is the same.
      state_ = stamp_ == 0 ? limit::State{} : limit::convert(numbers_, numbers, state_, now);
      numbers_ = numbers;
      stamp_ = numbers.stamp;
    }
    const limit::Step step = limit::take(numbers, state_, now, cost);
    if (step.outcome == limit::Outcome::allowed) state_ = step.next;
    return step;
  }

 private:
  std::mutex mutex_;
  std::uint32_t stamp_ = 0;
  limit::Numbers numbers_;
  limit::State state_;
};

}  // namespace weir::ladder
