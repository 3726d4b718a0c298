// An open breaker tells the time by the kernel's tick while its end is far: here on a clock that
// the test moves, whose tick is behind by as much as the test says.

#include <gtest/gtest.h>

#include <chrono>
#include <optional>

#include "breaker/tick.h"
#include "testing/breaker_rig.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::BreakerRig;

// A clock of an exact time, which is counted when it is read, and of a tick.
class TickingClock final : public Clock {
 public:
  Instant now() const noexcept override { return exact_.now(); }
  MonoTime mono() const noexcept override {
    ++looks;
    return exact_.mono();
  }
  void sleep_until(MonoTime until) override { exact_.sleep_until(until); }
  MonoTime tick() const noexcept { return exact_.mono() - behind; }
  void pass(Nanos time) { exact_.advance(time); }

  Nanos behind{0};
  mutable int looks = 0;

 private:
  testing::ManualClock exact_;
};

const TickingClock* ticking = nullptr;

// Open for 1 s.
struct TickRig {
  TickRig() {
    ticking = &clock;
    breaker = Breaker::make("upstream", BreakerRig::config(), {.clock = &clock}).value();
    breaker->trip();
    clock.looks = 0;
  }
  ~TickRig() { ticking = nullptr; }
  // What it is told to wait; absent: it is let through.
  std::optional<Nanos> told() {
    Admission admission = breaker->admit();
    if (admission) return std::nullopt;
    EXPECT_EQ(admission.rejected().reason, RejectReason::open);
    return admission.rejected().retry_after;
  }

  TickingClock clock;
  std::optional<Breaker> breaker;
};

TEST(BreakerTick, FarFromItsEndOnlyTheTickIsRead) {
  TickRig rig;
  rig.clock.behind = 4ms;
  EXPECT_EQ(rig.told(), Nanos(1'004ms)) << "by the tick: too long, and never too short";
  rig.clock.pass(1s - 24ms - 1ns);
  EXPECT_EQ(rig.told(), Nanos(28ms + 1ns));
  EXPECT_EQ(rig.clock.looks, 0);
}

TEST(BreakerTick, WithinTwentyMillisecondsOfItsEndTheExactTimeIs) {
  TickRig rig;
  rig.clock.pass(1s - 20ms - 1ns);
  EXPECT_EQ(rig.told(), Nanos(20ms + 1ns));
  EXPECT_EQ(rig.clock.looks, 0) << "20 ms and 1 ns are far";
  rig.clock.pass(1ns);
  EXPECT_EQ(rig.told(), Nanos(20ms));
  EXPECT_EQ(rig.clock.looks, 1) << "20 ms are near";
  rig.clock.behind = 4ms;
  rig.clock.pass(8ms);
  EXPECT_EQ(rig.told(), Nanos(12ms)) << "exact, though the tick is behind";
}

TEST(BreakerTick, WhoWaitsAsLongAsHeIsToldIsLetThroughHoweverLateTheTickIsWithinItsMargin) {
  for (const Nanos behind : {Nanos(0ms), Nanos(1ms), Nanos(10ms), Nanos(20ms)}) {
    TickRig rig;
    rig.clock.behind = behind;
    rig.clock.pass(1s - 1ns);
    EXPECT_GE(rig.told(), std::optional(Nanos(1ns))) << behind.count();
    rig.clock.pass(1ns);
    EXPECT_EQ(rig.told(), std::nullopt) << behind.count();
    EXPECT_EQ(rig.breaker->state(), BreakerState::half_open);
  }
}

// The kernel may stand still for longer: then calls go later, and none too soon.
TEST(BreakerTick, ATickThatIsLaterThanThatHoldsCallsBackUntilItIsThere) {
  TickRig rig;
  rig.clock.behind = 20ms + 1ns;
  rig.clock.pass(1s);
  EXPECT_EQ(rig.told(), Nanos(20ms + 1ns));
  EXPECT_EQ(rig.breaker->state(), BreakerState::open);
  rig.clock.behind = 3ms;
  EXPECT_EQ(rig.told(), std::nullopt);
}

TEST(BreakerTick, NoTickLetsACallThroughBeforeTheExactTimeDoes) {
  for (const Nanos behind : {Nanos(0ms), Nanos(5ms), Nanos(19ms), Nanos(40ms)}) {
    TickRig rig;
    rig.clock.behind = behind;
    for (Nanos at{0}; at < 1s; at += 500us) {
      const std::optional<Nanos> wait = rig.told();
      ASSERT_TRUE(wait) << at.count();
      EXPECT_GE(at + *wait, 1s);
      rig.clock.pass(500us);
    }
  }
}

// One of a clock that was passed in has no tick: whoever steers the time steers all of it.
TEST(BreakerTick, AClockWithoutATickIsRead) {
  testing::ManualClock clock;
  Breaker breaker = Breaker::make("upstream", BreakerRig::config(), {.clock = &clock}).value();
  breaker.trip();
  clock.advance(300ms);
  EXPECT_EQ(breaker.admit().rejected().retry_after, Nanos(700ms));
}

}  // namespace

namespace breaker {

bool has_tick(const Clock& clock) noexcept {
  return &clock == ticking;
}
MonoTime tick() noexcept {
  return ticking->tick();
}

}  // namespace breaker
}  // namespace weir
