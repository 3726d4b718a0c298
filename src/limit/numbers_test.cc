#include "limit/numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "limit/reach.h"
#include "limit/step.h"

namespace weir::limit {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Request gcra(std::uint64_t limit, Nanos period, std::optional<std::uint64_t> burst = {}) {
  return {.algorithm = Algorithm::gcra, .limit = limit, .period = {period}, .burst = burst};
}

Request fixed(std::uint64_t limit, Period period) {
  return {.algorithm = Algorithm::fixed_window, .limit = limit, .period = period};
}

void expect_refused(const Request& request, std::string_view says) {
  const auto made = Numbers::make(request);
  ASSERT_FALSE(made) << "accepted, but should have said: " << says;
  EXPECT_EQ(made.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(made.error().message, HasSubstr(std::string(says)));
}

TEST(Numbers, IntervalRoundsUp) {
  const Numbers third = Numbers::make(gcra(3, 1s)).value();
  EXPECT_EQ(third.interval_ns, 333'333'334);
  EXPECT_EQ(third.burst, 3U);
  EXPECT_EQ(third.tolerance_ns, 1'000'000'002);
  EXPECT_EQ(Numbers::make(gcra(5, 60s, 2)).value().interval_ns, Nanos(12s).count());
}

TEST(Numbers, RateThatRoundingWouldChangeIsRefusedWithItsNeighbours) {
  expect_refused(gcra(700'000'000, 1s), "are 500000000 per second and 1000000000 per second");
  expect_refused(gcra(300'000'000, 1s), "are 250000000 per second and 333333334 per second");
  expect_refused(gcra(3'000'000, 1s), "are 2994012 per second and 3003004 per second");
  expect_refused(gcra(3, 7ns), "the nearest that can be held are 1 per 7 nanoseconds and 7 per 7");
}

TEST(Numbers, IntervalBelowANanosecondIsRefusedWithTheFastestRate) {
  expect_refused(gcra(3'000'000'000, 1s), "is 1000000000 per second; there is none above");
  expect_refused(gcra(kMaxUnits, 1s), "is 1000000000 per second; there is none above");
  expect_refused(gcra(3'000'000'000, 2s), "is 2000000000 per 2 seconds; there is none above");
}

TEST(Numbers, AThousandthOffIsHeldAndMoreIsNot) {
  EXPECT_EQ(Numbers::make(gcra(143, 1'000ns)).value().interval_ns, 7);     // 1,001 for 1,000
  expect_refused(gcra(8, 999ns), "8 per 999 nanoseconds cannot be held");  // 1,000 for 999
}

TEST(Numbers, NeighboursThatAMessageNamesAreHeld) {
  for (const std::uint64_t limit : {1'000'000'000U, 500'000'000U, 333'333'334U, 250'000'000U}) {
    EXPECT_TRUE(Numbers::make(gcra(limit, 1s))) << limit;
  }
}

TEST(Numbers, RatesFromOneAYearToABillionASecondAreHeldWithinAThousandth) {
  for (const Nanos period : {Nanos(1s), Nanos(60s), Nanos(1h), Nanos(24h), Nanos(365 * 24h)}) {
    for (std::uint64_t limit = 1; limit <= kMaxUnits; limit = limit * 3 + 1) {
      const auto numbers = Numbers::make(gcra(limit, period));
      if (period.count() / static_cast<std::int64_t>(limit) >= 1'000) {
        ASSERT_TRUE(numbers) << limit << " per " << period.count();
      }
      if (!numbers) continue;
      const auto held = static_cast<unsigned long long>(numbers->interval_ns) * limit;
      const auto asked = static_cast<unsigned long long>(period.count());
      EXPECT_GE(held, asked);
      EXPECT_LE((held - asked) * 1'000, asked);
    }
  }
}

// A zero interval, or a product that overflowed first, made a limiter unlimited.
TEST(Numbers, EveryRateIsRefusedOrHeld) {
  constexpr std::uint64_t kMost = INT64_MAX;
  for (const std::uint64_t limit : {std::uint64_t{1'000'000}, std::uint64_t{3'000'000},
                                    std::uint64_t{1'000'000'000}, kMaxUnits, kMost}) {
    for (const Nanos period : {Nanos(1s), Nanos(60s), Nanos(31'536'000s)}) {
      for (const std::uint64_t burst :
           {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 31, kMost}) {
        const auto numbers = Numbers::make(gcra(limit, period, burst));
        if (limit > kMaxUnits || burst == 0 || burst > kMaxUnits) {
          EXPECT_FALSE(numbers);
          continue;
        }
        if (!numbers) continue;
        State state;
        std::uint64_t admitted = 0;
        const std::int64_t step_ns = 997;
        for (std::int64_t i = 0; i < 1'000; ++i) {
          const Instant now{1'700'000'000s + Nanos(i * step_ns)};
          Step step = drain(*numbers, state, now, kMaxUnits);
          admitted += take(*numbers, state, now, 0).remaining;
          state = step.next;
        }
        const auto span = static_cast<std::uint64_t>(999 * step_ns);
        EXPECT_LE(admitted, burst + 1 + span * limit / static_cast<std::uint64_t>(period.count()));
        EXPECT_GE(admitted, burst);
      }
    }
  }
}

TEST(Numbers, UnitsPastTheirRangeAreRefused) {
  expect_refused(gcra(kMaxUnits + 1, 24h), "at most 4294967295, not 4294967296");
  expect_refused(fixed(UINT64_MAX, {60s}), "not 18446744073709551615");
  expect_refused(gcra(10, 60s, kMaxUnits + 1), "the burst must be at most 4294967295");
  EXPECT_TRUE(Numbers::make(fixed(kMaxUnits, {1s})));
  EXPECT_TRUE(Numbers::make(gcra(kMaxUnits, 365 * 24h)));
}

// Bursts of 0 or more than fits were changed without notice.
TEST(Numbers, BurstIsHeldExactlyOrRefused) {
  expect_refused(gcra(10, 60s, 0), "the burst must be at least 1");
  expect_refused(gcra(1, 365 * 24h, 1'000), "the burst must be at most 18");
  EXPECT_EQ(Numbers::make(gcra(10, 60s, 1'000'000)).value().burst, 1'000'000U);
  EXPECT_EQ(Numbers::make(gcra(1, 365 * 24h, 18)).value().burst, 18U);
  for (const Algorithm algorithm :
       {Algorithm::fixed_window, Algorithm::sliding_window, Algorithm::sliding_log}) {
    expect_refused({.algorithm = algorithm, .limit = 5, .period = {60s}, .burst = 5},
                   "only gcra takes a burst");
  }
}

TEST(Numbers, PeriodsWithoutLengthOrPastTenYearsAreRefused) {
  expect_refused(gcra(1, 0s), "longer than 0");
  expect_refused(gcra(1, -1s), "longer than 0");
  expect_refused(gcra(0, 0s), "longer than 0");
  expect_refused(gcra(1, 3'660 * 24h + 1ns), "at most 10 years");
  expect_refused(fixed(1, {.calendar = Calendar::month, .count = 0}), "longer than 0");
  expect_refused(fixed(1, {.calendar = Calendar::year, .count = 11}), "at most 10 years");
  expect_refused(fixed(1, {.calendar = Calendar::year, .count = UINT32_MAX}), "at most 10 years");
  EXPECT_TRUE(Numbers::make(fixed(1, {.calendar = Calendar::year, .count = 10})));
}

TEST(Numbers, CalendarIsForFixedWindowsAlone) {
  Request request = gcra(1, 0s);
  request.period = {.calendar = Calendar::month};
  expect_refused(request, "only fixed_window follows the calendar");
  expect_refused(fixed(1, {.length = 31 * 24h, .calendar = Calendar::month}), "the calendar");
  expect_refused(fixed(1, {.length = 60s, .count = 2}), "needs a calendar");
  EXPECT_EQ(Numbers::make(fixed(1, {.calendar = Calendar::month, .count = 3})).value().period_ns,
            Nanos(90 * 24h).count());
}

TEST(Numbers, LimitOfZeroBlocksWhateverTheBurst) {
  const Numbers blocked = Numbers::make(gcra(0, 60s, 7)).value();
  EXPECT_EQ(blocked.burst, 0U);
  for (const std::uint64_t cost : {std::uint64_t{0}, std::uint64_t{1}, UINT64_MAX}) {
    const Step step = take(blocked, State{}, Instant{1'000s}, cost);
    EXPECT_EQ(step.outcome, Outcome::never_fits);
    EXPECT_EQ(step.remaining, 0U);
    EXPECT_EQ(step.next, State{});
  }
}

TEST(Numbers, StampNamesTheNumbers) {
  std::set<std::uint32_t> stamps;
  std::uint64_t made = 0;
  for (std::uint64_t limit = 0; limit < 20'000; ++limit, ++made) {
    const Numbers numbers = Numbers::make(fixed(limit, {60s})).value();
    EXPECT_NE(numbers.stamp, 0U);
    stamps.insert(numbers.stamp);
  }
  EXPECT_EQ(stamps.size(), made);
  const Numbers a = Numbers::make(gcra(10, 60s)).value();
  EXPECT_EQ(a.stamp, Numbers::make(gcra(10, 60s, 10)).value().stamp);
  EXPECT_NE(a.stamp, Numbers::make(gcra(10, 60s, 11)).value().stamp);
  EXPECT_NE(a.stamp, Numbers::make(gcra(10, 61s)).value().stamp);
}

// Stores keep stamps: another value here would convert every counter of a running fleet.
TEST(Numbers, StampStaysTheSameOverVersions) {
  EXPECT_EQ(Numbers::make(gcra(5, 60s)).value().stamp, 1'673'882'358U);
  EXPECT_EQ(Numbers::make(fixed(100, {.calendar = Calendar::month})).value().stamp, 2'177'702'043U);
}

TEST(Numbers, TextIsWhatAPersonWouldSay) {
  const auto text = [](const Request& request) { return to_text(Numbers::make(request).value()); };
  EXPECT_EQ(text(gcra(5, 60s)), "5 per minute");
  EXPECT_EQ(text(gcra(10, 30s)), "10 per 30 seconds");
  EXPECT_EQ(text(gcra(10, 90min)), "10 per 90 minutes");
  EXPECT_EQ(text(gcra(10, 24h)), "10 per day");
  EXPECT_EQ(text(gcra(10, 7 * 24h)), "10 per week");
  EXPECT_EQ(text(gcra(10, 30 * 24h)), "10 per 30 days");
  EXPECT_EQ(text(gcra(10, 250ms)), "10 per 250 milliseconds");
  EXPECT_EQ(text(fixed(7, {.calendar = Calendar::month})), "7 per month");
  EXPECT_EQ(text(fixed(7, {.calendar = Calendar::month, .count = 3})), "7 per 3 months");
  EXPECT_EQ(text(fixed(0, {1s})), "0 per second");
}

}  // namespace
}  // namespace weir::limit
