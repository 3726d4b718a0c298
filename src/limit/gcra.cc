#include "limit/gcra.h"

#include <algorithm>

#include "base/wide.h"

namespace weir::limit {
namespace {

// The state as `now` may see it: an arrival time further ahead than the tolerance and a step of the
// clock reach is one of another clock, and counts as exactly exhausted.
State within_reach(const Numbers& numbers, const State& state, std::int64_t now_ns) {
  const auto tolerance = static_cast<std::uint64_t>(numbers.tolerance_ns);
  if (gcra_level(state, now_ns) <= tolerance + kBackstepNs) return state;
  State reached = state;
  reached.time_ns = now_ns + numbers.tolerance_ns;
  return reached;
}

std::uint32_t units_left(const Numbers& numbers, std::uint64_t level) {
  const auto tolerance = static_cast<std::uint64_t>(numbers.tolerance_ns);
  if (level >= tolerance) return 0;
  return static_cast<std::uint32_t>(quotient(
      tolerance - level, static_cast<std::uint64_t>(numbers.interval_ns), numbers.reciprocal));
}

Step blocked(const State& state) {
  Step step;
  step.outcome = Outcome::never_fits;
  step.next = state;
  return step;
}

}  // namespace

Step gcra_denied(const Numbers& numbers, const State& state, Instant now,
                 std::uint64_t cost) noexcept {
  if (numbers.burst == 0) return blocked(state);
  const std::int64_t now_ns = instant_ns(now);
  const State reached = within_reach(numbers, state, now_ns);
  const std::uint64_t level = gcra_level(reached, now_ns);
  const std::uint64_t ask = std::max<std::uint64_t>(cost, 1);
  Step step;
  step.next = cost == 0 ? state : reached;
  step.remaining = units_left(numbers, level);
  step.reset_after_ns = static_cast<std::int64_t>(level);
  if (ask > numbers.burst) {
    step.outcome = Outcome::never_fits;
    return step;
  }
  step.outcome = Outcome::limited;
  step.retry_after_ns =
      static_cast<std::int64_t>(level + ask * static_cast<std::uint64_t>(numbers.interval_ns) -
                                static_cast<std::uint64_t>(numbers.tolerance_ns));
  return step;
}

Step gcra_drain(const Numbers& numbers, const State& state, Instant now,
                std::uint64_t cost) noexcept {
  if (cost == 0 || numbers.burst == 0) return gcra_take(numbers, state, now, cost);
  const std::int64_t now_ns = instant_ns(now);
  const State reached = within_reach(numbers, state, now_ns);
  const std::uint32_t left = units_left(numbers, gcra_level(reached, now_ns));
  if (cost <= left) return gcra_take(numbers, reached, now, cost);
  const Step drained = left == 0 ? Step{.next = reached} : gcra_take(numbers, reached, now, left);
  return gcra_denied(numbers, drained.next, now, cost);
}

Step gcra_refund(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost,
                 Instant receipt) noexcept {
  const std::int64_t now_ns = instant_ns(now);
  const State reached = within_reach(numbers, state, now_ns);
  const std::uint64_t level = gcra_level(reached, now_ns);
  // The charge lies on top of what was used before it, and that is emitted first: until the receipt
  // nothing but the charge itself, and after it nothing of it, is left to give back.
  const std::int64_t receipt_ns = instant_ns(receipt);
  const std::uint64_t standing =
      receipt_ns > now_ns ? static_cast<std::uint64_t>(receipt_ns - now_ns) : 0;
  const std::uint64_t charged = std::min<std::uint64_t>(cost, numbers.burst) *
                                static_cast<std::uint64_t>(numbers.interval_ns);
  const std::uint64_t back = std::min({standing, charged, level});
  Step step;
  step.outcome = Outcome::allowed;
  step.next = state;
  if (back > 0) step.next.time_ns = reached.time_ns - static_cast<std::int64_t>(back);
  step.remaining = units_left(numbers, level - back);
  step.reset_after_ns = static_cast<std::int64_t>(level - back);
  return step;
}

State gcra_convert(const Numbers& from, const Numbers& to, const State& state,
                   Instant now) noexcept {
  if (from.interval_ns == 0 || to.interval_ns == 0) return State{};
  const std::int64_t now_ns = instant_ns(now);
  const std::uint64_t level = gcra_level(within_reach(from, state, now_ns), now_ns);
  if (level == 0) return State{};
  // Rounded up, so that a unit used in part stays used in part.
  const auto unit = static_cast<std::uint64_t>(from.interval_ns);
  const Wide scaled =
      (static_cast<Wide>(level) * static_cast<std::uint64_t>(to.interval_ns) + unit - 1) / unit;
  const Wide most = static_cast<Wide>(to.tolerance_ns);
  State converted;
  converted.time_ns = now_ns + static_cast<std::int64_t>(std::min(scaled, most));
  return converted;
}

}  // namespace weir::limit
