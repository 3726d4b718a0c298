#include <gtest/gtest.h>

#include "testing/breaker_rig.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::BreakerRig;

BreakerConfig ramped(BreakerRamp ramp = {}) {
  BreakerConfig config = BreakerRig::config();
  config.probes = config.probe_successes = 1;
  config.ramp = ramp;
  return config;
}

void recover(BreakerRig& rig) {
  rig.half_open();
  rig.call(Outcome::ok);
  ASSERT_EQ(rig.state(), BreakerState::recovering);
}

TEST(BreakerRecovering, LetsAPartOfTheCallsThrough) {
  BreakerRig rig(ramped());
  recover(rig);
  EXPECT_NEAR(rig.calls(1'000, Outcome::ok), 100, 5);
  Admission no = rig.breaker.admit({.spread = 0xffff});
  ASSERT_FALSE(no);
  EXPECT_EQ(no.rejected().reason, RejectReason::recovering);
  EXPECT_EQ(no.rejected().retry_after, Nanos(1s));
}

TEST(BreakerRecovering, NoStepLetsMoreThanItsGrowthOfTheStepBeforeThrough) {
  BreakerRig rig(ramped());
  recover(rig);
  double before = 0;
  std::vector<std::uint32_t> shares;
  while (rig.state() == BreakerState::recovering) {
    shares.push_back(rig.breaker.snapshot().share_percent);
    const double made = rig.calls(10'000, Outcome::ok);
    if (before > 0) {
      EXPECT_LE(made, before * 1.5 * 1.01);
    }
    before = made;
    rig.pass(1s);
    rig.breaker.poll();
  }
  EXPECT_EQ(shares, (std::vector<std::uint32_t>{9, 14, 22, 33, 50, 75, 100}));
  EXPECT_EQ(rig.state(), BreakerState::closed);
  EXPECT_EQ(rig.events.back().cause, BreakerCause::ramp_done);
}

TEST(BreakerRecovering, TheSameCallersGoWhoseHashIsGiven) {
  BreakerRig rig(ramped());
  recover(rig);
  for (std::uint64_t caller = 0; caller < 0x10000; caller += 97) {
    const bool first = static_cast<bool>(rig.breaker.admit({.spread = caller}));
    EXPECT_EQ(static_cast<bool>(rig.breaker.admit({.spread = caller})), first);
  }
}

TEST(BreakerRecovering, AFailedStepHalvesThePartAndHolds) {
  BreakerRig rig(ramped({.start_percent = 10, .minimum_calls = 4}));
  recover(rig);
  for (int step = 0; step < 3; ++step) {
    rig.calls(100, Outcome::ok);
    rig.pass(1s);
    rig.breaker.poll();
  }
  ASSERT_EQ(rig.breaker.snapshot().share_percent, 33U);
  rig.calls(12, Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::recovering);
  EXPECT_EQ(rig.breaker.snapshot().share_percent, 16U);
}

TEST(BreakerRecovering, StrikesOpenItAgainWithALongerWait) {
  BreakerRig rig(ramped({.start_percent = 100, .minimum_calls = 5, .strikes = 3}));
  recover(rig);
  int failed = 0;
  while (rig.state() == BreakerState::recovering && failed < 100) {
    rig.call(Outcome::failure);
    ++failed;
  }
  EXPECT_EQ(failed, 9) << "three strikes of three failures in a row";
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_EQ(rig.events.back().cause, BreakerCause::ramp_failed);
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(2s));
}

TEST(BreakerRecovering, AFewFailuresAreStillJudgedAtTheStepsEnd) {
  BreakerConfig config = ramped({.start_percent = 100, .minimum_calls = 50, .strikes = 1});
  config.consecutive_failures.reset();
  config.failure_percent = 50;
  BreakerRig rig(config);
  rig.breaker.trip();
  rig.pass(1s);
  rig.call(Outcome::ok);
  rig.calls(2, Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::recovering);
  rig.pass(1s);
  rig.breaker.poll();
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(BreakerRecovering, AnIdleCallerIsNotHeldDown) {
  BreakerRig rig(ramped());
  recover(rig);
  rig.pass(1s);
  rig.breaker.poll();
  EXPECT_EQ(rig.breaker.snapshot().share_percent, 9U) << "a step without a call proves nothing yet";
  rig.pass(4s);
  rig.breaker.poll();
  EXPECT_EQ(rig.breaker.snapshot().share_percent, 14U);
  for (int i = 0; i < 8; ++i) {
    rig.pass(5s);
    rig.breaker.poll();
  }
  EXPECT_EQ(rig.state(), BreakerState::closed);
}

TEST(BreakerRecovering, ADirectiveOpensIt) {
  BreakerRig rig(ramped({.start_percent = 100}));
  recover(rig);
  rig.call(CallVerdict::open_for(30s));
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(30s));
}

TEST(BreakerRecovering, ResultsOfTheProbingTimeDoNotVoteHere) {
  BreakerConfig config = ramped({.start_percent = 100, .minimum_calls = 1, .strikes = 1});
  config.probes = config.probes_in_flight = 3;
  config.probe_successes = 1;
  BreakerRig rig(config);
  rig.half_open();
  Permit left = rig.admitted();
  Permit over = rig.admitted();
  rig.call(Outcome::ok);
  ASSERT_EQ(rig.state(), BreakerState::recovering);
  left.failure();
  over.failure();
  EXPECT_EQ(rig.state(), BreakerState::recovering);
  EXPECT_EQ(rig.breaker.snapshot().late, 2U);
}

TEST(BreakerRecovering, EscapesADependencyThatHoldsOnlyBelowItsStableLoad) {
  // A metastable dependency: once overloaded it fails everything until its load falls below a
  // tenth, and each second of that gives it back half of what it lacks. Full load at once would
  // break it again.
  BreakerConfig config = ramped();
  config.open_wait = 500ms;
  BreakerRig rig(config);
  double capacity = 0.05;
  bool escaped = false;
  for (int second = 0; second < 300 && !escaped; ++second) {
    int made = 0;
    const double offered = 1'000;
    for (int i = 0; i < 1'000; ++i) {
      Admission a = rig.breaker.admit();
      if (!a) continue;
      ++made;
      a.permit().report(made <= capacity * offered ? Outcome::ok : Outcome::failure);
    }
    const double load = made / offered;
    capacity = load > capacity ? capacity * 0.5 : std::min(1.0, capacity * 1.6 + 0.02);
    rig.pass(1s);
    escaped = rig.state() == BreakerState::closed && capacity >= 1.0;
  }
  EXPECT_TRUE(escaped);
}

}  // namespace
}  // namespace weir
