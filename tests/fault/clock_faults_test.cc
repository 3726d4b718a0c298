// The store's clock is set, or its place is taken by a host with another clock.

#include <gtest/gtest.h>

#include "drill/proxy/fault_proxy.h"
#include "fault_rig.h"
#include "testing/fake_redis.h"

namespace weir::fault {
namespace {

using drill::FaultProxy;
using testing::FakeRedis;
using namespace std::chrono_literals;

TEST(GuardOnAStoreWhoseClockIsSet, GoesOnWithItAndLocksNobodyOut) {
  FakeRedis fake;
  Heard heard;
  Guard guard =
      Guard::open(policy_on(fake.port(), {.deadline = "2s"}), {.observer = &heard}).value();
  Tally tally;
  int user = 0;
  for (const auto ahead : std::initializer_list<Nanos>{1s, -1s, 0s, 24h, -24h, 365 * 24h, 0s}) {
    fake.set_clock_ahead(ahead);
    SCOPED_TRACE(ahead.count());
    const std::string name = "u" + std::to_string(++user);
    for (const char* route : {"login", "search", "status", "audit"}) {
      const Decision decision = check(guard, route, name, tally);
      EXPECT_TRUE(decision.allowed()) << decision.json();
      EXPECT_EQ(decision.rung, Rung::store) << decision.json();
      // One that has been asked before: denied for its window at most, never for as long as the
      // clock was wrong.
      const Decision known = check(guard, route, "old", tally);
      EXPECT_NE(known.verdict, Verdict::refused) << known.json();
      if (known.retry_after) {
        EXPECT_LE(*known.retry_after, 1h + 2s) << known.json();
      }
    }
  }
  EXPECT_EQ(tally.broken, 0u) << tally.example;
  EXPECT_TRUE(tally.in_time()) << tally.times();
  EXPECT_GE(heard.count(StoreEvent::Kind::clock_set), 5) << heard.all();
  EXPECT_EQ(heard.count(StoreEvent::Kind::away), 0) << heard.all();
}

// Who reads the log can tell what happened to the clock, and how far it is off now.
TEST(GuardOnAStoreWhoseClockIsSet, SaysHowFarItWasSetAndHowFarItIsFromTheMachines) {
  FakeRedis fake;
  Heard heard;
  Guard guard =
      Guard::open(policy_on(fake.port(), {.deadline = "2s"}), {.observer = &heard}).value();
  Tally tally;
  const auto set_to = [&](Nanos ahead) {
    const std::size_t known = heard.clock_sets().size();
    fake.set_clock_ahead(ahead);
    const bool said = eventually([&] {
      (void)check(guard, "count", "u", tally);
      return heard.clock_sets().size() > known;
    });
    EXPECT_TRUE(said) << heard.all();
    return said ? heard.clock_sets().back() : Heard::ClockSet{};
  };
  // What an answer's way takes is not known: half of the deadline, twice.
  const auto about = [](Nanos is, Nanos wanted) { return std::chrono::abs(is - wanted) < 3s; };
  const Heard::ClockSet forth = set_to(1h);
  EXPECT_TRUE(about(forth.moved, 1h)) << forth.moved.count();
  EXPECT_TRUE(about(forth.skew, 1h)) << forth.skew.count();
  const Heard::ClockSet back = set_to(-10min);
  EXPECT_TRUE(about(back.moved, -70min)) << back.moved.count();
  EXPECT_TRUE(about(back.skew, -10min)) << back.skew.count();
}

// The new primary's clock is a second ahead: every ask is late there until that is known, and then
// none is. Nothing of it is an outage.
TEST(GuardOnAStoreThatFailsOver, ToAClockASecondAheadIsNotInAnOutage) {
  FakeRedis first;
  FakeRedis second;
  second.set_clock_ahead(1s);
  auto proxy = FaultProxy::start({.target = "127.0.0.1:" + std::to_string(first.port())}).value();
  Heard heard;
  Guard guard =
      Guard::open(policy_on(proxy->port(), {.deadline = "200ms"}), {.observer = &heard}).value();
  Tally tally;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(check(guard, "count", "u", tally).rung, Rung::store);
  }
  ASSERT_TRUE(proxy->retarget("127.0.0.1:" + std::to_string(second.port())).has_value());
  proxy->reset_connections();
  ASSERT_TRUE(until_store(guard, "count", "u")) << heard.all();
  Tally after;
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(check(guard, "count", "u", after).rung, Rung::store);
  }
  EXPECT_EQ(after.allowed_by_store, 50u);
  EXPECT_EQ(after.broken, 0u);
  // The new one had nothing: what was last known of the counter came with the first ask.
  EXPECT_EQ(counted(guard, "u"), 55u);
}

// The same under its feet: the connection stays, and the clock jumps between two asks.
TEST(GuardOnAStoreWhoseClockIsSet, AsksAgainWithinTheDeadlineAndCountsOnce) {
  FakeRedis fake;
  Heard heard;
  Guard guard =
      Guard::open(policy_on(fake.port(), {.deadline = "500ms"}), {.observer = &heard}).value();
  Tally tally;
  for (int i = 0; i < 40; ++i) {
    if (i % 4 == 0) fake.set_clock_ahead(Nanos(2s) * (i % 8 == 0 ? 1 : -1));
    const Decision decision = check(guard, "count", "u", tally);
    EXPECT_EQ(decision.rung, Rung::store) << decision.json();
  }
  EXPECT_EQ(tally.allowed_by_store, 40u);
  EXPECT_EQ(counted(guard, "u"), 40u);
  EXPECT_EQ(heard.count(StoreEvent::Kind::away), 0) << heard.all();
}

}  // namespace
}  // namespace weir::fault
