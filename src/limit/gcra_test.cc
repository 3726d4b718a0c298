#include "limit/gcra.h"

#include <gtest/gtest.h>

#include "testing/step_story.h"

namespace weir::limit {
namespace {

using namespace std::chrono_literals;
using testing::Story;

Request gcra(std::uint64_t limit, Nanos period, std::optional<std::uint64_t> burst = {}) {
  return {.algorithm = Algorithm::gcra, .limit = limit, .period = {period}, .burst = burst};
}

TEST(Gcra, AdmitsTheBurstAtOnceThenOneAnInterval) {
  Story story(gcra(10, 60s, 3));
  story.at(0s).take(1).allowed(2).resets_after(6s);
  story.at(0s).take(1).allowed(1);
  story.at(0s).take(1).allowed(0).resets_after(18s);
  story.at(0s).take(1).limited(0, 6s);
  story.at(5s).take(1).limited(0, 1s);
  story.at(6s).take(1).allowed(0);
  story.at(6s).take(1).limited(0, 6s);
  story.at(24s).take(0).allowed(3).resets_after(0s);
}

// Users of a limiter saw an ask of more than the burst answered from a special path, with numbers
// of its own; one unit over the burst got through.
TEST(Gcra, DeniesCallThatExceedsBurst) {
  Story story(gcra(10, 1s));
  story.at(0s).take(11).never(10);
  story.at(0s).take(10).allowed(0);
  story.at(0s).take(11).never(0);
  story.at(0s).take(1).limited(0, 100ms);
}

// A quantity equal to the full capacity of a bucket in use was told to never come back.
TEST(Gcra, WaitForAFullBurstIsFinite) {
  Story story(gcra(1, 10s, 3));
  story.at(0s).take(1).allowed(2);
  story.at(0s).take(3).limited(2, 10s);
  story.at(0s).take(4).never(2);
  story.at(0s).take(2).allowed(0);
}

// Rates above a thousand a second failed or did not limit where time was counted in milliseconds.
TEST(Gcra, FastRateStillLimitsABurst) {
  Story story(gcra(1'500, 1s, 21));
  int admitted = 0;
  for (int i = 0; i < 60; ++i) {
    admitted += story.at(i * 80us).take(1).step().outcome == Outcome::allowed ? 1 : 0;
  }
  EXPECT_EQ(admitted, 21 + 7);  // 4.72 ms hold seven intervals of 0.667 ms

  Story thousand(gcra(1'000, 60s, 1'001));
  for (std::uint32_t left = 1'000; left > 995; --left) thousand.at(0s).take(1).allowed(left);
}

TEST(Gcra, HoldsABillionASecond) {
  Story story(gcra(1'000'000'000, 1s));
  story.at(0s).take(1'000'000'000).allowed(0);
  story.at(0s).take(1).limited(0, 1ns);
  story.at(1ns).take(1).allowed(0);
  story.at(1ns).take(500'000'000).limited(0, 500ms);
}

TEST(Gcra, HoldsOneAYear) {
  Story story(gcra(1, 365 * 24h));
  story.at(0s).take(1).allowed(0);
  story.at(0s).take(1).limited(0, 365 * 24h);
  story.at(365 * 24h - 1ns).take(1).limited(0, 1ns);
  story.at(365 * 24h).take(1).allowed(0);
}

// Buckets that credit whole units only, and move their clock at every call, never refill while they
// are polled.
TEST(Gcra, PollingLosesNoFraction) {
  Story polled(gcra(10, 1s, 1));
  int admitted = 0;
  for (int ms = 0; ms <= 2'000; ++ms) {
    admitted += polled.at(ms * 1ms).take(1).step().outcome == Outcome::allowed ? 1 : 0;
  }
  EXPECT_EQ(admitted, 21);

  Story hint(gcra(1, 1s));
  hint.at(0s).take(1).allowed(0);
  hint.at(200ms).take(1).limited(0, 800ms);
}

TEST(Gcra, LeaksWhileItIsHit) {
  Story story(gcra(10, 30s));
  for (int second = 0; second <= 10; ++second) story.at(second * 1s).take(1);
  story.allowed(2);  // 10 - 11 + 10 / 3

  Story steady(gcra(3, 1s));
  int admitted = 0;
  for (int i = 0; i <= 100; ++i) {
    admitted += steady.at(i * 100ms).take(1).step().outcome == Outcome::allowed ? 1 : 0;
  }
  // 10 s hold 29 intervals of a third of a second rounded up.
  EXPECT_LE(admitted, 3 + 29);
  EXPECT_GE(admitted, 30);
}

// A rate below one unit a second never admitted anything where the balance was capped at a second.
TEST(Gcra, RateBelowOneASecondFills) {
  Story story(gcra(1, 2s));
  int admitted = 0;
  for (int ms = 0; ms <= 10'000; ms += 100) {
    admitted += story.at(ms * 1ms).take(1).step().outcome == Outcome::allowed ? 1 : 0;
  }
  EXPECT_EQ(admitted, 6);
}

// State that was dropped before the bucket had emptied made one a second of one in ten.
TEST(Gcra, StateIsKeptUntilItIsLikeFresh) {
  Story story(gcra(1, 10s));
  int admitted = 0;
  for (int ms = 0; ms <= 22'000; ms += 1'100) {
    admitted += story.at(ms * 1ms).take(1).step().outcome == Outcome::allowed ? 1 : 0;
    const std::int64_t expires = expires_at_ns(story.numbers(), story.state());
    EXPECT_EQ(expires - story.now().time_since_epoch().count(), story.step().reset_after_ns);
  }
  EXPECT_EQ(admitted, 3);
}

// Refused calls filled the bucket without bound: a client was locked out for hours after it
// stopped.
TEST(Gcra, HammeringDoesNotFillTheBucket) {
  Story story(gcra(5, 1s));
  int admitted = 0;
  for (int i = 0; i < 10'000; ++i) {
    story.at(i * 100us).take(1);
    admitted += story.step().outcome == Outcome::allowed ? 1 : 0;
    EXPECT_LE(story.step().retry_after_ns, Nanos(1s).count());
  }
  EXPECT_EQ(admitted, 9);
  for (std::uint32_t left = 5; left-- > 0;) story.at(2'200ms).take(1).allowed(left);
  story.at(2'200ms).take(1).limited(0, 200ms);
}

TEST(Gcra, RefundGivesBackWhatHasNotBeenEmitted) {
  Story story(gcra(10, 60s));
  story.at(0s).take(4).allowed(6);
  const Instant first = story.receipt();
  story.at(0s).take(2).allowed(4);
  const Instant second = story.receipt();
  // By 12 s two of the first four units have been emitted again.
  story.at(12s).refund(4, first).allowed(8);
  story.at(12s).take(8).allowed(0);
  story.at(36s).take(0).allowed(4);
  story.at(36s).refund(2, second).allowed(4);  // all emitted at 36 s
}

// A bucket that is always in use has not emitted the last charge for long: the refund of a slow
// call still counts.
TEST(Gcra, RefundCountsInABucketInUse) {
  Story story(gcra(100, 1s));
  story.at(0ms).take(99).allowed(1);
  story.at(0ms).take(1).allowed(0);
  const Instant slow = story.receipt();
  story.at(50ms).take(5).allowed(0);
  story.at(50ms).refund(1, slow).allowed(1);
}

// Threads that read the clock at different moments must gain nothing by it.
TEST(Gcra, EarlierNowGainsNothing) {
  Story story(gcra(1'000, 1s, 2));
  story.at(500ms).take(2).allowed(0);
  story.at(100ms).take(1).limited(0, 401ms);
  story.at(500ms).take(1).limited(0, 1ms);
  story.at(0ms).take(1).limited(0, 501ms);
  story.at(501ms).take(1).allowed(0);
}

TEST(Gcra, ClockSetBackLocksNobodyForTheStep) {
  Story story(gcra(10, 60s, 3));
  story.at(1h).take(3).allowed(0);
  story.at(0s).take(0).limited(0, 6s);  // a probe answers the same, and writes nothing
  story.at(0s).take(1).limited(0, 6s);  // exhausted by the clock that now holds
  story.at(6s).take(1).allowed(0);
  story.at(6s).take(4).never(0);
}

TEST(Gcra, HotPathAndStepsAgree) {
  const Numbers numbers = Numbers::make(gcra(7, 13s, 5)).value();
  State state;
  for (int i = 0; i < 200; ++i) {
    const Instant now{1'000s + i * 700ms};
    const std::uint64_t cost = static_cast<std::uint64_t>(i) % 7;
    const Step a = gcra_take(numbers, state, now, cost);
    const Step b = take(numbers, state, now, cost);
    ASSERT_EQ(a.next, b.next);
    ASSERT_EQ(a.remaining, b.remaining);
    state = a.next;
  }
}

}  // namespace
}  // namespace weir::limit
