#include "testing/manual_clock.h"

namespace weir::testing {

Instant ManualClock::now() const noexcept {
  std::lock_guard lock(mutex_);
  return now_;
}

MonoTime ManualClock::mono() const noexcept {
  std::lock_guard lock(mutex_);
  return mono_;
}

void ManualClock::sleep_until(MonoTime until) {
  std::unique_lock lock(mutex_);
  ++sleepers_;
  slept_.notify_all();
  moved_.wait(lock, [&] { return mono_ >= until; });
  --sleepers_;
}

void ManualClock::advance(Nanos by) {
  std::lock_guard lock(mutex_);
  now_ += by;
  mono_ += by;
  moved_.notify_all();
}

void ManualClock::step_wall(Nanos by) {
  std::lock_guard lock(mutex_);
  now_ += by;
}

void ManualClock::wait_for_sleepers(int count) {
  std::unique_lock lock(mutex_);
  slept_.wait(lock, [&] { return sleepers_ >= count; });
}

}  // namespace weir::testing
