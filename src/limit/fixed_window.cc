#include "limit/fixed_window.h"

#include <algorithm>

#include "limit/calendar.h"
#include "limit/reach.h"
#include "limit/reciprocal.h"

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

std::int64_t until_end(const Placed& placed) {
  return placed.window.end_ns - placed.now_ns;
}

std::int64_t reset_after(const Numbers& numbers, const Placed& placed) {
  return placed.used > 0 && numbers.limit > 0 ? until_end(placed) : 0;
}

// What is said of a counter that stands as `placed`, when the step is not allowed.
Step denied(const Numbers& numbers, const Placed& placed, const State& next, std::uint64_t ask) {
  Step step;
  step.next = next;
  step.remaining = units_left(numbers, placed);
  step.reset_after_ns = reset_after(numbers, placed);
  step.outcome = ask > numbers.limit ? Outcome::never_fits : Outcome::limited;
  if (step.outcome == Outcome::limited) step.retry_after_ns = until_end(placed);
  return step;
}

Step granted(const Numbers& numbers, const Placed& placed, const State& next) {
  Step step;
  step.outcome = Outcome::allowed;
  step.next = next;
  step.remaining = units_left(numbers, placed);
  step.reset_after_ns = reset_after(numbers, placed);
  return step;
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
  Placed placed = place(numbers, state, now);
  const std::uint64_t ask = std::max<std::uint64_t>(cost, 1);
  if (ask > units_left(numbers, placed)) {
    const bool carried = placed.moved && cost != 0;
    return denied(numbers, placed, carried ? state_of(placed) : state, ask);
  }
  if (cost == 0) return granted(numbers, placed, state);
  placed.used += static_cast<std::uint32_t>(cost);
  return granted(numbers, placed, state_of(placed));
}

Step fixed_drain(const Numbers& numbers, const State& state, Instant now,
                 std::uint64_t cost) noexcept {
  Placed placed = place(numbers, state, now);
  const std::uint32_t left = units_left(numbers, placed);
  if (cost <= left) return fixed_take(numbers, state, now, cost);
  placed.used += left;
  const bool changed = left > 0 || placed.moved;
  return denied(numbers, placed, changed ? state_of(placed) : state, cost);
}

Step fixed_refund(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost,
                  Instant receipt) noexcept {
  Placed placed = place(numbers, state, now);
  const bool same_window =
      window_of(numbers, instant_ns(receipt)).start_ns == placed.window.start_ns;
  if (!same_window || placed.used == 0 || cost == 0) return granted(numbers, placed, state);
  placed.used -= static_cast<std::uint32_t>(std::min<std::uint64_t>(cost, placed.used));
  return granted(numbers, placed, state_of(placed));
}

}  // namespace weir::limit
