#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "store/redis/reply_reader.h"
#include "store/redis/topology/host_port.h"

namespace weir::store::redis {

// What one sentinel says of a master.
struct MasterView {
  HostPort address;
  std::uint64_t epoch = 0;  // of its configuration: a failover's is larger than all before it
};

// Reads the epoch out of the reply of SENTINEL MASTER. Absent: not such a reply.
std::optional<std::uint64_t> read_config_epoch(const Reply& reply);

// Reads the reply of SENTINEL GET-MASTER-ADDR-BY-NAME, which names the new address as soon as a
// failover is decided. Absent: not such a reply, or no such master.
std::optional<HostPort> read_master_address(const Reply& reply);

// Whether a message of the channel +switch-master speaks of that master.
bool tells_of_switch(const Reply& message, std::string_view master);

}  // namespace weir::store::redis
