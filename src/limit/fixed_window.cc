#include "limit/fixed_window.h"

#include "limit/calendar.h"
#include "limit/reach.h"
#include "limit/reciprocal.h"
#include "limit/window_step.h"

namespace weir::limit {
namespace {

// A counter as `now` sees it.
struct Placed {
  std::int64_t now_ns = 0;
  Window window;
  std::uint32_t used = 0;
  bool moved = false;  // the clock was set back: the count was carried into the window of now
};

Placed place(const Numbers& numbers, const State& state, Instant now) {
  Placed placed;
  placed.now_ns = instant_ns(now);
  placed.window = window_of(numbers, placed.now_ns);
  if (state.time_ns < placed.window.start_ns) return placed;
  placed.used = state.current;
  if (state.time_ns == placed.window.start_ns) return placed;
  if (state.time_ns > placed.now_ns && state.time_ns - placed.now_ns <= kBackstepNs) {
    placed.window = window_of(numbers, state.time_ns);
  }
  placed.moved = state.time_ns != placed.window.start_ns;
  return placed;
}

State state_of(const Placed& placed) {
  return {placed.window.start_ns, placed.used, 0};
}

std::uint32_t units_left(const Numbers& numbers, const Placed& placed) {
  return numbers.limit > placed.used ? numbers.limit - placed.used : 0;
}

std::uint32_t& count(Placed& placed) {
  return placed.used;
}

std::int64_t until_end(const Placed& placed) {
  return placed.window.end_ns - placed.now_ns;
}

std::int64_t retry_after(const Numbers&, const Placed& placed, std::uint64_t) {
  return until_end(placed);
}

std::int64_t reset_after(const Numbers& numbers, const Placed& placed) {
  return placed.used > 0 && numbers.limit > 0 ? until_end(placed) : 0;
}

}  // namespace

Window window_of(const Numbers& numbers, std::int64_t now_ns) noexcept {
  if (numbers.calendar != Calendar::none) {
    return calendar_window(numbers.calendar, numbers.calendar_count, now_ns);
  }
  const auto length = static_cast<std::uint64_t>(numbers.period_ns);
  const std::uint64_t index =
      quotient(static_cast<std::uint64_t>(now_ns), length, numbers.reciprocal);
  const auto start = static_cast<std::int64_t>(index * length);
  return {start, start + numbers.period_ns};
}

Step fixed_take(const Numbers& numbers, const State& state, Instant now,
                std::uint64_t cost) noexcept {
  return window::take(numbers, place(numbers, state, now), state, cost);
}

Step fixed_drain(const Numbers& numbers, const State& state, Instant now,
                 std::uint64_t cost) noexcept {
  return window::drain(numbers, place(numbers, state, now), state, cost);
}

Step fixed_refund(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost,
                  Instant receipt) noexcept {
  Placed placed = place(numbers, state, now);
  const bool same_window =
      window_of(numbers, instant_ns(receipt)).start_ns == placed.window.start_ns;
  if (!same_window || placed.used == 0 || cost == 0) {
    return window::granted(numbers, placed, state);
  }
  return window::refund(numbers, placed, placed.used, cost);
}

}  // namespace weir::limit
