#include <gtest/gtest.h>

#include "testing/fleet_breaker_rig.h"

// A fleet whose store goes away, comes back, or has forgotten.

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::BreakerRig;
using testing::CircuitRig;
using Rig = testing::FleetBreakerRig;

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
  rig.report_good();
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
  rig.report_good();
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

TEST(FleetBreaker, AnAnswerOfBeforeItOpenedDoesNotCloseItHoweverLateItComes) {
  Rig rig(1);
  rig[0].calls(3, Outcome::failure);
  rig[0].breaker.close();
  const auto due = rig[0].core().fleet_due(true, rig.clock.mono());
  ASSERT_FALSE(due.empty());
  ASSERT_EQ(due[0].action.kind, store::redis::CircuitAction::Kind::force);
  rig.store.redis.set_now(rig.clock.now());
  const auto reply = rig.store.run(due[0].action);
  const MonoTime asked = rig.clock.mono();
  // It opens again while the store's word that it is closed is on its way.
  rig.clock.advance(30ms);
  rig[0].breaker.trip(60s);
  rig.clock.advance(30ms);
  rig[0].core().fleet_heard(due[0].ticket, &reply, false, rig.clock.mono(), asked);
  EXPECT_EQ(rig[0].state(), BreakerState::open);
  rig[0].talk();
  EXPECT_EQ(rig.store.read().record.state, store::redis::CircuitRecord::State::open);
}

}  // namespace
}  // namespace weir
