// A network that is parted between a master and the rest of its cluster, under load: each side
// stands, and hears nothing of the other.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cluster_rig.h"
#include "split_network.h"

namespace weir::fault {
namespace {

using testing::RedisCluster;
using Callers = SplitNetwork::Callers;

constexpr std::uint64_t kWhole = 20;  // of the route `alone`
constexpr std::uint64_t kPart = 10;

class ClusterThatIsParted : public GuardOnACluster {
 protected:
  // Of three masters and a replica each, of which every word goes through the network.
  RedisCluster::Options options(int node_timeout_ms) {
    return {.replicas = 1,
            .node_timeout_ms = node_timeout_ms,
            .announced =
                [this](std::uint16_t port) {
                  doors_.push_back(network_.door_to(port, doors_.size()));
                  return doors_.back();
                },
            .announced_bus =
                [this](std::uint16_t port) { return network_.door_to(port, doors_.size() - 1); },
            .source = &SplitNetwork::address_of};
  }
  bool shows_replica_of_first(Guard& guard) const {
    return shown(guard).find("127.0.0.1:" + std::to_string(doors_[3])) != std::string::npos;
  }
  // Asks for more than there is of a limit of kWhole.
  Decision bounded(Guard& guard, const std::string& user) {
    const Decision decision = guard.check("alone", {{"user", user}});
    admitted_ += decision.allowed() ? 1 : 0;
    return decision;
  }
  static bool counts_exactly(Guard& guard, const std::string& user) {
    return eventually(
        [&] {
          Tally tally;
          const std::uint64_t before = counted(guard, user);
          for (int i = 0; i < 10; ++i) (void)check(guard, "count", user, tally);
          return tally.allowed_by_store == 10 && counted(guard, user) == before + 10;
        },
        seconds(60));
  }

  SplitNetwork network_;
  std::vector<std::uint16_t> doors_;  // of each node, for clients
  std::uint64_t admitted_ = 0;
};

// Callers reach both sides: they go over to the one that has the majority, and nobody else's keys
// are touched.
TEST_F(ClusterThatIsParted, IsAskedWhereTheMajorityIs) {
  RedisCluster cluster(options(5'000));
  ASSERT_TRUE(
      eventually([&] { return known_as_replica(cluster, cluster.replica_of(0)); }, seconds(60)));
  Guard guard = open(cluster);
  const std::string lone = users_on(guard, cluster, 0, 1).at(0);
  const std::string other = users_on(guard, cluster, 1, 1).at(0);
  for (std::uint64_t i = 0; i < kWhole / 2; ++i) EXPECT_TRUE(bounded(guard, lone).allowed());
  Load of_lone(guard, "count", lone, 2);
  Load of_other(guard, "count", other, 2);
  network_.part(0, Callers::with_all);
  ASSERT_TRUE(eventually(
      [&] {
        (void)bounded(guard, lone);
        return is_master(cluster.replica_of(0));
      },
      seconds(60)));
  EXPECT_TRUE(eventually([&] { return shows_replica_of_first(guard); })) << shown(guard);
  EXPECT_TRUE(until_store(guard, "count", lone)) << heard_.all();
  for (int i = 0; i < 40; ++i) (void)bounded(guard, lone);
  EXPECT_TRUE(is_master(cluster.node(0))) << "it has not heard of its successor";
  network_.heal();
  EXPECT_TRUE(eventually([&] { return !is_master(cluster.node(0)); }, seconds(60)));
  for (int i = 0; i < 40; ++i) (void)bounded(guard, lone);
  EXPECT_LE(admitted_, 2 * kWhole + kPart) << "and at most the limit for what was lost";
  const Tally of_others = of_other.stop();
  EXPECT_EQ(of_others.allowed_by_store, of_others.asked) << heard_.all();
  EXPECT_EQ(of_lone.stop().broken, 0u);
  EXPECT_TRUE(counts_exactly(guard, lone)) << heard_.all();
}

// Callers are alone with the master that is cut off: it counts until it takes the rest for lost,
// and then their own part decides.
TEST_F(ClusterThatIsParted, HoldsTheBoundOfThoseWhoAreWithTheMinority) {
  RedisCluster cluster(options(2'000));
  ASSERT_TRUE(
      eventually([&] { return known_as_replica(cluster, cluster.replica_of(0)); }, seconds(60)));
  Guard guard = open(cluster, "", "500ms");
  const std::string lone = users_on(guard, cluster, 0, 1).at(0);
  const std::string other = users_on(guard, cluster, 1, 1).at(0);
  for (std::uint64_t i = 0; i < kWhole / 2; ++i) EXPECT_TRUE(bounded(guard, lone).allowed());
  Load of_lone(guard, "count", lone, 2);
  network_.part(0, Callers::with_the_lone_one);
  EXPECT_TRUE(eventually([&] {
    Tally tally;
    return check(guard, "count", lone, tally).verdict == Verdict::refused;
  })) << shown(guard);
  EXPECT_TRUE(eventually([&] { return bounded(guard, lone).rung != Rung::store; }));
  for (int i = 0; i < 40; ++i) (void)bounded(guard, lone);
  EXPECT_LE(admitted_, kWhole + kPart);
  EXPECT_TRUE(eventually([&] {
    Tally tally;
    return check(guard, "count", other, tally).verdict == Verdict::refused;
  })) << shown(guard);
  ASSERT_TRUE(eventually([&] { return is_master(cluster.replica_of(0)); }, seconds(60)));
  network_.heal();
  EXPECT_TRUE(eventually([&] { return !is_master(cluster.node(0)); }, seconds(60)));
  EXPECT_TRUE(eventually([&] { return shows_replica_of_first(guard); }, seconds(60)))
      << shown(guard);
  EXPECT_EQ(of_lone.stop().broken, 0u);
  for (const std::string& user : {lone, other})
    EXPECT_TRUE(counts_exactly(guard, user)) << heard_.all();
  for (int i = 0; i < 40; ++i) (void)bounded(guard, lone);
  EXPECT_LE(admitted_, 2 * kWhole + kPart) << "and at most the limit for what was lost";
}

}  // namespace
}  // namespace weir::fault
