#include "testing/redis_cluster.h"

#include <chrono>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <thread>

namespace weir::testing {
namespace {

void wait_for(const char* what, const std::function<bool()>& done) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!done()) {
    if (std::chrono::steady_clock::now() >= until) {
      throw std::runtime_error(std::string("the cluster does not get there: ") + what);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void must(RedisServer& server, const std::vector<std::string>& command) {
  const std::string reply = server.execute(command);
  if (reply != "+OK\r\n") throw std::runtime_error(command[1] + ": " + reply);
}

// The texts of a flat array of bulk strings.
std::vector<std::string> texts(const std::string& reply) {
  std::vector<std::string> out;
  for (std::size_t at = reply.find('$'); at != std::string::npos;) {
    const std::size_t size = std::stoul(reply.substr(at + 1));
    const std::size_t begin = reply.find("\r\n", at) + 2;
    out.push_back(reply.substr(begin, size));
    at = reply.find('$', begin + size);
  }
  return out;
}

}  // namespace

RedisCluster::RedisCluster(Options options) : options_(options) {
  const std::size_t masters = options_.masters + options_.spare;
  const std::size_t count = masters + options_.masters * options_.replicas;
  std::vector<std::uint16_t> bus;
  std::vector<std::uint16_t> met;  // where others find it first
  for (std::size_t i = 0; i < count; ++i) {
    bus.push_back(free_port());
    const std::uint16_t port = free_port();
    base_.push_back(options_.tls.empty() ? port : free_port());
    announced_.push_back(options_.announced ? options_.announced(base_.back()) : base_.back());
    std::vector<std::string> arguments = {"--cluster-enabled",
                                          "yes",
                                          "--cluster-port",
                                          std::to_string(bus.back()),
                                          "--cluster-node-timeout",
                                          std::to_string(options_.node_timeout_ms),
                                          "--cluster-require-full-coverage",
                                          "no",
                                          "--repl-diskless-sync-delay",
                                          "0"};
    if (options_.tls.empty()) {
      arguments.insert(arguments.end(),
                       {"--cluster-announce-port", std::to_string(announced_.back())});
    } else {
      arguments.insert(arguments.end(),
                       {"--tls-cluster", "yes", "--tls-replication", "yes", "--tls-port",
                        std::to_string(base_.back()), "--cluster-announce-tls-port",
                        std::to_string(announced_.back())});
      arguments.insert(arguments.end(), options_.tls.begin(), options_.tls.end());
    }
    met.push_back(bus.back());
    if (options_.announced_bus) {
      met.back() = options_.announced_bus(bus.back());
      arguments.insert(arguments.end(),
                       {"--cluster-announce-ip", options_.host, "--cluster-announce-bus-port",
                        std::to_string(met.back())});
    }
    if (options_.source) {
      arguments.insert(arguments.end(), {"--bind-source-addr", options_.source(i)});
    }
    if (options_.host != "127.0.0.1") {
      arguments.insert(arguments.end(), {"--bind", "127.0.0.1", options_.host,
                                         "--cluster-announce-ip", options_.host});
    }
    arguments.insert(arguments.end(), options_.more.begin(), options_.more.end());
    nodes_.push_back(std::make_unique<RedisServer>(
        RedisServer::Options{.arguments = std::move(arguments), .port = port}));
  }
  for (std::size_t i = 0; i < options_.masters; ++i) {
    const std::size_t first = (i * 16'384 + options_.masters - 1) / options_.masters;
    const std::size_t next = ((i + 1) * 16'384 + options_.masters - 1) / options_.masters;
    must(*nodes_[i], {"CLUSTER", "ADDSLOTSRANGE", std::to_string(first), std::to_string(next - 1)});
  }
  for (std::size_t i = 0; i < count; ++i) {
    must(*nodes_[i], {"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
  }
  for (std::size_t i = 1; i < count; ++i) {
    must(*nodes_[0], {"CLUSTER", "MEET", options_.host,
                      std::to_string(options_.announced_bus ? announced_[i] : base_[i]),
                      std::to_string(met[i])});
  }
  for (const auto& node : nodes_) {
    wait_for("all nodes know each other", [&] {
      const std::string info = node->text({"CLUSTER", "INFO"});
      return info.find("cluster_known_nodes:" + std::to_string(count) + "\r\n") !=
             std::string::npos;
    });
  }
  for (std::size_t m = 0; m < options_.masters; ++m) {
    for (std::size_t r = 0; r < options_.replicas; ++r) {
      RedisServer& replica = replica_of(m, r);
      const std::string id = id_of(*nodes_[m]);
      wait_for("a replica knows its master", [&] {
        return replica.execute({"CLUSTER", "REPLICATE", id}) == "+OK\r\n";
      });
    }
  }
  for (const auto& node : nodes_) {
    wait_for("it works", [&] { return works(*node); });
  }
  for (std::size_t m = 0; m < options_.masters; ++m) {
    for (std::size_t r = 0; r < options_.replicas; ++r) {
      wait_for("replicas are in step", [&] {
        return replica_of(m, r).text({"INFO", "replication"}).find("master_link_status:up") !=
               std::string::npos;
      });
    }
  }
}

bool RedisCluster::works(RedisServer& node) {
  const std::string info = node.text({"CLUSTER", "INFO"});
  return info.find("cluster_state:ok") != std::string::npos &&
         info.find("cluster_slots_ok:16384") != std::string::npos;
}

std::string RedisCluster::url() const {
  const std::string host =
      options_.host.find(':') == std::string::npos ? options_.host : "[" + options_.host + "]";
  std::string hosts;
  for (const std::uint16_t port : announced_) {
    hosts += (hosts.empty() ? "" : ",") + (host + ":" + std::to_string(port));
  }
  return (options_.tls.empty() ? "redis+cluster://" : "rediss+cluster://") + hosts;
}

std::uint16_t RedisCluster::base_of(const RedisServer& node) const {
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].get() == &node) return base_[i];
  }
  return node.port();
}

namespace {

int epoch_of(RedisServer& node, const std::string& which) {
  const std::string info = node.text({"CLUSTER", "INFO"});
  const std::size_t at = info.find(which + ":");
  return at == std::string::npos ? 0 : std::atoi(info.c_str() + at + which.size() + 1);
}

}  // namespace

void RedisCluster::move_slot(std::uint16_t slot, RedisServer& from, RedisServer& to) {
  const std::string number = std::to_string(slot);
  const std::string from_id = id_of(from);
  const std::string to_id = id_of(to);
  // Who has not heard of the epoch of the one before would claim the slot under an older one, and
  // lose it.
  wait_for("it knows the epoch", [&] {
    return epoch_of(to, "cluster_current_epoch") >= epoch_of(from, "cluster_my_epoch");
  });
  must(to, {"CLUSTER", "SETSLOT", number, "IMPORTING", from_id});
  must(from, {"CLUSTER", "SETSLOT", number, "MIGRATING", to_id});
  for (;;) {
    const std::vector<std::string> keys =
        texts(from.execute({"CLUSTER", "GETKEYSINSLOT", number, "2"}));
    if (keys.empty()) break;
    std::vector<std::string> migrate = {
        "MIGRATE", "127.0.0.1", std::to_string(base_of(to)), "", "0", "5000", "KEYS"};
    migrate.insert(migrate.end(), keys.begin(), keys.end());
    const std::string reply = from.execute(migrate);
    // One that expired meanwhile is not there to be moved.
    if (reply != "+OK\r\n" && reply != "+NOKEY\r\n") throw std::runtime_error("MIGRATE: " + reply);
  }
  must(to, {"CLUSTER", "SETSLOT", number, "NODE", to_id});
  must(from, {"CLUSTER", "SETSLOT", number, "NODE", to_id});
}

}  // namespace weir::testing
