#include <gtest/gtest.h>

#include <algorithm>

#include "testing/fleet_breaker_rig.h"
#include "weir/breaker_call.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using Kind = store::redis::CircuitAction::Kind;
using Mode = store::redis::CircuitRecord::Mode;
using testing::BreakerRig;
using testing::CircuitRig;
using Rig = testing::FleetBreakerRig;

// Everybody has calls enough to have a say, and finds nothing wrong. The first vote makes the
// record, and the others are said again in its epoch.
void all_report_good(Rig& rig) {
  for (const auto& worker : rig.workers) worker->calls(5, Outcome::ok);
  rig.pass(250ms);
  rig.pass(150ms);
}

TEST(FleetBreaker, TheSteadyClosedPathTellsTheStoreNothing) {
  Rig rig(2);
  all_report_good(rig);
  rig[0].words.clear();
  for (int i = 0; i < 10'000; ++i) rig[0].breaker.admit().permit().ok();
  rig.pass(100ms);
  EXPECT_TRUE(rig[0].words.empty());
  // In ten minutes: a vote now and then, and nothing else.
  for (int i = 0; i < 6'000; ++i) {
    rig[0].breaker.admit().permit().ok();
    rig.pass(100ms);
  }
  EXPECT_EQ(std::count(rig[0].words.begin(), rig[0].words.end(), Kind::vote),
            static_cast<std::ptrdiff_t>(rig[0].words.size()));
  EXPECT_LE(rig[0].words.size(), 600U / 15U);
}

TEST(FleetBreaker, AWorkerWithoutOthersOpensItForAllThatCome) {
  Rig rig(2);
  rig[0].calls(3, Outcome::failure);
  EXPECT_EQ(rig[0].state(), BreakerState::open);
  rig[1].look();
  EXPECT_EQ(rig[1].state(), BreakerState::open);
  EXPECT_EQ(rig[1].events.back().cause, BreakerCause::fleet);
  EXPECT_FALSE(rig[1].call(Outcome::ok));
}

TEST(FleetBreaker, OneBadWorkerOfTwentyIsOpenAlone) {
  Rig rig(20);
  all_report_good(rig);
  rig[0].calls(3, Outcome::failure);
  rig.look();
  EXPECT_EQ(rig[0].state(), BreakerState::open);
  for (std::size_t i = 1; i < 20; ++i) EXPECT_EQ(rig[i].state(), BreakerState::closed) << i;
  // It probes by itself, for the fleet is closed, and takes its vote back.
  rig.pass(1s);
  EXPECT_TRUE(rig[0].call(Outcome::ok));
  EXPECT_TRUE(rig[0].call(Outcome::ok));
  EXPECT_EQ(rig[0].state(), BreakerState::closed);
  rig.pass(250ms);
  EXPECT_EQ(rig[1].breaker.snapshot().fleet->bad, 0U);
}

// Opens at the third failure in a row, too, but has a say only after ten calls.
BreakerConfig with_a_minimum() {
  BreakerConfig config = BreakerRig::config();
  config.failure_percent = 50;
  config.window = LastCalls{20};
  config.minimum_calls = 10;
  return config;
}

TEST(FleetBreaker, AFewFailuresOfOneQuietWorkerOpenNobodyElse) {
  Rig rig(20, with_a_minimum());
  for (const auto& worker : rig.workers) worker->calls(2, Outcome::ok);
  rig[0].calls(3, Outcome::failure);
  ASSERT_EQ(rig[0].state(), BreakerState::open);
  // It goes on failing, by its own probes, and nobody else has calls enough to say that all is
  // well.
  for (int i = 0; i < 40; ++i) {
    rig[0].call(Outcome::failure);
    rig.pass(1s);
    for (std::size_t w = 1; w < 20; ++w) ASSERT_EQ(rig[w].state(), BreakerState::closed) << i;
  }
  EXPECT_NE(rig[0].state(), BreakerState::closed);
  EXPECT_FALSE(rig.store.read().kept);
}

TEST(FleetBreaker, ABadVoteOfLongAgoOpensNothingWhereItIsTheOnlyOne) {
  Rig rig(2);
  all_report_good(rig);
  rig[0].calls(3, Outcome::failure);
  rig.look();
  ASSERT_EQ(rig[1].state(), BreakerState::closed) << "of two both are needed";
  // The other's callers go home, and its vote lapses.
  for (int i = 0; i < 60; ++i) {
    rig[0].call(Outcome::failure);
    rig.pass(1s);
    ASSERT_EQ(rig[1].state(), BreakerState::closed) << i;
  }
  ASSERT_TRUE(rig[1].breaker.snapshot().fleet);
  EXPECT_EQ(rig[1].breaker.snapshot().fleet->bad, 1U);
  // With another it counts still.
  rig[1].calls(3, Outcome::failure);
  EXPECT_EQ(rig.store.read().record.state, store::redis::CircuitRecord::State::open);
}

BreakerConfig with_a_ramp() {
  BreakerConfig config = with_a_minimum();
  config.ramp = BreakerRamp{.start_percent = 50, .growth_percent = 200, .step = 1s};
  return config;
}

// By the dependency's own word, so that nobody has voted; then its probes succeed.
void open_and_recover(Rig& rig, std::size_t prober) {
  for (const auto& worker : rig.workers) worker->calls(10, Outcome::ok);
  rig.pass(250ms);
  rig.pass(150ms);
  rig[1].call(CallVerdict::open_for(1s));
  rig.look();
  rig.pass(1s);
  EXPECT_TRUE(rig[prober].call(Outcome::ok));
  EXPECT_TRUE(rig[prober].call(Outcome::ok));
  EXPECT_EQ(rig[prober].state(), BreakerState::recovering);
}

TEST(FleetBreaker, OneBadWorkerDoesNotReopenAFleetThatRecovers) {
  Rig rig(20, with_a_ramp());
  // It is the one whose probes succeed, and fails before anybody else has said a word.
  open_and_recover(rig, 0);
  for (int i = 0; i < 60 && rig[0].state() == BreakerState::recovering; ++i)
    rig[0].call(Outcome::failure);
  ASSERT_EQ(rig[0].state(), BreakerState::open);
  for (int i = 0; i < 30; ++i) {
    rig.pass(100ms);
    for (std::size_t w = 2; w < 20; ++w)
      ASSERT_TRUE(rig[w].state() == BreakerState::recovering ||
                  rig[w].state() == BreakerState::closed)
          << w << " after " << i;
  }
  EXPECT_EQ(rig.store.read().record.votes.size(), 20U) << "who had a say before has it at once";
}

TEST(FleetBreaker, AFleetThatFailsWhileItRecoversOpensAgainForAll) {
  Rig rig(20, with_a_ramp());
  open_and_recover(rig, 1);
  rig.look();
  // Far fewer calls than the minimum: the ramp holds them back.
  for (std::size_t w = 0; w < 6; ++w)
    for (int i = 0; i < 60 && rig[w].state() == BreakerState::recovering; ++i)
      rig[w].call(Outcome::failure);
  for (int i = 0; i < 10; ++i) rig.pass(100ms);
  for (const auto& worker : rig.workers) EXPECT_EQ(worker->state(), BreakerState::open);
}

TEST(FleetBreaker, ARetryAfterThatOpenedByARuleHoldsForAll) {
  Rig rig(2);
  rig[0].calls(2, Outcome::failure);
  CallVerdict last(Outcome::failure);
  last.retry_after = 30s;
  rig[0].call(last);
  rig.look();
  for (const auto& worker : rig.workers) {
    ASSERT_EQ(worker->state(), BreakerState::open);
    EXPECT_GE(worker->breaker.snapshot().until_probe, Nanos(30s));
  }
}

TEST(FleetBreaker, SixOfTwentyOpenItForAll) {
  Rig rig(20);
  all_report_good(rig);
  for (std::size_t i = 0; i < 5; ++i) rig[i].calls(3, Outcome::failure);
  rig.look();
  EXPECT_EQ(rig[19].state(), BreakerState::closed);
  rig[5].calls(3, Outcome::failure);
  rig.look();
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(rig[i].state(), BreakerState::open) << i;
}

TEST(FleetBreaker, OfTwoBothAreNeeded) {
  Rig rig(2);
  all_report_good(rig);
  rig[0].calls(3, Outcome::failure);
  rig.look();
  EXPECT_EQ(rig[1].state(), BreakerState::closed);
  rig[1].calls(3, Outcome::failure);
  EXPECT_EQ(rig.store.read().record.state, store::redis::CircuitRecord::State::open);
}

TEST(FleetBreaker, WhatTheDependencyAskedForNeedsNobodyElse) {
  Rig rig(20);
  all_report_good(rig);
  rig[0].call(CallVerdict::open_for(7s));
  rig.look();
  EXPECT_EQ(rig[19].state(), BreakerState::open);
  EXPECT_GE(rig[19].breaker.snapshot().until_probe, Nanos(6900ms));
}

TEST(FleetBreaker, AWorkerThatJoinsGoesWithTheFleetAtOnce) {
  Rig rig(1);
  rig[0].calls(3, Outcome::failure);
  testing::FleetBreakerRig::Worker late(rig, BreakerRig::config(), 99);
  late.look();
  EXPECT_EQ(late.state(), BreakerState::open);
  EXPECT_FALSE(late.call(Outcome::ok));
  rig.pass(1s);
  const auto probe = rig[0].admit();
  ASSERT_TRUE(probe);
  late.look();
  EXPECT_EQ(late.state(), BreakerState::half_open);
  EXPECT_FALSE(late.call(Outcome::ok)) << "the slot is another's";
}

TEST(FleetBreaker, TheProbesAreThoseOfTheWholeFleet) {
  Rig rig(10);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  std::vector<std::optional<Permit>> going;
  for (const auto& worker : rig.workers) going.push_back(worker->admit());
  EXPECT_EQ(std::count_if(going.begin(), going.end(), [](const auto& p) { return p.has_value(); }),
            1);
  EXPECT_TRUE(going[0]->is_probe());
  going[0]->ok();
  rig[0].talk();
  rig.pass(150ms);
  EXPECT_TRUE(rig[7].call(Outcome::ok)) << "the second of two that must succeed";
  rig.look();
  for (const auto& worker : rig.workers) {
    EXPECT_EQ(worker->state(), BreakerState::closed);
    EXPECT_TRUE(worker->call(Outcome::ok));
  }
}

TEST(FleetBreaker, AFailedProbeOpensItForAllAndDoublesTheWait) {
  Rig rig(3);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  EXPECT_TRUE(rig[1].call(Outcome::failure));
  rig.pass(150ms);
  EXPECT_TRUE(rig[2].call(Outcome::failure));
  rig.look();
  for (const auto& worker : rig.workers) {
    EXPECT_EQ(worker->state(), BreakerState::open);
    EXPECT_EQ(worker->breaker.snapshot().until_probe, Nanos(2s));
  }
}

TEST(FleetBreaker, AWorkerThatDiesInItsProbeCostsItsDeadline) {
  Rig rig(2);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  {
    auto probe = rig[0].admit();
    ASSERT_TRUE(probe);
    rig[0].up = false;  // and it never says anything again
    rig.clock.advance(9900ms);
    EXPECT_FALSE(rig[1].call(Outcome::ok));
    rig.pass(200ms);
    EXPECT_TRUE(rig[1].call(Outcome::ok));
  }
}

TEST(FleetBreaker, AResultOfAnEarlierRoundSaysNothing) {
  Rig rig(2);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  auto early = rig[0].admit();
  ASSERT_TRUE(early);
  rig.pass(11s);
  EXPECT_TRUE(rig[1].call(Outcome::failure)) << "with the one that expired it fails";
  rig.look();
  ASSERT_EQ(rig[0].state(), BreakerState::open);
  rig.pass(2s);
  auto now = rig[1].admit();
  ASSERT_TRUE(now);
  early->ok();
  rig[0].talk();
  EXPECT_EQ(rig.store.read().record.ok, 0U);
  EXPECT_EQ(rig[0].breaker.snapshot().late, 1U);
  EXPECT_EQ(rig[0].breaker.snapshot().expired_probes, 1U);
}

// Three probes at once, of which two must succeed.
BreakerConfig three_at_once() {
  BreakerConfig config = BreakerRig::config();
  config.probes_in_flight = 3;
  return config;
}

TEST(FleetBreaker, ADirectiveOfARoundThatIsOverOpensNobody) {
  Rig rig(2, three_at_once());
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  std::optional<Permit> probes[] = {rig[0].admit(), rig[0].admit(), rig[0].admit()};
  ASSERT_TRUE(probes[2] && probes[2]->is_probe());
  probes[0]->ok();
  probes[1]->ok();
  rig[0].talk();
  rig.look();
  ASSERT_EQ(rig[0].state(), BreakerState::closed);
  const std::uint64_t epoch = rig.store.read().record.epoch;
  probes[2]->report(CallVerdict::open_for(5s));
  rig[0].talk();
  rig.look();
  for (const auto& worker : rig.workers) EXPECT_EQ(worker->state(), BreakerState::closed);
  EXPECT_EQ(rig.store.read().record.epoch, epoch);
  EXPECT_EQ(rig[0].breaker.snapshot().late, 1U);
  EXPECT_EQ(rig[0].breaker.snapshot().ok, 2U);
}

TEST(FleetBreaker, ADirectiveOfAProbeWhoseRoundOthersEndedOpensNobodyElse) {
  Rig rig(2, three_at_once());
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  auto late = rig[0].admit();
  ASSERT_TRUE(late);
  EXPECT_TRUE(rig[1].call(Outcome::ok));
  EXPECT_TRUE(rig[1].call(Outcome::ok));
  const std::uint64_t epoch = rig.store.read().record.epoch;
  // This one has not looked since, and opens by what it knows; nobody else does.
  late->report(CallVerdict::open_for(5s));
  rig[0].talk();
  rig.look();
  EXPECT_EQ(rig.store.read().record.epoch, epoch);
  EXPECT_EQ(rig[0].state(), BreakerState::open);
  EXPECT_EQ(rig[1].state(), BreakerState::closed);
  EXPECT_EQ(rig[0].breaker.snapshot().late, 1U);
  EXPECT_EQ(rig[0].breaker.snapshot().failed, 3U);
}

TEST(FleetBreaker, ADirectiveOfAProbeInItsRoundOpensForAllAsLongAsItSays) {
  Rig rig(2);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  EXPECT_TRUE(rig[1].call(CallVerdict::open_for(9s)));
  rig.look();
  for (const auto& worker : rig.workers) {
    EXPECT_EQ(worker->state(), BreakerState::open);
    EXPECT_GE(worker->breaker.snapshot().until_probe, Nanos(8900ms));
  }
}

TEST(FleetBreaker, AnOldPermitDoesNotSettleANewProbeOfItsNumber) {
  Rig rig(1);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  auto old = rig[0].admit();
  ASSERT_TRUE(old);
  rig.store.redis.execute({"DEL", CircuitRig::kKey});
  rig.store.run({.kind = Kind::trip, .who = 99});
  rig.pass(1100ms);
  auto fresh = rig[0].admit();
  ASSERT_TRUE(fresh && fresh->is_probe());
  old->ok();
  rig[0].talk();
  EXPECT_EQ(rig.store.read().record.ok, 0U);
  fresh->ok();
  rig[0].talk();
  EXPECT_EQ(rig.store.read().record.ok, 1U);
  EXPECT_EQ(rig[0].breaker.snapshot().late, 1U);
}

TEST(FleetBreaker, AnOldPermitDoesNotSettleANewProbeAfterAFailoverThatForgotIt) {
  Rig rig(1);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  ASSERT_TRUE(rig[0].admit()) << "dropped at once: the round has begun";
  rig[0].talk();
  const testing::LuaRedis::Keys before = rig.store.redis.keys();
  rig.clock.advance(150ms);
  auto old = rig[0].admit();
  ASSERT_TRUE(old);
  rig.store.redis.restart_with(before);
  rig.clock.advance(150ms);
  auto fresh = rig[0].admit();
  ASSERT_TRUE(fresh && fresh->is_probe());
  old->ok();
  rig[0].talk();
  EXPECT_EQ(rig.store.read().record.ok, 0U);
  fresh->ok();
  rig[0].talk();
  EXPECT_EQ(rig.store.read().record.ok, 1U);
}

TEST(FleetBreaker, AProbesResultIsCountedOnceTheStoreHasSaidWhetherItCounted) {
  Rig rig(2, three_at_once());
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  auto probe = rig[0].admit();
  auto lost = rig[0].admit();
  ASSERT_TRUE(probe && lost);
  probe->ok();
  EXPECT_EQ(rig[0].breaker.snapshot().ok, 0U);
  rig[0].talk();
  EXPECT_EQ(rig[0].breaker.snapshot().ok, 1U);
  // One that the store never hears of did not vote.
  lost->ok();
  rig[0].core().share(nullptr, 0);
  EXPECT_EQ(rig[0].breaker.snapshot().ok, 1U);
  EXPECT_EQ(rig[0].breaker.snapshot().late, 1U);
}

TEST(FleetBreaker, AnAsyncCallIsTheProbe) {
  Rig rig(2);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  // In a thread that must not wait, as the rig's: admit() would never be the probe.
  EXPECT_FALSE(rig[0].breaker.admit());
  int answers = 0;
  for (int i = 0; i < 2; ++i) {
    run_async<int>(
        rig[0].breaker, [](AsyncCall<int> call) { call.value(7); },
        [&](Called<int> outcome) {
          ++answers;
          EXPECT_EQ(outcome.value(), 7);
        });
    rig[0].talk();
    rig.pass(150ms);
  }
  EXPECT_EQ(answers, 2);
  EXPECT_EQ(rig[0].state(), BreakerState::closed);
  EXPECT_EQ(rig[1].state(), BreakerState::closed);
}

TEST(FleetBreaker, ACallThatIsDroppedGivesTheSlotBack) {
  Rig rig(2);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  ASSERT_TRUE(rig[0].admit()) << "dropped at once";
  rig[0].talk();
  rig.pass(150ms);
  EXPECT_TRUE(rig[1].call(Outcome::ok));
  EXPECT_EQ(rig.store.read().record.failed, 0U);
}

TEST(FleetBreaker, WhoTrippedStaysOpenByItsOwnClockThoughTheRecordIsGone) {
  Rig rig(3);
  rig[0].calls(3, Outcome::failure);
  rig.look();
  ASSERT_EQ(rig[1].state(), BreakerState::open);
  rig.store.redis.execute({"DEL", CircuitRig::kKey});
  rig.pass(500ms);
  EXPECT_EQ(rig[0].state(), BreakerState::open);
  EXPECT_FALSE(rig[0].call(Outcome::ok));
  // A new record, made by one who came since, closes nobody who has not tried.
  testing::FleetBreakerRig::Worker late(rig, BreakerRig::config(), 99);
  late.calls(5, Outcome::ok);
  rig.clock.advance(250ms);
  late.talk();
  rig.look();
  EXPECT_EQ(rig[0].state(), BreakerState::open);
  rig.pass(300ms);
  EXPECT_TRUE(rig[0].call(Outcome::ok)) << "its own wait is over: its own probe";
  EXPECT_TRUE(rig[0].call(Outcome::ok));
  EXPECT_EQ(rig[0].state(), BreakerState::closed);
}

TEST(FleetBreaker, WithoutTheStoreItGoesByItselfAndSaysSo) {
  Rig rig(2);
  all_report_good(rig);
  for (const auto& worker : rig.workers) worker->up = false;
  rig[0].calls(3, Outcome::failure);
  EXPECT_EQ(rig[0].state(), BreakerState::open);
  EXPECT_EQ(rig[0].breaker.snapshot().tie, FleetTie::alone);
  rig.pass(1s);
  EXPECT_EQ(rig[1].state(), BreakerState::closed);
  EXPECT_TRUE(rig[0].call(Outcome::failure)) << "its own probe";
  EXPECT_TRUE(rig[0].call(Outcome::failure));
  EXPECT_EQ(rig[0].state(), BreakerState::open);
  // It is told when the store is back; of two, one does not open it for both.
  for (const auto& worker : rig.workers) worker->up = true;
  all_report_good(rig);
  EXPECT_EQ(rig[0].breaker.snapshot().tie, FleetTie::follows);
  ASSERT_TRUE(rig[1].breaker.snapshot().fleet);
  EXPECT_EQ(rig[1].breaker.snapshot().fleet->bad, 1U);
  EXPECT_EQ(rig[1].state(), BreakerState::closed);
}

TEST(FleetBreaker, GoesWithTheFleetAgainOnceTheStoreAnswers) {
  Rig rig(3);
  rig[2].up = false;
  rig[0].calls(3, Outcome::failure);
  rig.look();
  EXPECT_EQ(rig[2].state(), BreakerState::closed);
  rig[2].up = true;
  rig.look();
  EXPECT_EQ(rig[2].state(), BreakerState::open);
  // The store goes away while the fleet probes: it probes by itself.
  rig.pass(1s);
  auto probe = rig[0].admit();
  rig.look();
  ASSERT_EQ(rig[2].state(), BreakerState::half_open);
  EXPECT_FALSE(rig[2].call(Outcome::ok));
  rig[2].up = false;
  rig.clock.advance(150ms);
  EXPECT_TRUE(rig[2].call(Outcome::ok));
  EXPECT_TRUE(rig[2].call(Outcome::ok));
  EXPECT_EQ(rig[2].state(), BreakerState::closed);
}

TEST(FleetBreaker, ForcedStatesAreTheFleets) {
  Rig rig(2);
  all_report_good(rig);
  rig[0].breaker.set_mode(BreakerMode::forced_open);
  rig[0].talk();
  rig.look();
  EXPECT_EQ(rig[1].breaker.mode(), BreakerMode::forced_open);
  EXPECT_FALSE(rig[1].call(Outcome::ok));
  rig[1].breaker.set_mode(BreakerMode::automatic);
  rig[1].talk();
  rig.look();
  EXPECT_EQ(rig[0].breaker.mode(), BreakerMode::automatic);
  EXPECT_TRUE(rig[0].call(Outcome::ok));
}

TEST(FleetBreaker, AForcedStateSetWithoutTheStoreIsToldAfterwards) {
  Rig rig(2);
  rig[0].up = false;
  rig[0].breaker.set_mode(BreakerMode::forced_open);
  rig.look();
  EXPECT_FALSE(rig[0].call(Outcome::ok));
  EXPECT_TRUE(rig[1].call(Outcome::ok));
  rig[0].up = true;
  rig.look();
  EXPECT_EQ(rig[1].breaker.mode(), BreakerMode::forced_open);
}

TEST(FleetBreaker, AModeSetWithoutTheStoreGivesWayToALaterOne) {
  Rig rig(2);
  all_report_good(rig);
  rig[0].up = false;
  rig[0].breaker.set_mode(BreakerMode::forced_open);
  rig.pass(2s);
  rig[1].breaker.set_mode(BreakerMode::forced_closed);
  rig[1].talk();
  rig[0].up = true;
  rig.look();
  for (const auto& worker : rig.workers)
    EXPECT_EQ(worker->breaker.mode(), BreakerMode::forced_closed);
  EXPECT_EQ(rig[0].events.back().mode, BreakerMode::forced_closed);
  EXPECT_EQ(rig[0].events.back().cause, BreakerCause::fleet) << "it is said that it gave way";
}

TEST(FleetBreaker, AModeSetWithoutTheStoreGivesWayToALaterOneThatIsOverAgain) {
  Rig rig(2);
  all_report_good(rig);
  rig[0].up = false;
  rig[0].breaker.set_mode(BreakerMode::forced_open);
  rig.pass(2s);
  rig[1].breaker.set_mode(BreakerMode::forced_closed);
  rig[1].talk();
  rig.clock.advance(1s);
  rig[1].breaker.set_mode(BreakerMode::automatic);
  rig[1].talk();
  rig[0].up = true;
  rig.look();
  for (const auto& worker : rig.workers) EXPECT_EQ(worker->breaker.mode(), BreakerMode::automatic);
}

TEST(FleetBreaker, AModeSetWithoutTheStoreHoldsWhereOnlyTheBreakerMovedMeanwhile) {
  Rig rig(2);
  all_report_good(rig);
  rig[0].up = false;
  rig[0].breaker.set_mode(BreakerMode::forced_open);
  rig.pass(2s);
  rig[1].call(CallVerdict::open_for(1s));
  rig.pass(1s);
  EXPECT_TRUE(rig[1].call(Outcome::ok));
  EXPECT_TRUE(rig[1].call(Outcome::ok));
  ASSERT_EQ(rig[1].state(), BreakerState::closed);
  rig[0].up = true;
  rig.look();
  for (const auto& worker : rig.workers)
    EXPECT_EQ(worker->breaker.mode(), BreakerMode::forced_open);
}

TEST(FleetBreaker, AModeWhoseAnswerWasLostDoesNotUndoWhatWasSetSince) {
  Rig rig(2);
  all_report_good(rig);
  rig[0].breaker.set_mode(BreakerMode::forced_open);
  const auto due = rig[0].core().fleet_due(true, rig.clock.mono());
  ASSERT_EQ(due.size(), 1U);
  rig.store.redis.set_now(rig.clock.now());
  (void)rig.store.run(due[0].action);
  rig[0].core().fleet_heard(due[0].ticket, nullptr, false, rig.clock.mono());
  rig.clock.advance(100ms);
  rig[1].look();
  ASSERT_EQ(rig[1].breaker.mode(), BreakerMode::forced_open);
  rig[1].breaker.set_mode(BreakerMode::automatic);
  rig[1].talk();
  rig.look();
  for (const auto& worker : rig.workers) EXPECT_EQ(worker->breaker.mode(), BreakerMode::automatic);
}

TEST(FleetBreaker, AForcedStateThatTheStoreLostIsPutBackThoughAVoteCameFirst) {
  Rig rig(1);
  rig[0].breaker.set_mode(BreakerMode::forced_open);
  rig[0].talk();
  rig.store.redis.execute({"DEL", CircuitRig::kKey});
  rig[0].look();
  // One that has just begun, and knows of no mode.
  testing::FleetBreakerRig::Worker late(rig, BreakerRig::config(), 99);
  late.calls(5, Outcome::ok);
  rig.clock.advance(250ms);
  late.talk();
  ASSERT_TRUE(rig.store.read().kept);
  rig.pass(100ms);
  EXPECT_EQ(rig.store.read().record.mode, Mode::forced_open);
  EXPECT_EQ(rig[0].breaker.mode(), BreakerMode::forced_open);
}

TEST(FleetBreaker, AForcedStateThatTheStoreLostIsPutBack) {
  Rig rig(2);
  rig[0].breaker.set_mode(BreakerMode::forced_open);
  rig[0].talk();
  rig.look();
  rig.store.redis.execute({"DEL", CircuitRig::kKey});
  rig.pass(100ms);
  EXPECT_EQ(rig.store.read().record.mode, Mode::forced_open);
  for (const auto& worker : rig.workers)
    EXPECT_EQ(worker->breaker.mode(), BreakerMode::forced_open);
}

TEST(FleetBreaker, DisabledAndShadowAreOneWorkersOwn) {
  Rig rig(2);
  rig[0].breaker.set_mode(BreakerMode::disabled);
  rig[1].calls(3, Outcome::failure);
  rig.look();
  EXPECT_EQ(rig[0].breaker.mode(), BreakerMode::disabled);
  EXPECT_TRUE(rig[0].call(Outcome::ok));
  EXPECT_EQ(rig[1].state(), BreakerState::open);
  EXPECT_EQ(rig[1].breaker.mode(), BreakerMode::automatic);
}

TEST(FleetBreaker, WhatAnOperatorClosesIsClosedForAll) {
  Rig rig(3);
  rig[0].calls(3, Outcome::failure);
  rig.look();
  rig[1].breaker.close();
  rig[1].talk();
  rig.look();
  for (const auto& worker : rig.workers) EXPECT_EQ(worker->state(), BreakerState::closed);
}

TEST(FleetBreaker, RecoversInEachWorkerByTheFleetsWord) {
  BreakerConfig config = BreakerRig::config();
  config.ramp = BreakerRamp{.start_percent = 50, .growth_percent = 200, .step = 1s};
  Rig rig(2, config);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  EXPECT_TRUE(rig[0].call(Outcome::ok));
  EXPECT_TRUE(rig[0].call(Outcome::ok));
  rig.look();
  EXPECT_EQ(rig[0].state(), BreakerState::recovering);
  EXPECT_EQ(rig[1].state(), BreakerState::recovering);
  EXPECT_EQ(rig[1].breaker.snapshot().share_percent, 50U);
}

TEST(FleetBreaker, AVoteOfAnotherEpochIsSaidAgainWithTheRightOne) {
  Rig rig(2);
  // Both find no record, and both vote: the second's epoch is not the one that the first made.
  rig[0].calls(5, Outcome::ok);
  rig[1].calls(5, Outcome::ok);
  rig.clock.advance(250ms);
  const auto first = rig[0].core().fleet_due(true, rig.clock.mono());
  const auto second = rig[1].core().fleet_due(true, rig.clock.mono());
  ASSERT_EQ(first.size(), 1U);
  ASSERT_EQ(second.size(), 1U);
  rig[0].carry(first[0]);
  rig[1].carry(second[0]);
  EXPECT_EQ(rig.store.read().record.votes.size(), 1U);
  rig.pass(150ms);
  EXPECT_EQ(rig.store.read().record.votes.size(), 2U);
}

TEST(FleetBreaker, ASlotThatComesTooLateForItsCallerGoesBack) {
  Rig rig(2);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  std::optional<bool> admitted;
  rig[0].breaker.admit_async([&](Admission a) { admitted = a.admitted(); });
  const auto due = rig[0].core().fleet_due(true, rig.clock.mono());
  ASSERT_EQ(due.size(), 1U);
  rig[0].core().fleet_heard(due[0].ticket, nullptr, false, rig.clock.mono());
  EXPECT_EQ(admitted, std::optional(false)) << "the deadline is kept";
  rig.store.redis.set_now(rig.clock.now());
  const auto reply = rig.store.run(due[0].action);
  rig[0].core().fleet_heard(due[0].ticket, &reply, true, rig.clock.mono());
  rig[0].talk();
  rig.pass(150ms);
  EXPECT_TRUE(rig[1].call(Outcome::ok));
}

TEST(FleetBreaker, IsItsOwnAgainOnceItIsSharedNoMore) {
  Rig rig(2);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  bool answered = false;
  rig[0].breaker.admit_async([&](Admission) { answered = true; });
  rig[0].core().share(nullptr, 0);
  EXPECT_TRUE(answered);
  EXPECT_EQ(rig[0].breaker.snapshot().tie, FleetTie::none);
  EXPECT_TRUE(rig[0].breaker.admit());
}

}  // namespace
}  // namespace weir
