#include <gtest/gtest.h>

#include <algorithm>

#include "testing/fleet_breaker_rig.h"

// Who opens a breaker for its fleet, and how it recovers.

namespace weir {
namespace {

using namespace std::chrono_literals;
using Kind = store::redis::CircuitAction::Kind;
using testing::BreakerRig;
using Rig = testing::FleetBreakerRig;

TEST(FleetBreaker, TheSteadyClosedPathTellsTheStoreNothing) {
  Rig rig(2);
  rig.report_good();
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
  rig.report_good();
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
  rig.report_good();
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
  rig.report_good();
  for (std::size_t i = 0; i < 5; ++i) rig[i].calls(3, Outcome::failure);
  rig.look();
  EXPECT_EQ(rig[19].state(), BreakerState::closed);
  rig[5].calls(3, Outcome::failure);
  rig.look();
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(rig[i].state(), BreakerState::open) << i;
}

TEST(FleetBreaker, OfTwoBothAreNeeded) {
  Rig rig(2);
  rig.report_good();
  rig[0].calls(3, Outcome::failure);
  rig.look();
  EXPECT_EQ(rig[1].state(), BreakerState::closed);
  rig[1].calls(3, Outcome::failure);
  EXPECT_EQ(rig.store.read().record.state, store::redis::CircuitRecord::State::open);
}

TEST(FleetBreaker, WhatTheDependencyAskedForNeedsNobodyElse) {
  Rig rig(20);
  rig.report_good();
  rig[0].call(CallVerdict::open_for(7s));
  rig.look();
  EXPECT_EQ(rig[19].state(), BreakerState::open);
  EXPECT_GE(rig[19].breaker.snapshot().until_probe, Nanos(6900ms));
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

// Whoever opened must not wait for its next look to say so.
TEST(FleetBreaker, ADirectiveThatMissedTheEpochIsToldAgainAtOnce) {
  Rig rig(2);
  rig.report_good();
  // The fleet moves on, and this worker has not looked since.
  rig[1].breaker.close();
  rig[1].talk();
  rig.clock.advance(10ms);
  rig[0].breaker.trip(60s);
  const auto due = rig[0].core().fleet_due(true, rig.clock.mono());
  ASSERT_FALSE(due.empty());
  ASSERT_EQ(due[0].action.kind, Kind::trip);
  rig[0].pokes = 0;
  for (const Rig::Due& each : due) rig[0].carry(each);
  ASSERT_EQ(rig.store.read().record.state, store::redis::CircuitRecord::State::closed);
  EXPECT_EQ(rig[0].pokes, 1);
  rig[0].talk();
  EXPECT_EQ(rig.store.read().record.state, store::redis::CircuitRecord::State::open);
  EXPECT_EQ(rig[0].pokes, 1) << "once is enough";
}

TEST(FleetBreaker, AVoteThatOvertookTheOneOnItsWayIsToldAtOnce) {
  Rig rig(1);
  rig[0].calls(5, Outcome::ok);
  rig.clock.advance(250ms);
  const auto due = rig[0].core().fleet_due(true, rig.clock.mono());
  ASSERT_EQ(due.size(), 1U);
  ASSERT_EQ(due[0].action.flag, store::redis::CircuitAction::Flag::good);
  for (int i = 0; i < 3; ++i) rig[0].breaker.admit().permit().failure();
  ASSERT_EQ(rig[0].state(), BreakerState::open);
  rig[0].pokes = 0;
  rig[0].carry(due[0]);
  EXPECT_EQ(rig[0].pokes, 1);
}

}  // namespace
}  // namespace weir
