// Another master takes the place of one that is well: nobody is decided without the store. And one
// that is cut off from the rest of its cluster stops counting, and is left once it is replaced.

#include <gtest/gtest.h>

#include <deque>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "cluster_rig.h"

namespace weir::fault {
namespace {

using testing::RedisCluster;
using testing::RedisServer;

class ClusterThatChangesHands : public GuardOnACluster {
 protected:
  // As much as a policy may say: nobody's time runs out on a busy machine.
  static constexpr auto kGenerous = "10s";

  // How often a node said that nobody has a slot.
  static int said_unserved(RedisServer& node) {
    const std::string stats = node.text({"INFO", "errorstats"});
    const std::string name = "errorstat_CLUSTERDOWN:count=";
    const std::size_t at = stats.find(name);
    return at == std::string::npos ? 0 : std::stoi(stats.substr(at + name.size()));
  }
  // As an operator does it: the replica asks its master to stop for a moment. One that waits in
  // vain goes on after five seconds.
  static bool hand_over(RedisCluster& cluster, RedisServer& to) {
    return eventually([&] { return known_as_replica(cluster, to); }, seconds(60)) &&
           eventually(
               [&] {
                 return to.execute({"CLUSTER", "FAILOVER"}) == "+OK\r\n" &&
                        eventually([&] { return is_master(to); }, seconds(15));
               },
               seconds(90));
  }
};

// One that has handed over says now and then, for a moment, that nobody has its slots: who asks
// waits.
TEST_F(ClusterThatChangesHands, AsksTheStoreAloneThroughPlannedFailovers) {
  RedisCluster cluster({.replicas = 1, .node_timeout_ms = 15'000});
  Guard guard = open(cluster, "", kGenerous);
  const std::vector<std::string> users = users_on(guard, cluster, 0, 3);
  ASSERT_EQ(users.size(), 3u);
  std::vector<std::uint64_t> before;
  for (const std::string& user : users) before.push_back(counted(guard, user));
  std::deque<Load> loads;
  for (const std::string& user : users) loads.emplace_back(guard, "count", user, 2);
  RedisServer* const hands[] = {&cluster.replica_of(0), &cluster.node(0)};  // and back
  for (RedisServer* const to : hands) {
    ASSERT_TRUE(hand_over(cluster, *to));
    ASSERT_TRUE(eventually([&] { return shows(guard, *to); }, seconds(60))) << shown(guard);
    const std::uint64_t then = loads[0].asked();
    ASSERT_TRUE(eventually([&] { return loads[0].asked() >= then + 50; }));
  }
  for (std::size_t i = 0; i < users.size(); ++i) {
    const Tally tally = loads[i].stop();
    EXPECT_EQ(tally.broken, 0u) << tally.example;
    EXPECT_EQ(tally.allowed_by_store, tally.asked) << users[i] << '\n' << heard_.all();
    EXPECT_EQ(counted(guard, users[i]), before[i] + tally.asked) << users[i];
  }
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 0) << heard_.all();
}

// A master that does not know whose a slot is, as one that has just handed over may not.
TEST_F(ClusterThatChangesHands, AsksAgainWhereNobodyHasASlotForAMoment) {
  RedisCluster cluster({.node_timeout_ms = 15'000});
  Guard guard = open(cluster, "", kGenerous);
  const std::string user = users_on(guard, cluster, 0, 1).at(0);
  RedisServer& node = cluster.node(0);
  const std::string slot = std::to_string(*slot_of(cluster, user));
  const std::uint64_t before = counted(guard, user);
  Load load(guard, "count", user, 8);
  for (int i = 0; i < 5; ++i) {
    const int said = said_unserved(node);
    ASSERT_EQ(node.execute({"CLUSTER", "DELSLOTS", slot}), "+OK\r\n");
    ASSERT_TRUE(eventually([&] { return said_unserved(node) > said; }));
    ASSERT_EQ(node.execute({"CLUSTER", "ADDSLOTS", slot}), "+OK\r\n");
    const std::uint64_t then = load.asked();
    ASSERT_TRUE(eventually([&] { return load.asked() >= then + 50; }));
  }
  const Tally tally = load.stop();
  EXPECT_EQ(tally.allowed_by_store, tally.asked) << heard_.all();
  EXPECT_EQ(counted(guard, user), before + tally.asked);
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 0) << heard_.all();
}

// It stays so: by their deadlines, and then by the policy at once.
TEST_F(ClusterThatChangesHands, GoesByThePolicyWhereNobodyHasASlotForLong) {
  RedisCluster cluster({.node_timeout_ms = 15'000});
  Guard guard = open(cluster, "", "500ms");
  const std::string user = users_on(guard, cluster, 0, 1).at(0);
  RedisServer& node = cluster.node(0);
  const std::string slot = std::to_string(*slot_of(cluster, user));
  ASSERT_EQ(node.execute({"CLUSTER", "DELSLOTS", slot}), "+OK\r\n");
  Tally tally;
  EXPECT_EQ(check(guard, "count", user, tally).verdict, Verdict::refused);
  EXPECT_GE(tally.slowest, milliseconds(400)) << "it was asked again";
  EXPECT_TRUE(eventually([&] {
    (void)check(guard, "count", user, tally);
    return heard_.count(StoreEvent::Kind::away) > 0;
  })) << shown(guard);
  EXPECT_EQ(tally.allowed(), 0u);
  ASSERT_EQ(node.execute({"CLUSTER", "ADDSLOTS", slot}), "+OK\r\n");
  EXPECT_TRUE(until_store(guard, "count", user)) << heard_.all();
}

// The map names a master to which no connection stands, before any node was asked for the slot.
TEST_F(ClusterThatChangesHands, AsksTheStoreAloneWhereTheMapNamesANewMasterFirst) {
  RedisCluster cluster({.spare = 1});
  Guard guard = open(cluster, "", kGenerous);
  const std::vector<std::string> users = users_on(guard, cluster, 0, 2);
  ASSERT_EQ(users.size(), 2u);
  const auto moved = slot_of(cluster, users[0]);
  ASSERT_TRUE(moved && slot_of(cluster, users[1]) != moved);
  cluster.move_slot(*moved, cluster.node(0), cluster.spare());
  Tally tally;
  ASSERT_TRUE(eventually([&] { return shows(guard, cluster.spare()); })) << shown(guard);
  for (int i = 0; i < 50; ++i)
    for (const std::string& user : users) (void)check(guard, "count", user, tally);
  EXPECT_EQ(tally.allowed_by_store, tally.asked) << heard_.all();
  EXPECT_EQ(counted(guard, users[0]), 51u);
}

// The map names the replica while asks are at the master, which is silent: whoever comes then waits
// for the new one, and is not given up when the old connection ends for its sake.
TEST_F(ClusterThatChangesHands, KeepsWhoWaitsForANewMasterUntilItIsThere) {
  RedisCluster cluster({.replicas = 1, .node_timeout_ms = 15'000});
  Guard guard = open(cluster, "", kGenerous);
  const std::string user = users_on(guard, cluster, 0, 1).at(0);
  const auto ask = [&] {
    return std::async(std::launch::async, [&] { return guard.check("count", {{"user", user}}); });
  };
  cluster.node(0).pause();
  std::future<Decision> at_the_old = ask();
  ASSERT_TRUE(eventually([&] {
    return shown(guard).find("\"in_flight\":1,") < shown(guard).size();
  })) << shown(guard);
  ASSERT_EQ(cluster.replica_of(0).execute({"CLUSTER", "FAILOVER", "TAKEOVER"}), "+OK\r\n");
  ASSERT_TRUE(eventually([&] { return shows(guard, cluster.replica_of(0)); })) << shown(guard);
  std::vector<std::future<Decision>> waiting;
  for (int i = 0; i < 4; ++i) waiting.push_back(ask());
  // Time to come to wait; who comes later is decided by the new one as well.
  for (const auto& each : waiting)
    EXPECT_EQ(each.wait_for(milliseconds(100)), std::future_status::timeout) << shown(guard);
  cluster.node(0).resume();
  EXPECT_TRUE(at_the_old.get().allowed());
  for (auto& each : waiting) {
    const Decision decision = each.get();
    EXPECT_TRUE(decision.allowed() && decision.rung == Rung::store) << decision.json();
  }
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 0) << heard_.all();
}

// The account's master charges and is left; the user's is silent meanwhile, and then denies.
TEST_F(ClusterThatChangesHands, GivesBackToTheMasterThatGotTheSlotMeanwhile) {
  RedisCluster cluster({.node_timeout_ms = 30'000});
  Guard guard = open(cluster, "", kGenerous);
  const std::string user = users_on(guard, cluster, 0, 1).at(0);
  const std::string account = users_on(guard, cluster, 1, 1).at(0);
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(GuardOnACluster::ask(guard, "pair", user, "first" + std::to_string(i)).allowed());
  const auto slot = slot_of(cluster, account);
  ASSERT_TRUE(slot);
  const auto charged = [&] { return cluster.node(1).keys("*/" + account).size() == 2; };
  Guard fresh = open(cluster, "", kGenerous);  // does not know that the user has none left
  cluster.node(0).pause();
  std::future<Decision> denied = std::async(
      std::launch::async, [&] { return GuardOnACluster::ask(fresh, "pair", user, account); });
  ASSERT_TRUE(eventually(charged));
  cluster.move_slot(*slot, cluster.node(1), cluster.node(2));
  cluster.node(0).resume();
  EXPECT_EQ(denied.get().verdict, Verdict::limited);
  EXPECT_TRUE(eventually([&] { return used(fresh, "pair", "other", account, 1) == 0; }))
      << used(fresh, "pair", "other", account, 1);
  for (int shard = 0; shard < 3; ++shard) {
    const std::string of = "weir_store_give_backs_total{shard=\"" + std::to_string(shard) + "\"";
    EXPECT_DOUBLE_EQ(metric(fresh, of + ",result=\"lost\"}"), 0) << shard;
  }
}

// The account's master charges, and then knows for a moment nobody who has the slot.
TEST_F(ClusterThatChangesHands, GivesBackThoughNobodyHasTheSlotForAMoment) {
  RedisCluster cluster({.node_timeout_ms = 30'000});
  Guard guard = open(cluster, "", kGenerous);
  const std::string user = users_on(guard, cluster, 0, 1).at(0);
  const std::string account = users_on(guard, cluster, 1, 1).at(0);
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(GuardOnACluster::ask(guard, "pair", user, "first" + std::to_string(i)).allowed());
  const std::string slot = std::to_string(slot_of(cluster, account).value());
  RedisServer& node = cluster.node(1);
  const auto charged = [&] { return node.keys("*/" + account).size() == 2; };
  Guard fresh = open(cluster, "", kGenerous);  // does not know that the user has none left
  cluster.node(0).pause();
  std::future<Decision> denied = std::async(
      std::launch::async, [&] { return GuardOnACluster::ask(fresh, "pair", user, account); });
  ASSERT_TRUE(eventually(charged));
  const int said = said_unserved(node);
  ASSERT_EQ(node.execute({"CLUSTER", "DELSLOTS", slot}), "+OK\r\n");
  cluster.node(0).resume();
  EXPECT_EQ(denied.get().verdict, Verdict::limited);
  EXPECT_TRUE(eventually([&] { return said_unserved(node) > said; }));
  ASSERT_EQ(node.execute({"CLUSTER", "ADDSLOTS", slot}), "+OK\r\n");
  EXPECT_TRUE(eventually([&] { return used(fresh, "pair", "other", account, 1) == 0; }))
      << used(fresh, "pair", "other", account, 1);
  for (int shard = 0; shard < 3; ++shard) {
    const std::string of = "weir_store_give_backs_total{shard=\"" + std::to_string(shard) + "\"";
    EXPECT_DOUBLE_EQ(metric(fresh, of + ",result=\"lost\"}"), 0) << shard;
  }
}

// It was at the master that died: whether the replica has heard of it nobody can tell, and so it is
// not told again. It is counted, and the charge stays until its window ends.
TEST_F(ClusterThatChangesHands, LosesWhatItGaveBackToAMasterThatDiedAndCountsIt) {
  RedisCluster cluster({.replicas = 1, .node_timeout_ms = 30'000});
  Guard guard = open(cluster, "", kGenerous);
  const std::string user = users_on(guard, cluster, 0, 1).at(0);
  const std::string account = users_on(guard, cluster, 1, 1).at(0);
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(GuardOnACluster::ask(guard, "pair", user, "first" + std::to_string(i)).allowed());
  const auto charged = [&] { return cluster.node(1).keys("*/" + account).size() == 2; };
  Guard fresh = open(cluster, "", kGenerous);  // does not know that the user has none left
  cluster.node(0).pause();
  std::future<Decision> denied = std::async(
      std::launch::async, [&] { return GuardOnACluster::ask(fresh, "pair", user, account); });
  ASSERT_TRUE(eventually(charged));
  ASSERT_TRUE(replicated(cluster.node(1), cluster.replica_of(1)));
  cluster.node(1).pause();
  cluster.node(0).resume();
  EXPECT_EQ(denied.get().verdict, Verdict::limited);
  const auto lost = [&] {
    double all = 0;
    for (int shard = 0; shard < 3; ++shard) {
      all += metric(fresh, "weir_store_give_backs_total{shard=\"" + std::to_string(shard) +
                               "\",result=\"lost\"}");
    }
    return all;
  };
  EXPECT_DOUBLE_EQ(lost(), 0);
  cluster.node(1).kill();
  ASSERT_EQ(cluster.replica_of(1).execute({"CLUSTER", "FAILOVER", "TAKEOVER"}), "+OK\r\n");
  EXPECT_TRUE(eventually([&] { return lost() == 1; })) << lost();
  EXPECT_TRUE(eventually([&] { return used(fresh, "pair", "other", account, 1) == 1; }))
      << used(fresh, "pair", "other", account, 1);
}

// All others are stopped: the one that is left counts until it takes them for lost, and then says
// that the cluster is down. Once it is the one that was stopped, and was replaced meanwhile, it
// takes itself for a master still; what it counts then is lost with it.
TEST_F(ClusterThatChangesHands, KeepsTheBoundOfAMasterThatIsCutOffAndReplaced) {
  constexpr std::uint64_t kWhole = 20;
  constexpr std::uint64_t kPart = 10;
  RedisCluster cluster({.replicas = 1, .node_timeout_ms = 2'000});
  Guard guard = open(cluster);
  const std::string user = users_on(guard, cluster, 0, 1).at(0);
  const auto rest = [&](void (RedisServer::*what)()) {
    for (std::size_t i = 1; i < cluster.size(); ++i) (cluster.node(i).*what)();
  };
  std::uint64_t admitted = 0;
  const auto bounded = [&] {
    const Decision decision = guard.check("alone", {{"user", user}});
    admitted += decision.allowed() ? 1 : 0;
    return decision;
  };
  for (std::uint64_t i = 0; i < kWhole / 2; ++i) EXPECT_TRUE(bounded().allowed());
  rest(&RedisServer::pause);
  // Down by its own word: nothing is decided there any more.
  EXPECT_TRUE(eventually([&] {
    Tally tally;
    return check(guard, "count", user, tally).verdict == Verdict::refused;
  })) << heard_.all();
  EXPECT_TRUE(eventually([&] { return bounded().rung != Rung::store; }));
  for (int i = 0; i < 40; ++i) (void)bounded();
  EXPECT_LE(admitted, kWhole + kPart);
  rest(&RedisServer::resume);
  EXPECT_TRUE(until_store(guard, "count", user)) << heard_.all();
  for (int i = 0; i < 40; ++i) (void)bounded();
  EXPECT_LE(admitted, kWhole + kPart);

  ASSERT_TRUE(eventually([&] { return RedisCluster::works(cluster.node(1)); }));
  // On a machine that is too busy for either of them they may have changed places by themselves.
  RedisServer* master = &cluster.node(0);
  RedisServer* replica = &cluster.replica_of(0);
  const auto look = [&] {
    if (!is_master(*master)) std::swap(master, replica);
    return is_master(*master) && !is_master(*replica);
  };
  ASSERT_TRUE(eventually([&] { return look() && in_step(*replica); }, seconds(60)));
  master->pause();
  ASSERT_TRUE(eventually([&] { return is_master(*replica); }, seconds(60)));
  master->resume();
  for (int i = 0; i < 40; ++i) (void)bounded();
  EXPECT_TRUE(eventually([&] { return look() && shows(guard, *master); }, seconds(60)))
      << shown(guard);
  EXPECT_TRUE(eventually(
      [&] {
        Tally after;
        const std::uint64_t before = counted(guard, user);
        for (int i = 0; i < 10; ++i) (void)check(guard, "count", user, after);
        return after.allowed_by_store == after.asked && counted(guard, user) == before + 10;
      },
      seconds(60)))
      << heard_.all();
  for (int i = 0; i < 40; ++i) (void)bounded();
  EXPECT_LE(admitted, 2 * kWhole + kPart) << "and at most the limit for what was lost";
}

}  // namespace
}  // namespace weir::fault
