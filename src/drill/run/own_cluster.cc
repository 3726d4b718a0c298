#include "drill/run/own_cluster.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <utility>

#include "drill/run/exchange.h"
#include "store/redis/topology/key_slot.h"

namespace weir::drill {

using namespace std::chrono_literals;

namespace {

constexpr Nanos kPatience = 30s;
// Until a node that is silent counts as failed among the others; they go on without it.
constexpr const char* kNodeTimeoutMs = "1000";

}  // namespace

Result<std::unique_ptr<OwnCluster>> OwnCluster::start(const Options& options) {
  std::unique_ptr<OwnCluster> cluster(new OwnCluster());
  for (std::uint32_t i = 0; i < options.masters; ++i) {
    if (auto added = cluster->add_node(options, i); !added) return added.error();
  }
  if (auto joined = cluster->join(); !joined) return joined.error();
  return cluster;
}

Result<void> OwnCluster::add_node(const Options& options, std::uint32_t number) {
  const std::string folder = options.folder + "/node-" + std::to_string(number);
  std::error_code fault;
  std::filesystem::create_directory(folder, fault);
  if (fault) return Error{ErrorCode::unavailable, folder + ": " + fault.message()};
  const std::uint16_t port = free_port();
  auto proxy = FaultProxy::start({.target = loopback(port)});
  if (!proxy) return std::move(proxy).error();
  buses_.push_back(free_port());
  auto node = OwnRedis::start(
      {.folder = folder,
       .moves_clock = options.moves_clock && number == 0,
       .port = port,
       .words = {"--cluster-enabled", "yes", "--cluster-port", std::to_string(buses_.back()),
                 "--cluster-node-timeout", kNodeTimeoutMs, "--cluster-require-full-coverage", "no",
                 "--cluster-announce-port", std::to_string((*proxy)->port())}});
  if (!node) return std::move(node).error();
  proxies_.push_back(std::move(*proxy));
  nodes_.push_back(std::move(*node));
  return {};
}

Result<void> OwnCluster::join() {
  const std::size_t count = nodes_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = (i * store::redis::kSlots + count - 1) / count;
    const std::size_t next = ((i + 1) * store::redis::kSlots + count - 1) / count;
    for (const std::string& command :
         {"ADDSLOTSRANGE " + std::to_string(first) + " " + std::to_string(next - 1),
          "SET-CONFIG-EPOCH " + std::to_string(i + 1)}) {
      if (auto told = nodes_[i]->tell("CLUSTER " + command); !told) return told;
    }
  }
  for (std::size_t i = 1; i < count; ++i) {
    const std::string where = std::to_string(nodes_[i]->port()) + " " + std::to_string(buses_[i]);
    if (auto told = nodes_[0]->tell("CLUSTER MEET 127.0.0.1 " + where); !told) return told;
  }
  for (const std::string& line :
       {"cluster_known_nodes:" + std::to_string(count), std::string("cluster_state:ok"),
        "cluster_slots_ok:" + std::to_string(store::redis::kSlots)}) {
    if (auto there = await(line); !there) return there;
  }
  return {};
}

// Until every node says so.
Result<void> OwnCluster::await(const std::string& line) const {
  const MonoTime until = Clock::real().mono() + kPatience;
  for (const auto& node : nodes_) {
    while (exchange(loopback(node->port()), "CLUSTER INFO\r\n", "\r\n\r\n").find(line + "\r\n") ==
           std::string::npos) {
      if (Clock::real().mono() >= until) {
        return Error{ErrorCode::unavailable, "the cluster does not say " + line};
      }
      std::this_thread::sleep_for(20ms);
    }
  }
  return {};
}

std::string OwnCluster::url() const {
  std::string hosts;
  for (const auto& proxy : proxies_) {
    hosts += (hosts.empty() ? "" : ",") + loopback(proxy->port());
  }
  return "redis+cluster://" + hosts;
}

}  // namespace weir::drill
