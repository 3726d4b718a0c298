#pragma once

#include <cstdint>

#include "weir/clock.h"

namespace weir::store::redis {

// What is known of a store's clock, from the times in its replies: an interval that holds it.
//
// Guarantees:  earliest(m) <= the store's time at m <= latest(m), as long as its clock is not set
// and
//              drifts by less than 200 parts in a million. A clock that was set is noticed with the
//              first reply that does not fit, and believed from then on.
// Threads:     one at a time.
class StoreClock {
 public:
  void reset() { known_ = false; }
  // A reply that bore `store`, asked for at `sent` and here at `received`.
  // Returns whether the clock turned out to have been set.
  bool observe(MonoTime sent, MonoTime received, Instant store);

  bool known() const noexcept { return known_; }
  // Requires: known().
  Instant earliest(MonoTime at) const noexcept;
  Instant latest(MonoTime at) const noexcept;

 private:
  bool known_ = false;
  MonoTime seen_{};
  std::int64_t low_ns_ = 0;  // store's time less our monotonic time, at `seen_`
  std::int64_t high_ns_ = 0;
};

}  // namespace weir::store::redis
