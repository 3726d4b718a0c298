// What the steps promise, over random rules, times and acts. A seed that fails is printed with its
// shrunk example; RC_PARAMS="seed=..." replays it.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "limit/reach.h"
#include "limit/sliding_log.h"
#include "limit/step.h"
#include "testing/step_trace.h"

namespace rc {

using weir::testing::Act;

template <>
struct Arbitrary<Act> {
  // Times are small multiples of what matters in the rules below, and now and then a nanosecond
  // off; costs reach beyond the burst.
  static Gen<Act> arbitrary() {
    const auto advance = gen::oneOf(
        gen::just<std::int64_t>(0), gen::inRange<std::int64_t>(0, 40),
        gen::map(gen::inRange<std::int64_t>(0, 25), [](auto n) { return n * 100'000'000; }),
        gen::map(gen::inRange<std::int64_t>(0, 9), [](auto n) { return n * 60'000'000'000 + 1; }),
        gen::inRange<std::int64_t>(-900'000'000, 0),
        gen::map(gen::inRange<std::int64_t>(1, 5), [](auto n) { return -n * 7'000'000'000; }));
    const auto kind = gen::weightedElement<Act::Kind>({{8, Act::Kind::take},
                                                       {2, Act::Kind::drain},
                                                       {2, Act::Kind::refund},
                                                       {1, Act::Kind::change}});
    return gen::build<Act>(gen::set(&Act::advance_ns, advance), gen::set(&Act::kind, kind),
                           gen::set(&Act::units, gen::weightedOneOf<std::uint64_t>(
                                                     {{10, gen::inRange<std::uint64_t>(0, 14)},
                                                      {1, gen::arbitrary<std::uint64_t>()}})),
                           gen::set(&Act::receipt, gen::inRange<std::uint32_t>(0, 4)));
  }
};

}  // namespace rc

namespace weir::limit {
namespace {

using testing::Act;
using testing::SideBySide;

constexpr Nanos kStart = std::chrono::seconds(1'700'000'000);

Algorithm some_algorithm() {
  return *rc::gen::element(Algorithm::gcra, Algorithm::fixed_window, Algorithm::sliding_window,
                           Algorithm::sliding_log);
}

Numbers some_numbers(Algorithm algorithm) {
  Request request;
  request.algorithm = algorithm;
  request.limit = *rc::gen::inRange<std::uint64_t>(1, 13);
  request.period.length = Nanos(*rc::gen::element<std::int64_t>(
      1'000'000, 1'000'000'000, 7'000'000'003, 60'000'000'000, 86'400'000'000'000));
  if (algorithm == Algorithm::gcra && *rc::gen::arbitrary<bool>()) {
    request.burst = *rc::gen::inRange<std::uint64_t>(1, 20);
  }
  if (algorithm == Algorithm::fixed_window && *rc::gen::inRange(0, 4) == 0) {
    request.period = {.calendar = *rc::gen::element(Calendar::day, Calendar::week, Calendar::month),
                      .count = *rc::gen::inRange<std::uint32_t>(1, 4)};
  }
  return Numbers::make(request).value();
}

// Rules of every size that make() accepts.
Numbers any_numbers(Algorithm algorithm) {
  for (;;) {
    Request request;
    request.algorithm = algorithm;
    request.limit = *rc::gen::arbitrary<std::uint32_t>() >> *rc::gen::inRange(0, 32);
    request.period.length =
        Nanos(1 + (*rc::gen::inRange<std::int64_t>(0, kMaxPeriodNs) >> *rc::gen::inRange(0, 58)));
    if (algorithm == Algorithm::gcra && *rc::gen::arbitrary<bool>()) {
      request.burst = 1 + (*rc::gen::arbitrary<std::uint32_t>() >> *rc::gen::inRange(1, 32));
    }
    const auto numbers = Numbers::make(request);
    if (numbers) return *numbers;
  }
}

Step take_any(const Numbers& numbers, State& state, LogState& log, Instant now,
              std::uint64_t cost) {
  if (numbers.algorithm == Algorithm::sliding_log) return log_take(numbers, log, now, cost);
  const Step step = take(numbers, state, now, cost);
  state = step.next;
  return step;
}

RC_GTEST_PROP(Steps, AgreeWithTheModel, ()) {
  const Numbers numbers = some_numbers(some_algorithm());
  const auto acts = *rc::gen::container<std::vector<Act>>(rc::gen::arbitrary<Act>());
  const auto difference = first_difference(SideBySide(numbers, Instant{kStart}), acts);
  if (difference) RC_FAIL(to_text(numbers) + "\n" + *difference);
}

struct Admitted {
  std::int64_t at_ns;
  std::uint64_t units;
};

// Takes in random order of costs and times, later ones never earlier.
std::vector<Admitted> admitted_by(const Numbers& numbers) {
  State state;
  LogState log;
  std::vector<Admitted> admitted;
  Instant now{kStart};
  const auto unit = std::max<std::int64_t>(numbers.period_ns / numbers.limit / 3, 1);
  for (int i = 0; i < 60; ++i) {
    now += Nanos(*rc::gen::inRange<std::int64_t>(0, 5) * unit + *rc::gen::inRange(0, 2));
    const auto cost = *rc::gen::inRange<std::uint64_t>(0, numbers.burst + 2);
    const Step step = take_any(numbers, state, log, now, cost);
    if (step.outcome == Outcome::allowed) {
      admitted.push_back({now.time_since_epoch().count(), cost});
    }
  }
  return admitted;
}

// The most that was admitted in any interval may not exceed what `most` says of its length.
template <class Most>
void no_interval_exceeds(const std::vector<Admitted>& admitted, Most most) {
  for (std::size_t i = 0; i < admitted.size(); ++i) {
    std::uint64_t sum = 0;
    for (std::size_t j = i; j < admitted.size(); ++j) {
      sum += admitted[j].units;
      RC_ASSERT(sum <= most(admitted[i].at_ns, admitted[j].at_ns));
    }
  }
}

RC_GTEST_PROP(Gcra, AdmitsAtMostTheBurstAndTheRateInEveryInterval, ()) {
  const Numbers numbers = some_numbers(Algorithm::gcra);
  no_interval_exceeds(admitted_by(numbers), [&](std::int64_t from, std::int64_t to) {
    return numbers.burst + static_cast<std::uint64_t>((to - from) / numbers.interval_ns);
  });
}

RC_GTEST_PROP(FixedWindow, AdmitsAtMostTheLimitInEachWindowAndTwiceInAnyPeriod, ()) {
  const Numbers numbers = some_numbers(Algorithm::fixed_window);
  no_interval_exceeds(admitted_by(numbers), [&](std::int64_t from, std::int64_t to) {
    const Window first = window_at(numbers, Instant{Nanos(from)});
    if (to < first.end_ns) return std::uint64_t{numbers.limit};
    const Window second = window_at(numbers, Instant{Nanos(first.end_ns)});
    return to < second.end_ns ? std::uint64_t{numbers.limit} * 2 : UINT64_MAX;
  });
}

RC_GTEST_PROP(SlidingLog, AdmitsAtMostTheLimitInEveryPeriod, ()) {
  const Numbers numbers = some_numbers(Algorithm::sliding_log);
  no_interval_exceeds(admitted_by(numbers), [&](std::int64_t from, std::int64_t to) {
    return to - from < numbers.period_ns ? std::uint64_t{numbers.limit} : UINT64_MAX;
  });
}

RC_GTEST_PROP(SlidingWindow, AdmitsAtMostTheLimitByItsEstimateAndTwiceInAnyPeriod, ()) {
  const Numbers numbers = some_numbers(Algorithm::sliding_window);
  const std::vector<Admitted> admitted = admitted_by(numbers);
  no_interval_exceeds(admitted, [&](std::int64_t from, std::int64_t to) {
    const Window window = window_at(numbers, Instant{Nanos(from)});
    if (to < window.end_ns) return std::uint64_t{numbers.limit};
    return to - from < numbers.period_ns ? std::uint64_t{numbers.limit} * 2 : UINT64_MAX;
  });
  for (const Admitted& last : admitted) {
    const Window window = window_at(numbers, Instant{Nanos(last.at_ns)});
    std::uint64_t current = 0;
    std::uint64_t previous = 0;
    for (const Admitted& each : admitted) {
      if (&each > &last) break;
      if (each.at_ns >= window.start_ns)
        current += each.units;
      else if (each.at_ns >= window.start_ns - numbers.period_ns)
        previous += each.units;
    }
    const auto length = static_cast<std::uint64_t>(numbers.period_ns);
    const auto covered = static_cast<std::uint64_t>(window.end_ns - last.at_ns);
    RC_ASSERT(Wide{current} * length + Wide{previous} * covered <= Wide{numbers.limit} * length);
  }
}

// Any state, also one that no step would leave: answered, within its range, and with a true wait.
RC_GTEST_PROP(Steps, AnswerEveryStateWithATrueWait, ()) {
  const Numbers numbers = any_numbers(
      *rc::gen::element(Algorithm::gcra, Algorithm::fixed_window, Algorithm::sliding_window));
  const std::int64_t now_ns =
      *rc::gen::inRange<std::int64_t>(0, kLastInstantNs >> *rc::gen::inRange(1, 60));
  State state{*rc::gen::arbitrary<std::int64_t>(), *rc::gen::arbitrary<std::uint32_t>(),
              *rc::gen::arbitrary<std::uint32_t>()};
  if (*rc::gen::arbitrary<bool>()) {
    state.time_ns = now_ns + (*rc::gen::arbitrary<std::int64_t>() >> *rc::gen::inRange(2, 63));
  }
  if (*rc::gen::arbitrary<bool>()) {
    const std::int64_t start = now_ns - now_ns % numbers.period_ns;
    state.time_ns = start - *rc::gen::inRange(0, 3) * numbers.period_ns;
  }
  const std::uint64_t cost = *rc::gen::arbitrary<std::uint64_t>() >> *rc::gen::inRange(0, 64);
  const Instant now{Nanos(now_ns)};
  const Step step = take(numbers, state, now, cost);
  RC_ASSERT(step.remaining <= numbers.burst);
  RC_ASSERT(step.reset_after_ns >= 0);
  RC_ASSERT((step.outcome == Outcome::never_fits) ==
            (std::max<std::uint64_t>(cost, 1) > numbers.burst));
  if (step.outcome != Outcome::limited) {
    RC_ASSERT(step.retry_after_ns == 0);
  } else {
    RC_ASSERT(step.retry_after_ns > 0);
    const Nanos wait{step.retry_after_ns};
    const State kept = take(numbers, state, now, std::max<std::uint64_t>(cost, 1)).next;
    RC_ASSERT(take(numbers, kept, now + wait, cost).outcome == Outcome::allowed);
    RC_ASSERT(take(numbers, kept, now + wait - Nanos(1), cost).outcome == Outcome::limited);
  }
  if (cost == 0) RC_ASSERT(step.next == state);
  const Step drained = drain(numbers, state, now, cost);
  RC_ASSERT(drained.remaining <= numbers.burst);
  const Step refunded =
      refund(numbers, state, now, cost, Instant{Nanos(*rc::gen::arbitrary<std::int64_t>())});
  RC_ASSERT(refunded.remaining <= numbers.burst);
  RC_ASSERT(refunded.remaining >= take(numbers, state, now, 0).remaining);
}

RC_GTEST_PROP(Steps, AnswerAtEveryInstantThereIs, (std::int64_t now, std::int64_t stored)) {
  const Numbers numbers = any_numbers(
      *rc::gen::element(Algorithm::gcra, Algorithm::fixed_window, Algorithm::sliding_window));
  const State state{stored, 7, 9};
  const Instant instant{Nanos(now)};
  RC_ASSERT(take(numbers, state, instant, 3).remaining <= numbers.burst);
  RC_ASSERT(drain(numbers, state, instant, UINT64_MAX).retry_after_ns >= 0);
  RC_ASSERT(refund(numbers, state, instant, UINT64_MAX, instant).remaining <= numbers.burst);
  (void)convert(numbers, any_numbers(numbers.algorithm), state, instant);
  (void)expires_at_ns(numbers, state);
}

// Whatever happened to a counter before: a state to ask questions of.
struct Lived {
  Numbers numbers;
  State state;
  LogState log;
  Instant now{kStart};
};

Lived some_life(Algorithm algorithm) {
  Lived lived{some_numbers(algorithm), {}, {}};
  const auto unit = std::max<std::int64_t>(lived.numbers.period_ns / lived.numbers.limit / 3, 1);
  const int takes = *rc::gen::inRange(0, 12);
  for (int i = 0; i < takes; ++i) {
    lived.now += Nanos(*rc::gen::inRange<std::int64_t>(0, 5) * unit);
    take_any(lived.numbers, lived.state, lived.log, lived.now,
             *rc::gen::inRange<std::uint64_t>(1, lived.numbers.burst + 1));
  }
  return lived;
}

Step ask(Lived lived, Nanos wait, std::uint64_t cost) {
  return take_any(lived.numbers, lived.state, lived.log, lived.now + wait, cost);
}

RC_GTEST_PROP(Steps, DenialLeavesTheStateAndTheWaitIsTrue, ()) {
  Lived lived = some_life(some_algorithm());
  const Lived before = lived;
  const auto cost = *rc::gen::inRange<std::uint64_t>(0, lived.numbers.burst + 3);
  const Step step = take_any(lived.numbers, lived.state, lived.log, lived.now, cost);
  if (step.outcome == Outcome::allowed && cost > 0) return;
  RC_ASSERT(lived.state == before.state);
  RC_ASSERT(lived.log.entries == before.log.entries);
  if (step.outcome != Outcome::limited) return;
  RC_ASSERT(ask(lived, Nanos(step.retry_after_ns), cost).outcome == Outcome::allowed);
  RC_ASSERT(ask(lived, Nanos(step.retry_after_ns - 1), cost).outcome == Outcome::limited);
}

RC_GTEST_PROP(Steps, ResetAndExpiryAreTheFirstInstantLikeFresh, ()) {
  const Lived lived = some_life(some_algorithm());
  const Step now = ask(lived, Nanos(0), 0);
  if (now.reset_after_ns == 0) return;
  RC_ASSERT(ask(lived, Nanos(now.reset_after_ns), 0).remaining == lived.numbers.burst);
  RC_ASSERT(ask(lived, Nanos(now.reset_after_ns - 1), 0).remaining < lived.numbers.burst);
  const std::int64_t expires = lived.numbers.algorithm == Algorithm::sliding_log
                                   ? log_expires_at_ns(lived.numbers, lived.log)
                                   : expires_at_ns(lived.numbers, lived.state);
  RC_ASSERT(expires == lived.now.time_since_epoch().count() + now.reset_after_ns);
}

RC_GTEST_PROP(Steps, RemainingNeverFallsByWaiting, ()) {
  const Lived lived = some_life(some_algorithm());
  std::uint32_t left = 0;
  Nanos wait{0};
  for (int i = 0; i < 20; ++i) {
    const std::uint32_t now = ask(lived, wait, 0).remaining;
    RC_ASSERT(now >= left);
    left = now;
    wait += Nanos(*rc::gen::inRange<std::int64_t>(0, lived.numbers.period_ns / 4));
  }
}

// A now that lags by up to a second may deny more, never admit more, than one that does not.
RC_GTEST_PROP(Steps, EarlierNowAdmitsNoMore, ()) {
  const Lived lived = some_life(some_algorithm());
  const Nanos lag{*rc::gen::inRange<std::int64_t>(0, 1'000'000'000)};
  RC_ASSERT(ask(lived, -lag, 0).remaining <= ask(lived, Nanos(0), 0).remaining);
}

RC_GTEST_PROP(Convert, UsedStaysUsedInBothDirections, ()) {
  const Lived lived = some_life(some_algorithm());
  Request request{.algorithm = lived.numbers.algorithm,
                  .limit = *rc::gen::inRange<std::uint64_t>(1, 30),
                  .period = {Nanos(lived.numbers.period_ns), lived.numbers.calendar,
                             lived.numbers.calendar_count}};
  if (request.algorithm == Algorithm::gcra) {
    request.burst = *rc::gen::inRange<std::uint64_t>(1, 30);
  }
  const Numbers to = Numbers::make(request).value();
  Lived after = lived;
  after.numbers = to;
  after.state = convert(lived.numbers, to, lived.state, lived.now);
  const std::uint32_t used = lived.numbers.burst - ask(lived, Nanos(0), 0).remaining;
  const std::uint32_t left = to.burst > used ? to.burst - used : 0;
  RC_ASSERT(ask(after, Nanos(0), 0).remaining == left);
  if (used > to.burst) return;
  Lived back = lived;
  back.state = convert(to, lived.numbers, after.state, lived.now);
  RC_ASSERT(ask(back, Nanos(0), 0).remaining == lived.numbers.burst - used);
}

// A counter after a refund has no more left than one that was never charged so.
RC_GTEST_PROP(Refund, NeverLeavesMoreThanWithoutTheCharge, ()) {
  Lived with = some_life(some_algorithm());
  Lived without = with;
  const auto cost = *rc::gen::inRange<std::uint64_t>(1, with.numbers.burst + 1);
  const Step charge = take_any(with.numbers, with.state, with.log, with.now, cost);
  if (charge.outcome != Outcome::allowed) return;
  const Instant receipt = charge.receipt();
  const int later = *rc::gen::inRange(0, 5);
  for (int i = 0; i < later; ++i) {
    with.now += Nanos(*rc::gen::inRange<std::int64_t>(0, with.numbers.period_ns / 3));
    without.now = with.now;
    const auto more = *rc::gen::inRange<std::uint64_t>(1, with.numbers.burst + 1);
    const Step step = take_any(with.numbers, with.state, with.log, with.now, more);
    if (step.outcome != Outcome::allowed) continue;
    const Step same = take_any(without.numbers, without.state, without.log, with.now, more);
    RC_ASSERT(same.outcome == Outcome::allowed);
  }
  with.now += Nanos(*rc::gen::inRange<std::int64_t>(0, with.numbers.period_ns / 3));
  without.now = with.now;
  const std::uint32_t left = ask(with, Nanos(0), 0).remaining;
  if (with.numbers.algorithm == Algorithm::sliding_log) {
    log_refund(with.numbers, with.log, with.now, cost, receipt);
  } else {
    with.state = refund(with.numbers, with.state, with.now, cost, receipt).next;
  }
  const std::uint32_t refunded = ask(with, Nanos(0), 0).remaining;
  RC_ASSERT(refunded >= left);
  RC_ASSERT(refunded <= ask(without, Nanos(0), 0).remaining);
  if (later == 0) RC_ASSERT(refunded == ask(without, Nanos(0), 0).remaining);
}

}  // namespace
}  // namespace weir::limit
