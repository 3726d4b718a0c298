#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/policies.h"
#include "sim/scenario.h"
#include "sim/store.h"
#include "store/redis/beat.h"
#include "testing/sim/sim_redis.h"

namespace weir::sim {

enum class Canary : std::uint8_t;

// The servers of a run, and every worker's ways to them: of each shard a master, and a replica once
// one is to take over; and perhaps a second store.
class Servers {
 public:
  // What is seen of the commands that they carry out.
  struct Witness {
    std::function<void(std::size_t shard, std::string_view name, char what,
                       const store::redis::FleetReply& reply, bool replaced)>
        beat;  // see Roster::beat()
    // An ask that came after its time changed this key.
    std::function<void(const std::string& key)> late_write;
  };

  Servers(const Scenario& scenario, Canary canary, testing::SimLoop& loop, Witness witness);

  std::size_t shards() const noexcept { return shards_.size(); }
  testing::SimRedis& master(std::size_t shard) noexcept { return *shards_[shard].now(); }
  testing::SimRedis* fallback() noexcept { return fallback_.get(); }
  // All that ever were.
  std::vector<testing::SimRedis*> all();

  // A worker's way to a shard: where it was turned last.
  Way way(std::uint32_t worker, std::size_t shard);
  Way fallback_way(std::uint32_t worker) { return {fallback_.get(), &fallback_links_[worker]}; }
  // All its ways there, one of which is in use.
  std::array<testing::SimLink*, 2> links(std::uint32_t worker, std::size_t shard);

  // A replica becomes the master, with these keys; whoever is turned to it asks it.
  void promote(std::size_t shard, testing::LuaRedis::Keys keys, Nanos ahead);
  Way turn(std::uint32_t worker, std::size_t shard);
  testing::SimRedis& old_master(std::size_t shard) noexcept { return *shards_[shard].master; }

  // How far the busiest of them is behind.
  MonoTime busy_until() const;

 private:
  struct Shard {
    std::unique_ptr<testing::SimRedis> master;
    std::unique_ptr<testing::SimRedis> replica;  // null: none took over
    std::vector<std::array<testing::SimLink, 2>> links{kWorkers};
    std::vector<bool> turned = std::vector<bool>(kWorkers);
    testing::SimRedis* now() const { return replica ? replica.get() : master.get(); }
  };

  void watch(testing::SimRedis& server, std::size_t shard);
  void plant(testing::SimRedis& server, std::vector<std::string>& command) const;

  const Scenario& scenario_;
  const Canary canary_;
  testing::SimLoop& loop_;
  const Witness witness_;
  std::vector<Shard> shards_;
  std::unique_ptr<testing::SimRedis> fallback_;
  std::vector<testing::SimLink> fallback_links_{kWorkers};
};

}  // namespace weir::sim
