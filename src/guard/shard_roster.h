#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/redis/topology/slot_map.h"

namespace weir::guard {

// Who a shard is: what is known of it, and which master it was last.
struct ShardIdentity {
  std::string id;  // empty: of a node that a redirection named, or of none yet
  store::redis::HostPort address;
  std::vector<std::string> replicas;  // by id
  bool active = false;                // its master is in the map
  // Of its master's slots the highest: where its own keys are. Absent: it has none to keep any in.
  std::optional<std::uint16_t> highest_slot;
};

// Which shard each master of a map is: the one that had that master; else the one whose master is
// gone and whose replica it was, or whose slots it has (a replica that is not in step is in no
// map); else one that has its address; else one that is not in use; else a new one (absent). So
// what is known and owed stays with the data when a replica takes over.
//
// Guarantees:  no shard is of two masters.
std::vector<std::optional<std::size_t>> assign_shards(std::span<const ShardIdentity> shards,
                                                      const store::redis::SlotMap& map);

}  // namespace weir::guard
