#include <gtest/gtest.h>

#include "testing/breaker_rig.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::BreakerRig;

BreakerConfig with(std::uint32_t probes, std::uint32_t in_flight, std::uint32_t successes) {
  BreakerConfig config = BreakerRig::config();
  config.probes = probes;
  config.probes_in_flight = in_flight;
  config.probe_successes = successes;
  return config;
}

TEST(BreakerHalfOpen, AdmitsOneProbeAtATime) {
  BreakerRig rig;
  rig.half_open();
  Permit probe = rig.admitted();
  EXPECT_TRUE(probe.is_probe());
  Admission no = rig.breaker.admit();
  ASSERT_FALSE(no);
  EXPECT_EQ(no.rejected().reason, RejectReason::probing);
  EXPECT_EQ(no.rejected().retry_after, Nanos(10s)) << "when the probe's slot frees itself";
  probe.ok();
  EXPECT_TRUE(rig.breaker.admit());
}

TEST(BreakerHalfOpen, ClosesOnceEnoughProbesSucceeded) {
  BreakerRig rig;
  rig.half_open();
  rig.call(Outcome::ok);
  EXPECT_EQ(rig.state(), BreakerState::half_open);
  rig.call(Outcome::ok);
  EXPECT_EQ(rig.state(), BreakerState::closed) << "the third could change nothing";
  EXPECT_EQ(rig.events.back().cause, BreakerCause::probes_passed);
}

TEST(BreakerHalfOpen, OpensAsSoonAsItCannotCloseAnyMore) {
  BreakerRig rig;
  rig.half_open();
  rig.call(Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::half_open) << "two of three may still succeed";
  rig.call(Outcome::ok);
  rig.call(Outcome::failure);
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_EQ(rig.events.back().cause, BreakerCause::probes_failed);
  EXPECT_EQ(rig.events.back().calls, 3U);
  EXPECT_EQ(rig.events.back().failures, 2U);
}

TEST(BreakerHalfOpen, NeverLetsMoreThanItsBudgetVote) {
  BreakerRig rig(with(4, 4, 4));
  rig.half_open();
  std::vector<Permit> probes;
  for (int i = 0; i < 4; ++i) {
    probes.push_back(rig.admitted());
    EXPECT_TRUE(probes.back().is_probe());
  }
  EXPECT_FALSE(rig.breaker.admit());
  probes[0].ok();
  EXPECT_FALSE(rig.breaker.admit()) << "three in flight and one vote are all four";
  for (int i = 1; i < 4; ++i) probes[static_cast<std::size_t>(i)].ok();
  EXPECT_EQ(rig.state(), BreakerState::closed);
}

TEST(BreakerHalfOpen, EveryEndThatSaysNothingFreesItsSlotWithoutAVote) {
  // resilience4j 544, 935; Polly: a cancelled probe is no success
  for (Outcome outcome : {Outcome::ignored, Outcome::cancelled, Outcome::local_reject}) {
    BreakerRig rig;
    rig.half_open();
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(rig.call(outcome)) << to_string(outcome);
    EXPECT_EQ(rig.state(), BreakerState::half_open) << to_string(outcome);
    rig.calls(2, Outcome::ok);
    EXPECT_EQ(rig.state(), BreakerState::closed) << to_string(outcome);
  }
}

TEST(BreakerHalfOpen, ADroppedProbeGivesItsSlotBack) {
  BreakerRig rig;
  rig.half_open();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(rig.admitted().is_probe());
  EXPECT_EQ(rig.breaker.snapshot().probes_in_flight, 0U);
  EXPECT_EQ(rig.state(), BreakerState::half_open);
}

TEST(BreakerHalfOpen, AProbeThatIsThrownPastGivesItsSlotBack) {
  BreakerRig rig;
  rig.half_open();
  EXPECT_THROW(
      {
        Permit probe = rig.admitted();
        throw std::runtime_error("the caller's own");
      },
      std::runtime_error);
  EXPECT_TRUE(rig.breaker.admit());
}

TEST(BreakerHalfOpen, ALostProbeDoesNotWedgeIt) {
  // OmniRoute 13836: six days and 49,607 rejections behind one probe
  BreakerRig rig;
  rig.half_open();
  Permit lost = rig.admitted();
  rig.pass(10s - 1ns);
  EXPECT_FALSE(rig.breaker.admit());
  rig.pass(1ns);
  Permit next = rig.admitted();
  EXPECT_TRUE(next.is_probe()) << "its slot is free again";
  const BreakerSnapshot shot = rig.breaker.snapshot();
  EXPECT_EQ(shot.expired_probes, 1U);
  EXPECT_EQ(shot.failures, 1U) << "silence is a failure";
}

TEST(BreakerHalfOpen, ExpiredProbesMayBeIgnored) {
  BreakerConfig config = BreakerRig::config();
  config.expired_probe = ExpiredProbe::is_ignored;
  BreakerRig rig(config);
  rig.half_open();
  Permit lost = rig.admitted();
  rig.pass(10s);
  rig.breaker.poll();
  EXPECT_EQ(rig.breaker.snapshot().failures, 0U);
  EXPECT_EQ(rig.state(), BreakerState::half_open);
}

TEST(BreakerHalfOpen, WhatAnExpiredProbeReportsIsLateAndFreesNobodysSlot) {
  BreakerRig rig;
  rig.half_open();
  Permit lost = rig.admitted();
  rig.pass(10s);
  Permit next = rig.admitted();
  lost.ok();
  EXPECT_EQ(rig.breaker.snapshot().late, 1U);
  EXPECT_EQ(rig.breaker.snapshot().probes_in_flight, 1U) << "the slot is the next one's";
  EXPECT_FALSE(rig.breaker.admit());
}

TEST(BreakerHalfOpen, AnOverdueProbeIsLateEvenWhereNobodyAskedSince) {
  BreakerRig rig(with(1, 1, 1));
  rig.half_open();
  Permit lost = rig.admitted();
  rig.pass(10s);
  lost.ok();
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_EQ(rig.breaker.snapshot().late, 1U);
}

TEST(BreakerHalfOpen, WithoutAVerdictItOpensAgain) {
  BreakerRig rig;
  rig.half_open();
  for (int i = 0; i < 29; ++i) {
    EXPECT_TRUE(rig.call(Outcome::ignored));
    rig.pass(1s);
  }
  rig.pass(1s);
  EXPECT_FALSE(rig.call(Outcome::ok));
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_EQ(rig.events.back().cause, BreakerCause::no_verdict);
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(2s));
}

TEST(BreakerHalfOpen, ResultsOfTheClosedTimeDoNotVoteHere) {
  BreakerRig rig;
  std::vector<Permit> old;
  for (int i = 0; i < 6; ++i) old.push_back(rig.admitted());
  rig.half_open();
  for (Permit& permit : old) permit.ok();
  EXPECT_EQ(rig.state(), BreakerState::half_open);
  EXPECT_EQ(rig.breaker.snapshot().calls, 0U);
}

TEST(BreakerHalfOpen, ProbesOfAnEarlierRoundDoNotVoteInALaterOne) {
  BreakerRig rig(with(3, 3, 2));
  rig.half_open();
  Permit early = rig.admitted();
  Permit early2 = rig.admitted();
  rig.calls(1, Outcome::failure);
  early2.failure();  // two of three failed: open
  ASSERT_EQ(rig.state(), BreakerState::open);
  rig.pass(2s);
  Permit now = rig.admitted();
  ASSERT_EQ(rig.state(), BreakerState::half_open);
  early.failure();
  EXPECT_EQ(rig.breaker.snapshot().failures, 0U);
  EXPECT_EQ(rig.breaker.snapshot().probes_in_flight, 1U);
  now.ok();
  rig.call(Outcome::ok);
  EXPECT_EQ(rig.state(), BreakerState::closed);
}

TEST(BreakerHalfOpen, StaleReleasesNeverMakeRoom) {
  // failsafe 391: each release of an old call let one more probe through
  BreakerRig rig;
  std::vector<Permit> old;
  for (int i = 0; i < 10; ++i) old.push_back(rig.admitted());
  rig.half_open();
  Permit probe = rig.admitted();
  old.clear();
  EXPECT_FALSE(rig.breaker.admit());
}

TEST(BreakerHalfOpen, ASlowProbeHasNotSucceededWhereSlownessCounts) {
  BreakerConfig config = BreakerRig::config();
  config.slow_percent = 50;
  config.slow_call = 100ms;
  BreakerRig rig(config);
  rig.half_open();
  for (int i = 0; i < 2; ++i) {
    Permit probe = rig.admitted();
    rig.pass(101ms);
    probe.ok();
  }
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(BreakerHalfOpen, AProbeMayNameTheWait) {
  BreakerRig rig;
  rig.half_open();
  rig.call(CallVerdict::open_for(40s));
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(40s));
}

TEST(BreakerHalfOpen, TheProbeThatDecidesBringsItsRetryAfter) {
  BreakerRig rig;
  rig.half_open();
  CallVerdict verdict = Outcome::failure;
  verdict.retry_after = 9s;
  rig.calls(2, verdict);
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(9s));
}

TEST(BreakerHalfOpen, RejectsNoLongerThanTheSlotIsTaken) {
  BreakerRig rig;
  rig.half_open();
  Permit probe = rig.admitted();
  EXPECT_FALSE(rig.breaker.admit());
  probe.report(Outcome::ignored);
  EXPECT_TRUE(rig.breaker.admit()) << "at once, not at the deadline that was told";
}

}  // namespace
}  // namespace weir
