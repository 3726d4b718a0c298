#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "testing/redis_server.h"

namespace weir::testing {

// A real Redis Cluster on free ports of this machine: masters that share the slots evenly, and
// replicas.
class RedisCluster {
 public:
  struct Options {
    std::size_t masters = 3;
    std::size_t replicas = 0;  // of each master
    std::size_t spare = 0;     // masters without slots
    // Until a node that is silent counts as failed: on a busy machine one is silent for a while,
    // and whoever takes most others for failed says that the cluster is down.
    int node_timeout_ms = 5'000;
    // Where clients are told that the node of a port listens; absent: there.
    std::function<std::uint16_t(std::uint16_t port)> announced = {};
    // The same of the ports by which nodes speak to each other. They meet by what is announced
    // then.
    std::function<std::uint16_t(std::uint16_t port)> announced_bus = {};
    // Where a node connects from, by its place; absent: as it comes.
    std::function<std::string(std::size_t node)> source = {};
    // Not empty: nodes speak TLS among each other and to clients, with these --tls-… arguments. The
    // plain port stays, for the test.
    std::vector<std::string> tls = {};
    // What the nodes are called among each other, and to clients: 127.0.0.1 or ::1.
    std::string host = "127.0.0.1";
    std::vector<std::string> more = {};  // arguments of every node
  };

  // Throws std::runtime_error where the cluster does not work within 30 seconds.
  RedisCluster() : RedisCluster(Options{}) {}
  explicit RedisCluster(Options options);

  // Masters first, then spares, then the replicas: of the first master, of the second, and so on.
  RedisServer& node(std::size_t i) { return *nodes_[i]; }
  RedisServer& spare(std::size_t i = 0) { return *nodes_[options_.masters + i]; }
  RedisServer& replica_of(std::size_t master, std::size_t i = 0) {
    return *nodes_[options_.masters + options_.spare + master * options_.replicas + i];
  }
  std::size_t size() const noexcept { return nodes_.size(); }
  // redis+cluster:// or rediss+cluster://, by all nodes, where they say that they listen.
  std::string url() const;

  // Which master the slots were given to at first.
  std::size_t first_owner(std::uint16_t slot) const noexcept {
    return slot * options_.masters / 16'384;
  }
  // Moves a slot with its keys, a few at a time, as resharding does.
  void move_slot(std::uint16_t slot, RedisServer& from, RedisServer& to);

  static std::string id_of(RedisServer& node) { return node.text({"CLUSTER", "MYID"}); }
  // Whether that node takes all slots for served.
  static bool works(RedisServer& node);

 private:
  std::uint16_t base_of(const RedisServer& node) const;

  const Options options_;
  std::vector<std::unique_ptr<RedisServer>> nodes_;
  std::vector<std::uint16_t> announced_;
  std::vector<std::uint16_t> base_;  // the port that nodes and clients use
};

}  // namespace weir::testing
