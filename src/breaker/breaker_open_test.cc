#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "testing/breaker_rig.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::BreakerRig;

TEST(BreakerOpen, RejectsWithTheTrueTimeToTheFirstProbe) {
  BreakerRig rig;
  rig.open();
  rig.pass(400ms);
  Admission no = rig.breaker.admit();
  ASSERT_FALSE(no);
  EXPECT_EQ(no.rejected().reason, RejectReason::open);
  ASSERT_EQ(no.rejected().retry_after, Nanos(600ms));
  rig.pass(600ms - 1ns);
  EXPECT_FALSE(rig.breaker.admit());
  rig.pass(1ns);
  EXPECT_TRUE(rig.breaker.admit()) << "who waits that long is admitted";
}

// Which tells the time by the kernel's tick as long as the end is far.
TEST(BreakerOpen, ByTheMachinesClockNoCallGoesBeforeItsWaitIsOver) {
  BreakerConfig config = BreakerRig::config();
  config.open_wait = 100ms;
  Breaker breaker = Breaker::make("payments", config).value();
  const MonoTime least = Clock::real().mono() + 100ms;
  breaker.trip();
  for (bool goes = false; !goes; std::this_thread::sleep_for(1ms)) {
    Admission admission = breaker.admit();
    const MonoTime now = Clock::real().mono();
    goes = admission.admitted();
    if (goes)
      EXPECT_GE(now, least);
    else
      EXPECT_GE(now + admission.rejected().retry_after.value(), least) << "never told too short";
  }
  EXPECT_EQ(breaker.state(), BreakerState::half_open);
}

TEST(BreakerOpen, FailuresThatArriveMeanwhileDoNotExtendIt) {
  // aiox 469, redis-rb 312, semian
  BreakerRig rig;
  std::vector<Permit> old;
  for (int i = 0; i < 20; ++i) old.push_back(rig.admitted());
  rig.open();
  for (Permit& permit : old) {
    rig.pass(40ms);
    permit.report(CallVerdict::open_for(1h));
  }
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(200ms));
  EXPECT_EQ(rig.breaker.snapshot().opened, 1U);
  EXPECT_EQ(rig.breaker.snapshot().late, 20U);
}

TEST(BreakerOpen, SaysThatAProbeIsDueOnceItsWaitIsOver) {
  BreakerRig rig;
  rig.open();
  EXPECT_FALSE(rig.breaker.snapshot().probe_due);
  rig.pass(1s);
  EXPECT_TRUE(rig.breaker.snapshot().probe_due);
  EXPECT_EQ(rig.state(), BreakerState::open) << "nothing runs by itself";
  rig.breaker.poll();
  EXPECT_EQ(rig.state(), BreakerState::half_open);
}

TEST(BreakerOpen, EachOpeningThatFollowsWaitsTwiceAsLongUpToTheMaximum) {
  BreakerRig rig;
  rig.open();
  for (const Nanos wait : {1s, 2s, 4s, 8s, 16s, 16s, 16s}) {
    EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(wait));
    rig.pass(wait);
    rig.calls(2, Outcome::failure);
    ASSERT_EQ(rig.state(), BreakerState::open);
  }
}

TEST(BreakerOpen, TheWaitsBeginAnewOnceItWasClosedLongEnough) {
  BreakerConfig config = BreakerRig::config();
  config.forget_after = 60s;
  BreakerRig rig(config);
  const auto recover = [&] {
    rig.pass(rig.breaker.snapshot().until_probe);
    rig.calls(2, Outcome::ok);
    ASSERT_EQ(rig.state(), BreakerState::closed);
  };
  rig.open();
  recover();
  rig.pass(59s);
  rig.open();
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(2s)) << "it flaps";
  recover();
  rig.pass(60s);
  rig.open();
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(1s));
}

TEST(BreakerOpen, WaitsStayWithinTheirJitterAndDifferBetweenCallers) {
  std::set<Nanos> waits;
  BreakerConfig config = BreakerRig::config();
  config.jitter_percent = 20;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    testing::ManualClock clock;
    Breaker breaker = Breaker::make("upstream", config, {.clock = &clock, .seed = seed}).value();
    breaker.trip();
    const Nanos wait = breaker.snapshot().until_probe;
    EXPECT_GE(wait, Nanos(800ms));
    EXPECT_LE(wait, Nanos(1200ms));
    waits.insert(wait);
  }
  EXPECT_GT(waits.size(), 40U);
}

TEST(BreakerOpen, JitterNeverShortensWhatTheDependencyAskedFor) {
  std::set<Nanos> waits;
  BreakerConfig config = BreakerRig::config();
  config.jitter_percent = 20;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    testing::ManualClock clock;
    Breaker breaker = Breaker::make("upstream", config, {.clock = &clock, .seed = seed}).value();
    breaker.trip(30s);
    const Nanos wait = breaker.snapshot().until_probe;
    EXPECT_GE(wait, Nanos(30s));
    EXPECT_LE(wait, Nanos(36s));
    waits.insert(wait);
  }
  EXPECT_GT(waits.size(), 40U) << "nor do all come back at that very instant";
}

TEST(BreakerOpen, CountsWhatItRejects) {
  BreakerRig rig;
  rig.open();
  EXPECT_EQ(rig.calls(1'000, Outcome::ok), 0);
  EXPECT_EQ(rig.breaker.snapshot().rejected, 1'000U);
}

TEST(BreakerOpen, CopiesOfAHandleAreOneBreaker) {
  BreakerRig rig;
  Breaker copy = rig.breaker;
  rig.open();
  EXPECT_EQ(copy.state(), BreakerState::open);
  EXPECT_TRUE(copy == rig.breaker);
}

}  // namespace
}  // namespace weir
