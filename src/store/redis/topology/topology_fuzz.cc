// Whatever a node says of its topology, it is a map or none: never a crash, and never a slot of a
// master that is not there.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/redis/reply_reader.h"
#include "store/redis/topology/master_view.h"
#include "store/redis/topology/slot_map.h"

using namespace weir::store::redis;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto redirect = read_redirect(bytes)) {
    if (redirect->slot >= kSlots || redirect->where.port == 0) std::abort();
  }
  ReplyReader reader({.bytes = std::size_t{1} << 20, .elements = kSlots});
  reader.feed(bytes);
  while (reader.next() == ReplyReader::Next::reply) {
    const Reply reply = reader.reply();
    (void)read_cluster_info(reply);
    (void)read_config_epoch(reply);
    (void)tells_of_switch(reply, "main");
    if (const auto address = read_master_address(reply)) {
      if (address->host.empty() || address->port == 0) std::abort();
    }
    const auto map = read_slots(reply, {"h", 1});
    if (!map) continue;
    if (map->owner.size() != kSlots) std::abort();
    std::uint32_t owned = 0;
    for (const std::uint16_t owner : map->owner) {
      if (owner == SlotMap::kNobody) continue;
      if (owner >= map->masters.size()) std::abort();
      ++owned;
    }
    for (const ClusterMaster& master : map->masters) {
      owned -= master.slots;
      if (master.node.address.host.empty() || master.node.address.port == 0) std::abort();
    }
    if (owned != 0) std::abort();
  }
  return 0;
}
