// Several Guards in one process, on databases and prefixes of one Redis: each has its own counters,
// its own fleet, and its own breaker.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fault_rig.h"
#include "guard/impl.h"

namespace weir::fault {
namespace {

using testing::RedisServer;

struct Place {
  std::string database;
  std::string prefix;
};

Guard open(const RedisServer& server, const Place& place) {
  return Guard::open(
             Policy::parse("store:\n  url: redis://127.0.0.1:" + std::to_string(server.port()) +
                           "/" + place.database + "\n  prefix: " + place.prefix +
                           R"(
  deadline: 700ms
  connect_timeout: 2s
  breaker: {cooldown: 50ms, max_cooldown: 200ms}
  recovery: {steps: 2, step: 20ms}
inputs: [user]
routes:
  login: {limits: [{requests: 6, per: day, by: [user], algorithm: fixed_window}], protects: capacity}
)")
                 .value(),
             {.role = FleetRole::worker})
      .value();
}

TEST(GuardsOnOneRedis, AreApartByDatabaseAndPrefix) {
  RedisServer server;
  const std::vector<Place> places = {
      {"0", "weir"}, {"1", "weir"}, {"0", "staging"}, {"0", "weir:1"}, {"15", "staging"}};
  std::vector<Guard> guards;
  for (const Place& place : places) guards.push_back(open(server, place));
  for (std::size_t i = 0; i < guards.size(); ++i) {
    int allowed = 0;
    for (int n = 0; n < 10; ++n) allowed += guards[i].check("login", {{"user", "ada"}}).allowed();
    EXPECT_EQ(allowed, 6) << i;
  }
  // None of them met another's workers.
  for (std::size_t i = 0; i < guards.size(); ++i) {
    guard::WorkerPart part;
    EXPECT_TRUE(eventually([&] {
      part = guards[i].impl().shared()->part();
      return part.has_part;
    })) << i;
    EXPECT_EQ(part.workers, 1u) << i;
  }
  // A reset is one place's.
  ASSERT_TRUE(guards[1].reset("login", {{"user", "ada"}}));
  for (std::size_t i = 0; i < guards.size(); ++i) {
    EXPECT_EQ(guards[i].check("login", {{"user", "ada"}}).allowed(), i == 1) << i;
  }
  // What one admits while the store is away is told in its own place.
  server.pause();
  for (Guard& each : guards) {
    EXPECT_TRUE(eventually([&] {
      return each.check("login", {{"user", "noticing"}}).rung == Rung::share;
    }));
  }
  for (int n = 0; n < 4; ++n) EXPECT_TRUE(guards[2].check("login", {{"user", "bob"}}).allowed());
  server.resume();
  for (std::size_t i = 0; i < guards.size(); ++i) {
    Decision decision;
    EXPECT_TRUE(eventually([&] {
      decision = guards[i].check("login", {{"user", "bob"}}, {.cost = 0});
      return decision.rung == Rung::store;
    })) << i;
    if (i == 2) (void)guards[i].check("login", {{"user", "bob"}});
  }
  EXPECT_TRUE(eventually([&] {
    const Decision decision = guards[2].check("login", {{"user", "bob"}}, {.cost = 0});
    return decision.rules().size() == 1 && decision.rules()[0].remaining == 1u;
  }));
  const Decision other = guards[4].check("login", {{"user", "bob"}}, {.cost = 0});
  ASSERT_EQ(other.rules().size(), 1u);
  EXPECT_EQ(other.rules()[0].remaining, 6u);
}

// A user's right to one prefix is enough for it, and of no use for another.
TEST(GuardsOnOneRedis, NeedNoRightToAnothersKeys) {
  RedisServer server;
  ASSERT_EQ(server.execute({"ACL", "SETUSER", "default", "resetkeys", "~weir:*"}), "+OK\r\n");
  Guard mine = open(server, {"0", "weir"});
  EXPECT_TRUE(mine.check("login", {{"user", "ada"}}).allowed());
  EXPECT_EQ(mine.check("login", {{"user", "ada"}}).rung, Rung::store);
  Guard other = open(server, {"0", "staging"});
  const Decision decision = other.check("login", {{"user", "ada"}});
  EXPECT_NE(decision.rung, Rung::store);
  EXPECT_EQ(mine.check("login", {{"user", "ada"}}).rung, Rung::store) << "its breaker is its own";
}

}  // namespace
}  // namespace weir::fault
