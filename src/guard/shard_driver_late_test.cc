#include "guard/shard_driver_rig_test.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace weir::guard {
namespace {

using namespace std::chrono_literals;
using store::Counter;

// The store executes an ask in time, but its reply comes after the deadline.
TEST(ShardDriver, GivesBackWhatTheStoreChargedForARefusal) {
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::sliding_window,
                                    Algorithm::gcra, Algorithm::sliding_log}) {
    const OneRule rule(algorithm, 10, 1h);
    DriverRig rig(FailurePolicy::closed, rule);
    EXPECT_EQ(rig.answered(2).verdict->verdict, Verdict::allowed);
    rig.link.cut_down = true;
    DriverRig::Asked& asked = rig.answered(5);
    EXPECT_EQ(asked.verdict->verdict, Verdict::refused);
    rig.loop.run_for(10ms);
    rig.link.cut_down = false;
    rig.redis.mended(rig.link);
    rig.loop.run_for(10ms);
    EXPECT_EQ(rig.remaining(), 8U) << static_cast<int>(algorithm);
    EXPECT_NE(rig.metrics().find("weir_store_give_backs_total{shard=\"0\",result=\"done\"} 1\n"),
              std::string::npos);
    // Known as given back, too: the next ask that fits is asked.
    EXPECT_EQ(rig.answered(8).verdict->verdict, Verdict::allowed);
  }
}

TEST(ShardDriver, GivesBackWhenTheBreakerReleasedTheAsks) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  rig.link.cut_down = true;
  // Five failures open the breaker; the sixth is released with them.
  for (int i = 0; i < 6; ++i) {
    rig.ask();
    rig.loop.run_for(1ms);
  }
  rig.loop.run_for(50ms);
  EXPECT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::open);
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  rig.loop.run_for(5s);
  EXPECT_EQ(rig.remaining(), 10U);
}

// A connection that ends for another server's sake ends when nothing is on it.
TEST(ShardDriver, IsBusyWithWhatItGivesBack) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  rig.link.cut_down = true;
  EXPECT_EQ(rig.answered(5).verdict->verdict, Verdict::refused);
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  int idle = 0;
  rig.on_idle = [&] {
    ++idle;
    EXPECT_FALSE(rig.driver.busy());
    EXPECT_NE(rig.metrics().find("result=\"done\"} 1\n"), std::string::npos);
  };
  rig.loop.run_for(10ms);
  EXPECT_EQ(idle, 1);
  rig.on_idle = nullptr;
  EXPECT_EQ(rig.remaining(), 10U);
}

TEST(ShardDriver, GivesBackToTheServerThatIsAwaited) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  rig.link.cut_down = true;
  EXPECT_EQ(rig.answered(5).verdict->verdict, Verdict::refused);
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  rig.another_comes = true;
  rig.loop.run_for(10ms);
  EXPECT_FALSE(rig.driver.busy()) << "what waits keeps nobody from being replaced";
  rig.driver.go_on_giving_back();
  EXPECT_EQ(rig.remaining(), 5U);
  rig.another_comes = false;
  rig.driver.go_on_giving_back();
  rig.loop.run_for(10ms);
  EXPECT_EQ(rig.remaining(), 10U);
  EXPECT_NE(rig.metrics().find("result=\"done\"} 1\n"), std::string::npos);
}

TEST(ShardDriver, CountsAGiveBackThatIsLost) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  rig.link.cut_down = true;
  EXPECT_EQ(rig.answered(5).verdict->verdict, Verdict::refused);
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  rig.loop.run_for(200us);  // the reply is there, and what is given back has left
  rig.link.cut_up = true;
  rig.loop.run_for(1ms);
  rig.redis.reset(rig.link);
  rig.link.cut_up = false;
  rig.loop.run_for(5s);
  const std::string metrics = rig.metrics();
  const bool lost = metrics.find("result=\"lost\"} 1\n") != std::string::npos;
  const bool done = metrics.find("result=\"done\"} 1\n") != std::string::npos;
  EXPECT_NE(lost, done) << metrics;
  EXPECT_EQ(rig.remaining(), lost ? 5U : 10U);
}

// A charge that came too late, to a store that writes nothing just then.
class LateCharge {
 public:
  LateCharge(const OneRule& rule, std::string error) : rig(FailurePolicy::closed, rule) {
    rig.link.cut_down = true;
    EXPECT_EQ(rig.answered(5).verdict->verdict, Verdict::refused);
    rig.redis.redis().fail_writes_with(std::move(error));
    rig.link.cut_down = false;
    rig.redis.mended(rig.link);
  }
  bool counted(std::string_view result, int times) {
    return rig.metrics().find("weir_store_give_backs_total{shard=\"0\",result=\"" +
                              std::string(result) + "\"} " + std::to_string(times) + "\n") !=
           std::string::npos;
  }

  DriverRig rig;
};

TEST(ShardDriver, GivesBackOnceAStoreTakesItThatDidNothingBefore) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  LateCharge late(rule, "OOM command not allowed when used memory > 'maxmemory'.");
  late.rig.loop.run_for(100ms);
  EXPECT_TRUE(late.counted("lost", 0));
  EXPECT_FALSE(late.rig.driver.busy()) << "what waits keeps nobody from being replaced";
  late.rig.redis.redis().fail_writes_with({});
  late.rig.loop.run_for(1s);
  EXPECT_TRUE(late.counted("done", 1)) << late.rig.metrics();
  EXPECT_TRUE(late.counted("lost", 0));
  EXPECT_EQ(late.rig.remaining(), 10U);
}

TEST(ShardDriver, GivesUpWhatAStoreDoesNotTakeInTime) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  LateCharge late(rule, "OOM command not allowed when used memory > 'maxmemory'.");
  late.rig.loop.run_for(59s);
  EXPECT_TRUE(late.counted("lost", 0));
  late.rig.loop.run_for(2s);
  EXPECT_TRUE(late.counted("lost", 1)) << late.rig.metrics();
  late.rig.redis.redis().fail_writes_with({});
  late.rig.loop.run_for(1s);
  EXPECT_TRUE(late.counted("lost", 1) && late.counted("done", 0));
  EXPECT_EQ(late.rig.remaining(), 5U) << "and not a moment later";
}

TEST(ShardDriver, GivesBackOnTheNextConnectionWhatFoundNone) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  DriverRig::Asked& denied = rig.answered(5);  // elsewhere, as it turns out
  EXPECT_EQ(denied.verdict->verdict, Verdict::allowed);
  rig.redis.reset(rig.link);
  rig.loop.run_for(1ms);
  ASSERT_FALSE(rig.driver.ready());
  rig.driver.give_back(denied, denied.request.counters, denied.findings());
  rig.loop.run_for(1s);
  EXPECT_EQ(rig.driver.counters().not_given_back(), 0U);
  EXPECT_EQ(rig.remaining(), 10U);
}

// As long as a server takes to be replaced.
TEST(ShardDriver, GivesBackToTheServerThatComesAfterAnOutage) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  DriverRig::Asked& denied = rig.answered(5);
  rig.redis.stop();
  rig.loop.run_for(1s);
  rig.driver.give_back(denied, denied.request.counters, denied.findings());
  rig.loop.run_for(30s);
  EXPECT_EQ(rig.driver.counters().not_given_back(), 0U);
  rig.redis.start_with_what_it_had();
  rig.loop.run_for(10s);
  EXPECT_EQ(rig.driver.counters().not_given_back(), 0U);
  EXPECT_EQ(rig.remaining(), 10U);
}

// Somebody else found out that a request is not served.
class Refunded {
 public:
  explicit Refunded(DriverRig& rig) : ask(rig.prepared(0)) {
    DriverRig::Asked& charged = rig.answered(5);
    ask.gives_back = true;
    ask.counter.op = store::Op::refund;
    ask.counter.cost = 5;
    ask.counter.receipt = charged.findings()[0].step.receipt();
  }
  DriverRig::Asked& ask;
};

TEST(ShardDriver, GivesBackForAnAskOnceAStoreThatIsAwayIsThereAgain) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  Refunded refunded(rig);
  EXPECT_EQ(rig.remaining(), 5U);
  rig.redis.stop();
  for (int i = 0; i < 20; ++i) rig.answered(1);
  ASSERT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::open);
  ASSERT_TRUE(rig.driver.begin(refunded.ask));
  rig.driver.send(refunded.ask);
  EXPECT_TRUE(refunded.ask.verdict) << "nobody waits for it";
  rig.loop.run_for(5s);
  EXPECT_EQ(rig.driver.counters().not_given_back(), 0U);
  rig.redis.start_with_what_it_had();
  rig.loop.run_for(10s);
  EXPECT_EQ(rig.remaining(), 10U);
  EXPECT_NE(rig.metrics().find("result=\"done\"} 1\n"), std::string::npos) << rig.metrics();
}

TEST(ShardDriver, GivesBackForAnAskAmongThoseThatCameTogether) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  Refunded refunded(rig);
  DriverRig::Asked& other = rig.prepared(1);
  ASSERT_TRUE(rig.driver.begin(refunded.ask));
  ASSERT_TRUE(rig.driver.begin(other));
  const std::array<SharedAsk*, 2> together{&refunded.ask, &other};
  rig.driver.send_together(together);
  rig.loop.run_for(kDriverDeadline);
  EXPECT_EQ(other.verdict->verdict, Verdict::allowed);
  EXPECT_EQ(rig.remaining(), 9U);
}

TEST(ShardDriver, CountsAsLostWhatNobodyHasRoomToGiveBack) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  Refunded refunded(rig);
  ASSERT_TRUE(rig.driver.begin(refunded.ask));
  rig.driver.no_room(refunded.ask);
  EXPECT_TRUE(refunded.ask.verdict);
  EXPECT_EQ(rig.driver.counters().not_given_back(), 1U);
  EXPECT_EQ(rig.remaining(), 5U);
}

// What may have been done is never done again.
TEST(ShardDriver, GivesUpAtOnceWhatMayHaveBeenGivenBack) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  LateCharge late(rule, "ERR the upstream server failed");
  late.rig.loop.run_for(10ms);
  EXPECT_TRUE(late.counted("lost", 1)) << late.rig.metrics();
  late.rig.redis.redis().fail_writes_with({});
  late.rig.loop.run_for(1s);
  EXPECT_EQ(late.rig.remaining(), 5U);
}

TEST(ShardDriver, CountsWhatWaitsToBeGivenBackAsLostWhenItStops) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  LateCharge late(rule, "LOADING Redis is loading the dataset in memory");
  late.rig.loop.run_for(10ms);
  EXPECT_TRUE(late.counted("lost", 0));
  late.rig.driver.stop();
  EXPECT_TRUE(late.counted("lost", 1)) << late.rig.metrics();
}

TEST(ShardDriver, WhatNeverCameIsChargedOnceOrNotAtAll) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  // The server hangs past the deadline: the script finds that it is late, and writes nothing.
  rig.redis.hang();
  EXPECT_EQ(rig.answered(5).verdict->verdict, Verdict::refused);
  rig.loop.run_for(10ms);
  rig.redis.go_on();
  rig.loop.run_for(10ms);
  EXPECT_EQ(rig.remaining(), 10U);
}

TEST(ShardDriver, ALateChargeLowersWhatIsOwed) {
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::gcra}) {
    const OneRule rule(algorithm, 10, 1h);
    DriverRig rig(FailurePolicy::bounded, rule);
    rig.link.cut_down = true;
    DriverRig::Asked& asked = rig.answered(3);  // its part is 5
    EXPECT_EQ(asked.verdict->verdict, Verdict::allowed);
    EXPECT_EQ(asked.verdict->rung, Rung::share);
    EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store), 3U);
    rig.link.cut_down = false;
    rig.redis.mended(rig.link);
    rig.loop.run_for(10ms);
    EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store), 0U);
    EXPECT_EQ(rig.remaining(), 7U) << static_cast<int>(algorithm);
    EXPECT_NE(rig.metrics().find("result=\"done\"} 0\n"), std::string::npos);
  }
}

// A late report that the store carried out after all: it is charged there, and owed no more.
TEST(ShardDriver, ALateDrainLowersWhatIsOwed) {
  for (const std::uint64_t used : {3U, 30U}) {
    const OneRule rule(Algorithm::fixed_window, 10, 1h);
    DriverRig rig(FailurePolicy::bounded, rule);
    rig.link.cut_down = true;
    DriverRig::Asked& asked = rig.prepared(used);
    asked.counter.op = store::Op::drain;
    if (rig.driver.begin(asked)) rig.driver.send(asked);
    rig.loop.run_for(kDriverDeadline);
    ASSERT_TRUE(asked.verdict);
    EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store),
              std::min<std::uint64_t>(used, 5));
    rig.link.cut_down = false;
    rig.redis.mended(rig.link);
    rig.loop.run_for(10ms);
    EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store), 0U);
    DriverRig::Asked& probe = rig.answered(0);
    EXPECT_EQ(probe.findings()[0].step.remaining, used == 3 ? 7U : 0U);
    EXPECT_NE(rig.metrics().find("result=\"done\"} 0\n"), std::string::npos);
  }
}

// It used up what others, after it, had left of the part: what these owe it does not lower.
TEST(ShardDriver, ALateDrainLeavesWhatOthersOwe) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::bounded, rule);
  const auto owed = [&] {
    return rig.driver.ladder().known().owed_units(rig.driver.moment().store);
  };
  rig.link.cut_down = true;
  DriverRig::Asked& asked = rig.prepared(30);
  asked.counter.op = store::Op::drain;
  if (rig.driver.begin(asked)) rig.driver.send(asked);
  std::array<store::Finding, 1> found;
  ASSERT_EQ(rig.driver.without(rig.prepared(2).request, found).rung, Rung::share);
  rig.loop.run_for(kDriverDeadline);
  ASSERT_TRUE(asked.verdict);
  EXPECT_EQ(owed(), 5U);
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  rig.loop.run_for(10ms);
  EXPECT_EQ(owed(), 2U);
}

// The metered rule is served beyond its part; the other one is charged to its own, and owed.
TEST(ShardDriver, ALateChargeLowersWhatIsOwedOfARuleBesideOneThatIsServedBeyondItsPart) {
  const OneRule metered(Algorithm::fixed_window, 4, 1h);
  const OneRule other(Algorithm::fixed_window, 10, 1h, 8);
  // Asked for in time, or by a caller who decided by itself and left.
  for (const bool leaves : {false, true}) {
    SCOPED_TRACE(leaves);
    DriverRig rig(FailurePolicy::settle, other);
    const auto owed = [&] {
      return rig.driver.ladder().known().owed_units(rig.driver.moment().store);
    };
    const std::array<Counter, 2> counters{metered.counter(3), other.counter(3)};
    std::array<store::Finding, 2> own;
    DriverRig::Asked& asked = rig.prepared(3);
    asked.request.counters = counters;
    rig.link.cut_down = true;
    ASSERT_TRUE(rig.driver.begin(asked));
    rig.driver.send(asked);
    if (leaves) {
      asked.left = {.verdict = rig.driver.without(asked.request, own), .findings = own};
      EXPECT_EQ(asked.left->verdict.rung, Rung::journal);
    }
    rig.loop.run_for(leaves ? 10ms : kDriverDeadline);
    EXPECT_EQ(owed(), 3U);
    rig.link.cut_down = false;
    rig.redis.mended(rig.link);
    rig.loop.run_for(10ms);
    ASSERT_TRUE(asked.verdict);
    EXPECT_EQ(asked.verdict->rung, leaves ? Rung::store : Rung::journal);
    EXPECT_EQ(owed(), 0U);
    EXPECT_EQ(rig.remaining(), 7U);
  }
}

// Two are owed and on their way to the store when the late charge of both is heard of: they cannot
// be taken out of the total any more, and so the charge is given back.
TEST(ShardDriver, ALateChargeOfWhatWasToldIsGivenBack) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::bounded, rule);
  rig.link.cut_down = true;
  EXPECT_EQ(rig.answered(2).verdict->rung, Rung::share);
  EXPECT_EQ(rig.answered(1).verdict->rung, Rung::share);  // tells of the two
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  rig.loop.run_for(20ms);
  EXPECT_EQ(rig.remaining(), 7U);
  EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store), 0U);
}

// A metered call is told once its usage is recorded. Where that fails, what the store charged late
// was kept from the limit: always of what is served beyond the part, and of the part where the
// reply came while the disk was waited for.
TEST(ShardDriver, ALateChargeOfWhatTurnsOutNotToBeRecordedIsGivenBack) {
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::gcra}) {
    for (const std::uint64_t cost : {3, 7}) {  // its part is 5
      for (const bool heard_before : {true, false}) {
        SCOPED_TRACE(::testing::Message() << cost << " units, heard before: " << heard_before);
        const OneRule rule(algorithm, 10, 1h);
        DriverRig rig(FailurePolicy::settle, rule);
        rig.link.cut_down = true;
        DriverRig::Asked& asked = rig.answered(cost);
        EXPECT_EQ(asked.verdict->rung, cost > 5 ? Rung::journal : Rung::share);
        EXPECT_TRUE(asked.verdict->record);
        if (!heard_before) rig.withdraw(asked);
        rig.link.cut_down = false;
        rig.redis.mended(rig.link);
        rig.loop.run_for(10ms);
        if (heard_before) {
          EXPECT_EQ(rig.remaining(), 10U - cost);
          rig.withdraw(asked);
          rig.loop.run_for(10ms);
        }
        EXPECT_EQ(rig.remaining(), 10U);
        EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store), 0U);
      }
    }
  }
}

// Of two that went to the store as one, one is served.
TEST(ShardDriver, OfSeveralOnlyWhatIsNotRecordedIsGivenBackOfALateCharge) {
  for (const bool heard_before : {true, false}) {
    const OneRule rule(Algorithm::fixed_window, 10, 1h);
    DriverRig rig(FailurePolicy::settle, rule);
    rig.link.cut_down = true;
    const std::vector<DriverRig::Asked*> asks = rig.answered_together({2, 2});
    EXPECT_EQ(rig.coalesced(), 1U);
    const auto withdraw_one = [&] { rig.withdraw(*asks.back()); };
    if (!heard_before) withdraw_one();
    rig.link.cut_down = false;
    rig.redis.mended(rig.link);
    rig.loop.run_for(10ms);
    if (heard_before) withdraw_one();
    rig.loop.run_for(10ms);
    EXPECT_EQ(rig.remaining(), 8U) << heard_before;
    EXPECT_EQ(rig.driver.ladder().known().owed_units(rig.driver.moment().store), 0U);
  }
}

TEST(ShardDriver, WhatOpenAdmittedStaysCharged) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::open, rule);
  rig.link.cut_down = true;
  EXPECT_EQ(rig.answered(4).verdict->rung, Rung::policy);
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  rig.loop.run_for(10ms);
  EXPECT_EQ(rig.remaining(), 6U);
}

}  // namespace
}  // namespace weir::guard
