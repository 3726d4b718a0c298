#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>

#include "testing/fleet_breaker_rig.h"

// What an operator sets for a fleet.

namespace weir {
namespace {

using namespace std::chrono_literals;
using Mode = store::redis::CircuitRecord::Mode;
using testing::BreakerRig;
using testing::CircuitRig;
using Rig = testing::FleetBreakerRig;

TEST(FleetBreaker, ForcedStatesAreTheFleets) {
  Rig rig(2);
  rig.report_good();
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
  rig.report_good();
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
  rig.report_good();
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
  rig.report_good();
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
  rig.report_good();
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

TEST(FleetBreaker, AnOrderIsKnownToAllWithItsNameItsReasonAndItsEnd) {
  Rig rig(2);
  rig.report_good();
  ASSERT_TRUE(rig[0]
                  .breaker
                  .set_mode({.mode = BreakerMode::forced_open,
                             .by = "ada",
                             .reason = "they move",
                             .lasts = 10min})
                  .has_value());
  rig[0].talk();
  rig.pass(1s);
  Rig::Worker late(rig, BreakerRig::config(), 99);
  late.look();
  for (const Rig::Worker* worker :
       std::initializer_list<const Rig::Worker*>{&rig[0], &rig[1], &late}) {
    const BreakerSnapshot shot = worker->breaker.snapshot();
    EXPECT_EQ(shot.mode, BreakerMode::forced_open);
    EXPECT_EQ(shot.mode_by, "ada");
    EXPECT_EQ(shot.mode_reason, "they move");
    EXPECT_EQ(shot.mode_left, Nanos(10min - 1s));
    EXPECT_EQ(shot.mode_for, Nanos(1s));
  }
  ASSERT_TRUE(rig[1].events.back().order);
  EXPECT_EQ(rig[1].events.back().order->by, "ada");
  EXPECT_EQ(rig[1].events.back().order->lasts, Nanos(10min));
  EXPECT_EQ(std::count_if(rig[0].events.begin(), rig[0].events.end(),
                          [](const BreakerEvent& e) { return e.order != nullptr; }),
            1)
      << "its own order is no news when it comes back";
}

TEST(FleetBreaker, AnOrderEndsForAllByTheStoresClock) {
  Rig rig(2);
  rig.report_good();
  ASSERT_TRUE(
      rig[0]
          .breaker
          .set_mode({.mode = BreakerMode::forced_open, .by = "ada", .reason = {}, .lasts = 60s})
          .has_value());
  rig[0].talk();
  rig.look();
  rig.pass(59s);
  for (const auto& worker : rig.workers) EXPECT_FALSE(worker->call(Outcome::ok));
  rig.pass(1s);
  for (const auto& worker : rig.workers) {
    EXPECT_TRUE(worker->call(Outcome::ok));
    EXPECT_EQ(worker->breaker.mode(), BreakerMode::automatic);
    EXPECT_EQ(worker->events.back().cause, BreakerCause::mode_over);
    ASSERT_TRUE(worker->events.back().order);
    EXPECT_EQ(worker->events.back().order->by, "ada");
  }
  // Nobody sets it again, and nobody has to take it back.
  rig.pass(10s);
  rig.pass(10s);
  for (const auto& worker : rig.workers) EXPECT_EQ(worker->breaker.mode(), BreakerMode::automatic);
}

TEST(FleetBreaker, AnOrderEndsInItsTimeWithoutTheStore) {
  Rig rig(2);
  rig.report_good();
  ASSERT_TRUE(
      rig[0]
          .breaker
          .set_mode({.mode = BreakerMode::forced_open, .by = {}, .reason = {}, .lasts = 60s})
          .has_value());
  rig[0].talk();
  rig.look();
  for (const auto& worker : rig.workers) worker->up = false;
  rig.pass(59s);
  EXPECT_FALSE(rig[1].call(Outcome::ok));
  rig.pass(1s);
  for (const auto& worker : rig.workers) EXPECT_TRUE(worker->call(Outcome::ok));
  for (const auto& worker : rig.workers) worker->up = true;
  rig.look();
  for (const auto& worker : rig.workers) EXPECT_EQ(worker->breaker.mode(), BreakerMode::automatic);
}

TEST(FleetBreaker, AnOrderThatCouldNotBeToldInItsTimeIsNotToldAfterwards) {
  Rig rig(2);
  rig.report_good();
  rig[0].up = false;
  ASSERT_TRUE(
      rig[0]
          .breaker
          .set_mode({.mode = BreakerMode::forced_open, .by = {}, .reason = {}, .lasts = 60s})
          .has_value());
  rig.pass(20s);
  EXPECT_FALSE(rig[0].call(Outcome::ok));
  rig.pass(40s);
  rig[0].up = true;
  rig.look();
  EXPECT_EQ(rig[1].breaker.mode(), BreakerMode::automatic);
  EXPECT_EQ(rig.store.read().record.mode, Mode::automatic);
  EXPECT_TRUE(rig[0].call(Outcome::ok));
}

TEST(FleetBreaker, AnOrderThatIsToldLateLastsNoLonger) {
  Rig rig(2);
  rig.report_good();
  rig[0].up = false;
  ASSERT_TRUE(
      rig[0]
          .breaker
          .set_mode({.mode = BreakerMode::forced_open, .by = {}, .reason = {}, .lasts = 60s})
          .has_value());
  rig.pass(20s);
  rig[0].up = true;
  rig.look();
  ASSERT_EQ(rig[1].breaker.mode(), BreakerMode::forced_open);
  EXPECT_EQ(rig[1].breaker.snapshot().mode_left, Nanos(40s));
}

TEST(FleetBreaker, AnOrderThatTheStoreLostIsPutBackWithItsEnd) {
  Rig rig(1);
  ASSERT_TRUE(
      rig[0]
          .breaker
          .set_mode(
              {.mode = BreakerMode::forced_open, .by = "ada", .reason = "they move", .lasts = 60s})
          .has_value());
  rig[0].talk();
  rig.store.redis.execute({"DEL", CircuitRig::kKey});
  rig.pass(20s);
  EXPECT_EQ(rig.store.read().record.mode, Mode::forced_open);
  EXPECT_EQ(rig.store.read().record.by, "ada");
  EXPECT_EQ(rig.store.read().record.reason, "they move");
  Rig::Worker late(rig, BreakerRig::config(), 99);
  late.look();
  EXPECT_EQ(late.breaker.snapshot().mode_left, Nanos(40s));
}

TEST(FleetBreaker, WhoTookAnOrderBackIsTold) {
  Rig rig(2);
  rig[0].breaker.set_mode(BreakerMode::forced_open);
  rig[0].talk();
  rig.look();
  ASSERT_TRUE(rig[1]
                  .breaker.set_mode({.mode = BreakerMode::automatic, .by = "eve", .reason = "done"})
                  .has_value());
  rig[1].talk();
  rig.look();
  EXPECT_EQ(rig[0].breaker.mode(), BreakerMode::automatic);
  EXPECT_EQ(rig[0].events.back().cause, BreakerCause::fleet);
  ASSERT_TRUE(rig[0].events.back().order);
  EXPECT_EQ(rig[0].events.back().order->by, "eve");
}

TEST(FleetBreaker, AnotherEndOfTheSameModeReachesAll) {
  Rig rig(2);
  const auto order = [&](std::size_t i, Nanos lasts) {
    ASSERT_TRUE(rig[i]
                    .breaker
                    .set_mode({.mode = BreakerMode::forced_open,
                               .by = i == 0 ? "ada" : "eve",
                               .reason = {},
                               .lasts = lasts})
                    .has_value());
    rig[i].talk();
    rig.look();
  };
  order(0, 60s);
  order(1, 600s);
  EXPECT_EQ(rig[0].breaker.snapshot().mode_left, Nanos(600s));
  EXPECT_EQ(rig[0].breaker.snapshot().mode_by, "eve");
  rig.pass(61s);
  EXPECT_FALSE(rig[0].call(Outcome::ok));
}

}  // namespace
}  // namespace weir
