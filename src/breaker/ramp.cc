#include "breaker/ramp.h"

#include <algorithm>

namespace weir::breaker {
namespace {

// A caller that is idle is not held down by its idleness.
constexpr int kIdleSteps = 5;
// Where only failures in a row are counted when closed.
constexpr std::uint32_t kDefaultPercent = 50;

}  // namespace

void Ramp::begin(const BreakerRamp& ramp, MonoTime now) noexcept {
  strikes_ = 0;
  calls_ = 0;
  first_ = std::max<std::uint32_t>(kAll * ramp.start_percent / 100, 1);
  start_step(ramp, first_, now);
}

void Ramp::start_step(const BreakerRamp& ramp, std::uint32_t share, MonoTime now) noexcept {
  share_ = share;
  step_start_ = now;
  step_end_ = now + ramp.step;
  tally_ = {};
  run_ = 0;
}

Ramp::Change Ramp::record(const BreakerConfig& config, Vote vote, MonoTime now) noexcept {
  ++calls_;
  ++tally_.calls;
  if (vote.failed) ++tally_.failures;
  if (vote.slow) ++tally_.slow;
  run_ = vote.failed ? run_ + 1 : 0;
  const bool in_a_row = config.consecutive_failures && run_ >= *config.consecutive_failures;
  if (in_a_row || bad(config, config.ramp->minimum_calls)) return strike(*config.ramp, now);
  return poll(config, now);
}

Ramp::Change Ramp::poll(const BreakerConfig& config, MonoTime now) noexcept {
  const BreakerRamp& ramp = *config.ramp;
  if (now < step_end_) return Change::none;
  if (tally_.calls == 0 && now < step_start_ + kIdleSteps * ramp.step) return Change::none;
  if (bad(config, 1)) return strike(ramp, now);
  if (share_ == kAll) return Change::done;
  const std::uint64_t grown = std::uint64_t{share_} * ramp.growth_percent / 100;
  // Growth that rounds to nothing still grows.
  const std::uint64_t next = std::max<std::uint64_t>(grown, share_ + 1);
  start_step(ramp, static_cast<std::uint32_t>(std::min<std::uint64_t>(next, kAll)), now);
  return Change::stepped;
}

bool Ramp::bad(const BreakerConfig& config, std::uint32_t minimum) const noexcept {
  if (tally_.calls < minimum) return false;
  const std::uint32_t failures = config.failure_percent.value_or(kDefaultPercent);
  if (tally_.failures > 0 && reaches(tally_.failures, tally_.calls, failures)) return true;
  return config.slow_percent && tally_.slow > 0 &&
         reaches(tally_.slow, tally_.calls, *config.slow_percent);
}

Ramp::Change Ramp::strike(const BreakerRamp& ramp, MonoTime now) noexcept {
  if (++strikes_ >= ramp.strikes) return Change::failed;
  start_step(ramp, std::max(share_ / 2, first_), now);
  return Change::fell_back;
}

}  // namespace weir::breaker
