#include "guard/shard_roster.h"

#include <algorithm>

namespace weir::guard {

using store::redis::ClusterMaster;
using store::redis::SlotMap;

std::vector<std::optional<std::size_t>> assign_shards(std::span<const ShardIdentity> shards,
                                                      const SlotMap& map) {
  std::vector<std::optional<std::size_t>> of(map.masters.size());
  std::vector<bool> taken(shards.size());
  const auto pass = [&](auto fits) {
    for (std::size_t m = 0; m < map.masters.size(); ++m) {
      for (std::size_t s = 0; s < shards.size() && !of[m]; ++s) {
        if (taken[s] || !fits(shards[s], map.masters[m])) continue;
        of[m] = s;
        taken[s] = true;
      }
    }
  };
  const auto still_there = [&](const ShardIdentity& shard) {
    return std::any_of(map.masters.begin(), map.masters.end(),
                       [&](const ClusterMaster& master) { return master.node.id == shard.id; });
  };
  pass([](const ShardIdentity& shard, const ClusterMaster& master) {
    return !shard.id.empty() && shard.id == master.node.id;
  });
  pass([&](const ShardIdentity& shard, const ClusterMaster& master) {
    return !shard.id.empty() && !still_there(shard) &&
           std::find(shard.replicas.begin(), shard.replicas.end(), master.node.id) !=
               shard.replicas.end();
  });
  pass([&](const ShardIdentity& shard, const ClusterMaster& master) {
    return !shard.id.empty() && !still_there(shard) && shard.highest_slot == master.highest_slot;
  });
  pass([&](const ShardIdentity& shard, const ClusterMaster& master) {
    return shard.address == master.node.address && (shard.id.empty() || !still_there(shard));
  });
  pass([&](const ShardIdentity& shard, const ClusterMaster&) {
    return !shard.active && !still_there(shard);
  });
  return of;
}

}  // namespace weir::guard
