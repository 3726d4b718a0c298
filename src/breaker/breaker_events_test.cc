#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "breaker/breaker_core.h"
#include "breaker/event_queue.h"
#include "testing/breaker_rig.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::BreakerRig;

TEST(BreakerEvents, TellEveryChangeOnceAndInOrder) {
  BreakerRig rig;
  rig.half_open();
  rig.calls(2, Outcome::ok);
  ASSERT_EQ(rig.events.size(), 3U);
  const BreakerState story[] = {BreakerState::closed, BreakerState::open, BreakerState::half_open,
                                BreakerState::closed};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rig.events[i].seq, i + 1);
    EXPECT_EQ(rig.events[i].from, story[i]);
    EXPECT_EQ(rig.events[i].to, story[i + 1]);
    EXPECT_EQ(rig.events[i].breaker, "upstream");
  }
  EXPECT_EQ(rig.events[0].cause, BreakerCause::consecutive_failures);
  EXPECT_EQ(rig.events[0].open_for, Nanos(1s));
  EXPECT_EQ(rig.events[1].cause, BreakerCause::wait_over);
}

TEST(BreakerEvents, TheOneThatOpensSaysWhatTheWindowHeld) {
  BreakerConfig config = BreakerRig::config();
  config.consecutive_failures.reset();
  config.failure_percent = 50;
  BreakerRig rig(config);
  rig.calls(3, Outcome::ok);
  rig.calls(3, Outcome::failure);
  ASSERT_EQ(rig.events.size(), 1U);
  EXPECT_EQ(rig.events[0].cause, BreakerCause::failure_rate);
  EXPECT_EQ(rig.events[0].calls, 6U);
  EXPECT_EQ(rig.events[0].failures, 3U);
}

TEST(BreakerEvents, AListenerMayUseItsBreaker) {
  // gobreaker calls its listener under the lock: touching the breaker there never returns
  testing::ManualClock clock;
  std::optional<Breaker> breaker;
  std::vector<BreakerState> heard;
  const auto listener = [&](const BreakerEvent& event) {
    heard.push_back(event.to);
    (void)breaker->snapshot();
    (void)breaker->admit();
    if (event.to == BreakerState::open) breaker->close();
  };
  breaker = Breaker::make("upstream", BreakerRig::config(), {.clock = &clock, .listener = listener})
                .value();
  breaker->trip();
  EXPECT_EQ(heard, (std::vector{BreakerState::open, BreakerState::closed}))
      << "what it caused comes after it has returned";
}

TEST(BreakerEvents, WhatAListenerThrowsIsDropped) {
  Breaker breaker =
      Breaker::make("upstream", BreakerRig::config(),
                    {.listener = [](const BreakerEvent&) { throw std::runtime_error("no"); }})
          .value();
  breaker.trip();
  breaker.close();
  EXPECT_EQ(breaker.state(), BreakerState::closed);
}

TEST(EventQueue, AListenerThatIsStuckCostsEventsNotMemory) {
  int heard = 0;
  std::uint64_t last = 0;
  breaker::EventQueue* queue = nullptr;
  breaker::EventQueue stuck([&](const BreakerEvent& event) {
    if (++heard == 1)
      for (int i = 0; i < 1'500; ++i) queue->push({});
    EXPECT_GT(event.seq, last);
    last = event.seq;
  });
  queue = &stuck;
  stuck.push({});
  stuck.deliver();
  EXPECT_EQ(heard, 1'001);
  EXPECT_EQ(stuck.dropped(), 500U);
  EXPECT_EQ(last, 1'501U) << "the oldest are the ones that go";
}

TEST(BreakerEvents, ThatOneThreadHoldsBackAreToldInOrderByWhoeverTellsNext) {
  BreakerRig rig;
  {
    const breaker::HoldEvents hold;
    rig.breaker.trip();
    EXPECT_TRUE(rig.events.empty());
    std::thread([&] { rig.breaker.close(); }).join();
    ASSERT_EQ(rig.events.size(), 2U);
    EXPECT_EQ(rig.events[0].to, BreakerState::open);
    EXPECT_EQ(rig.events[1].to, BreakerState::closed);
    rig.breaker.trip();
  }
  EXPECT_EQ(rig.events.size(), 2U);
  BreakerCore::of(rig.breaker)->deliver();
  ASSERT_EQ(rig.events.size(), 3U);
  EXPECT_EQ(rig.events[2].seq, 3U);
}

}  // namespace
}  // namespace weir
