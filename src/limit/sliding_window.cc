#include "limit/sliding_window.h"

#include "base/wide.h"
#include "limit/fixed_window.h"
#include "limit/reach.h"
#include "limit/window_step.h"

namespace weir::limit {
namespace {

// A counter as `now` sees it.
struct Placed {
  std::int64_t now_ns = 0;
  std::int64_t seen_ns = 0;  // now, or the stored time where that stands ahead of it
  std::int64_t start_ns = 0;
  std::uint32_t current = 0;
  std::uint32_t previous = 0;
  bool moved = false;  // the clock was set back: the counts were carried into the window of now
};

Placed place(const Numbers& numbers, const State& state, Instant now) {
  Placed placed;
  placed.now_ns = placed.seen_ns = instant_ns(now);
  placed.start_ns = window_of(numbers, placed.now_ns).start_ns;
  if (state.time_ns < placed.start_ns) {
    if (state.time_ns == placed.start_ns - numbers.period_ns) placed.previous = state.current;
    return placed;
  }
  placed.current = state.current;
  placed.previous = state.previous;
  if (state.time_ns == placed.start_ns) return placed;
  if (state.time_ns > placed.now_ns && state.time_ns - placed.now_ns <= kBackstepNs) {
    placed.seen_ns = state.time_ns;
    placed.start_ns = window_of(numbers, state.time_ns).start_ns;
  }
  placed.moved = state.time_ns != placed.start_ns;
  return placed;
}

std::uint32_t& count(Placed& placed) {
  return placed.current;
}

State state_of(const Placed& placed) {
  return {placed.start_ns, placed.current, placed.previous};
}

// How long the window before the current one is still covered.
std::uint64_t covered(const Numbers& numbers, const Placed& placed) {
  return static_cast<std::uint64_t>(placed.start_ns + numbers.period_ns - placed.seen_ns);
}

std::uint32_t units_left(const Numbers& numbers, const Placed& placed) {
  if (placed.current >= numbers.limit) return 0;
  const std::uint32_t room = numbers.limit - placed.current;
  if (placed.previous == 0) return room;
  const auto length = static_cast<std::uint64_t>(numbers.period_ns);
  const Wide weighted = static_cast<Wide>(placed.previous) * covered(numbers, placed);
  const auto counted = static_cast<std::uint64_t>((weighted + length - 1) / length);
  return counted >= room ? 0 : room - static_cast<std::uint32_t>(counted);
}

// Into a window whose predecessor used `previous`, the first nanosecond at which the part of it
// that is still covered is at most `room`.
std::int64_t first_fit(const Numbers& numbers, std::uint32_t previous, std::uint64_t room) {
  if (previous <= room) return 0;
  const Wide covered =
      static_cast<Wide>(room) * static_cast<std::uint64_t>(numbers.period_ns) / previous;
  return numbers.period_ns - static_cast<std::int64_t>(covered);
}

// Requires: ask does not fit now, and ask <= limit.
std::int64_t retry_after(const Numbers& numbers, const Placed& placed, std::uint64_t ask) {
  std::int64_t at = placed.start_ns;
  if (placed.current + ask <= numbers.limit) {
    at += first_fit(numbers, placed.previous, numbers.limit - placed.current - ask);
  } else {
    at += numbers.period_ns + first_fit(numbers, placed.current, numbers.limit - ask);
  }
  return at - placed.now_ns;
}

std::int64_t reset_after(const Numbers& numbers, const Placed& placed) {
  if (numbers.limit == 0) return 0;
  if (placed.current > 0) return placed.start_ns + 2 * numbers.period_ns - placed.now_ns;
  if (placed.previous > 0) return placed.start_ns + numbers.period_ns - placed.now_ns;
  return 0;
}

}  // namespace

Step sliding_take(const Numbers& numbers, const State& state, Instant now,
                  std::uint64_t cost) noexcept {
  return window::take(numbers, place(numbers, state, now), state, cost);
}

Step sliding_drain(const Numbers& numbers, const State& state, Instant now,
                   std::uint64_t cost) noexcept {
  return window::drain(numbers, place(numbers, state, now), state, cost);
}

Step sliding_refund(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost,
                    Instant receipt) noexcept {
  Placed placed = place(numbers, state, now);
  const std::int64_t charged = window_of(numbers, instant_ns(receipt)).start_ns;
  std::uint32_t* used = nullptr;
  if (charged == placed.start_ns) used = &placed.current;
  if (charged == placed.start_ns - numbers.period_ns) used = &placed.previous;
  if (used == nullptr || *used == 0 || cost == 0) return window::granted(numbers, placed, state);
  return window::refund(numbers, placed, *used, cost);
}

}  // namespace weir::limit
