#include "limit/step.h"

#include "limit/calendar.h"
#include "limit/fixed_window.h"
#include "limit/gcra.h"
#include "limit/reach.h"
#include "limit/sliding_window.h"

namespace weir::limit {
namespace {

// A log is no State: whoever asks here for one is told that nothing fits.
Step not_here(const State& state) {
  Step step;
  step.outcome = Outcome::never_fits;
  step.next = state;
  return step;
}

std::int64_t window_expires_at_ns(const Numbers& numbers, const State& state) {
  if (state.current == 0 && state.previous == 0) return state.time_ns;
  if (state.time_ns > kLastInstantNs) return INT64_MAX;
  const std::int64_t start = state.time_ns < 0 ? 0 : state.time_ns;
  if (numbers.algorithm == Algorithm::fixed_window) return window_of(numbers, start).end_ns;
  return start + (state.current > 0 ? 2 : 1) * numbers.period_ns;
}

}  // namespace

Step take(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost) noexcept {
  switch (numbers.algorithm) {
    case Algorithm::gcra:
      return gcra_take(numbers, state, now, cost);
    case Algorithm::fixed_window:
      return fixed_take(numbers, state, now, cost);
    case Algorithm::sliding_window:
      return sliding_take(numbers, state, now, cost);
    case Algorithm::sliding_log:
      break;
  }
  return not_here(state);
}

Step drain(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost) noexcept {
  switch (numbers.algorithm) {
    case Algorithm::gcra:
      return gcra_drain(numbers, state, now, cost);
    case Algorithm::fixed_window:
      return fixed_drain(numbers, state, now, cost);
    case Algorithm::sliding_window:
      return sliding_drain(numbers, state, now, cost);
    case Algorithm::sliding_log:
      break;
  }
  return not_here(state);
}

Step refund(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost,
            Instant receipt) noexcept {
  switch (numbers.algorithm) {
    case Algorithm::gcra:
      return gcra_refund(numbers, state, now, cost, receipt);
    case Algorithm::fixed_window:
      return fixed_refund(numbers, state, now, cost, receipt);
    case Algorithm::sliding_window:
      return sliding_refund(numbers, state, now, cost, receipt);
    case Algorithm::sliding_log:
      break;
  }
  return not_here(state);
}

std::int64_t expires_at_ns(const Numbers& numbers, const State& state) noexcept {
  if (numbers.algorithm == Algorithm::gcra) return state.time_ns;
  return window_expires_at_ns(numbers, state);
}

Window window_at(const Numbers& numbers, Instant now) noexcept {
  return window_of(numbers, instant_ns(now));
}

}  // namespace weir::limit
