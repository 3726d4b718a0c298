#include "ladder/known_entry.h"

#include <algorithm>
#include <bit>

namespace weir::ladder {

using limit::LogState;
using limit::Numbers;
using limit::Outcome;
using limit::State;
using limit::Step;
using store::Counter;

namespace {

// Absent: never.
std::optional<Nanos> wait_of(const Step& step) {
  if (step.outcome == Outcome::never_fits) return std::nullopt;
  return Nanos(step.outcome == Outcome::allowed ? 0 : step.retry_after_ns);
}

// An instant not before `until_ns`, and so that there are few of them: as entries of a total.
std::int64_t later(Instant now, std::int64_t until_ns) {
  const std::int64_t left = std::max<std::int64_t>(until_ns - now.time_since_epoch().count(), 8);
  const auto grain =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(left / 8)));
  return (until_ns / grain + 1) * grain;
}

}  // namespace

const State& KnownTable::Entry::known_under(const Numbers& current, Instant now) const {
  if (known_numbers.stamp == current.stamp) return known_state;
  if (!converted || converted->numbers.stamp != current.stamp) {
    const State state = limit::convert(known_numbers, current, known_state, now);
    converted = std::make_unique<Converted>(Converted{current, state});
  }
  return converted->state;
}

std::optional<std::uint32_t> KnownTable::Entry::remaining(const Numbers& current,
                                                          Instant now) const {
  if (!known || !same_family(known_numbers, current)) return std::nullopt;
  if (!is_log(current)) return limit::take(current, known_under(current, now), now, 0).remaining;
  if (now - known_at >= Nanos(current.period_ns)) return std::nullopt;  // all of it is over
  return current.limit - std::min(current.limit, known_state.current);
}

std::optional<Step> KnownTable::Entry::log_denial(const Counter& counter, Instant now) const {
  if (denied_cost == 0 || counter.cost < denied_cost) return std::nullopt;
  if (known_numbers.stamp != counter.numbers->stamp) return std::nullopt;
  if (counter.cost > counter.numbers->limit) {
    Step never = denied;
    never.outcome = Outcome::never_fits;
    never.retry_after_ns = 0;
    return never;
  }
  const std::int64_t passed = std::max<std::int64_t>((now - known_at).count(), 0);
  if (denied.outcome != Outcome::limited || passed >= denied.retry_after_ns) return std::nullopt;
  Step still = denied;
  still.retry_after_ns -= passed;
  still.reset_after_ns = std::max<std::int64_t>(still.reset_after_ns - passed, 0);
  return still;
}

void KnownTable::Entry::adopt(const Numbers& numbers, Instant now) {
  if (spent && part_numbers.stamp == numbers.stamp) return;
  if (is_log(numbers)) {
    if (!log) log = std::make_unique<LogState>();
  } else if (spent && same_family(part_numbers, numbers)) {
    local = limit::convert(part_numbers, numbers, local, now);
  } else {
    local = State{};
  }
  part_numbers = numbers;
}

Step KnownTable::Entry::peek(Instant now, std::uint64_t cost) const {
  return is_log(part_numbers) ? limit::log_peek(part_numbers, *log, now, cost)
                              : limit::take(part_numbers, local, now, cost);
}

void KnownTable::Entry::charge(Instant now, std::uint64_t cost) {
  if (is_log(part_numbers)) {
    (void)limit::log_take(part_numbers, *log, now, cost);
    forget_at_ns = now.time_since_epoch().count() + part_numbers.period_ns;
  } else {
    local = limit::take(part_numbers, local, now, cost).next;
    forget_at_ns = limit::expires_at_ns(part_numbers, local);
  }
}

void KnownTable::Entry::drain(Instant now, std::uint64_t units) {
  if (is_log(part_numbers)) {
    (void)limit::log_drain(part_numbers, *log, now, units);
  } else {
    local = limit::drain(part_numbers, local, now, units).next;
  }
}

void KnownTable::Entry::hold_to_known(const Numbers& current, limit::Place place, Instant now) {
  const std::optional<std::uint32_t> left = remaining(current, now);
  if (!left) return;
  const std::uint32_t mine = limit::part_of(current, *left, place);
  const std::uint32_t room = peek(now, 0).remaining;
  if (room > mine) drain(now, room - mine);
}

std::optional<Nanos> KnownTable::Entry::wait_for_whole(const Numbers& current, std::uint64_t units,
                                                       Instant now) const {
  const std::optional<std::uint32_t> left = remaining(current, now);
  if (!left || *left >= units) return Nanos{0};
  // Which of its charges go when the store alone knows.
  if (is_log(current)) return known_at + Nanos(current.period_ns) - now;
  return wait_of(limit::take(current, known_under(current, now), now, units));
}

std::optional<Nanos> KnownTable::Entry::wait_for_part(const Numbers& part, std::uint64_t cost,
                                                      Instant now) const {
  const bool counted = spent && same_family(part_numbers, part);
  if (is_log(part)) {
    if (counted && log) return wait_of(limit::log_peek(part, *log, now, cost));
    return wait_of(limit::log_peek(part, LogState{}, now, cost));
  }
  State state;
  if (counted) {
    state =
        part_numbers.stamp == part.stamp ? local : limit::convert(part_numbers, part, local, now);
  }
  return wait_of(limit::take(part, state, now, cost));
}

void KnownTable::Entry::owe(const Numbers& whole, std::atomic<std::uint64_t>& next_outage,
                            Instant now, std::uint64_t units) {
  const bool windowed =
      whole.algorithm == Algorithm::fixed_window || whole.algorithm == Algorithm::sliding_window;
  const Instant window =
      windowed ? Instant{Nanos(limit::window_at(whole, now).start_ns)} : Instant{};
  if (owed.outage == 0 || owed.window != window) {
    owed = {.outage = next_outage.fetch_add(1, std::memory_order_relaxed), .window = window};
    told_units = sent_units = 0;
    run_off_at = Instant{};
  }
  owed.units += units;
  owed.bound = std::max(owed.bound, limit::most_of_parts(whole));
  if (whole.algorithm == Algorithm::gcra) {
    run_off_at =
        std::max(run_off_at, now) + Nanos(whole.interval_ns * static_cast<std::int64_t>(units));
  }
  owing_until_ns = windowed ? limit::window_at(whole, now).end_ns
                   : whole.algorithm == Algorithm::gcra
                       ? later(now, run_off_at.time_since_epoch().count())
                       : later(now, forget_at_ns);
}

std::uint64_t KnownTable::Entry::disown(const Numbers& whole, std::uint64_t units) {
  const std::uint64_t untold = owed.units - std::max(told_units, sent_units);
  const std::uint64_t lowered = std::min(untold, units);
  owed.units -= lowered;
  if (whole.algorithm == Algorithm::gcra) {
    run_off_at -= Nanos(whole.interval_ns * static_cast<std::int64_t>(lowered));
  }
  return lowered;
}

std::optional<OwedUnits> KnownTable::Entry::still_owed(const Numbers& whole, Instant now) const {
  if (!spent || owed.units <= told_units) return std::nullopt;
  OwedUnits still = owed;
  switch (whole.algorithm) {
    case Algorithm::gcra: {
      if (run_off_at <= now) return std::nullopt;
      const std::int64_t interval = whole.interval_ns;
      const std::int64_t left = (run_off_at - now).count();
      still.standing =
          interval > 0 ? static_cast<std::uint64_t>((left + interval - 1) / interval) : owed.units;
      still.standing = std::min(still.standing, owed.units);
      return still;
    }
    case Algorithm::fixed_window:
    case Algorithm::sliding_window:
      // A window that is over is over for the limit; the ledger has what was used in it.
      if (Instant{Nanos(limit::window_at(whole, now).start_ns)} != owed.window) return std::nullopt;
      still.standing = owed.units;
      return still;
    case Algorithm::sliding_log:
      if (!log) return std::nullopt;
      still.standing = std::min(owed.units, standing(now));
      if (still.standing == 0) return std::nullopt;
      return still;
  }
  return std::nullopt;
}

std::uint64_t KnownTable::Entry::standing(Instant now) const {
  const std::uint32_t most =
      part_numbers.algorithm == Algorithm::gcra ? part_numbers.burst : part_numbers.limit;
  return most - peek(now, 0).remaining;
}

}  // namespace weir::ladder
