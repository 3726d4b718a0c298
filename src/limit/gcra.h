#pragma once

#include <cstdint>

#include "limit/numbers.h"
#include "limit/reach.h"
#include "limit/reciprocal.h"
#include "limit/step.h"

namespace weir::limit {

// The generic cell rate algorithm in its virtual scheduling form. The state is one instant, the
// theoretical arrival time: the time at which all that was charged has been emitted again. Its
// distance from now is the level, interval nanoseconds a unit used; a cost fits while the level
// stays within the tolerance. docs/internals/arithmetic.md says why these numbers cannot wrap.
//
// These are the steps of step.h for gcra; the memory store calls them directly, so that they are
// compiled into its own loop.

// What gcra_take() answers where the cost does not fit.
Step gcra_denied(const Numbers& numbers, const State& state, Instant now,
                 std::uint64_t cost) noexcept;

// How far the arrival time is ahead of now, any two instants.
inline std::uint64_t gcra_level(const State& state, std::int64_t now_ns) noexcept {
  return state.time_ns > now_ns ? static_cast<std::uint64_t>(state.time_ns - now_ns) : 0;
}

inline Step gcra_take(const Numbers& numbers, const State& state, Instant now,
                      std::uint64_t cost) noexcept {
  const std::uint64_t ask = cost | static_cast<std::uint64_t>(cost == 0);
  if (ask > numbers.burst) [[unlikely]]
    return gcra_denied(numbers, state, now, cost);
  const std::int64_t now_ns = instant_ns(now);
  const auto interval = static_cast<std::uint64_t>(numbers.interval_ns);
  const auto tolerance = static_cast<std::uint64_t>(numbers.tolerance_ns);
  const std::uint64_t used = gcra_level(state, now_ns);
  std::uint64_t level = used + ask * interval;  // < 2^63 + 2^61
  if (level > tolerance) [[unlikely]]
    return gcra_denied(numbers, state, now, cost);
  Step step;
  step.outcome = Outcome::allowed;
  step.next = state;
  if (cost != 0) [[likely]] {
    step.next.time_ns = now_ns + static_cast<std::int64_t>(level);
  } else {
    level = used;
  }
  step.remaining =
      static_cast<std::uint32_t>(quotient(tolerance - level, interval, numbers.reciprocal));
  step.reset_after_ns = static_cast<std::int64_t>(level);
  return step;
}

Step gcra_drain(const Numbers& numbers, const State& state, Instant now,
                std::uint64_t cost) noexcept;
Step gcra_refund(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost,
                 Instant receipt) noexcept;
State gcra_convert(const Numbers& from, const Numbers& to, const State& state,
                   Instant now) noexcept;

}  // namespace weir::limit
