#pragma once

#include <condition_variable>
#include <mutex>

#include "weir/clock.h"

namespace weir::testing {

// A clock that moves only when told to. Wall and monotonic time move together; step_wall() moves
// the wall alone, as an operator or NTP does.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Instant start = Instant{std::chrono::seconds(1'700'000'000)})
      : now_(start) {}

  Instant now() const noexcept override;
  MonoTime mono() const noexcept override;
  void sleep_until(MonoTime until) override;

  void advance(Nanos by);
  void step_wall(Nanos by);
  // Waits until that many callers are inside sleep_until().
  void wait_for_sleepers(int count);

 private:
  mutable std::mutex mutex_;
  std::condition_variable moved_;
  std::condition_variable slept_;
  Instant now_;
  MonoTime mono_{std::chrono::seconds(1'000)};
  int sleepers_ = 0;
};

}  // namespace weir::testing
