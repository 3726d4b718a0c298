#include "guard/shard_driver_rig_test.h"

#include <vector>

namespace weir::guard {
namespace {

using namespace std::chrono_literals;

constexpr Algorithm kAlgorithms[] = {Algorithm::fixed_window, Algorithm::sliding_window,
                                     Algorithm::gcra, Algorithm::sliding_log};

TEST(ShardDriver, CallersThatAskAlikeAreOneAskAndAreAnsweredAsIfInTurn) {
  for (const Algorithm algorithm : kAlgorithms) {
    const OneRule rule(algorithm, 10, 1h);
    DriverRig rig(FailurePolicy::closed, rule);
    const auto asks = rig.answered_together({2, 2, 2, 2});
    for (std::size_t i = 0; i < asks.size(); ++i) {
      EXPECT_EQ(asks[i]->verdict->verdict, Verdict::allowed);
      EXPECT_EQ(asks[i]->verdict->rung, Rung::store);
      const store::Finding& found = asks[i]->findings()[0];
      EXPECT_EQ(found.step.remaining, 10U - 2 * (i + 1)) << static_cast<int>(algorithm);
      EXPECT_TRUE(found.charged);
      EXPECT_EQ(found.units, 2U);
    }
    EXPECT_EQ(rig.remaining(), 2U);
    // A log's reply does not say what each would have found.
    EXPECT_EQ(rig.coalesced(), algorithm == Algorithm::sliding_log ? 0U : 3U);
  }
}

TEST(ShardDriver, WhereNotAllFitTheFirstAreAdmittedAndTheOthersAreNot) {
  for (const Algorithm algorithm : kAlgorithms) {
    const OneRule rule(algorithm, 10, 1h);
    DriverRig rig(FailurePolicy::closed, rule);
    rig.answered(3);
    const auto asks = rig.answered_together({2, 2, 2, 2, 2});
    for (std::size_t i = 0; i < asks.size(); ++i) {
      EXPECT_EQ(asks[i]->verdict->verdict, i < 3 ? Verdict::allowed : Verdict::limited);
      const store::Finding& found = asks[i]->findings()[0];
      EXPECT_EQ(found.step.remaining, i < 3 ? 5U - 2 * i : 1U) << static_cast<int>(algorithm);
      EXPECT_EQ(found.charged, i < 3);
      EXPECT_EQ(found.step.retry_after_ns > 0, i >= 3);
    }
    EXPECT_EQ(rig.remaining(), 1U);
  }
}

// Together they ask for more than the limit could ever hold; that is no fault of any of them.
TEST(ShardDriver, MoreCallersThanTheLimitHoldsAreNotToldThatTheyNeverFit) {
  for (const Algorithm algorithm : kAlgorithms) {
    const OneRule rule(algorithm, 3, 1h);
    DriverRig rig(FailurePolicy::closed, rule);
    int allowed = 0;
    for (const DriverRig::Asked* asked :
         rig.answered_together(std::vector<std::uint64_t>(100, 1))) {
      allowed += asked->verdict->verdict == Verdict::allowed;
    }
    EXPECT_EQ(allowed, 3) << static_cast<int>(algorithm);
    rig.loop.run_for(2s);  // until what is known is too old to answer with
    EXPECT_EQ(rig.remaining(), 0U);
  }
}

TEST(ShardDriver, CallersThatAskForDifferentCostsAreApart) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  const auto asks = rig.answered_together({1, 2, 0, 1});
  EXPECT_EQ(rig.coalesced(), 1U);
  EXPECT_EQ(asks[1]->findings()[0].units, 2U);
  EXPECT_EQ(asks[2]->findings()[0].units, 0U);
  EXPECT_EQ(rig.remaining(), 6U);
}

TEST(ShardDriver, CallersWhoseTimesDifferAreApart) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  rig.redis.hang();
  DriverRig::Asked& patient = rig.prepared(1);
  DriverRig::Asked& hurried = rig.prepared(1);
  hurried.answer_by = rig.loop.mono() + 3ms;
  const MonoTime asked_at = rig.loop.mono();
  std::vector<SharedAsk*> sent{&patient, &hurried};
  rig.driver.send_together(sent);
  rig.loop.run_for(1s);
  EXPECT_EQ(hurried.at, asked_at + 3ms);
  EXPECT_EQ(patient.at, asked_at + kDriverDeadline);
}

// Two of four were admitted from the part of five, at 2 each; the charge of all four comes late.
TEST(ShardDriver, ALateChargeOfSeveralIsSettledForEach) {
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::gcra}) {
    const OneRule rule(algorithm, 10, 1h);
    DriverRig rig(FailurePolicy::bounded, rule);
    rig.link.cut_down = true;
    int shares = 0;
    for (const DriverRig::Asked* asked : rig.answered_together({2, 2, 2, 2})) {
      shares += asked->verdict->verdict == Verdict::allowed;
    }
    EXPECT_EQ(shares, 2);
    EXPECT_EQ(rig.coalesced(), 3U);
    rig.link.cut_down = false;
    rig.redis.mended(rig.link);
    rig.loop.run_for(10ms);
    EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store), 0U);
    EXPECT_EQ(rig.remaining(), 6U) << static_cast<int>(algorithm);
  }
}

// What a caller does when it is answered may take its time; the others may still leave meanwhile.
TEST(ShardDriver, OfSeveralNoneIsHeldWhileAnotherIsBeingTold) {
  const OneRule rule(Algorithm::gcra, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  const auto asks = rig.ask_together({1, 1, 1, 1});
  int told = 0;
  for (DriverRig::Asked* ask : asks) {
    ask->on_decided = [&asks, &told] {
      ++told;
      for (const DriverRig::Asked* other : asks) EXPECT_EQ(other->held, other->verdict.has_value());
    };
  }
  rig.loop.run_for(10ms);
  EXPECT_EQ(told, 4);
}

// One of them has no time left, and takes nobody with it.
TEST(ShardDriver, WhoseTimeHasComeGoesByItself) {
  const OneRule rule(Algorithm::gcra, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  DriverRig::Asked& in_time = rig.prepared(1);
  DriverRig::Asked& too_late = rig.prepared(1);
  in_time.answer_by = rig.loop.mono() + 900us;
  too_late.answer_by = rig.loop.mono();
  std::vector<SharedAsk*> sent{&too_late, &in_time};
  rig.driver.send_together(sent);
  rig.loop.run_for(kDriverDeadline);
  EXPECT_EQ(in_time.verdict->rung, Rung::store);
  EXPECT_EQ(too_late.verdict->verdict, Verdict::refused);
}

TEST(ShardDriver, OfSeveralWhatNobodyTookIsGivenBack) {
  const OneRule rule(Algorithm::gcra, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  const auto asks = rig.ask_together({2, 2, 2});
  asks[1]->left = SharedAsk::OwnDecision{};
  rig.loop.run_for(10ms);
  EXPECT_EQ(rig.remaining(), 6U);
}

// Somebody else takes a unit before those that fitted ask again.
TEST(ShardDriver, CallersThatDoNotAllFitAreDecidedByTheStoreThoughOthersTakeWhatWasLeft) {
  for (const Algorithm algorithm : kAlgorithms) {
    const OneRule rule(algorithm, 10, 1h);
    DriverRig rig(FailurePolicy::closed, rule);
    rig.answered(4);
    const std::uint64_t before = rig.redis.executed();
    const auto asks = rig.ask_together({2, 2, 2, 2, 2});
    const DriverRig::Asked& other = rig.ask(1);
    rig.loop.run_for(kDriverDeadline);
    ASSERT_TRUE(other.verdict);
    const bool log = algorithm == Algorithm::sliding_log;  // whose callers ask one by one
    EXPECT_EQ(other.verdict->verdict, log ? Verdict::limited : Verdict::allowed);
    int allowed = 0;
    for (const auto& ask : asks) {
      ASSERT_TRUE(ask->verdict);
      EXPECT_EQ(ask->verdict->rung, Rung::store);
      allowed += ask->verdict->verdict == Verdict::allowed ? 1 : 0;
    }
    EXPECT_EQ(allowed, log ? 3 : 2) << static_cast<int>(algorithm);
    // Five at once, and the other; three of them, and two; each of those who were denied.
    EXPECT_LE(rig.redis.executed() - before, 9U) << static_cast<int>(algorithm);
  }
}

// The asker's patience ended although the reply was in time for the connection.
TEST(ShardDriver, GivesBackWhatNobodyTook) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  DriverRig::Asked& asked = rig.ask(5);
  asked.left = SharedAsk::OwnDecision{};
  rig.loop.run_for(10ms);
  EXPECT_EQ(rig.remaining(), 10U);
}

}  // namespace
}  // namespace weir::guard
