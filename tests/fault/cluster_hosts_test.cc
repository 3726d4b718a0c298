// A Guard on real Clusters whose nodes say of their hosts what they may: an address of six, a name
// with the address beside it, or nothing at all. Where a slot goes they say the same.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "fault_rig.h"
#include "store/redis/topology/key_slot.h"
#include "testing/redis_cluster.h"

namespace weir::fault {
namespace {

using store::redis::key_slot;
using testing::RedisCluster;

struct Hosts {
  const char* name;
  RedisCluster::Options cluster;
  std::string says;  // in CLUSTER SLOTS
  std::string not_yet;
};

void PrintTo(const Hosts& hosts, std::ostream* out) {
  *out << hosts.name;
}

std::vector<Hosts> all_hosts() {
  RedisCluster::Options six{.spare = 1};
  six.host = "::1";
  RedisCluster::Options named{.spare = 1};
  named.more = {"--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type",
                "hostname"};
  RedisCluster::Options silent{.spare = 1};
  silent.more = {"--cluster-preferred-endpoint-type", "unknown-endpoint"};
  return {{"AnAddressOfSix", six, "$3\r\n::1\r\n", {}},
          {"ANameAndTheAddressBesides", named, "$9\r\nlocalhost\r\n", "$1\r\n?\r\n"},
          {"NoHost", silent, "$-1\r\n", {}}};
}

bool this_machine_has_six() {
  const int socket = ::socket(AF_INET6, SOCK_STREAM, 0);
  if (socket < 0) return false;
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const bool bound =
      ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ::close(socket);
  return bound;
}

class GuardOnAClusterThatSays : public ::testing::TestWithParam<Hosts> {};

TEST_P(GuardOnAClusterThatSays, CountsOnEveryMasterAndFollowsAMovedSlot) {
  const Hosts& hosts = GetParam();
  if (hosts.cluster.host == "::1" && !this_machine_has_six()) {
    GTEST_SKIP() << "this machine has no address of version 6";
  }
  RedisCluster cluster(hosts.cluster);
  // Names go round with the gossip of the nodes.
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    ASSERT_TRUE(eventually([&] {
      const std::string slots = cluster.node(i).execute({"CLUSTER", "SLOTS"});
      return slots.find(hosts.says) != std::string::npos &&
             (hosts.not_yet.empty() || slots.find(hosts.not_yet) == std::string::npos);
    })) << cluster.node(i).execute({"CLUSTER", "SLOTS"});
  }
  Heard heard;
  PolicyOptions options{.url = cluster.url(), .deadline = "2s"};
  Guard guard = Guard::open(policy_on(0, options), {.observer = &heard}).value();
  Tally tally;
  std::set<std::size_t> masters;
  std::string on_first;
  for (int i = 0; i < 24; ++i) {
    const std::string user = "u" + std::to_string(i);
    (void)check(guard, "count", user, tally);
    for (std::size_t master = 0; master < 3; ++master) {
      if (cluster.node(master).keys("weir:1:*/" + user).empty()) continue;
      masters.insert(master);
      if (master == 0) on_first = user;
    }
  }
  EXPECT_EQ(tally.allowed_by_store, tally.asked) << heard.all();
  EXPECT_EQ(masters.size(), 3u);
  ASSERT_FALSE(on_first.empty());
  // To one that has slots, and to one that had none: the redirection names the host as the map
  // does.
  const auto key = cluster.node(0).keys("weir:1:*/" + on_first).at(0);
  const std::uint16_t slot = key_slot(key);
  Tally moved;
  cluster.move_slot(slot, cluster.node(0), cluster.node(1));
  ASSERT_TRUE(until_store(guard, "count", on_first)) << heard.all();
  for (int i = 0; i < 20; ++i) (void)check(guard, "count", on_first, moved);
  cluster.move_slot(slot, cluster.node(1), cluster.spare());
  // Where the map is read before anybody is sent on, there is no connection to the new one yet.
  ASSERT_TRUE(until_store(guard, "count", on_first)) << heard.all();
  for (int i = 0; i < 20; ++i) (void)check(guard, "count", on_first, moved);
  EXPECT_EQ(moved.allowed_by_store, moved.asked) << heard.all();
  EXPECT_EQ(tally.broken + moved.broken, 0u) << tally.example << moved.example;
  EXPECT_EQ(counted(guard, on_first), 41u);
  EXPECT_FALSE(cluster.spare().keys("weir:1:*/" + on_first).empty());
  EXPECT_EQ(heard.count(StoreEvent::Kind::away_at_start), 0) << heard.all();
}

INSTANTIATE_TEST_SUITE_P(Hosts, GuardOnAClusterThatSays, ::testing::ValuesIn(all_hosts()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace weir::fault
