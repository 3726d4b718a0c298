#pragma once

#include <algorithm>
#include <cstdint>

#include "weir/clock.h"

namespace weir::limit {

// How far the arithmetic reaches. Instants are counted in nanoseconds since 1970; those before it,
// and those after the year 2116, count as the nearest one inside. With the longest period and the
// longest burst on top, every sum of a step then stays inside 63 bits: nothing can wrap.
inline constexpr std::int64_t kLastInstantNs = std::int64_t{1} << 62;

// Longest time in which a full burst may be emitted again, about 18 years; a part of a limit may
// take up to four times as long (parts.h).
inline constexpr std::int64_t kMaxToleranceNs = std::int64_t{1} << 59;

// Longest period: ten years of 366 days.
inline constexpr std::int64_t kMaxPeriodNs = std::int64_t{3660} * 86'400 * 1'000'000'000;

// How far time may go back before it counts as a step of the clock. Threads that read the clock at
// different moments disagree by less, and must not gain anything by it: up to here, a stored time
// ahead of `now` stands. Beyond, somebody set the clock back, and what is stored is brought to
// where `now` can reach it, so that no counter stays locked for the length of the step.
inline constexpr std::int64_t kBackstepNs = 1'000'000'000;

inline std::int64_t instant_ns(Instant now) noexcept {
  return std::clamp<std::int64_t>(now.time_since_epoch().count(), 0, kLastInstantNs);
}

}  // namespace weir::limit
