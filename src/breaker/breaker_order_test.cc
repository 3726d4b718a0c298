#include <gtest/gtest.h>

#include <string>

#include "breaker/breaker_core.h"
#include "testing/breaker_rig.h"

// What an operator orders with a name, a reason and an end.

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::BreakerRig;

ModeOrder for_ten_minutes(BreakerMode mode) {
  return {.mode = mode, .by = "ada", .reason = "they move", .lasts = 10min};
}

TEST(BreakerOrder, SaysWhoseItIsAndWhyAndForHowLong) {
  BreakerRig rig;
  ASSERT_TRUE(rig.breaker.set_mode(for_ten_minutes(BreakerMode::forced_open)).has_value());
  rig.pass(4min);
  const BreakerSnapshot shot = rig.breaker.snapshot();
  EXPECT_EQ(shot.mode, BreakerMode::forced_open);
  EXPECT_EQ(shot.mode_by, "ada");
  EXPECT_EQ(shot.mode_reason, "they move");
  EXPECT_EQ(shot.mode_for, Nanos(4min));
  EXPECT_EQ(shot.mode_left, Nanos(6min));
  ASSERT_EQ(rig.events.size(), 1U);
  ASSERT_TRUE(rig.events[0].order);
  EXPECT_EQ(rig.events[0].order->by, "ada");
  EXPECT_EQ(rig.events[0].order->reason, "they move");
  EXPECT_EQ(rig.events[0].order->lasts, Nanos(10min));
}

TEST(BreakerOrder, ForcedOpenEndsByItselfAtTheNextCallAndNotBefore) {
  BreakerRig rig;
  ASSERT_TRUE(rig.breaker.set_mode(for_ten_minutes(BreakerMode::forced_open)).has_value());
  rig.pass(10min - 1ns);
  Admission no = rig.breaker.admit();
  ASSERT_FALSE(no);
  EXPECT_EQ(no.rejected().reason, RejectReason::forced_open);
  EXPECT_EQ(no.rejected().retry_after, Nanos(1ns)) << "when it ends is known";
  rig.pass(1ns);
  EXPECT_TRUE(rig.call(Outcome::ok));
  EXPECT_EQ(rig.state(), BreakerState::closed);
  EXPECT_EQ(rig.breaker.mode(), BreakerMode::automatic);
  const BreakerEvent& over = rig.events.back();
  EXPECT_EQ(over.cause, BreakerCause::mode_over);
  EXPECT_EQ(over.from, BreakerState::open);
  ASSERT_TRUE(over.order);
  EXPECT_EQ(over.order->by, "ada") << "whose it was";
  EXPECT_FALSE(rig.breaker.snapshot().mode_left);
  EXPECT_EQ(rig.breaker.snapshot().mode_by, "");
}

TEST(BreakerOrder, ForcedClosedEndsBeforeItWouldOpen) {
  BreakerRig rig;
  ASSERT_TRUE(rig.breaker.set_mode(for_ten_minutes(BreakerMode::forced_closed)).has_value());
  EXPECT_EQ(rig.calls(20, Outcome::failure), 20);
  EXPECT_EQ(rig.breaker.mode(), BreakerMode::forced_closed);
  rig.pass(10min);
  EXPECT_TRUE(rig.call(Outcome::failure));
  EXPECT_EQ(rig.breaker.mode(), BreakerMode::automatic);
  EXPECT_EQ(rig.state(), BreakerState::closed) << "its window begins anew";
  rig.calls(3, Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::open) << "and counts from then on";
}

TEST(BreakerOrder, DisabledEnds) {
  BreakerRig rig;
  ASSERT_TRUE(rig.breaker.set_mode(for_ten_minutes(BreakerMode::disabled)).has_value());
  rig.calls(5, Outcome::failure);
  rig.pass(10min);
  rig.calls(3, Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(BreakerOrder, ShadowEndsAndRejectsFromThenOn) {
  BreakerRig rig;
  ASSERT_TRUE(
      rig.breaker.set_mode({.mode = BreakerMode::shadow, .by = {}, .reason = {}, .lasts = 500ms})
          .has_value());
  rig.open();
  EXPECT_TRUE(rig.call(Outcome::ok));
  rig.pass(500ms);
  EXPECT_FALSE(rig.call(Outcome::ok)) << "the wait of 1 s goes on";
  EXPECT_EQ(rig.breaker.snapshot().would_reject, 1U);
}

TEST(BreakerOrder, WhoLooksSeesThatItIsOver) {
  BreakerRig rig;
  ASSERT_TRUE(rig.breaker.set_mode(for_ten_minutes(BreakerMode::forced_open)).has_value());
  rig.pass(11min);
  const BreakerSnapshot shot = rig.breaker.snapshot();
  EXPECT_EQ(shot.mode, BreakerMode::automatic);
  EXPECT_EQ(shot.state, BreakerState::closed);
}

TEST(BreakerOrder, GoesBackToWhatThePolicySays) {
  BreakerRig rig;
  BreakerCore& core = *BreakerCore::of(rig.breaker);
  core.set_policy_mode(BreakerMode::shadow);
  EXPECT_EQ(rig.breaker.mode(), BreakerMode::shadow);
  ASSERT_TRUE(rig.breaker.set_mode(for_ten_minutes(BreakerMode::forced_open)).has_value());
  core.set_policy_mode(BreakerMode::shadow);
  EXPECT_EQ(rig.breaker.mode(), BreakerMode::forced_open) << "a reload leaves an order alone";
  rig.pass(10min);
  rig.breaker.poll();
  EXPECT_EQ(rig.breaker.mode(), BreakerMode::shadow);
}

// What an operator said for good was lost under an order with an end, once a policy was loaded.
TEST(BreakerOrder, WhatWasSetForGoodStandsAgainAfterOneWithAnEndAndAReload) {
  for (const BreakerMode own : {BreakerMode::disabled, BreakerMode::shadow}) {
    BreakerRig rig;
    ASSERT_TRUE(rig.breaker.set_mode({.mode = own, .by = "eve", .reason = "it lasts"}).has_value());
    ASSERT_TRUE(rig.breaker.set_mode(for_ten_minutes(BreakerMode::forced_open)).has_value());
    BreakerCore::of(rig.breaker)->set_policy_mode(BreakerMode::automatic);
    rig.pass(10min);
    rig.breaker.poll();
    EXPECT_EQ(rig.breaker.mode(), own);
    EXPECT_EQ(rig.breaker.snapshot().mode_by, "eve");
    BreakerCore::of(rig.breaker)->set_policy_mode(BreakerMode::automatic);
    EXPECT_EQ(rig.breaker.mode(), own);
    rig.breaker.set_mode(BreakerMode::automatic);
    BreakerCore::of(rig.breaker)->set_policy_mode(BreakerMode::shadow);
    EXPECT_EQ(rig.breaker.mode(), BreakerMode::shadow) << "taken back: the policy speaks again";
  }
}

TEST(BreakerOrder, ALaterOneReplacesItWithItsEnd) {
  BreakerRig rig;
  ASSERT_TRUE(rig.breaker.set_mode(for_ten_minutes(BreakerMode::forced_open)).has_value());
  ASSERT_TRUE(
      rig.breaker.set_mode({.mode = BreakerMode::forced_open, .by = "eve", .reason = "it lasts"})
          .has_value());
  rig.pass(24h);
  EXPECT_FALSE(rig.call(Outcome::ok));
  EXPECT_EQ(rig.breaker.snapshot().mode_by, "eve");
  EXPECT_FALSE(rig.breaker.snapshot().mode_left);
  EXPECT_EQ(rig.events.size(), 2U);
  rig.breaker.set_mode(BreakerMode::automatic);
  EXPECT_TRUE(rig.call(Outcome::ok));
  EXPECT_EQ(rig.breaker.snapshot().mode_by, "");
}

TEST(BreakerOrder, ThatIsNonsenseIsRefusedAndChangesNothing) {
  BreakerRig rig;
  const auto refused = [&](ModeOrder order) {
    const Result<void> set = rig.breaker.set_mode(std::move(order));
    return !set && set.error().code == ErrorCode::invalid_argument;
  };
  constexpr BreakerMode kOpen = BreakerMode::forced_open;
  EXPECT_TRUE(refused({.mode = kOpen, .by = std::string(65, 'a'), .reason = {}}));
  EXPECT_TRUE(refused({.mode = kOpen, .by = {}, .reason = std::string(201, 'a')}));
  EXPECT_TRUE(refused({.mode = kOpen, .by = "a\nb", .reason = {}}));
  EXPECT_TRUE(refused({.mode = kOpen, .by = {}, .reason = {}, .lasts = 0ns}));
  EXPECT_TRUE(refused({.mode = kOpen, .by = {}, .reason = {}, .lasts = -1s}));
  EXPECT_TRUE(refused({.mode = kOpen, .by = {}, .reason = {}, .lasts = 24h * 367}));
  EXPECT_TRUE(refused({.mode = BreakerMode::automatic, .by = {}, .reason = {}, .lasts = 1s}));
  EXPECT_EQ(rig.breaker.mode(), BreakerMode::automatic);
  EXPECT_TRUE(rig.events.empty());
  ASSERT_TRUE(rig.breaker
                  .set_mode({.mode = kOpen,
                             .by = std::string(64, 'a'),
                             .reason = std::string(200, 'b'),
                             .lasts = 24h * 366})
                  .has_value());
}

}  // namespace
}  // namespace weir
