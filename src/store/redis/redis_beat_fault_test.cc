// Beats on a real server, over a real connection, beside asks.

#include <gtest/gtest.h>

#include "testing/redis_rig.h"
#include "testing/redis_server.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using testing::RedisRig;
using testing::RigRule;

class Beats : public ::testing::Test {
 protected:
  struct Got {
    int times = 0;
    std::string error;
    FleetReply fleet;
  };

  void send(const Beat& beat, Got& got, Nanos within = 5s) {
    rig.client().beat(beat, within, [&got](const ErrorRow* error, const FleetReply* fleet) {
      ++got.times;
      if (error != nullptr) got.error = error->pattern;
      if (fleet != nullptr) got.fleet = *fleet;
    });
  }
  Got beat(const Beat& beat, Nanos within = 5s) {
    Got got;
    send(beat, got, within);
    EXPECT_TRUE(rig.run_until([&] { return got.times > 0; }));
    EXPECT_EQ(got.times, 1);
    return got;
  }
  static Beat of(const std::string& name, Beat::Kind kind = Beat::Kind::first) {
    return {.kind = kind, .name = name, .incarnation = 5, .seen_epoch = 0, .lease = 15s};
  }

  testing::RedisServer server;
  RedisRig rig{RedisRig::on_port(server.port())};
};

TEST_F(Beats, AnnounceAndLeaveOnARealServerAndKeepATimeToLive) {
  ASSERT_TRUE(rig.connect());
  EXPECT_EQ(beat(of("a")).fleet.members.size(), 1U);
  const Got both = beat(of("b"));
  EXPECT_EQ(both.error, "");
  EXPECT_EQ(both.fleet.members.size(), 2U);
  EXPECT_EQ(both.fleet.epoch, both.fleet.history + 1);
  EXPECT_EQ(beat(of("b", Beat::Kind::leave)).fleet.members.size(), 1U);
  for (const std::string& key : server.keys("*members")) {
    EXPECT_GT(std::stoll(server.text({"PTTL", key})), 86'000'000) << key;
  }
  EXPECT_EQ(server.keys("*members").size(), 1U);
}

TEST_F(Beats, AreSentWithTheirTextWhereTheScriptIsGone) {
  ASSERT_TRUE(rig.connect());
  server.execute({"SCRIPT", "FLUSH"});
  EXPECT_EQ(beat(of("a")).fleet.members.size(), 1U);
}

TEST_F(Beats, ThrowAwayAValueOfAnotherType) {
  ASSERT_TRUE(rig.connect());
  ASSERT_EQ(beat(of("a")).error, "");
  const std::string key = server.keys("*members").at(0);
  server.execute({"DEL", key});
  server.execute({"HSET", key, "f", "v"});
  const Got got = beat(of("a", Beat::Kind::again));
  EXPECT_TRUE(got.fleet.repaired);
  EXPECT_EQ(got.fleet.members.size(), 1U);
}

TEST_F(Beats, NeverVoteAndNeverShiftARepliesOrder) {
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 1'000, std::chrono::hours(1));
  server.pause();
  EXPECT_EQ(beat(of("a"), 20ms).error, "(deadline)");
  EXPECT_EQ(beat(of("a"), 20ms).error, "(deadline)")
      << "the reply to the last one is still to come";
  EXPECT_EQ(rig.votes, 0U);
  server.resume();
  const RedisRig::Result asked = rig.ask(rule.counter());
  EXPECT_TRUE(asked.allowed) << asked.error;
  EXPECT_FALSE(asked.disagreed);
  EXPECT_EQ(beat(of("a", Beat::Kind::again)).fleet.members.size(), 1U);
  EXPECT_EQ(rig.failures, 0U);
}

TEST_F(Beats, AreAnsweredOnceWhereTheConnectionIsLost) {
  ASSERT_TRUE(rig.connect());
  server.pause();
  Got got;
  send(of("a"), got);
  server.kill();
  EXPECT_TRUE(rig.run_until([&] { return got.times > 0; }));
  EXPECT_NE(got.error, "");
  EXPECT_EQ(rig.votes, 0U);
  EXPECT_EQ(beat(of("a")).error, "(not connected)");
  EXPECT_EQ(got.times, 1);
}

}  // namespace
}  // namespace weir::store::redis
