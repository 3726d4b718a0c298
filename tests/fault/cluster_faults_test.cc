// A Guard on a real Redis Cluster: exact over its masters, and when one of them dies, is replaced,
// or gives its slots away, only what lies there is touched.

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <thread>

#include "cluster_rig.h"
#include "drill/proxy/fault_proxy.h"
#include "guard/impl.h"
#include "store/redis/topology/key_slot.h"

namespace weir::fault {
namespace {

using testing::RedisCluster;
using testing::RedisServer;
using namespace std::chrono_literals;

// For state folders of Guards, which write there until they end: it is made before them, and goes
// after them.
struct StateRoot {
  StateRoot() : path(::testing::TempDir() + "/weir-state-XXXXXX") {
    if (::mkdtemp(path.data()) == nullptr) std::abort();
  }
  StateRoot(const StateRoot&) = delete;
  StateRoot& operator=(const StateRoot&) = delete;
  ~StateRoot() { std::filesystem::remove_all(path); }

  std::string path;
};

TEST_F(GuardOnACluster, IsExactOverAllMasters) {
  RedisCluster cluster;
  Guard one = open(cluster);
  Guard other = open(cluster);
  std::set<std::size_t> masters;
  for (int user = 0; user < 24; ++user) {
    const std::string name = "u{" + std::to_string(user) + "}";
    int allowed = 0;
    for (int i = 0; i < 4; ++i) {
      for (Guard* guard : {&one, &other}) {
        const Decision decision = guard->check("login", {{"user", name}});
        EXPECT_EQ(decision.rung == Rung::store || decision.rung == Rung::known, true);
        allowed += decision.allowed() ? 1 : 0;
      }
    }
    EXPECT_EQ(allowed, 3) << name;
  }
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    EXPECT_FALSE(cluster.node(i).keys("weir:1:*/u*").empty()) << "master " << i;
    EXPECT_EQ(immortal_keys(cluster.node(i)), "");
  }
  const std::string state = one.impl().shared()->state_json();
  EXPECT_NE(state.find("\"topology\":\"cluster\",\"state\":\"closed\""), std::string::npos)
      << state;
  EXPECT_DOUBLE_EQ(metric(one, "weir_breaker_state{shard=\"2\"}"), 0);
  EXPECT_EQ(heard_.count(StoreEvent::Kind::fault), 0) << heard_.all();
}

// The user's counter denies in one slot what the account's has charged in another.
TEST_F(GuardOnACluster, GivesBackWhatWasReservedForADeniedRequest) {
  RedisCluster cluster;
  Guard guard = open(cluster);
  for (int user = 0; user < 8; ++user) {
    const std::string name = "u" + std::to_string(user);
    const std::string account = "a" + std::to_string(user);
    for (int i = 0; i < 10; ++i) {
      const Decision decision = ask(guard, "pair", name, account);
      EXPECT_TRUE(decision.allowed());
      EXPECT_EQ(decision.rung, Rung::store);
      ASSERT_EQ(decision.rules().size(), 2u);
      EXPECT_EQ(decision.rules()[0].remaining, 9u - static_cast<unsigned>(i));
      EXPECT_EQ(decision.rules()[1].remaining, 999u - static_cast<unsigned>(i));
    }
    // As a worker that knows of no denial yet.
    Guard fresh = open(cluster);
    const Decision denied = ask(fresh, "pair", name, account);
    EXPECT_EQ(denied.verdict, Verdict::limited);
    EXPECT_EQ(denied.rung, Rung::store);
    ASSERT_EQ(denied.rules().size(), 2u);
    EXPECT_EQ(denied.rules()[0].remaining, 0u);
    EXPECT_EQ(denied.rules()[1].remaining, 990u);
    EXPECT_TRUE(eventually([&] { return used(fresh, "pair", "other", account, 1) == 10; })) << user;
    EXPECT_EQ(used(fresh, "pair", name, account, 0), 10u);
  }
}

TEST_F(GuardOnACluster, DegradesTheKeysOfADeadMasterAlone) {
  RedisCluster cluster;
  Guard guard = open(cluster);
  std::vector<std::vector<std::string>> users;
  for (std::size_t master = 0; master < 3; ++master) {
    users.push_back(users_on(guard, cluster, master, 4));
    ASSERT_EQ(users.back().size(), 4u);
  }
  cluster.node(1).kill();
  ASSERT_TRUE(eventually([&] {
    Tally tally;
    return check(guard, "count", users[1][0], tally).verdict == Verdict::refused;
  }));
  Tally dead;
  Tally alive;
  for (int i = 0; i < 200; ++i) {
    for (std::size_t u = 0; u < 4; ++u) {
      (void)check(guard, "count", users[1][u], dead);
      (void)check(guard, "count", users[0][u], alive);
      (void)check(guard, "count", users[2][u], alive);
    }
  }
  EXPECT_EQ(alive.allowed_by_store, alive.asked) << heard_.all();
  EXPECT_EQ(dead.verdicts[Verdict::refused], dead.asked);
  EXPECT_EQ(dead.broken, 0u) << dead.example;
  // Nothing waits for the dead one.
  EXPECT_TRUE(dead.in_time()) << dead.times();
  EXPECT_TRUE(heard_.said(StoreEvent::Kind::away,
                          "shard 127.0.0.1:" + std::to_string(cluster.node(1).port())))
      << heard_.all();
  cluster.node(1).start();
  EXPECT_TRUE(eventually([&] {
    Tally tally;
    (void)check(guard, "count", users[1][0], tally);
    return tally.allowed_by_store == 1;
  })) << heard_.all();
}

// One rule on the dead master, one elsewhere: the part of this worker decides, and nothing stays
// charged for what it denies.
TEST_F(GuardOnACluster, DividesARequestOverADeadAndALivingMaster) {
  RedisCluster cluster;
  Guard guard = open(cluster);
  const std::vector<std::string> dead = users_on(guard, cluster, 1, 6);
  const std::vector<std::string> alive = users_on(guard, cluster, 2, 2);
  ASSERT_EQ(dead.size(), 6u);
  ASSERT_EQ(alive.size(), 2u);
  cluster.node(1).kill();
  ASSERT_TRUE(eventually([&] {
    Tally tally;
    return check(guard, "count", dead[5], tally).verdict == Verdict::refused;
  }));
  int allowed = 0;
  for (int i = 0; i < 30; ++i) {
    const Decision decision = ask(guard, "share", dead[0], alive[0]);
    allowed += decision.allowed() ? 1 : 0;
    EXPECT_NE(decision.verdict, Verdict::refused);
    EXPECT_EQ(decision.rung, Rung::share);
  }
  EXPECT_EQ(allowed, 10) << "half of twenty: this is one of two workers";
  // The account's counter lives: all that was admitted is charged to it, and no more.
  const auto account_used = [&](const std::string& account) {
    const Decision decision = ask(guard, "share", alive[1], account, 0);
    return decision.rules().size() == 2 && decision.rung == Rung::store
               ? 1'000 - decision.rules()[1].remaining.value_or(0)
               : UINT64_MAX;
  };
  EXPECT_TRUE(eventually([&] { return account_used(alive[0]) == 10; })) << account_used(alive[0]);
  // Closed: nothing is admitted, and nothing stays charged.
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(ask(guard, "pair", dead[1], alive[0]).verdict, Verdict::refused);
  }
  EXPECT_TRUE(eventually([&] { return used(guard, "pair", alive[1], alive[0], 1) == 0; }));
  // A ceiling is taken once a request, however many shards it lies on.
  cluster.node(2).kill();
  ASSERT_TRUE(eventually([&] {
    Tally tally;
    return check(guard, "count", alive[1], tally).verdict == Verdict::refused;
  }));
  int under = 0;
  for (int i = 0; i < 10; ++i) under += ask(guard, "braked", dead[2], alive[0]).allowed() ? 1 : 0;
  EXPECT_EQ(under, 4);
}

TEST_F(GuardOnACluster, FollowsAReplicaThatTookOver) {
  RedisCluster cluster({.replicas = 1, .node_timeout_ms = 2'000});
  Guard guard = open(cluster);
  const std::vector<std::string> users = users_on(guard, cluster, 0, 2);
  ASSERT_EQ(users.size(), 2u);
  Load load(guard, "count", users[0], 2);
  ASSERT_TRUE(eventually([&] { return load.asked() >= 200; }));
  cluster.node(0).kill();
  const auto killed = std::chrono::steady_clock::now();
  const std::uint64_t gone = load.asked();
  ASSERT_TRUE(eventually([&] { return load.asked() >= gone + 100; }));
  ASSERT_TRUE(until_store(guard, "count", users[1])) << heard_.all();
  const auto took = std::chrono::steady_clock::now() - killed;
  RecordProperty("without_exact_answers_ms",
                 static_cast<int>(std::chrono::duration_cast<milliseconds>(took).count()));
  const Tally tally = load.stop();
  EXPECT_EQ(tally.broken, 0u) << tally.example;
  EXPECT_EQ(tally.verdicts.count(Verdict::limited), 0u);
  const std::uint64_t before = counted(guard, users[0]);
  Tally after;
  for (int i = 0; i < 10; ++i) (void)check(guard, "count", users[0], after);
  EXPECT_EQ(after.allowed_by_store, 10u);
  EXPECT_EQ(counted(guard, users[0]), before + 10);
  EXPECT_FALSE(cluster.replica_of(0).keys("*/" + users[0]).empty());
  // The old one comes back as a replica of the new one, and nothing changes.
  cluster.node(0).start();
  Tally later;
  ASSERT_TRUE(eventually([&] {
    (void)check(guard, "count", users[0], later);
    return cluster.node(0).text({"INFO", "replication"}).find("role:slave") != std::string::npos;
  }));
  EXPECT_EQ(later.allowed_by_store, later.asked);
}

// Slots go to another master, and to one that had none, while they are asked for.
TEST_F(GuardOnACluster, CountsOnExactlyWhileSlotsMove) {
  RedisCluster cluster({.spare = 1});
  Guard guard = open(cluster);
  const std::vector<std::string> users = users_on(guard, cluster, 0, 6);
  ASSERT_EQ(users.size(), 6u);
  std::vector<std::uint64_t> before;
  for (const std::string& user : users) before.push_back(counted(guard, user));
  std::vector<std::unique_ptr<Load>> loads;
  for (const std::string& user : users) {
    loads.push_back(std::make_unique<Load>(guard, "count", user, 1));
  }
  for (std::size_t i = 0; i < users.size(); ++i) {
    const std::uint64_t from = loads[i]->asked();
    ASSERT_TRUE(eventually([&] { return loads[i]->asked() >= from + 50; }));
    const auto slot = slot_of(cluster, users[i]);
    ASSERT_TRUE(slot);
    cluster.move_slot(*slot, cluster.node(0), i % 2 == 0 ? cluster.node(1) : cluster.spare());
    const std::uint64_t then = loads[i]->asked();
    ASSERT_TRUE(eventually([&] { return loads[i]->asked() >= then + 50; }));
  }
  std::uint64_t refused = 0;
  for (std::size_t i = 0; i < users.size(); ++i) {
    const Tally tally = loads[i]->stop();
    EXPECT_EQ(tally.broken, 0u) << tally.example;
    EXPECT_EQ(tally.verdicts.count(Verdict::limited), 0u);
    refused += tally.asked - tally.allowed_by_store;
    EXPECT_EQ(counted(guard, users[i]), before[i] + tally.allowed_by_store) << users[i];
  }
  EXPECT_EQ(refused, 0u) << "each was answered by whoever had the slot; " << heard_.all();
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 0) << heard_.all();
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    EXPECT_EQ(immortal_keys(cluster.node(i)), "");
  }
}

// Its first slot is on the way for longer than any deadline: asks that are sent there wait for the
// connection and no longer, and what it takes is counted.
TEST_F(GuardOnACluster, AsksANewMasterThatOwnsNoSlotYet) {
  RedisCluster cluster({.spare = 1});
  Guard guard = open(cluster);
  const std::vector<std::string> users = users_on(guard, cluster, 0, 1);
  ASSERT_EQ(users.size(), 1u);
  const auto slot = slot_of(cluster, users[0]);
  ASSERT_TRUE(slot);
  const std::string number = std::to_string(*slot);
  RedisServer& from = cluster.node(0);
  RedisServer& to = cluster.spare();
  to.execute({"CLUSTER", "SETSLOT", number, "IMPORTING", RedisCluster::id_of(from)});
  from.execute({"CLUSTER", "SETSLOT", number, "MIGRATING", RedisCluster::id_of(to)});
  const std::vector<std::string> keys = from.keys("*/" + users[0]);
  ASSERT_EQ(keys.size(), 1u);
  ASSERT_EQ(from.execute({"MIGRATE", "127.0.0.1", std::to_string(to.port()), keys[0], "0", "5000"}),
            "+OK\r\n");
  Tally tally;
  for (int i = 0; i < 50; ++i) (void)check(guard, "count", users[0], tally);
  EXPECT_EQ(tally.allowed_by_store, tally.asked) << heard_.all();
  EXPECT_EQ(counted(guard, users[0]), 51u);
  EXPECT_EQ(to.keys("*/" + users[0]).size(), 1u);
  // Then it has the slot, and is a shard like the others.
  for (RedisServer* node : {&to, &from}) {
    node->execute({"CLUSTER", "SETSLOT", number, "NODE", RedisCluster::id_of(to)});
  }
  EXPECT_TRUE(eventually([&] {
    (void)check(guard, "count", users[0], tally);
    return !to.keys("weir:1:{!*}members").empty() && !to.keys("weir:1:{!*}epoch").empty();
  })) << guard.impl().shared()->state_json();
  EXPECT_EQ(tally.allowed_by_store, tally.asked) << heard_.all();
}

// Its key is made where the slot goes, ahead of the slot; the user's counter denies in another one.
TEST_F(GuardOnACluster, GivesBackWhereAReserveWasTakenAheadOfItsSlot) {
  RedisCluster cluster;
  Guard guard = open(cluster);
  const std::string user = users_on(guard, cluster, 0, 1).at(0);
  const std::string account = users_on(guard, cluster, 1, 1).at(0);
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(ask(guard, "pair", user, "first" + std::to_string(i)).allowed());
  }
  // A counter's slot is that of its values: the account's is where `count` has it as a user.
  const auto slot = slot_of(cluster, account);
  ASSERT_TRUE(slot);
  const std::string number = std::to_string(*slot);
  RedisServer& from = cluster.node(1);
  RedisServer& to = cluster.node(2);
  to.execute({"CLUSTER", "SETSLOT", number, "IMPORTING", RedisCluster::id_of(from)});
  from.execute({"CLUSTER", "SETSLOT", number, "MIGRATING", RedisCluster::id_of(to)});
  Guard fresh = open(cluster);
  const Decision denied = ask(fresh, "pair", user, account);
  EXPECT_EQ(denied.verdict, Verdict::limited);
  EXPECT_EQ(denied.rung, Rung::store);
  EXPECT_TRUE(eventually([&] { return used(fresh, "pair", "other", account, 1) == 0; }))
      << used(fresh, "pair", "other", account, 1);
  EXPECT_DOUBLE_EQ(metric(fresh, "weir_store_give_backs_total{shard=\"2\",result=\"lost\"}") +
                       metric(fresh, "weir_store_give_backs_total{shard=\"1\",result=\"lost\"}"),
                   0);
}

// The highest slot of a master is where its workers meet. It moves: they meet elsewhere, what was
// reset stays reset, and the state folder has a file a master as before.
TEST_F(GuardOnACluster, TakesAMovedMeetingPlaceForNoLoss) {
  const StateRoot root;
  RedisCluster cluster;
  Guard guard = Guard::open(policy_of(cluster, "", "{name: one, state: '" + root.path + "'}"),
                            {.observer = &heard_})
                    .value();
  Guard other = open(cluster);
  const std::string user = users_on(guard, cluster, 0, 1).at(0);
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(ask(guard, "pair", user, "x").allowed());
  ASSERT_TRUE(other.reset("pair", {{"user", user}, {"account", "x"}}));
  const auto files = [&] {
    return std::distance(std::filesystem::directory_iterator(root.path), {});
  };
  ASSERT_TRUE(eventually([&] { return files() == 4; })) << files();  // three views and a lock
  // Some of the highest slots of the first master, one after the other.
  for (std::uint16_t slot = 5'461; slot > 5'458; --slot) {
    const auto place = store::redis::name_in_slot(slot - 1);
    cluster.move_slot(slot, cluster.node(0), cluster.node(1));
    ASSERT_TRUE(eventually([&] {
      return !cluster.node(0).keys("weir:1:{!" + place + "}members").empty();
    })) << slot;
  }
  EXPECT_TRUE(ask(guard, "pair", user, "x").allowed());
  EXPECT_EQ(used(other, "pair", user, "x", 0), 1u) << "nine had been reset";
  EXPECT_TRUE(eventually([&] { return files() == 4; })) << files();
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 0) << heard_.all();
}

// Two rules by one value are one atomic call, also while their slot is half moved: each counts what
// was admitted, and neither more nor less.
TEST_F(GuardOnACluster, KeepsRulesOfOneValueTogetherWhileTheirSlotMoves) {
  RedisCluster cluster;
  Guard guard = open(cluster);
  const auto told = [](const Decision& decision) {
    return decision.rung == Rung::store || decision.rung == Rung::known;
  };
  for (int round = 0; round < 6; ++round) {
    const std::string user = "m" + std::to_string(round);
    int allowed = guard.check("login", {{"user", user}}).allowed() ? 1 : 0;
    const auto slot = slot_of(cluster, user);
    ASSERT_TRUE(slot);
    const std::size_t from = cluster.first_owner(*slot);
    std::atomic<bool> moved{false};
    std::thread mover([&] {
      cluster.move_slot(*slot, cluster.node(from), cluster.node((from + 1) % 3));
      moved = true;
    });
    int asked = 0;
    while (!moved || asked < 8) {
      const Decision decision = guard.check("login", {{"user", user}});
      // A slot that is half moved may be beyond asking for a moment, and then nothing is admitted.
      EXPECT_TRUE(told(decision) || decision.verdict == Verdict::refused);
      allowed += decision.allowed() ? 1 : 0;
      ++asked;
    }
    mover.join();
    EXPECT_EQ(allowed, 3) << user << ", " << asked << " asked meanwhile";
    const Decision after = guard.check("login", {{"user", user}}, {.cost = 0});
    ASSERT_EQ(after.rules().size(), 2u);
    EXPECT_EQ(after.rules()[1].remaining, 2u);
  }
}

// Its connections stand, and nothing comes back on them.
TEST_F(GuardOnACluster, WaitsForAHungMasterNoLongerThanTheDeadlineAndForOthersNotAtAll) {
  RedisCluster cluster({.node_timeout_ms = 30'000});
  Guard guard = open(cluster, "", "1s");
  const std::vector<std::string> hung = users_on(guard, cluster, 0, 2);
  const std::vector<std::string> well = users_on(guard, cluster, 1, 2);
  ASSERT_EQ(hung.size() + well.size(), 4u);
  cluster.node(0).pause();
  Tally tally;
  for (int i = 0; i < 20; ++i) {
    // One of each, and one over both.
    (void)check(guard, "count", hung[0], tally);
    const Decision both = ask(guard, "pair", hung[1], well[1]);
    EXPECT_EQ(both.verdict, Verdict::refused);
    Tally other;
    (void)check(guard, "count", well[0], other);
    EXPECT_EQ(other.allowed_by_store, 1u);
  }
  EXPECT_EQ(tally.verdicts[Verdict::refused], tally.asked);
  EXPECT_TRUE(tally.in_time()) << tally.times();
  // What the living one was charged for requests over both is given back.
  EXPECT_TRUE(eventually([&] { return used(guard, "pair", well[0], well[1], 1) == 0; }));
  cluster.node(0).resume();
  EXPECT_TRUE(eventually([&] {
    Tally back;
    (void)check(guard, "count", hung[0], back);
    return back.allowed_by_store == 1;
  })) << heard_.all();
  // The hung one has read asks whose callers had left, and counted none of them.
  EXPECT_TRUE(eventually([&] { return used(guard, "pair", hung[1], well[0], 0) == 0; }))
      << used(guard, "pair", hung[1], well[0], 0);
}

// The cluster is well; one worker of two has no way to one master.
TEST_F(GuardOnACluster, DegradesAWorkerThatIsCutOffFromOneMasterForItsKeysAlone) {
  std::vector<std::unique_ptr<drill::FaultProxy>> ways;
  RedisCluster cluster({.announced = [&](std::uint16_t port) {
    ways.push_back(
        drill::FaultProxy::start({.target = "127.0.0.1:" + std::to_string(port)}).value());
    return ways.back()->port();
  }});
  Guard guard = open(cluster, "", "1s");
  const std::vector<std::string> away = users_on(guard, cluster, 2, 2);
  const std::vector<std::string> there = users_on(guard, cluster, 0, 2);
  ASSERT_EQ(away.size() + there.size(), 4u);
  ways[2]->set(drill::ProxyFaults::blackhole());
  Tally cut;
  Tally well;
  for (int i = 0; i < 100; ++i) {
    (void)check(guard, "count", away[0], cut);
    (void)check(guard, "count", there[0], well);
  }
  EXPECT_EQ(cut.verdicts[Verdict::refused], cut.asked);
  EXPECT_EQ(well.allowed_by_store, well.asked);
  EXPECT_TRUE(cut.in_time()) << cut.times();
  ways[2]->set({});
  ways[2]->reset_connections();
  EXPECT_TRUE(eventually([&] {
    Tally back;
    (void)check(guard, "count", away[0], back);
    return back.allowed_by_store == 1;
  })) << heard_.all();
  EXPECT_EQ(well.broken + cut.broken, 0u);
}

// Nobody says how many workers there are: they find each other on every master.
TEST_F(GuardOnACluster, DividesALimitByTheWorkersThatMetOnItsMaster) {
  const StateRoot root;
  RedisCluster cluster;
  const auto worker = [&](const std::string& name) {
    return Guard::open(policy_of(cluster, "",
                                 "{name: " + name + ", state: '" + root.path + "/" + name + "'}"),
                       {.observer = &heard_})
        .value();
  };
  std::optional<Guard> one = worker("one");
  Guard other = worker("other");
  const auto whole = [&](Guard& guard) {
    return eventually([&] {
      const guard::WorkerPart part = guard.impl().shared()->part();
      return part.has_part && part.workers == 2;
    });
  };
  ASSERT_TRUE(whole(*one) && whole(other)) << one->impl().shared()->state_json();
  const std::vector<std::string> users = users_on(other, cluster, 1, 3);
  ASSERT_EQ(users.size(), 3u);
  const auto admitted = [](Guard& guard, const std::string& user) {
    int count = 0;
    for (int i = 0; i < 30; ++i) {
      const Decision decision =
          guard.check("share", {{"user", user}, {"account", "a" + std::to_string(i)}});
      EXPECT_NE(decision.rung, Rung::store);
      count += decision.allowed() ? 1 : 0;
    }
    return count;
  };
  const auto without_master = [&](Guard& guard) {
    return eventually([&] {
      Tally tally;
      return check(guard, "count", users[0], tally).verdict == Verdict::refused;
    });
  };
  cluster.node(1).kill();
  ASSERT_TRUE(without_master(*one) && without_master(other));
  EXPECT_EQ(admitted(*one, users[0]) + admitted(other, users[0]), 20);
  // One restarts, and finds its part of the dead master's limits in its folder.
  EXPECT_EQ(admitted(other, users[1]), 10);
  one.reset();
  one = worker("one");
  ASSERT_TRUE(without_master(*one));
  EXPECT_EQ(admitted(*one, users[1]), 10);
}

// As it is changed: a second password on every node, then the file, then the first one is taken
// away, and connections begin anew.
TEST_F(GuardOnACluster, GoesOnWhenItsPasswordIsChanged) {
  RedisCluster cluster;
  const std::string file =
      ::testing::TempDir() + "/weir-cluster-password-" + std::to_string(::getpid());
  std::ofstream(file) << "first\n";
  const auto on_all = [&](const std::vector<std::string>& command) {
    for (std::size_t i = 0; i < cluster.size(); ++i) cluster.node(i).execute(command);
  };
  on_all({"ACL", "SETUSER", "weir", "on", ">first", "~*", "+@all"});
  Guard guard = open(cluster, "  username: weir\n  password_file: " + file + "\n");
  const std::vector<std::string> users = users_on(guard, cluster, 0, 1);
  ASSERT_EQ(users.size(), 1u);
  Tally tally;
  on_all({"ACL", "SETUSER", "weir", ">second"});
  std::ofstream(file) << "second\n";
  for (int i = 0; i < 20; ++i) (void)check(guard, "count", users[0], tally);
  EXPECT_EQ(tally.allowed_by_store, tally.asked) << "connections that stand go on";
  on_all({"ACL", "SETUSER", "weir", "<first"});
  on_all({"CLIENT", "KILL", "USER", "weir"});
  EXPECT_TRUE(until_store(guard, "count", users[0])) << heard_.all();
  Tally after;
  for (int i = 0; i < 20; ++i) (void)check(guard, "count", users[0], after);
  EXPECT_EQ(after.allowed_by_store, after.asked);
  EXPECT_DOUBLE_EQ(store_errors(guard, "misconfigured"), 0) << "no password was refused";
  std::filesystem::remove(file);
}

TEST_F(GuardOnACluster, StartsWithoutItAndFindsItLater) {
  RedisCluster cluster({.masters = 1});
  cluster.node(0).kill();
  Guard guard = open(cluster, "  startup: degrade\n");
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away_at_start), 1);
  Tally tally;
  EXPECT_EQ(check(guard, "count", "u", tally).verdict, Verdict::refused);
  EXPECT_TRUE(ask(guard, "share", "u", "a").allowed()) << "its part";
  cluster.node(0).start();
  EXPECT_TRUE(until_store(guard, "count", "u")) << heard_.all();
}

TEST_F(GuardOnACluster, SaysThatASingleServerIsNone) {
  RedisServer server;
  const auto guard = Guard::open(
      Policy::parse("store: {url: 'redis+cluster://127.0.0.1:" + std::to_string(server.port()) +
                    "', startup: require}\nroutes: {a: {limits: [1 per hour], protects: security}}")
          .value(),
      {});
  ASSERT_FALSE(guard);
  EXPECT_NE(guard.error().message.find("cluster support disabled"), std::string::npos)
      << guard.error().message;
}

}  // namespace
}  // namespace weir::fault
