#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/reply_reader.h"
#include "store/redis/topology/host_port.h"
#include "store/redis/topology/key_slot.h"

namespace weir::store::redis {

struct ClusterNode {
  std::string id;
  HostPort address;

  friend bool operator==(const ClusterNode&, const ClusterNode&) = default;
};

struct ClusterMaster {
  ClusterNode node;
  std::vector<ClusterNode> replicas;
  std::uint16_t highest_slot = 0;  // that it owns
  std::uint32_t slots = 0;

  friend bool operator==(const ClusterMaster&, const ClusterMaster&) = default;
};

// Who owns which slots, as one node sees it.
struct SlotMap {
  static constexpr std::uint16_t kNobody = UINT16_MAX;

  std::vector<ClusterMaster> masters;  // by id
  std::vector<std::uint16_t> owner;    // of each slot: its place in `masters`, or kNobody

  friend bool operator==(const SlotMap&, const SlotMap&) = default;
};

// Reads the reply of CLUSTER SLOTS, which a node at `asked` gave. A node without a host, as one is
// that has met no other, is at `asked.host`; one without any address is left out. What newer
// servers add is passed over.
//
// Guarantees:  independent of the order of the reply.
// Absent: not such a reply, a slot out of range, or of two masters.
std::optional<SlotMap> read_slots(const Reply& reply, const HostPort& asked);

// What a node says of itself in reply to CLUSTER INFO.
struct ClusterHealth {
  bool ok = false;          // it serves its slots
  std::uint64_t epoch = 0;  // the latest configuration that it has heard of
};
std::optional<ClusterHealth> read_cluster_info(const Reply& reply);

// "MOVED 3999 127.0.0.1:6381", "ASK 3999 ::1:6381", "MOVED 3999 :6381"
struct Redirect {
  bool asking = false;  // only this once, and after ASKING
  std::uint16_t slot = 0;
  HostPort where;  // an empty host: the one that was asked
};
std::optional<Redirect> read_redirect(std::string_view error);

}  // namespace weir::store::redis
