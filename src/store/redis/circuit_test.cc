#include "store/redis/circuit.h"

#include <gtest/gtest.h>

#include "store/redis/script.h"
#include "testing/circuit_rig.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using Flag = CircuitAction::Flag;
using CircuitKind = CircuitAction::Kind;
using Mode = CircuitRecord::Mode;
using CircuitOutcome = CircuitReply::Outcome;
using CircuitState = CircuitRecord::State;
using testing::CircuitRig;

TEST(CircuitScript, AReadOfNothingWritesNothing) {
  CircuitRig rig;
  const CircuitReply reply = rig.read();
  EXPECT_FALSE(reply.kept);
  EXPECT_EQ(reply.record.state, CircuitState::closed);
  EXPECT_TRUE(rig.redis.keys().empty());
}

TEST(CircuitScript, OneWorkerThatIsAloneOpensByItself) {
  CircuitRig rig;
  const CircuitReply reply = rig.vote(1, true);
  EXPECT_EQ(reply.record.state, CircuitState::open);
  EXPECT_EQ(reply.record.until - reply.now, Nanos(1s));
}

TEST(CircuitScript, OneBadWorkerOfTwentyDoesNotOpenForAll) {
  CircuitRig rig;
  for (std::uint64_t who = 2; who <= 20; ++who) rig.vote(who, false);
  EXPECT_EQ(rig.vote(1, true).record.state, CircuitState::closed);
  for (std::uint64_t who = 2; who <= 5; ++who)
    EXPECT_EQ(rig.vote(who, true).record.state, CircuitState::closed) << who;
  EXPECT_EQ(rig.vote(6, true).record.state, CircuitState::open) << "6 of 20 are 30 %";
}

TEST(CircuitScript, TwoAreNeededWhereTwoReport) {
  CircuitRig rig;
  rig.vote(2, false);
  EXPECT_EQ(rig.vote(1, true).record.state, CircuitState::closed);
  EXPECT_EQ(rig.vote(2, true).record.state, CircuitState::open);
}

TEST(CircuitScript, VotesLapse) {
  CircuitRig rig;
  rig.vote(2, false);
  rig.vote(3, false);
  rig.vote(1, true);
  rig.redis.advance(10s);
  rig.vote(3, false);
  EXPECT_EQ(rig.vote(2, true).record.state, CircuitState::closed) << "the first bad vote is over";
  EXPECT_EQ(rig.vote(3, true).record.state, CircuitState::open);
}

TEST(CircuitScript, AVoteThatSaysTheSameIsNotWrittenAgain) {
  CircuitRig rig;
  rig.vote(1, false);
  const std::string before = rig.bytes();
  rig.redis.advance(4s);
  rig.vote(1, false);
  EXPECT_EQ(rig.bytes(), before);
  rig.redis.advance(2s);
  rig.vote(1, false);
  EXPECT_NE(rig.bytes(), before) << "half its time is over";
}

TEST(CircuitScript, WhatWasSeenAWhileAgoOpensOnlyWithOthers) {
  const auto still_bad = [](CircuitRig& rig, std::uint64_t who) {
    return rig.run({.kind = CircuitKind::vote,
                    .who = who,
                    .epoch = rig.read().record.epoch,
                    .flag = Flag::still_bad,
                    .lasts = 10s});
  };
  CircuitRig rig;
  rig.vote(2, false);
  still_bad(rig, 1);
  rig.redis.advance(6s);
  still_bad(rig, 1);
  rig.redis.advance(5s);
  const CircuitReply alone = still_bad(rig, 1);
  ASSERT_EQ(alone.record.votes.size(), 1U) << "the other's has lapsed";
  EXPECT_EQ(alone.record.state, CircuitState::closed);
  EXPECT_EQ(rig.vote(2, true).record.state, CircuitState::open) << "the two of two that report";
}

TEST(CircuitScript, SaysWhenAnOperatorSetItAutomatic) {
  CircuitRig rig;
  rig.vote(2, false);
  EXPECT_EQ(rig.read().record.mode_until, Instant{});
  const CircuitReply set = rig.force(Flag::automatic);
  EXPECT_EQ(set.record.mode, Mode::automatic);
  EXPECT_EQ(set.record.mode_until, set.now);
  rig.redis.advance(5s);
  EXPECT_EQ(rig.vote(1, true).record.mode_until, set.now) << "changes of its own leave it";
  // What ran out by itself was set by nobody.
  rig.force(Flag::forced_open, 1s);
  rig.redis.advance(1s);
  (void)rig.probe(1);
  EXPECT_EQ(rig.read().record.mode_until, Instant{});
}

TEST(CircuitScript, AVoteOfAnEarlierEpochIsStale) {
  CircuitRig rig;
  rig.vote(2, false);
  const std::uint64_t old = rig.read().record.epoch;
  rig.vote(1, true);
  rig.vote(2, true);
  rig.force(Flag::automatic);
  const std::string before = rig.bytes();
  const CircuitReply reply =
      rig.run({.kind = CircuitKind::vote, .who = 1, .epoch = old, .flag = Flag::bad, .lasts = 10s});
  EXPECT_EQ(reply.outcome, CircuitOutcome::stale);
  EXPECT_EQ(rig.bytes(), before);
}

TEST(CircuitScript, ATripNeedsNoQuorumButItsEpoch) {
  CircuitRig rig;
  for (std::uint64_t who = 1; who <= 20; ++who) rig.vote(who, false);
  const std::uint64_t epoch = rig.read().record.epoch;
  EXPECT_EQ(rig.run({.kind = CircuitKind::trip, .who = 1, .epoch = epoch - 1}).outcome,
            CircuitOutcome::stale);
  const CircuitReply reply =
      rig.run({.kind = CircuitKind::trip, .who = 1, .epoch = epoch, .wanted = 20s});
  EXPECT_EQ(reply.record.state, CircuitState::open);
  EXPECT_EQ(reply.record.until - reply.now, Nanos(20s));
}

TEST(CircuitScript, NoProbeGoesBeforeTheWaitIsOverAndDenialsWriteNothing) {
  // interlock: a denial moved the time to live, so denials alone kept a record half-open for ever
  CircuitRig rig;
  rig.vote(1, true);
  const std::string before = rig.bytes();
  const auto expires = rig.expires_at();
  rig.redis.advance(999ms);
  EXPECT_EQ(rig.probe(1).outcome, CircuitOutcome::no_probe);
  EXPECT_EQ(rig.bytes(), before);
  EXPECT_EQ(rig.expires_at(), expires);
  rig.redis.advance(1ms);
  EXPECT_EQ(rig.probe(1).outcome, CircuitOutcome::probe_may_go);
  const std::string probing = rig.bytes();
  const auto then = rig.expires_at();
  rig.redis.advance(100ms);
  EXPECT_EQ(rig.probe(2).outcome, CircuitOutcome::no_probe) << "one at a time, in the whole fleet";
  EXPECT_EQ(rig.bytes(), probing);
  EXPECT_EQ(rig.expires_at(), then);
}

TEST(CircuitScript, ProbesCloseItOrOpenItAgain) {
  CircuitRig rig;
  rig.vote(1, true);
  rig.redis.advance(1s);
  for (int i = 0; i < 2; ++i) rig.settle(1, rig.probe(1), Flag::ok);
  EXPECT_EQ(rig.read().record.state, CircuitState::closed);

  rig.vote(1, true);
  rig.redis.advance(2s);
  for (int i = 0; i < 2; ++i) rig.settle(1, rig.probe(1), Flag::failed);
  const CircuitReply again = rig.read();
  EXPECT_EQ(again.record.state, CircuitState::open);
  EXPECT_EQ(again.record.until - again.now, Nanos(4s)) << "the third opening in a row";
}

TEST(CircuitScript, AWorkerThatDiesInItsProbeCostsItsDeadline) {
  CircuitRig rig;
  rig.vote(1, true);
  rig.redis.advance(1s);
  const CircuitReply lost = rig.probe(1);
  rig.redis.advance(399ms);
  EXPECT_EQ(rig.probe(2).outcome, CircuitOutcome::no_probe);
  rig.redis.advance(1ms);
  const CircuitReply next = rig.probe(2);
  EXPECT_EQ(next.outcome, CircuitOutcome::probe_may_go);
  EXPECT_EQ(next.record.failed, 1U) << "silence is a failure";
  EXPECT_EQ(rig.settle(1, lost, Flag::ok).outcome, CircuitOutcome::stale);
  EXPECT_EQ(rig.read().record.ok, 0U);
}

TEST(CircuitScript, AllWhoProbeMayDieAndItDecidesAllTheSame) {
  CircuitRig rig;
  rig.vote(1, true);
  rig.redis.advance(1s);
  (void)rig.probe(1);
  rig.redis.advance(2s);
  EXPECT_EQ(rig.probe(2).outcome, CircuitOutcome::no_probe);
  EXPECT_EQ(rig.read().record.state, CircuitState::open) << "the round is over";
}

TEST(CircuitScript, AResultOfRoundNSaysNothingInRoundNPlusOne) {
  CircuitRig rig;
  rig.vote(1, true);
  rig.redis.advance(1s);
  const CircuitReply early = rig.probe(1);
  rig.redis.advance(2s);
  (void)rig.probe(2);  // ends the round
  rig.redis.advance(2s);
  const CircuitReply next = rig.probe(2);
  ASSERT_EQ(next.outcome, CircuitOutcome::probe_may_go);
  ASSERT_NE(next.record.round, early.record.round);
  const std::string before = rig.bytes();
  EXPECT_EQ(rig.settle(1, early, Flag::ok).outcome, CircuitOutcome::stale);
  EXPECT_EQ(rig.bytes(), before);
}

TEST(CircuitScript, AVerdictOfALostRecordSaysNothingInTheNext) {
  CircuitRig rig;
  rig.vote(1, true);
  rig.redis.advance(1s);
  const CircuitReply early = rig.probe(1);
  rig.redis.execute({"DEL", CircuitRig::kKey});
  rig.run({.kind = CircuitKind::trip, .who = 2});
  rig.redis.advance(1s);
  const CircuitReply next = rig.probe(1);
  ASSERT_EQ(next.outcome, CircuitOutcome::probe_may_go);
  ASSERT_EQ(next.record.round, early.record.round) << "rounds begin anew with a record";
  EXPECT_NE(next.probe, early.probe);
  const std::string before = rig.bytes();
  // Even where the number were the same.
  EXPECT_EQ(rig.run({.kind = CircuitKind::settle,
                     .who = 1,
                     .epoch = early.record.epoch,
                     .round = early.record.round,
                     .flag = Flag::ok,
                     .probe = next.probe})
                .outcome,
            CircuitOutcome::stale);
  EXPECT_EQ(rig.bytes(), before);
  EXPECT_EQ(rig.settle(1, next, Flag::ok).record.ok, 1U);
}

TEST(CircuitScript, WhatAFailoverLostIsNotNamedAgain) {
  CircuitRig rig;
  rig.vote(1, true);
  rig.redis.advance(1s);
  const testing::LuaRedis::Keys open = rig.redis.keys();
  const CircuitReply lost = rig.probe(1);
  rig.redis.advance(10ms);
  rig.redis.restart_with(open);
  const CircuitReply again = rig.probe(1);
  ASSERT_EQ(again.outcome, CircuitOutcome::probe_may_go);
  EXPECT_NE(again.record.epoch, lost.record.epoch);
  EXPECT_NE(again.probe, lost.probe);
  EXPECT_EQ(rig.settle(1, lost, Flag::ok).outcome, CircuitOutcome::stale);
  // And within one round.
  rig.settle(1, again, Flag::neither);
  const testing::LuaRedis::Keys half_open = rig.redis.keys();
  const CircuitReply forgotten = rig.probe(1);
  rig.redis.advance(10ms);
  rig.redis.restart_with(half_open);
  ASSERT_EQ(rig.probe(1).outcome, CircuitOutcome::probe_may_go);
  EXPECT_EQ(rig.settle(1, forgotten, Flag::ok).outcome, CircuitOutcome::stale);
}

TEST(CircuitScript, NeitherFreesTheSlotWithoutAVote) {
  CircuitRig rig;
  rig.vote(1, true);
  rig.redis.advance(1s);
  for (int i = 0; i < 10; ++i) {
    const CircuitReply probe = rig.probe(1);
    ASSERT_EQ(probe.outcome, CircuitOutcome::probe_may_go);
    rig.settle(1, probe, Flag::neither);
  }
  EXPECT_EQ(rig.read().record.state, CircuitState::half_open);
  EXPECT_EQ(rig.read().record.failed, 0U);
}

TEST(CircuitScript, RecoversForItsRampAndThenIsClosed) {
  BreakerConfig config = CircuitRig::config();
  config.ramp = BreakerRamp{.start_percent = 50, .growth_percent = 200, .step = 1s};
  CircuitRig rig(config);
  rig.vote(1, true);
  rig.redis.advance(1s);
  for (int i = 0; i < 2; ++i) rig.settle(1, rig.probe(1), Flag::ok);
  const CircuitReply recovering = rig.read();
  EXPECT_EQ(recovering.record.state, CircuitState::recovering);
  EXPECT_EQ(recovering.record.until - recovering.now, Nanos(2s));
  rig.redis.advance(2s);
  EXPECT_EQ(rig.read().record.state, CircuitState::recovering) << "a read writes nothing";
  (void)rig.probe(1);
  EXPECT_EQ(rig.read().record.state, CircuitState::closed);
}

TEST(CircuitScript, FailuresWhileItRecoversOpenItAgain) {
  BreakerConfig config = CircuitRig::config();
  config.ramp = BreakerRamp{};
  CircuitRig rig(config);
  rig.vote(1, true);
  rig.redis.advance(1s);
  for (int i = 0; i < 2; ++i) rig.settle(1, rig.probe(1), Flag::ok);
  rig.vote(1, true);
  const CircuitReply reply = rig.read();
  EXPECT_EQ(reply.record.state, CircuitState::open);
  EXPECT_EQ(reply.record.until - reply.now, Nanos(2s));
}

TEST(CircuitScript, WhatAnOperatorSetHoldsForTheFleetAndForItsTime) {
  CircuitRig rig;
  rig.force(Flag::forced_open, 60s);
  EXPECT_EQ(rig.probe(1).outcome, CircuitOutcome::no_probe);
  EXPECT_EQ(rig.vote(1, true).outcome, CircuitOutcome::stale);
  rig.redis.advance(60s);
  EXPECT_EQ(rig.probe(1).outcome, CircuitOutcome::done);
  EXPECT_EQ(rig.read().record.mode, Mode::automatic);
  rig.force(Flag::forced_closed);
  EXPECT_EQ(rig.vote(1, true).record.state, CircuitState::closed);
  rig.force(Flag::automatic);
  EXPECT_EQ(rig.vote(1, true).record.state, CircuitState::open);
}

TEST(CircuitScript, OpeningsAreForgottenAfterAHealthyTime) {
  CircuitRig rig;
  const auto cycle = [&] {
    rig.vote(1, true);
    const CircuitReply open = rig.read();
    const Nanos wait = open.record.until - open.now;
    rig.redis.advance(wait);
    for (int i = 0; i < 2; ++i) rig.settle(1, rig.probe(1), Flag::ok);
    return wait;
  };
  EXPECT_EQ(cycle(), Nanos(1s));
  EXPECT_EQ(cycle(), Nanos(2s));
  rig.redis.advance(60s);
  EXPECT_EQ(cycle(), Nanos(1s));
}

TEST(CircuitScript, JitterStaysInItsBounds) {
  for (const std::int32_t jitter : {-200, 0, 200}) {
    CircuitRig rig;
    const CircuitReply reply =
        rig.run({.kind = CircuitKind::trip, .who = 1, .jitter_thousandths = jitter});
    EXPECT_EQ(reply.record.until - reply.now, Nanos(1s) + Nanos(1ms) * jitter);
  }
}

TEST(CircuitScript, ADamagedOrForeignValueCountsAsNone) {
  for (const std::string& value :
       {std::string("x"), std::string("c"), std::string(43, 'c'), std::string(100, '\xff')}) {
    CircuitRig rig;
    rig.redis.execute({"SET", CircuitRig::kKey, value});
    const CircuitReply reply = rig.run({.kind = CircuitKind::trip, .who = 1});
    EXPECT_TRUE(reply.repaired);
    EXPECT_EQ(reply.record.state, CircuitState::open);
  }
  CircuitRig rig;
  rig.redis.execute({"RPUSH", CircuitRig::kKey, "a"});
  EXPECT_EQ(rig.run({.kind = CircuitKind::trip, .who = 1}).record.state, CircuitState::open);
}

TEST(CircuitScript, ARecordThatVanishedNeverComesBackWithAnOldEpoch) {
  CircuitRig rig;
  rig.vote(1, true);
  const std::uint64_t old = rig.read().record.epoch;
  rig.redis.execute({"DEL", CircuitRig::kKey});
  EXPECT_FALSE(rig.read().kept);
  EXPECT_EQ(
      rig.run({.kind = CircuitKind::vote, .who = 1, .epoch = old, .flag = Flag::bad, .lasts = 10s})
          .outcome,
      CircuitOutcome::stale);
  rig.redis.advance(10ms);
  rig.vote(2, true);
  EXPECT_GT(rig.read().record.epoch, old);
}

TEST(CircuitScript, AClockThatWasSetBackDoesNotHoldItOpen) {
  CircuitRig rig;
  rig.vote(1, true);
  rig.redis.advance(-std::chrono::hours(24));
  const CircuitReply probe = rig.probe(1);
  EXPECT_EQ(probe.outcome, CircuitOutcome::probe_may_go);
  rig.redis.advance(-std::chrono::hours(24));
  EXPECT_EQ(rig.probe(2).outcome, CircuitOutcome::no_probe);
  EXPECT_EQ(rig.read().record.state, CircuitState::open) << "a round of the future is over";
}

TEST(CircuitScript, EveryRecordHasATimeToLiveBeyondItsStatesEnd) {
  CircuitRig rig;
  rig.vote(1, true);
  const auto record = rig.read().record;
  ASSERT_TRUE(rig.expires_at());
  EXPECT_GT(*rig.expires_at(), record.until + Nanos(2s));
}

TEST(CircuitScript, ADirectiveOpensItWhileItProbes) {
  CircuitRig rig;
  rig.vote(1, true);
  rig.redis.advance(1s);
  const CircuitReply probe = rig.probe(1);
  const CircuitReply opened =
      rig.run({.kind = CircuitKind::trip, .who = 2, .epoch = probe.record.epoch, .wanted = 20s});
  EXPECT_EQ(opened.record.state, CircuitState::open);
  EXPECT_EQ(opened.record.until - opened.now, Nanos(20s));
  EXPECT_EQ(rig.settle(1, probe, Flag::ok).outcome, CircuitOutcome::stale);
}

TEST(CircuitScript, WhatWasSetForGoodOutlivesAYearInWhichNobodyCalls) {
  CircuitRig rig;
  rig.force(Flag::forced_open);
  rig.redis.advance(std::chrono::hours(24 * 366));
  EXPECT_EQ(rig.probe(1).outcome, CircuitOutcome::no_probe);
}

TEST(CircuitScript, AForceThatIsPutBackGivesWayToAnythingThatCameSince) {
  CircuitRig rig;
  const std::uint64_t epoch = rig.force(Flag::forced_open).record.epoch;
  rig.redis.execute({"DEL", CircuitRig::kKey});
  const CircuitReply back =
      rig.run({.kind = CircuitKind::force, .epoch = epoch, .flag = Flag::forced_open});
  EXPECT_EQ(back.record.mode, Mode::forced_open);
  rig.force(Flag::automatic);
  const std::string before = rig.bytes();
  EXPECT_EQ(
      rig.run({.kind = CircuitKind::force, .epoch = epoch, .flag = Flag::forced_open}).outcome,
      CircuitOutcome::stale);
  EXPECT_EQ(rig.bytes(), before);
}

TEST(CircuitScript, ChangesOfStateAreSeenAtOneKeyAndVotesAreNot) {
  CircuitRig rig;
  const auto changes = [&] { return rig.redis.execute({"GET", CircuitRig::kChanges}); };
  rig.vote(2, false);
  const std::string none = changes();
  EXPECT_EQ(none, "$-1\r\n");
  rig.run({.kind = CircuitKind::trip, .who = 1, .epoch = rig.read().record.epoch});
  const std::string opened = changes();
  EXPECT_NE(opened, none);
  (void)rig.probe(1);
  EXPECT_EQ(changes(), opened) << "a denial";
  rig.redis.advance(1s);
  (void)rig.probe(1);
  EXPECT_NE(changes(), opened);
}

TEST(Circuit, IsOneScriptOfTwoKeysAndNineArguments) {
  const StoreCall call =
      circuit_call({.kind = CircuitKind::probe, .who = 7}, CircuitRig::config(), "key", "changes");
  EXPECT_EQ(call.script, &kCircuitScript);
  EXPECT_EQ(call.keys, (std::vector<std::string>{"key", "changes"}));
  ASSERT_EQ(call.arguments.size(), 9U);
  EXPECT_EQ(call.arguments[0], "p");
  EXPECT_EQ(call.arguments[7].size(), 41U);
}

TEST(Circuits, ReadsWhatStandsAndWritesNothing) {
  CircuitRig rig;
  rig.run({.kind = CircuitKind::trip, .who = 1});
  rig.redis.execute({"RPUSH", "list", "x"});
  rig.redis.execute({"SET", "damaged", "x"});
  std::vector<std::string> command{
      "EVAL",   kCircuitsScript.text, "5", CircuitRig::kChanges, CircuitRig::kKey, "none", "list",
      "damaged"};
  ReplyReader reader;
  reader.feed(rig.redis.execute(command));
  ASSERT_EQ(reader.next(), ReplyReader::Next::reply);
  CircuitsReply reply;
  ASSERT_TRUE(read_circuits(reader.reply(), 4, reply)) << reader.reply().error();
  EXPECT_EQ(reply.now, rig.redis.now());
  EXPECT_FALSE(reply.changes.empty());
  ASSERT_TRUE(reply.records[0]);
  EXPECT_EQ(reply.records[0]->state, CircuitState::open);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_FALSE(reply.records[i]) << i;
}

}  // namespace
}  // namespace weir::store::redis
