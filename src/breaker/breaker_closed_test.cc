#include <gtest/gtest.h>

#include "testing/breaker_rig.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::BreakerRig;

BreakerConfig rates(std::variant<LastCalls, LastTime> window = LastCalls{10}) {
  BreakerConfig config = BreakerRig::config();
  config.consecutive_failures.reset();
  config.failure_percent = 50;
  config.window = window;
  return config;
}

TEST(BreakerClosed, OpensAtTheNthFailureInARow) {
  BreakerRig rig;
  EXPECT_EQ(rig.calls(2, Outcome::failure), 2);
  EXPECT_EQ(rig.state(), BreakerState::closed);
  EXPECT_TRUE(rig.call(Outcome::failure));
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_FALSE(rig.call(Outcome::ok));
}

TEST(BreakerClosed, AGoodCallStartsTheRowAnew) {
  BreakerRig rig;
  for (int i = 0; i < 50; ++i) {
    rig.calls(2, Outcome::failure);
    rig.call(Outcome::ok);
  }
  EXPECT_EQ(rig.state(), BreakerState::closed);
}

TEST(BreakerClosed, SaysNothingBelowTheMinimumOfCalls) {
  BreakerRig rig(rates());
  rig.calls(3, Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::closed) << "3 of 3 failed, but 4 are asked for";
  rig.call(Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(BreakerClosed, AGoodCallMayCompleteTheMinimum) {
  BreakerRig rig(rates());
  rig.calls(2, Outcome::failure);
  rig.calls(2, Outcome::ok);
  EXPECT_EQ(rig.state(), BreakerState::open) << "2 of 4 are 50 %";
}

TEST(BreakerClosed, TheRateIsThatOfTheLastCallsAlone) {
  BreakerRig rig(rates());
  rig.calls(10, Outcome::ok);
  rig.calls(4, Outcome::failure);
  rig.calls(6, Outcome::ok);
  rig.calls(4, Outcome::failure);  // the four of before leave the window one by one
  EXPECT_EQ(rig.state(), BreakerState::closed);
  const BreakerSnapshot shot = rig.breaker.snapshot();
  EXPECT_EQ(shot.calls, 10U);
  EXPECT_EQ(shot.failures, 4U);
  rig.call(Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(BreakerClosed, TheRateIsThatOfTheLastTimeAlone) {
  BreakerRig rig(rates(LastTime{10s, 10}));
  rig.calls(3, Outcome::failure);
  rig.pass(9s);
  EXPECT_EQ(rig.breaker.snapshot().failures, 3U);
  rig.pass(1s);
  EXPECT_EQ(rig.breaker.snapshot().failures, 0U) << "they are 10 s old";
  rig.calls(3, Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::closed);
  rig.call(Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(BreakerClosed, AGoodCallCompletesTheMinimumInATimeWindowToo) {
  BreakerRig rig(rates(LastTime{10s, 10}));
  rig.calls(2, Outcome::failure);
  rig.pass(5s);
  rig.calls(2, Outcome::ok);
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(BreakerClosed, AFailureRateThatNeverRollsDoesNotAddUp) {
  // 0.1 % of the calls fail, for a very long time: no number of failures may trip it.
  BreakerRig rig(rates(LastTime{10s, 10}));
  for (int i = 0; i < 20'000; ++i) {
    rig.call(i % 1'000 == 0 ? Outcome::failure : Outcome::ok);
    rig.pass(10ms);
  }
  EXPECT_EQ(rig.state(), BreakerState::closed);
}

TEST(BreakerClosed, CountsCallsSlowerThanSlowCall) {
  BreakerConfig config = rates();
  config.failure_percent.reset();
  config.slow_percent = 50;
  config.slow_call = 100ms;
  BreakerRig rig(config);
  const auto call_of = [&](Nanos time) {
    Permit permit = rig.admitted();
    rig.pass(time);
    permit.ok();
  };
  for (int i = 0; i < 6; ++i) call_of(100ms);
  EXPECT_EQ(rig.breaker.snapshot().slow, 0U) << "exactly slow_call is not slow";
  for (int i = 0; i < 4; ++i) call_of(101ms);
  EXPECT_EQ(rig.state(), BreakerState::closed);
  call_of(101ms);
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_EQ(rig.events.back().cause, BreakerCause::slow_rate);
  EXPECT_EQ(rig.events.back().slow, 5U);
}

TEST(BreakerClosed, TheCallersOwnMeasureOfSlowCounts) {
  BreakerConfig config = rates();
  config.slow_percent = 50;
  config.slow_call = 100ms;
  BreakerRig rig(config);
  rig.calls(4, Outcome::slow);
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(BreakerClosed, IgnoredCancelledAndLocallyRejectedCallsDoNotVote) {
  BreakerRig rig(rates());
  for (Outcome outcome : {Outcome::ignored, Outcome::cancelled, Outcome::local_reject})
    rig.calls(100, outcome);
  const BreakerSnapshot shot = rig.breaker.snapshot();
  EXPECT_EQ(shot.calls, 0U);
  EXPECT_EQ(shot.ignored, 100U);
  EXPECT_EQ(shot.cancelled, 100U);
  EXPECT_EQ(shot.local_rejects, 100U);
  EXPECT_EQ(rig.state(), BreakerState::closed);
}

TEST(BreakerClosed, LocalRejectsDoNotBreakARowOfFailures) {
  BreakerRig rig;
  rig.calls(2, Outcome::failure);
  rig.calls(5, Outcome::local_reject);
  rig.call(Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(BreakerClosed, NoAnswerByTheDeadlineIsAFailure) {
  BreakerRig rig;
  rig.calls(3, Outcome::expired);
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_EQ(rig.breaker.snapshot().failed, 3U);
}

TEST(BreakerClosed, ADroppedPermitDoesNotVote) {
  BreakerRig rig;
  for (int i = 0; i < 100; ++i) (void)rig.breaker.admit();
  EXPECT_EQ(rig.state(), BreakerState::closed);
  EXPECT_EQ(rig.breaker.snapshot().failed, 0U);
}

TEST(BreakerClosed, ASecondReportIsIgnored) {
  BreakerRig rig;
  for (int i = 0; i < 2; ++i) {
    Permit permit = rig.admitted();
    permit.failure();
    permit.failure();
    permit.failure();
  }
  EXPECT_EQ(rig.breaker.snapshot().consecutive_failures, 2U);
  EXPECT_EQ(rig.state(), BreakerState::closed);
}

TEST(BreakerClosed, AMovedPermitReportsOnce) {
  BreakerRig rig;
  Permit first = rig.admitted();
  Permit second = std::move(first);
  first.failure();  // NOLINT(bugprone-use-after-move): what is asserted
  second.failure();
  EXPECT_EQ(rig.breaker.snapshot().failed, 1U);
}

TEST(BreakerClosed, ADirectiveOpensAtOnceForTheTimeItNames) {
  BreakerRig rig;
  rig.call(CallVerdict::open_for(20s));
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(20s));
  EXPECT_EQ(rig.events.back().cause, BreakerCause::directive);
}

TEST(BreakerClosed, ADirectiveWithoutAWaitOpensForTheUsualTime) {
  // resilience4j: such a directive left a circuit that neither admitted nor ever opened.
  BreakerRig rig;
  rig.call(CallVerdict::open_for(std::nullopt));
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(1s));
  rig.pass(1s);
  EXPECT_TRUE(rig.call(Outcome::ok));
}

TEST(BreakerClosed, RetryAfterCountsWhereTheVerdictOpens) {
  BreakerRig rig;
  CallVerdict verdict = Outcome::failure;
  verdict.retry_after = 7s;
  rig.calls(2, verdict);
  EXPECT_EQ(rig.state(), BreakerState::closed) << "a wish for later is no vote";
  rig.call(verdict);
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(7s));
}

TEST(BreakerClosed, RetryAfterNeitherShortensNorExceedsItsBounds) {
  BreakerConfig config = BreakerRig::config();
  config.max_retry_after = 60s;
  BreakerRig shorter(config);
  shorter.call(CallVerdict::open_for(1ms));
  EXPECT_EQ(shorter.breaker.snapshot().until_probe, Nanos(1s));
  BreakerRig longer(config);
  longer.call(CallVerdict::open_for(24h));
  EXPECT_EQ(longer.breaker.snapshot().until_probe, Nanos(60s));
}

TEST(BreakerClosed, LateResultsOfEarlierGenerationsDoNotVote) {
  // gobreaker 122, Polly 217: ten slow calls that began before the first opening.
  BreakerRig rig;
  std::vector<Permit> old;
  for (int i = 0; i < 10; ++i) old.push_back(rig.admitted());
  rig.open();
  rig.pass(1s);
  rig.calls(2, Outcome::ok);
  ASSERT_EQ(rig.state(), BreakerState::closed);
  for (Permit& permit : old) permit.failure();
  EXPECT_EQ(rig.state(), BreakerState::closed);
  EXPECT_EQ(rig.breaker.snapshot().late, 10U);
  EXPECT_EQ(rig.breaker.snapshot().consecutive_failures, 0U);
}

TEST(BreakerClosed, ALateSuccessNeitherEndsARowOfFailuresNorThinsTheirRate) {
  // Polly 217: the same, three generations later, with good news.
  for (const bool by_rate : {false, true}) {
    BreakerRig rig(by_rate ? rates() : BreakerRig::config());
    std::vector<Permit> old;
    for (int i = 0; i < 10; ++i) old.push_back(rig.admitted());
    const int opens_it = by_rate ? 4 : 3;
    rig.calls(opens_it, Outcome::failure);
    rig.pass(1s);
    rig.calls(2, Outcome::ok);
    ASSERT_EQ(rig.state(), BreakerState::closed) << by_rate;
    rig.calls(opens_it - 1, Outcome::failure);
    ASSERT_EQ(rig.state(), BreakerState::closed) << by_rate;
    for (Permit& permit : old) permit.ok();
    rig.call(Outcome::failure);
    EXPECT_EQ(rig.state(), BreakerState::open) << by_rate;
    EXPECT_EQ(rig.breaker.snapshot().late, 10U) << by_rate;
  }
}

TEST(BreakerClosed, BeginsWithAnEmptyWindowAfterItClosed) {
  for (const bool timed : {false, true}) {
    BreakerRig rig(timed ? rates(LastTime{10s, 10}) : rates());
    rig.calls(4, Outcome::failure);
    rig.pass(1s);
    rig.calls(2, Outcome::ok);
    ASSERT_EQ(rig.state(), BreakerState::closed);
    EXPECT_EQ(rig.breaker.snapshot().failures, 0U) << timed;
    EXPECT_EQ(rig.breaker.snapshot().calls, 0U) << timed;
    rig.calls(3, Outcome::failure);
    EXPECT_EQ(rig.state(), BreakerState::closed) << timed;
  }
}

TEST(BreakerClosed, AWallClockThatStepsAnHourChangesNothing) {
  BreakerRig rig(rates(LastTime{10s, 10}));
  rig.calls(3, Outcome::failure);
  rig.clock.step_wall(1h);
  EXPECT_EQ(rig.breaker.snapshot().failures, 3U);
  rig.call(Outcome::failure);
  rig.clock.step_wall(-2h);
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(1s));
  rig.clock.step_wall(3h);
  EXPECT_FALSE(rig.call(Outcome::ok));
  rig.pass(1s);
  EXPECT_TRUE(rig.call(Outcome::ok));
}

TEST(BreakerClosed, TheCountersAreWhatWasReported) {
  BreakerRig rig(rates());
  rig.calls(8, Outcome::ok);
  rig.calls(2, Outcome::failure);
  rig.call(Outcome::slow);
  const BreakerSnapshot shot = rig.breaker.snapshot();
  EXPECT_EQ(shot.ok, 8U);
  EXPECT_EQ(shot.failed, 2U);
  EXPECT_EQ(shot.slow_calls, 1U);
  EXPECT_EQ(shot.late, 0U);
  EXPECT_EQ(shot.name, "upstream");
  EXPECT_EQ(shot.share_percent, 100U);
}

}  // namespace
}  // namespace weir
