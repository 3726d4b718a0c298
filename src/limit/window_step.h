#pragma once

#include <algorithm>
#include <cstdint>

#include "limit/numbers.h"
#include "limit/step.h"

// What fixed and sliding windows do alike, once a counter is placed in the window of `now`.
//
// A Placed has `moved` (the count was carried into another window, as after a clock that was set
// back) and, found beside it: units_left(numbers, placed), reset_after(numbers, placed),
// retry_after(numbers, placed, ask) for an ask that does not fit now but can, state_of(placed), and
// count(placed), what the window has used.
namespace weir::limit::window {

template <class Placed>
Step denied(const Numbers& numbers, const Placed& placed, const State& next, std::uint64_t ask) {
  Step step;
  step.next = next;
  step.remaining = units_left(numbers, placed);
  step.reset_after_ns = reset_after(numbers, placed);
  step.outcome = ask > numbers.limit ? Outcome::never_fits : Outcome::limited;
  if (step.outcome == Outcome::limited) step.retry_after_ns = retry_after(numbers, placed, ask);
  return step;
}

template <class Placed>
Step granted(const Numbers& numbers, const Placed& placed, const State& next) {
  Step step;
  step.outcome = Outcome::allowed;
  step.next = next;
  step.remaining = units_left(numbers, placed);
  step.reset_after_ns = reset_after(numbers, placed);
  return step;
}

// All of `cost` or nothing; 0 looks and leaves `state` as it is.
template <class Placed>
Step take(const Numbers& numbers, Placed placed, const State& state, std::uint64_t cost) {
  const std::uint64_t ask = std::max<std::uint64_t>(cost, 1);
  if (ask > units_left(numbers, placed)) {
    const bool carried = placed.moved && cost != 0;
    return denied(numbers, placed, carried ? state_of(placed) : state, ask);
  }
  if (cost == 0) return granted(numbers, placed, state);
  count(placed) += static_cast<std::uint32_t>(cost);
  return granted(numbers, placed, state_of(placed));
}

// What is left of `cost`.
template <class Placed>
Step drain(const Numbers& numbers, Placed placed, const State& state, std::uint64_t cost) {
  const std::uint32_t left = units_left(numbers, placed);
  if (cost <= left) return take(numbers, placed, state, cost);
  count(placed) += left;
  const bool changed = left > 0 || placed.moved;
  return denied(numbers, placed, changed ? state_of(placed) : state, cost);
}

// Takes at most `cost` off `used`, which is one of placed's.
template <class Placed>
Step refund(const Numbers& numbers, const Placed& placed, std::uint32_t& used, std::uint64_t cost) {
  used -= static_cast<std::uint32_t>(std::min<std::uint64_t>(cost, used));
  return granted(numbers, placed, state_of(placed));
}

}  // namespace weir::limit::window
