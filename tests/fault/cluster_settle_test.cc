// Metered routes on a real Redis Cluster: the counters of one request, and the marks of its
// idempotency key, lie on several masters, and one of them dies.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cluster_rig.h"
#include "guard/impl.h"
#include "ledger/ledger.h"
#include "weir/reservation.h"

namespace weir::fault {
namespace {

using testing::RedisCluster;

class SettlingOnACluster : public GuardOnACluster {
 protected:
  SettlingOnACluster() {
    std::string name = std::filesystem::temp_directory_path() / "weir-cluster-settle-XXXXXX";
    folder_ = ::mkdtemp(name.data());
  }
  ~SettlingOnACluster() override { std::filesystem::remove_all(folder_); }

  // One of two workers on one ledger.
  std::unique_ptr<Guard> worker(RedisCluster& cluster, int index) {
    const std::string number = std::to_string(index);
    auto guard = Guard::open(
        Policy::parse("store:\n  url: " + cluster.url() +
                      "\n  deadline: 2s\n  connect_timeout: 2s\n"
                      "  workers: {of: 2, index: " +
                      number +
                      "}\n"
                      "  breaker: {cooldown: 50ms, max_cooldown: 200ms}\n"
                      "  recovery: {steps: 2, step: 20ms}\n"
                      "journal: {folder: " +
                      folder_ + "/journal" + number + ", within: 20ms, ledger: '" + ledger() +
                      "'}\n"
                      R"(inputs: [user, account]
routes:
  count:
    limits: [{requests: 1000000, per: hour, by: [user], algorithm: fixed_window}]
    protects: side_effects
  export:
    limits:
      - {requests: 100000, per: day, by: [account], algorithm: fixed_window, meter: true}
      - {requests: 4, per: day, by: [user], algorithm: fixed_window}
    protects: revenue
    overspend: {cap: 4}
  plan:
    limits:
      - {requests: 4, per: day, by: [account], algorithm: fixed_window, meter: true}
      - {requests: 100000, per: day, by: [user], algorithm: fixed_window}
    protects: revenue
    overspend: {cap: 4}
  mass:
    limits:
      - {requests: 100000, per: day, by: [account], algorithm: fixed_window, meter: true}
      - {requests: 100000, per: day, by: [user], algorithm: fixed_window}
      - {requests: 100000, per: day, algorithm: fixed_window}
    protects: revenue
    overspend: {cap: 4}
)")
            .value(),
        {.observer = &heard_});
    EXPECT_TRUE(guard) << guard.error().message;
    return std::make_unique<Guard>(std::move(*guard));
  }
  std::string ledger() const { return "sqlite:" + folder_ + "/ledger.db"; }

  static Decision named(Guard& guard, const std::string& route, const std::string& user,
                        const std::string& account, const std::string& key,
                        std::uint64_t cost = 1) {
    return guard.check(route, {{"user", user}, {"account", account}},
                       {.cost = cost, .idempotency_key = key});
  }
  struct Bill {
    std::uint64_t events = 0, units = 0, overspent = 0;
  };
  Bill bill_of(const std::string& account) {
    Bill bill;
    auto open = ledger::look_into_ledger(ledger());
    if (!open) return bill;
    (void)(*open)->lines([&](const ledger::LedgerLine& line) {
      if (line.tenant != account) return true;
      bill.events += line.events;
      bill.units += line.units;
      bill.overspent += line.overspent;
      return true;
    });
    return bill;
  }
  static bool settled(Guard& guard) {
    return eventually([&] {
      const std::string state = guard.impl().usage()->state_json();
      return state.find("\"unsettled\":0,") != state.npos &&
             state.find("\"waiting\":0,") != state.npos;
    });
  }
  static bool away(Guard& guard, const std::string& user) {
    return eventually([&] {
      Tally tally;
      return check(guard, "count", user, tally).verdict == Verdict::refused;
    });
  }

  std::string folder_;
};

TEST_F(SettlingOnACluster, KnowsARequestAgainWhereverItsCountersLie) {
  RedisCluster cluster;
  const auto one = worker(cluster, 0);
  const auto other = worker(cluster, 1);
  for (int i = 0; i < 8; ++i) {
    const std::string user = "u" + std::to_string(i);
    const std::string account = "a" + std::to_string(i);
    const Decision first = named(*one, "export", user, account, "first");
    EXPECT_TRUE(first.allowed());
    EXPECT_FALSE(first.replayed);
    EXPECT_EQ(first.rung, Rung::store);
    EXPECT_TRUE(named(*other, "export", user, account, "first").replayed);
    EXPECT_EQ(named(*other, "export", user, account, "first", 2).reason, Reason::key_reused);
    EXPECT_TRUE(eventually([&] { return used(*one, "export", user, account, 0) == 1; }))
        << "what was seen again is given back";
    EXPECT_TRUE(eventually([&] { return used(*one, "export", user, account, 1) == 1; }));
  }
  ASSERT_TRUE(settled(*one) && settled(*other));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(bill_of("a" + std::to_string(i)).units, 1u) << i;
}

// What one rule denies leaves no mark: asked again it is not taken for one that was admitted. And
// what was admitted before is known again where the limit is used up by now.
TEST_F(SettlingOnACluster, LeavesNoMarkOfARequestThatOneRuleDenies) {
  RedisCluster cluster;
  const auto one = worker(cluster, 0);
  const auto other = worker(cluster, 1);
  for (int i = 0; i < 4; ++i) {
    const std::string user = "u" + std::to_string(i);
    const std::string account = "a" + std::to_string(i);
    for (int n = 0; n < 4; ++n)
      ASSERT_TRUE(named(*one, "export", user, account, "n" + std::to_string(n)).allowed());
    for (Guard* guard : {one.get(), other.get(), one.get(), other.get()}) {
      const Decision denied = named(*guard, "export", user, account, "more");
      EXPECT_EQ(denied.verdict, Verdict::limited);
      EXPECT_FALSE(denied.replayed);
    }
    EXPECT_TRUE(named(*other, "export", user, account, "n2").replayed);
    EXPECT_EQ(named(*other, "export", "another", account, "n2").reason, Reason::key_reused);
    EXPECT_TRUE(eventually([&] { return used(*other, "export", "another", account, 0) == 4; }));
  }
  ASSERT_TRUE(settled(*one) && settled(*other));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(bill_of("a" + std::to_string(i)).units, 4u) << i;
}

// A master dies under load, loses all that it knew, and comes back; every request is asked of both
// workers, again and again until it is admitted.
TEST_F(SettlingOnACluster, BillsEachIdOnceThoughAMasterDiesMeanwhile) {
  RedisCluster cluster;
  const auto one = worker(cluster, 0);
  const auto other = worker(cluster, 1);
  constexpr int kThreads = 4;
  constexpr int kIds = 60;
  std::atomic<int> done{0};
  std::atomic<int> broken{0};
  std::atomic<bool> stuck{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int id = 0; id < kIds; ++id) {
        const std::string user = "u" + std::to_string(t) + "-" + std::to_string(id % 7);
        const std::string account = "acme" + std::to_string(t);
        const std::string key = "id" + std::to_string(id);
        for (Guard* guard : {one.get(), other.get(), one.get()}) {
          const bool admitted = eventually([&] {
            const Decision decision = named(*guard, "mass", user, account, key);
            if (!is_sound(decision) && decision.reason != Reason::key_reused) ++broken;
            if (decision.reason == Reason::key_reused) ++broken;
            return decision.allowed();
          });
          if (!admitted) stuck = true;
        }
        ++done;
      }
    });
  }
  // In the middle of it.
  EXPECT_TRUE(eventually([&] { return done >= kThreads * kIds / 4 || stuck; }));
  cluster.node(1).kill();
  EXPECT_TRUE(eventually([&] { return done >= kThreads * kIds * 2 / 3 || stuck; }));
  cluster.node(1).start();
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(stuck) << heard_.all();
  EXPECT_EQ(broken, 0);
  ASSERT_TRUE(settled(*one) && settled(*other));
  for (int t = 0; t < kThreads; ++t) {
    const Bill bill = bill_of("acme" + std::to_string(t));
    EXPECT_EQ(bill.units, static_cast<std::uint64_t>(kIds)) << t;
    EXPECT_EQ(bill.events, static_cast<std::uint64_t>(kIds)) << t;
  }
}

// The metered rule's master is dead, the other's lives: the part, then the cap, and not again after
// a restart; what is turned away is charged nowhere.
TEST_F(SettlingOnACluster, ServesBeyondItsPartOfADeadMasterUpToTheCap) {
  RedisCluster cluster;
  auto guard = worker(cluster, 0);
  const std::vector<std::string> dead = users_on(*guard, cluster, 1, 3);
  const std::vector<std::string> alive = users_on(*guard, cluster, 2, 2);
  ASSERT_EQ(dead.size() + alive.size(), 5u);
  cluster.node(1).kill();
  ASSERT_TRUE(away(*guard, dead[2]));
  int share = 0;
  int beyond = 0;
  for (int i = 0; i < 12; ++i) {
    const Decision decision = ask(*guard, "plan", alive[0], dead[0]);
    EXPECT_NE(decision.verdict, Verdict::refused);
    share += decision.allowed() && decision.rung == Rung::share ? 1 : 0;
    beyond += decision.allowed() && decision.rung == Rung::journal ? 1 : 0;
  }
  EXPECT_EQ(share, 2) << "half of four";
  EXPECT_EQ(beyond, 2) << "half of the cap";
  const auto used_by_user = [&] {
    const Decision seen = ask(*guard, "plan", alive[0], alive[1], 0);
    return seen.rung == Rung::store && seen.rules().size() == 2
               ? 100'000 - seen.rules()[1].remaining.value_or(0)
               : UINT64_MAX;
  };
  EXPECT_TRUE(eventually([&] { return used_by_user() == 4; })) << used_by_user();
  ASSERT_TRUE(settled(*guard));
  EXPECT_EQ(bill_of(dead[0]).units, 4u);
  EXPECT_EQ(bill_of(dead[0]).overspent, 2u);
  guard.reset();
  guard = worker(cluster, 0);
  ASSERT_TRUE(away(*guard, dead[2]));
  int again = 0;
  for (int i = 0; i < 12; ++i)
    again += ask(*guard, "plan", alive[0], dead[0]).rung == Rung::journal ? 1 : 0;
  EXPECT_EQ(again, 0) << "a restart renews no cap";
}

// Of what was reserved the rest goes back once on each master, though one of them does not answer
// just then.
TEST_F(SettlingOnACluster, GivesBackTheRestOfAReservationOnEveryMasterOnce) {
  RedisCluster cluster({.node_timeout_ms = 60'000});
  const auto guard = worker(cluster, 0);
  Reservations reservations(*guard);
  const std::string user = users_on(*guard, cluster, 0, 1).at(0);
  const std::string account = users_on(*guard, cluster, 1, 1).at(0);
  constexpr ReservationTerms kFull{.expire = std::chrono::hours(1), .on_expiry = OnExpiry::full};
  // Two, so that a second giving back of the first would find something to give.
  const auto reserve = [&](std::uint64_t units) {
    return reservations.reserve("mass", {{"user", user}, {"account", account}}, units, kFull);
  };
  const Reservation first = reserve(50);
  const Reservation second = reserve(40);
  ASSERT_EQ(first.decision.rung, Rung::store);
  ASSERT_EQ(second.decision.rung, Rung::store);
  cluster.node(1).pause();
  ASSERT_TRUE(reservations.settle(first.id, 20));
  auto& book = guard->impl().usage()->reservations();
  ASSERT_TRUE(eventually([&] { return book.returns() == 1; }));
  cluster.node(1).resume();
  ASSERT_TRUE(eventually([&] { return book.returns() == 0; })) << heard_.all();
  EXPECT_EQ(book.returns_lost(), 0u);
  for (const std::size_t rule : {0u, 1u, 2u}) {
    EXPECT_TRUE(eventually([&] { return used(*guard, "mass", user, account, rule) == 60; }))
        << rule << ": " << used(*guard, "mass", user, account, rule);
  }
  ASSERT_TRUE(reservations.settle(second.id, 45));
  for (const std::size_t rule : {0u, 1u, 2u}) {
    EXPECT_TRUE(eventually([&] { return used(*guard, "mass", user, account, rule) == 65; }))
        << rule << ": " << used(*guard, "mass", user, account, rule);
  }
  ASSERT_TRUE(settled(*guard));
  EXPECT_EQ(bill_of(account).units, 65u);
}

// The master is silent when it is told, and dies: its replica is told once it is there.
TEST_F(SettlingOnACluster, GivesBackTheRestOfAReservationOnceToTheReplicaOfADeadMaster) {
  RedisCluster cluster({.replicas = 1, .node_timeout_ms = 60'000});
  const auto guard = worker(cluster, 0);
  Reservations reservations(*guard);
  const std::string user = users_on(*guard, cluster, 0, 1).at(0);
  const std::string account = users_on(*guard, cluster, 1, 1).at(0);
  constexpr ReservationTerms kFull{.expire = std::chrono::hours(1), .on_expiry = OnExpiry::full};
  // Two, so that a second giving back of the first would find something to give.
  const auto reserve = [&](std::uint64_t units) {
    return reservations.reserve("mass", {{"user", user}, {"account", account}}, units, kFull);
  };
  const Reservation first = reserve(50);
  ASSERT_EQ(first.decision.rung, Rung::store);
  ASSERT_EQ(reserve(40).decision.rung, Rung::store);
  ASSERT_TRUE(replicated(cluster.node(1), cluster.replica_of(1)));
  cluster.node(1).pause();
  ASSERT_TRUE(reservations.settle(first.id, 20));
  auto& book = guard->impl().usage()->reservations();
  ASSERT_TRUE(eventually([&] { return book.returns() == 1; }));
  cluster.node(1).kill();
  ASSERT_EQ(cluster.replica_of(1).execute({"CLUSTER", "FAILOVER", "TAKEOVER"}), "+OK\r\n");
  ASSERT_TRUE(eventually([&] { return book.returns() == 0; }, seconds(60))) << heard_.all();
  EXPECT_EQ(book.returns_lost(), 0u);
  for (const std::size_t rule : {0u, 1u, 2u}) {
    EXPECT_TRUE(eventually([&] { return used(*guard, "mass", user, account, rule) == 60; }))
        << rule << ": " << used(*guard, "mass", user, account, rule);
  }
}

}  // namespace
}  // namespace weir::fault
