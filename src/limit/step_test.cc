// What every algorithm promises alike: costs, probes, refunds, drains and changes of the limit.

#include "limit/step.h"

#include <gtest/gtest.h>

#include "testing/step_story.h"

namespace weir::limit {
namespace {

using namespace std::chrono_literals;
using testing::Story;

class EveryAlgorithm : public ::testing::TestWithParam<Algorithm> {
 protected:
  static Request limit_of(std::uint64_t limit, Nanos period = 60s) {
    return {.algorithm = GetParam(), .limit = limit, .period = {period}};
  }
};

// A large cost looked like an empty window, since its place in the list was out of range.
TEST_P(EveryAlgorithm, CostAboveTheLimitNeverFitsAndTakesNothing) {
  Story story(limit_of(10));
  story.at(0s).take(5).allowed(5);
  story.at(0s).take(100).never(5);
  story.at(0s).take(UINT64_MAX).never(5);
  story.at(0s).take(5).allowed(0);
  story.at(0s).take(1);
  EXPECT_EQ(story.step().outcome, Outcome::limited);
}

// Limiters that add first and compare afterwards let rejected calls burn what is left.
TEST_P(EveryAlgorithm, RejectedCallsConsumeNothing) {
  Story story(limit_of(10));
  story.at(0s).take(8).allowed(2);
  story.at(0s).take(5);
  EXPECT_EQ(story.step().outcome, Outcome::limited);
  EXPECT_EQ(story.step().remaining, 2U);
  story.at(0s).take(2).allowed(0);
  for (int i = 0; i < 40; ++i) {
    story.at(0s).take(1);
    EXPECT_EQ(story.step().outcome, Outcome::limited);
  }
  story.becomes(limit_of(20));
  for (std::uint32_t left = 10; left-- > 0;) story.at(0s).take(1).allowed(left);
  story.at(0s).take(1);
  EXPECT_EQ(story.step().outcome, Outcome::limited);
}

// A cost of 0 consumed one, or was refused by checks that came before looking at it.
TEST_P(EveryAlgorithm, CostOfZeroIsAProbe) {
  Story story(limit_of(3));
  for (int i = 0; i < 100; ++i) story.at(0s).take(0).allowed(3);
  story.at(0s).take(2).allowed(1);
  for (int i = 0; i < 100; ++i) story.at(0s).take(0).allowed(1);
  story.at(0s).take(1).allowed(0);
  story.at(0s).take(1);
  const Step denied = story.step();
  story.at(0s).take(0).limited(0, Nanos(denied.retry_after_ns));
  EXPECT_EQ(story.step().reset_after_ns, denied.reset_after_ns);
}

// Refunds were ignored exactly when they were needed, since "exhausted" returned first.
TEST_P(EveryAlgorithm, RefundCountsWhenNothingIsLeft) {
  Story story(limit_of(10));
  story.at(0s).take(10).allowed(0);
  story.at(0s).refund(1, story.receipt()).allowed(1);
  story.at(0s).take(1).allowed(0);
  story.at(0s).take(1);
  EXPECT_EQ(story.step().outcome, Outcome::limited);
}

// Refunds below zero let a window admit more than its limit; huge ones wrapped.
TEST_P(EveryAlgorithm, RefundNeverMints) {
  for (const std::uint64_t units : {std::uint64_t{1'000}, std::uint64_t{1} << 63, UINT64_MAX}) {
    Story story(limit_of(5));
    story.at(0s).refund(units, Instant{Nanos::max()}).allowed(5);
    story.at(0s).take(2).allowed(3);
    story.at(0s).refund(units, story.receipt()).allowed(5);
    int passed = 0;
    for (int i = 0; i < 6; ++i) {
      passed += story.at(0s).take(1).step().outcome == Outcome::allowed ? 1 : 0;
    }
    EXPECT_EQ(passed, 5);
  }
}

TEST_P(EveryAlgorithm, LateRefundHasNoEffect) {
  Story story(limit_of(5));
  story.at(0s).take(5).allowed(0);
  const Instant receipt = story.receipt();
  story.at(180s).take(3).allowed(2);
  story.at(180s).refund(5, receipt).allowed(2);
  story.at(180s).refund(5, Instant{Nanos::min()}).allowed(2);
}

TEST_P(EveryAlgorithm, DrainTakesWhatIsLeft) {
  Story story(limit_of(100));
  story.at(0s).take(90).allowed(10);
  story.at(0s).drain(50);
  EXPECT_EQ(story.step().outcome, Outcome::limited);
  EXPECT_EQ(story.step().remaining, 0U);
  const Nanos wait{story.step().retry_after_ns};
  story.at(wait - 1ns).take(50);
  EXPECT_EQ(story.step().outcome, Outcome::limited);
  story.at(wait).take(50);
  EXPECT_EQ(story.step().outcome, Outcome::allowed);
}

TEST_P(EveryAlgorithm, DrainOfWhatFitsIsATake) {
  Story story(limit_of(100));
  story.at(0s).drain(40).allowed(60);
  story.at(0s).drain(60).allowed(0);
  story.at(0s).drain(0);
  EXPECT_EQ(story.step().outcome, Outcome::limited);
  Story more(limit_of(100));
  more.at(0s).drain(101).never(0);
}

TEST_P(EveryAlgorithm, RefundOfADrainGivesBackWhatItTook) {
  Story story(limit_of(100));
  story.at(0s).take(90).allowed(10);
  story.at(0s).drain(50);
  story.at(0s).refund(10, story.receipt()).allowed(10);
}

// Reserving before the work: what is not left is not given out.
TEST_P(EveryAlgorithm, ReservationsDoNotOverlap) {
  Story story(limit_of(100));
  int admitted = 0;
  for (int i = 0; i < 5; ++i) {
    admitted += story.at(0s).take(50).step().outcome == Outcome::allowed ? 1 : 0;
  }
  EXPECT_EQ(admitted, 2);
}

// "Unlimited" as a huge number, and then something was added to it.
TEST_P(EveryAlgorithm, LargestLimitAndCostDoNotWrap) {
  Story story(limit_of(kMaxUnits, 1h));
  story.at(0s).take(kMaxUnits).allowed(0);
  story.at(0s).take(kMaxUnits);
  EXPECT_EQ(story.step().outcome, Outcome::limited);
  EXPECT_EQ(story.step().remaining, 0U);
  story.at(0s).take(kMaxUnits + 1).never(0);
  story.at(0s).drain(UINT64_MAX).never(0);
}

// A caller well under its limit was banned, since every hit pushed the end of the window forward.
TEST_P(EveryAlgorithm, SteadyUseUnderTheLimitIsNeverRejected) {
  // 2.2 in two seconds; the estimate of a sliding window is from above and wants a unit of room.
  const std::uint64_t limit = GetParam() == Algorithm::sliding_window ? 4 : 3;
  Story story(limit_of(limit, 2s));
  for (int i = 0; i <= 22; ++i) {
    story.at(i * 900ms).take(1);
    EXPECT_EQ(story.step().outcome, Outcome::allowed) << i;
  }
}

TEST_P(EveryAlgorithm, LoweringTheLimitKeepsWhatIsUsed) {
  Story story(limit_of(10));
  story.at(0s).take(4).allowed(6);
  story.becomes(limit_of(6)).at(0s).take(0).allowed(2);
  story.becomes(limit_of(10)).at(0s).take(0).allowed(6);
  story.becomes(limit_of(3)).at(0s).take(1);
  EXPECT_EQ(story.step().outcome, Outcome::limited);
  EXPECT_EQ(story.step().remaining, 0U);
}

TEST_P(EveryAlgorithm, BlockingHoldsWhateverIsUsed) {
  Story story(limit_of(10));
  story.at(0s).take(4).allowed(6);
  story.becomes(limit_of(0)).at(0s).take(1).never(0);
  story.at(0s).take(0).never(0);
  story.at(0s).drain(1).never(0);
  story.at(240h).take(1).never(0);
}

TEST(Convert, OtherPeriodOrAlgorithmStartsFresh) {
  const auto make = [](Algorithm algorithm, Nanos period) {
    return Numbers::make({.algorithm = algorithm, .limit = 5, .period = {period}}).value();
  };
  const Numbers minute = make(Algorithm::fixed_window, 60s);
  const Instant now{1'700'000'000s};
  const State used = take(minute, State{}, now, 5).next;
  EXPECT_EQ(convert(minute, minute, used, now), used);
  EXPECT_EQ(convert(minute, make(Algorithm::fixed_window, 1h), used, now), State{});
  EXPECT_EQ(convert(minute, make(Algorithm::gcra, 60s), used, now), State{});
}

TEST(Convert, GcraKeepsAUnitThatIsUsedInPart) {
  Story story({.algorithm = Algorithm::gcra, .limit = 10, .period = {60s}});
  story.at(0s).take(3).allowed(7);
  story.at(9s).take(0).allowed(8);  // one and a half are still used
  story.becomes({.algorithm = Algorithm::gcra, .limit = 20, .period = {60s}});
  story.at(9s).take(0).allowed(18);
  story.at(9s).take(19).limited(18, 1'500ms);
}

TEST(Convert, GcraIsAtMostExhausted) {
  Story story({.algorithm = Algorithm::gcra, .limit = 1'000, .period = {1h}});
  story.at(0s).take(1'000).allowed(0);
  story.becomes({.algorithm = Algorithm::gcra, .limit = 10, .period = {1h}});
  story.at(0s).take(1).limited(0, 6min);
}

TEST(Steps, ALogHasNoStateHere) {
  const Numbers numbers =
      Numbers::make({.algorithm = Algorithm::sliding_log, .limit = 5, .period = {60s}}).value();
  EXPECT_EQ(take(numbers, State{}, Instant{1s}, 1).outcome, Outcome::never_fits);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm,
                         ::testing::Values(Algorithm::gcra, Algorithm::fixed_window,
                                           Algorithm::sliding_window, Algorithm::sliding_log),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

}  // namespace
}  // namespace weir::limit
