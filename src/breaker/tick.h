#pragma once

#include <chrono>
#include <cstdint>

#include "base/coarse_time.h"
#include "weir/clock.h"

namespace weir::breaker {

// How far the kernel's tick may be behind. Nearer to the end of its wait an open breaker reads the
// exact time, so that whoever waits as long as he is told is let through.
inline constexpr Nanos kTickIsBehind = std::chrono::milliseconds(20);

// Whether a clock has a tick, which costs less to read and is behind. The program that is built
// with WEIR_BREAKER_POINTS gives one to a clock of its own.
#ifdef WEIR_BREAKER_POINTS
bool has_tick(const Clock& clock) noexcept;
MonoTime tick() noexcept;
#else
inline bool has_tick(const Clock& clock) noexcept {
  return &clock == &Clock::real();
}
inline MonoTime tick() noexcept {
  return coarse_mono();
}
#endif

}  // namespace weir::breaker
