#include <gtest/gtest.h>

#include "testing/breaker_rig.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::BreakerRig;

TEST(BreakerModes, ForcedOpenRejectsUntilItIsTakenBack) {
  BreakerRig rig;
  rig.breaker.set_mode(BreakerMode::forced_open);
  rig.pass(24h);
  Admission no = rig.breaker.admit();
  ASSERT_FALSE(no);
  EXPECT_EQ(no.rejected().reason, RejectReason::forced_open);
  EXPECT_FALSE(no.rejected().retry_after) << "nobody knows";
  EXPECT_EQ(rig.state(), BreakerState::open);
  rig.breaker.set_mode(BreakerMode::automatic);
  EXPECT_EQ(rig.state(), BreakerState::closed);
  EXPECT_TRUE(rig.call(Outcome::ok));
}

TEST(BreakerModes, ForcedClosedAdmitsAndCountsAndNeverOpens) {
  BreakerRig rig;
  rig.open();
  rig.breaker.set_mode(BreakerMode::forced_closed);
  EXPECT_EQ(rig.calls(100, Outcome::failure), 100);
  rig.call(CallVerdict::open_for(1s));
  EXPECT_EQ(rig.state(), BreakerState::closed);
  EXPECT_EQ(rig.breaker.snapshot().consecutive_failures, 101U);
}

TEST(BreakerModes, DisabledAdmitsAndCountsNothing) {
  BreakerRig rig;
  rig.breaker.set_mode(BreakerMode::disabled);
  EXPECT_EQ(rig.calls(100, Outcome::failure), 100);
  EXPECT_EQ(rig.breaker.snapshot().failed, 0U);
  rig.breaker.set_mode(BreakerMode::automatic);
  EXPECT_EQ(rig.breaker.snapshot().consecutive_failures, 0U);
}

TEST(BreakerModes, ShadowRejectsNothingAndSaysWhatItWould) {
  BreakerRig rig;
  rig.breaker.set_mode(BreakerMode::shadow);
  rig.open();
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_EQ(rig.calls(10, Outcome::failure), 10);
  EXPECT_EQ(rig.breaker.snapshot().would_reject, 10U);
  EXPECT_EQ(rig.breaker.snapshot().rejected, 0U);
  rig.pass(1s);
  EXPECT_EQ(rig.calls(2, Outcome::ok), 2);
  EXPECT_EQ(rig.state(), BreakerState::closed) << "its probes vote as ever";
}

TEST(BreakerModes, CallsThatShadowLetThroughDoNotVote) {
  BreakerRig rig;
  rig.breaker.set_mode(BreakerMode::shadow);
  rig.half_open();
  Permit probe = rig.admitted();
  rig.calls(10, Outcome::ok);
  EXPECT_EQ(rig.state(), BreakerState::half_open);
  EXPECT_EQ(rig.breaker.snapshot().calls, 0U);
}

TEST(BreakerModes, TakingShadowBackKeepsTheState) {
  BreakerRig rig;
  rig.breaker.set_mode(BreakerMode::shadow);
  rig.open();
  rig.breaker.set_mode(BreakerMode::automatic);
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_FALSE(rig.call(Outcome::ok));
}

TEST(BreakerModes, AModeEndsTheProbesOfBefore) {
  BreakerRig rig;
  rig.half_open();
  Permit probe = rig.admitted();
  rig.breaker.set_mode(BreakerMode::forced_open);
  probe.ok();
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_EQ(rig.breaker.snapshot().late, 1U);
}

TEST(BreakerModes, AnOperatorMayTripAndClose) {
  BreakerRig rig;
  rig.breaker.trip(30s);
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(30s));
  EXPECT_EQ(rig.events.back().cause, BreakerCause::operator_set);
  rig.breaker.close();
  EXPECT_EQ(rig.state(), BreakerState::closed);
  rig.calls(2, Outcome::failure);
  rig.breaker.close();
  rig.call(Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::closed) << "closing empties the window";
}

TEST(BreakerModes, NewNumbersHoldFromTheNextCallOn) {
  BreakerRig rig;
  rig.calls(2, Outcome::failure);
  BreakerConfig config = BreakerRig::config();
  config.consecutive_failures = 5;
  ASSERT_TRUE(rig.breaker.configure(config).has_value());
  rig.call(Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::closed);
  EXPECT_EQ(rig.breaker.snapshot().consecutive_failures, 3U) << "what is counted stays";
  rig.calls(2, Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(BreakerModes, NewNumbersThatAreNonsenseChangeNothing) {
  BreakerRig rig;
  BreakerConfig config = BreakerRig::config();
  config.probe_successes = 9;
  const Result<void> no = rig.breaker.configure(config);
  ASSERT_FALSE(no.has_value());
  EXPECT_EQ(no.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(rig.breaker.config(), BreakerRig::config());
}

TEST(BreakerModes, AnotherWindowTakesAnotherBreaker) {
  BreakerRig rig;
  BreakerConfig config = BreakerRig::config();
  config.window = LastCalls{20};
  const Result<void> no = rig.breaker.configure(config);
  ASSERT_FALSE(no.has_value());
  EXPECT_EQ(no.error().code, ErrorCode::failed_precondition);
}

TEST(BreakerModes, MeasuringMayBeginWhileCallsAreUnderWay) {
  BreakerRig rig;
  Permit unmeasured = rig.admitted();
  BreakerConfig config = BreakerRig::config();
  config.slow_percent = 1;
  config.slow_call = 1ms;
  config.minimum_calls = 1;
  ASSERT_TRUE(rig.breaker.configure(config).has_value());
  unmeasured.ok();
  EXPECT_EQ(rig.state(), BreakerState::closed) << "nobody knows how long it took";
}

TEST(BreakerModes, ARampThatIsTakenAwayClosesWhatRecovers) {
  BreakerConfig config = BreakerRig::config();
  config.ramp = BreakerRamp{};
  BreakerRig rig(config);
  rig.half_open();
  rig.calls(2, Outcome::ok);
  ASSERT_EQ(rig.state(), BreakerState::recovering);
  config.ramp.reset();
  ASSERT_TRUE(rig.breaker.configure(config).has_value());
  EXPECT_EQ(rig.state(), BreakerState::closed);
}

}  // namespace
}  // namespace weir
