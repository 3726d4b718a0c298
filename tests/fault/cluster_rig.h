#pragma once

// Guards on a real Redis Cluster, and what tests of them ask.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fault_rig.h"
#include "guard/impl.h"
#include "store/redis/topology/key_slot.h"
#include "testing/redis_cluster.h"

namespace weir::fault {

// Long enough that no time runs out on a machine that is busy with something else. Where a test
// waits for somebody who does not answer it says less.
inline constexpr auto kUnhurried = "2s";

inline Policy policy_of(const testing::RedisCluster& cluster, const std::string& more = "",
                        const std::string& workers = "{of: 2, index: 0}",
                        const std::string& deadline = kUnhurried) {
  return Policy::parse("store:\n  url: " + cluster.url() + "\n  deadline: " + deadline + R"(
  connect_timeout: 2s
)" + (workers.empty() ? "" : "  workers: " + workers + "\n") +
                       R"(  breaker: {cooldown: 50ms, max_cooldown: 200ms}
  recovery: {steps: 2, step: 20ms}
)" + more + R"(
inputs: [user, account]
routes:
  count:
    limits: [{requests: 1000000, per: day, by: [user], algorithm: fixed_window}]
    protects: side_effects
  pair:
    limits:
      - {requests: 10, per: hour, by: [user], algorithm: fixed_window}
      - {requests: 1000, per: hour, by: [account], algorithm: fixed_window}
    protects: side_effects
  alone:
    limits: [{requests: 20, per: hour, by: [user], algorithm: fixed_window}]
    protects: capacity
  share:
    limits:
      - {requests: 20, per: hour, by: [user], algorithm: fixed_window}
      - {requests: 1000, per: hour, by: [account], algorithm: fixed_window}
    protects: capacity
  braked:
    limits:
      - {requests: 20, per: hour, by: [user], algorithm: fixed_window}
      - {requests: 1000, per: hour, by: [account], algorithm: fixed_window}
    protects: capacity
    ceiling: 4 per hour
  login:
    limits: [{requests: 3, per: hour, by: [user]}, {requests: 5, per: day, by: [user]}]
    protects: security
)")
      .value();
}

class GuardOnACluster : public ::testing::Test {
 protected:
  Guard open(testing::RedisCluster& cluster, const std::string& more = "",
             const std::string& deadline = kUnhurried) {
    return Guard::open(policy_of(cluster, more, "{of: 2, index: 0}", deadline),
                       {.observer = &heard_})
        .value();
  }
  static Decision ask(Guard& guard, const std::string& route, const std::string& user,
                      const std::string& account, std::uint64_t cost = 1) {
    return guard.check(route, {{"user", user}, {"account", account}}, {.cost = cost});
  }
  static std::uint64_t used(Guard& guard, const std::string& route, const std::string& user,
                            const std::string& account, std::size_t rule) {
    const Decision decision = ask(guard, route, user, account, 0);
    const bool told = decision.rung == Rung::store || decision.rung == Rung::known;
    if (!told || decision.rules().size() <= rule) return UINT64_MAX;
    return decision.rules()[rule].limit - decision.rules()[rule].remaining.value_or(0);
  }
  // The slot of the counter that a user has in `count`, from its name in the store.
  static std::optional<std::uint16_t> slot_of(testing::RedisCluster& cluster,
                                              const std::string& user) {
    for (std::size_t i = 0; i < cluster.size(); ++i) {
      for (const std::string& key : cluster.node(i).keys("*/" + user))
        return store::redis::key_slot(key);
    }
    return std::nullopt;
  }
  // So many users whose counters lie on that master.
  std::vector<std::string> users_on(Guard& guard, testing::RedisCluster& cluster,
                                    std::size_t master, std::size_t count) {
    std::vector<std::string> found;
    for (int i = 0; found.size() < count && i < 1'000; ++i) {
      const std::string user = "on" + std::to_string(i);
      Tally tally;
      if (!check(guard, "count", user, tally).allowed()) continue;
      const auto slot = slot_of(cluster, user);
      if (slot && cluster.first_owner(*slot) == master) found.push_back(user);
    }
    return found;
  }

  static bool is_master(testing::RedisServer& node) {
    return node.text({"INFO", "replication"}).find("role:master") != std::string::npos;
  }
  static bool in_step(testing::RedisServer& replica) {
    return replica.text({"INFO", "replication"}).find("master_link_status:up") != std::string::npos;
  }
  // Whether the replica has all that its master wrote until now.
  static bool replicated(testing::RedisServer& master, testing::RedisServer& replica) {
    const auto offset = [](testing::RedisServer& node, const std::string& name) {
      const std::string info = node.text({"INFO", "replication"});
      const std::size_t at = info.find("\n" + name + ":");
      return at == std::string::npos ? -1 : std::stoll(info.substr(at + name.size() + 2));
    };
    const auto until = offset(master, "master_repl_offset");
    return eventually(
        [&] { return in_step(replica) && offset(replica, "slave_repl_offset") >= until; });
  }
  // The line that a node has of another one: its flags, its master, whether they are connected.
  static std::string line_of(const std::string& id, testing::RedisServer& node) {
    const std::string nodes = node.text({"CLUSTER", "NODES"});
    const std::size_t at = nodes.find(id);
    return at == std::string::npos ? "" : nodes.substr(at, nodes.find('\n', at) - at);
  }
  // Whether all nodes know whose replica it is: its master would not hear it before, and nobody
  // would vote for it.
  static bool known_as_replica(testing::RedisCluster& cluster, testing::RedisServer& replica) {
    const std::string id = testing::RedisCluster::id_of(replica);
    const std::string own = line_of(id, replica);
    const std::size_t at = own.find("slave ");
    if (at == std::string::npos) return false;
    const std::string whose = own.substr(at, 6 + id.size());
    for (std::size_t i = 0; i < cluster.size(); ++i) {
      const std::string line = line_of(id, cluster.node(i));
      if (line.find(whose) == std::string::npos) return false;
      if (line.find(" disconnected") != std::string::npos) return false;
    }
    return in_step(replica);
  }
  static std::string shown(Guard& guard) { return guard.impl().shared()->state_json(); }
  static bool shows(Guard& guard, testing::RedisServer& node) {
    return shown(guard).find("127.0.0.1:" + std::to_string(node.port())) != std::string::npos;
  }

  Heard heard_;
};

}  // namespace weir::fault
