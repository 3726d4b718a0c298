#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "drill/proxy/fault_proxy.h"
#include "drill/run/own_redis.h"
#include "weir/result.h"

namespace weir::drill {

// A Redis Cluster that belongs to a drill: masters that share the slots evenly, each behind a fault
// proxy of its own. Every node tells clients that it listens where its proxy does, so that all they
// say passes there; what the nodes say to each other does not.
class OwnCluster {
 public:
  struct Options {
    std::string folder;  // each node has one of its own in it
    std::uint32_t masters = 3;
    bool moves_clock = false;  // of the first
  };

  // Errors:      unavailable: what could not be started, or does not become a cluster in time.
  static Result<std::unique_ptr<OwnCluster>> start(const Options& options);

  // Those that the faults are for.
  OwnRedis& first() noexcept { return *nodes_.front(); }
  FaultProxy& first_proxy() noexcept { return *proxies_.front(); }
  // redis+cluster://, by all nodes, through their proxies.
  std::string url() const;

 private:
  OwnCluster() = default;
  Result<void> add_node(const Options& options, std::uint32_t number);
  Result<void> join();
  Result<void> await(const std::string& line) const;

  // A proxy goes before its node.
  std::vector<std::unique_ptr<OwnRedis>> nodes_;
  std::vector<std::unique_ptr<FaultProxy>> proxies_;
  std::vector<std::uint16_t> buses_;
};

}  // namespace weir::drill
