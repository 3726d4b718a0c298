#include "guard/shard_driver_rig_test.h"

#include <array>
#include <string>

namespace weir::guard {
namespace {

using namespace std::chrono_literals;

// Before it opens five find no connection; while it is open three are decided at once.
TEST(ShardDriver, SaysAtTheReturnHowLongTheStoreWasAwayAndWhatWasDecidedWithoutIt) {
  const OneRule rule(Algorithm::fixed_window, 100, 1h);
  DriverRig rig(FailurePolicy::bounded, rule);
  rig.answered(1);
  rig.redis.stop();
  while (rig.driver.ladder().breaker().state() == breaker::ProbeState::closed) rig.answered(1);
  const std::uint64_t before = rig.driver.counters().without();
  EXPECT_GE(before, 5U);
  const MonoTime ended = rig.driver.connection().since;
  EXPECT_LT(ended, rig.driver.ladder().breaker().since());
  for (int i = 0; i < 3; ++i) rig.answered(2);
  // What was sent beside answers nobody was answered by.
  for (int i = 0; i < 5; ++i) {
    DriverRig::Asked& errand = rig.prepared(1);
    errand.counter.op = store::Op::refund;
    errand.request.when_store_fails = FailurePolicy::closed;
    errand.errand = true;
    EXPECT_FALSE(rig.driver.begin(errand));
    rig.driver.no_room(errand);
  }
  rig.loop.run_for(10s);
  rig.redis.start_with_what_it_had();
  while (rig.driver.ladder().breaker().state() != breaker::ProbeState::closed) {
    rig.loop.run_for(1ms);
  }
  const auto back = rig.heard.of(StoreEvent::Kind::back);
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(back[0].away_for, rig.driver.ladder().breaker().since() - ended)
      << "since the connection ended";
  EXPECT_EQ(back[0].decided_without, before + 3) << "those that opened the breaker, too";
  EXPECT_EQ(back[0].owed_units, before + 6);
}

// It stands, and says nothing: the calls that waited out their deadlines were decided without it.
TEST(ShardDriver, CountsTheCallsThatFoundOutThatTheStoreHangs) {
  const OneRule rule(Algorithm::fixed_window, 100, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  const auto hang_and_come_back = [&rig](int asked) {
    rig.redis.hang();
    for (int i = 0; i < asked; ++i) rig.answered(1);
    EXPECT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::open);
    rig.redis.go_on();
    while (rig.driver.ladder().breaker().state() != breaker::ProbeState::closed) {
      rig.loop.run_for(1ms);
    }
    return rig.heard.of(StoreEvent::Kind::back).back().decided_without;
  };
  rig.answered(1);
  EXPECT_EQ(hang_and_come_back(7), 7U);
  // One call that fails alone is no outage, and is not counted to the next.
  rig.redis.hang();
  rig.answered(1);
  rig.redis.go_on();
  rig.loop.run_for(1s);
  rig.answered(1);
  EXPECT_EQ(hang_and_come_back(6), 6U);
}

// An operator sees it as the log says it: since when, and no more once it is back.
TEST(ShardDriver, ShowsSinceWhenTheStoreIsAwayThoughItsBreakerIsClosed) {
  using ::testing::HasSubstr;
  const OneRule rule(Algorithm::fixed_window, 100, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  EXPECT_EQ(rig.driver.away_for(), std::nullopt);
  EXPECT_THAT(rig.driver.state_json(), HasSubstr("\"away\":false"));
  EXPECT_THAT(rig.metrics(), HasSubstr("weir_store_away_seconds{shard=\"0\"} 0\n"));
  rig.redis.stop();
  rig.loop.run_for(1ms);
  const MonoTime ended = rig.driver.connection().since;
  rig.loop.run_for(ended + 30s - rig.loop.mono());
  EXPECT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::closed) << "nobody asked";
  EXPECT_EQ(rig.driver.away_for(), 30s);
  EXPECT_EQ(rig.driver.connection().since, ended) << "whatever attempts failed since";
  EXPECT_THAT(rig.driver.state_json(), HasSubstr("\"away\":true,\"away_for_ms\":30000,"));
  EXPECT_THAT(rig.driver.state_json(), HasSubstr("\"disconnected_for_ms\":30000,"));
  EXPECT_THAT(rig.metrics(), HasSubstr("weir_store_away_seconds{shard=\"0\"} 30\n"));
  rig.redis.start_with_what_it_had();
  rig.loop.run_for(5s);
  EXPECT_EQ(rig.driver.away_for(), std::nullopt);
  EXPECT_THAT(rig.metrics(), HasSubstr("weir_store_away_seconds{shard=\"0\"} 0\n"));
}

// One server has all slots of a request: it is one request to it, in however many parts it asks.
TEST(ShardDriver, CountsARequestOfSeveralPartsOnce) {
  class AllHere final : public SlotOwners {
   public:
    explicit AllHere(ShardDriver& all) : all_(all) {}
    ShardDriver& owner(std::uint16_t) noexcept override { return all_; }
    void send_soon(SharedAsk&, ShardDriver&) noexcept override {}

   private:
    ShardDriver& all_;
  };
  const OneRule rule(Algorithm::fixed_window, 100, 1h);
  const OneRule other(Algorithm::fixed_window, 100, 1h, 8);
  DriverRig rig(FailurePolicy::bounded, rule);
  rig.redis.stop();
  while (rig.driver.ladder().breaker().state() == breaker::ProbeState::closed) rig.answered(1);
  const std::uint64_t before = rig.driver.counters().without();
  AllHere owners(rig.driver);
  for (int i = 0; i < 3; ++i) {
    DriverRig::Asked& asked = rig.prepared(1);
    const std::array both{rule.counter(1), other.counter(1)};
    asked.request.counters = both;
    const std::array<std::uint16_t, 2> slots{1, 2};
    SplitAsk split(asked, slots, owners);
    EXPECT_FALSE(split.begin());
    ASSERT_TRUE(asked.verdict);
    EXPECT_EQ(asked.verdict->rung, Rung::share);
  }
  EXPECT_EQ(rig.driver.counters().without() - before, 3U);
}

// Nobody asks, or too few do for the breaker to open: the outage is told all the same, once.
TEST(ShardDriver, SaysOnceThatTheStoreIsAwayThoughNobodyAsks) {
  using Kind = StoreEvent::Kind;
  const OneRule rule(Algorithm::fixed_window, 100, 1h);
  DriverRig rig(FailurePolicy::bounded, rule);
  rig.redis.stop();
  rig.loop.run_for(1s);
  EXPECT_TRUE(rig.heard.of(Kind::away).empty()) << "it may be restarting";
  EXPECT_EQ(rig.answered(1).verdict->rung, Rung::share);
  rig.loop.run_for(20s);
  ASSERT_EQ(rig.heard.of(Kind::away).size(), 1U);
  EXPECT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::closed);
  EXPECT_TRUE(rig.heard.of(Kind::back).empty());
  rig.redis.start_with_what_it_had();
  rig.loop.run_for(5s);
  const auto back = rig.heard.of(Kind::back);
  ASSERT_EQ(back.size(), 1U);
  EXPECT_GT(back[0].away_for, Nanos(21s));
  EXPECT_LT(back[0].away_for, Nanos(26s));
  EXPECT_EQ(back[0].decided_without, 1U);
  EXPECT_EQ(back[0].owed_units, 1U);
  EXPECT_EQ(rig.heard.of(Kind::away).size(), 1U);
  EXPECT_EQ(rig.answered(1).verdict->rung, Rung::store);
}

TEST(ShardDriver, DoesNotSayASecondTimeThatTheStoreIsAwayWhenTheBreakerOpens) {
  using Kind = StoreEvent::Kind;
  const OneRule rule(Algorithm::fixed_window, 100, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  rig.redis.stop();
  rig.loop.run_for(10s);
  for (int i = 0; i < 6; ++i) rig.answered(1);
  EXPECT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::open);
  EXPECT_EQ(rig.heard.of(Kind::away).size(), 1U);
  rig.redis.start_with_what_it_had();
  rig.loop.run_for(15s);
  EXPECT_EQ(rig.heard.of(Kind::answers_again).size(), 1U);
  ASSERT_EQ(rig.heard.of(Kind::back).size(), 1U);
  EXPECT_GT(rig.heard.of(Kind::back)[0].away_for, Nanos(10s));
  EXPECT_EQ(rig.heard.of(Kind::back)[0].decided_without, 6U);
}

TEST(ShardDriver, SaysThatAStoreIsBackWhichWasAwayAtTheStart) {
  using Kind = StoreEvent::Kind;
  const OneRule rule(Algorithm::fixed_window, 100, 1h);
  DriverRig rig(FailurePolicy::closed, rule, 1, DriverRig::Start::without_store);
  rig.loop.run_for(30s);
  EXPECT_TRUE(rig.heard.of(Kind::away).empty()) << "it was said at the start";
  rig.redis.start_with_what_it_had();
  rig.loop.run_for(5s);
  ASSERT_EQ(rig.heard.of(Kind::back).size(), 1U);
  EXPECT_GT(rig.heard.of(Kind::back)[0].away_for, Nanos(30s));
}

// It stands, and says nothing: the beats find out.
TEST(ShardDriver, SaysThatAStoreHangsThoughNobodyAsks) {
  using Kind = StoreEvent::Kind;
  const OneRule rule(Algorithm::fixed_window, 100, 1h);
  DriverRig rig(FailurePolicy::closed, rule, 1, DriverRig::Start::worker);
  rig.redis.hang();
  rig.loop.run_for(10s);
  ASSERT_EQ(rig.heard.of(Kind::away).size(), 1U);
  EXPECT_EQ(rig.heard.of(Kind::away)[0].next_probe, Nanos(0));
  rig.redis.go_on();
  rig.loop.run_for(5s);
  EXPECT_EQ(rig.heard.of(Kind::back).size(), 1U);
}

TEST(ShardDriver, WhatFindsNoRoomIsDecidedByPolicyAndCountedAndSaysNothingOfTheStore) {
  const OneRule rule(Algorithm::fixed_window, 100, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  for (int i = 0; i < 20; ++i) {
    DriverRig::Asked& asked = rig.prepared(1);
    rig.driver.no_room(asked);
    ASSERT_TRUE(asked.verdict);
    EXPECT_EQ(asked.verdict->verdict, Verdict::refused);
    EXPECT_EQ(asked.verdict->reason, Reason::store_unavailable);
  }
  const std::string metrics = rig.metrics();
  EXPECT_NE(metrics.find("weir_store_no_room_total{shard=\"0\"} 20\n"), std::string::npos);
  EXPECT_NE(metrics.find("weir_store_errors_total{shard=\"0\",class=\"unreachable\"} 20\n"),
            std::string::npos)
      << metrics;
  EXPECT_EQ(rig.answered(1).verdict->rung, Rung::store);
}

}  // namespace
}  // namespace weir::guard
