// Where a Guard sends what it asks of a real Cluster: to the master that has the slot, also after a
// node named another one that is dead; everything that a store decides, and a second store where
// one is named.

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <set>

#include "cluster_rig.h"
#include "guard/impl.h"

namespace weir::fault {
namespace {

using testing::RedisCluster;
using testing::RedisServer;
using namespace std::chrono_literals;

// Errors of that kind that the masters gave, of all.
int errors_of(RedisCluster& cluster, const std::string& kind) {
  int sum = 0;
  const std::string name = "errorstat_" + kind + ":count=";
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    const std::string stats = cluster.node(i).text({"INFO", "errorstats"});
    const std::size_t at = stats.find(name);
    if (at != std::string::npos) sum += std::stoi(stats.substr(at + name.size()));
  }
  return sum;
}

// A slot goes to a node that dies, and is taken back: for a moment its old master names the dead
// one, and every map says otherwise.
TEST_F(GuardOnACluster, ComesBackFromARedirectionToADeadNode) {
  RedisCluster cluster({.spare = 1});
  Guard guard = open(cluster);
  const std::string dead = RedisCluster::id_of(cluster.spare());
  cluster.spare().kill();
  for (std::size_t master = 0; master < 3; ++master) {
    SCOPED_TRACE(master);
    RedisServer& node = cluster.node(master);
    const std::vector<std::string> users = users_on(guard, cluster, master, 1);
    ASSERT_EQ(users.size(), 1u);
    const std::string slot = std::to_string(*slot_of(cluster, users[0]));
    Tally tally;
    // With its keys gone first, as MIGRATE leaves it.
    for (const std::string& key : node.keys("*/" + users[0])) node.execute({"DEL", key});
    ASSERT_EQ(node.execute({"CLUSTER", "SETSLOT", slot, "NODE", dead}), "+OK\r\n");
    ASSERT_TRUE(eventually(
        [&] { return check(guard, "count", users[0], tally).verdict == Verdict::refused; }));
    ASSERT_EQ(node.execute({"CLUSTER", "SETSLOT", slot, "NODE", RedisCluster::id_of(node)}),
              "+OK\r\n");
    EXPECT_TRUE(until_store(guard, "count", users[0])) << guard.impl().shared()->state_json();
    Tally after;
    for (int i = 0; i < 50; ++i) (void)check(guard, "count", users[0], after);
    EXPECT_EQ(after.allowed_by_store, after.asked) << heard_.all();
  }
}

// A client that is sent on with every call counts as well as any, at twice the price.
TEST_F(GuardOnACluster, IsNeverSentOnOnceItKnowsTheMap) {
  RedisCluster cluster;
  Guard guard = open(cluster);
  Tally tally;
  for (int i = 0; i < 200; ++i) (void)check(guard, "count", "warm" + std::to_string(i), tally);
  const int moved = errors_of(cluster, "MOVED");
  for (int i = 0; i < 1'000; ++i) (void)check(guard, "count", "u" + std::to_string(i), tally);
  for (int i = 0; i < 200; ++i) {
    (void)ask(guard, "pair", "p" + std::to_string(i), "a" + std::to_string(i));
  }
  EXPECT_EQ(tally.allowed_by_store, tally.asked) << heard_.all();
  EXPECT_EQ(errors_of(cluster, "MOVED"), moved);
  EXPECT_EQ(errors_of(cluster, "CROSSSLOT"), 0);
}

// What lies on several masters: every algorithm, alone and beside others.
TEST_F(GuardOnACluster, CountsExactlyByEveryAlgorithm) {
  RedisCluster cluster;
  const auto open_one = [&] {
    return Guard::open(Policy::parse("store: {url: '" + cluster.url() + R"(', deadline: 2s}
inputs: [user, account]
routes:
  gcra: {limits: [{requests: 3, per: day, by: [user], algorithm: gcra}], protects: security}
  fixed: {limits: [{requests: 3, per: day, by: [user], algorithm: fixed_window}], protects: security}
  sliding: {limits: [{requests: 3, per: day, by: [user], algorithm: sliding_window}], protects: security}
  log: {limits: [{requests: 3, per: day, by: [user], algorithm: sliding_log}], protects: security}
  all:
    limits:
      - {requests: 3, per: day, by: [user], algorithm: gcra}
      - {requests: 9, per: day, by: [account], algorithm: sliding_log}
      - {requests: 9, per: week, by: [account, user], algorithm: sliding_window}
      - {requests: 9, per: month, by: [user], algorithm: fixed_window}
    protects: security
)")
                           .value())
        .value();
  };
  Guard one = open_one();
  Guard other = open_one();
  for (const char* route : {"gcra", "fixed", "sliding", "log", "all"}) {
    for (int user = 0; user < 8; ++user) {
      const std::string name = std::string(route) + std::to_string(user);
      int allowed = 0;
      for (int i = 0; i < 6; ++i) {
        for (Guard* guard : {&one, &other}) {
          allowed += ask(*guard, route, name, "of " + name).allowed() ? 1 : 0;
        }
      }
      EXPECT_EQ(allowed, 3) << name;
    }
  }
  EXPECT_EQ(errors_of(cluster, "CROSSSLOT"), 0);
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    EXPECT_EQ(immortal_keys(cluster.node(i)), "") << i;
  }
}

// Leases and breakers of a fleet have a slot each, on whichever master.
TEST_F(GuardOnACluster, SharesLeasesAndBreakers) {
  RedisCluster cluster;
  const auto open_one = [&] {
    return Guard::open(Policy::parse("store: {url: '" + cluster.url() + R"(', deadline: 2s}
inputs: [account]
concurrency:
  reports: {limit: 5, lease: 20s, max_hold: 60s, by: account, shared: true}
breakers:
  payments: {consecutive_failures: 3, failure_rate: off, window: {calls: 10}, minimum_calls: 4,
             open_wait: 700ms, jitter: 0%, probes: 1, probe_deadline: 3s, ramp: off, shared: true}
)")
                           .value())
        .value();
  };
  Guard one = open_one();
  Guard other = open_one();
  for (Guard* guard : {&one, &other}) {
    ASSERT_TRUE(
        eventually([&] { return guard->impl().safeguards().limits().at(0).store_answers; }));
  }
  std::set<std::size_t> masters;
  for (int account = 0; account < 12; ++account) {
    const std::string name = "a" + std::to_string(account);
    const std::vector<Descriptor> whose = {{"account", name}};
    int given = 0;
    for (int i = 0; i < 4; ++i) {
      for (Guard* guard : {&one, &other})
        given += guard->lease("reports", whose, {}).value() ? 1 : 0;
    }
    EXPECT_EQ(given, 5) << account;
  }
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    if (!cluster.node(i).keys("*!ends").empty()) masters.insert(i);
    EXPECT_EQ(immortal_keys(cluster.node(i)), "") << i;
  }
  EXPECT_EQ(masters.size(), 3u);
  Breaker mine = one.breaker("payments").value();
  Breaker theirs = other.breaker("payments").value();
  for (Breaker* breaker : {&mine, &theirs}) {
    ASSERT_TRUE(eventually([&] { return breaker->snapshot().tie == FleetTie::follows; }));
  }
  for (int i = 0; i < 3; ++i) {
    Admission admission = mine.admit();
    if (admission) admission.permit().failure();
  }
  EXPECT_TRUE(eventually([&] { return theirs.state() == BreakerState::open; }));
  EXPECT_TRUE(eventually([&] {
    Admission admission = theirs.admit();
    if (admission) admission.permit().ok();
    return mine.state() == BreakerState::closed;
  }));
}

// Every master has a fleet of its own, and says who is in it; also of those that are gone.
TEST_F(GuardOnACluster, ShowsTheWorkersOfEveryMaster) {
  RedisCluster cluster;
  const auto worker = [&](const std::string& name) {
    return Guard::open(policy_of(cluster, "", "{name: " + name + "}")).value();
  };
  Guard one = worker("one");
  auto other = std::make_unique<Guard>(worker("other"));
  const auto shards_that_say = [&](const std::string& text) {
    const std::string state = one.impl().shared()->state_json();
    std::size_t count = 0;
    for (std::size_t at = state.find(text); at != std::string::npos;
         at = state.find(text, at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_TRUE(eventually([&] {
    return shards_that_say("\"name\":\"one\"") == 3 && shards_that_say("\"name\":\"other\"") == 3 &&
           shards_that_say("\"workers\":2,\"has_part\":true") == 3;
  })) << one.impl().shared()->state_json();
  cluster.node(1).kill();
  EXPECT_TRUE(eventually([&] {
    Tally tally;
    for (int i = 0; i < 20; ++i) (void)check(one, "count", "u" + std::to_string(i), tally);
    return shards_that_say("\"connected\":false") == 1;
  }));
  EXPECT_EQ(shards_that_say("\"name\":\"other\""), 3u)
      << "as it was last read, on the dead one too";
}

// ---- A second store.

class GuardOnAClusterWithAFallback : public GuardOnACluster {
 protected:
  Guard open_both(RedisCluster& cluster, const std::string& deadline = kUnhurried) {
    return open(cluster, "  fallback: redis://127.0.0.1:" + std::to_string(second_.port()) + "\n",
                deadline);
  }
  static bool until_rung(Guard& guard, Rung rung, const std::string& user) {
    return eventually([&] {
      return guard.check("count", {{"user", user}}, {.cost = 0}).rung == rung;
    });
  }

  RedisServer second_;
};

TEST_F(GuardOnAClusterWithAFallback, AsksItForTheKeysOfADeadMasterAlone) {
  RedisCluster cluster;
  Guard guard = open_both(cluster);
  const std::vector<std::string> dead = users_on(guard, cluster, 1, 3);
  const std::vector<std::string> alive = users_on(guard, cluster, 2, 3);
  ASSERT_EQ(dead.size() + alive.size(), 6u);
  EXPECT_TRUE(second_.keys("*/on*").empty()) << "nobody asks it while all answer";
  cluster.node(1).kill();
  ASSERT_TRUE(until_rung(guard, Rung::fallback, dead[0]));
  // A closed route, counted whole by the second store: three an hour.
  int allowed = 0;
  for (int i = 0; i < 10; ++i) {
    const Decision decision = guard.check("login", {{"user", dead[1]}});
    allowed += decision.allowed() ? 1 : 0;
    EXPECT_NE(decision.verdict, Verdict::refused);
  }
  EXPECT_EQ(allowed, 3);
  Tally well;
  for (int i = 0; i < 50; ++i) (void)check(guard, "count", alive[0], well);
  EXPECT_EQ(well.allowed_by_store, well.asked) << heard_.all();
  EXPECT_TRUE(second_.keys("*/" + alive[0]).empty());
  EXPECT_NE(guard.impl().shared()->state_json().find("\"fallback\":{\"state\":\"closed\""),
            std::string::npos);
  // The policy decides where that one is away too.
  second_.kill();
  ASSERT_TRUE(eventually([&] {
    return guard.check("count", {{"user", dead[0]}}).verdict == Verdict::refused;
  }));
  // And the master is asked again when it is back.
  cluster.node(1).start();
  EXPECT_TRUE(until_store(guard, "count", dead[0])) << heard_.all();
}

// The user's rule is the second store's to decide, the account's its master's: what one of them
// charged for a request that the other denies is given back, wherever it lies.
TEST_F(GuardOnAClusterWithAFallback, DividesARequestOverItAndALivingMaster) {
  RedisCluster cluster;
  Guard guard = open_both(cluster);
  const std::vector<std::string> dead = users_on(guard, cluster, 1, 4);
  const std::vector<std::string> alive = users_on(guard, cluster, 2, 4);
  ASSERT_EQ(dead.size() + alive.size(), 8u);
  cluster.node(1).kill();
  ASSERT_TRUE(until_rung(guard, Rung::fallback, dead[0]));
  int allowed = 0;
  for (int i = 0; i < 20; ++i) {
    const Decision decision = ask(guard, "pair", dead[1], alive[1]);
    allowed += decision.allowed() ? 1 : 0;
    EXPECT_EQ(decision.rung, decision.allowed() ? Rung::fallback : decision.rung);
    EXPECT_NE(decision.verdict, Verdict::refused);
  }
  EXPECT_EQ(allowed, 10) << "the user's limit, counted by the second store";
  EXPECT_TRUE(eventually([&] { return used(guard, "pair", alive[2], alive[1], 1) == 10; }))
      << "the account's has what was admitted, and no more";
  // The other way round: the account is the second store's, and the living user's limit denies.
  for (int i = 0; i < 20; ++i) (void)ask(guard, "pair", alive[3], dead[2]);
  const auto charged = [&] {
    const Decision decision = ask(guard, "pair", dead[3], dead[2], 0);
    return decision.rules().size() == 2 ? 1'000 - decision.rules()[1].remaining.value_or(0)
                                        : UINT64_MAX;
  };
  EXPECT_TRUE(eventually([&] { return charged() == 10; })) << charged();
}

// Callers by the hundred, with the store lost and found under them: each is answered once.
TEST_F(GuardOnAClusterWithAFallback, AnswersEverybodyWhileMastersComeAndGo) {
  RedisCluster cluster;
  Guard guard = open_both(cluster, "500ms");
  std::atomic<int> answered{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::atomic<int> asked{0};
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) {
        ++asked;
        const Decision decision = ask(guard, "pair", "u" + std::to_string(t * 1'000 + i % 50),
                                      "a" + std::to_string(i % 7));
        if (is_sound(decision)) ++answered;
      }
    });
  }
  const auto goes_on = [&] {
    const int then = answered;
    return eventually([&] { return answered >= then + 300; });
  };
  EXPECT_TRUE(goes_on());
  cluster.node(1).kill();
  EXPECT_TRUE(goes_on());
  cluster.node(2).pause();
  EXPECT_TRUE(goes_on());
  second_.pause();
  EXPECT_TRUE(goes_on());
  second_.resume();
  cluster.node(2).resume();
  cluster.node(1).start();
  EXPECT_TRUE(goes_on());
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, asked);
  EXPECT_TRUE(until_store(guard, "count", "u")) << heard_.all();
}

}  // namespace
}  // namespace weir::fault
