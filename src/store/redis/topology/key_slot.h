#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::store::redis {

// The slots of a Redis Cluster: each key lies in one, and each slot on one master.
inline constexpr std::uint32_t kSlots = 16'384;

// The slot of a key: of what stands in its first braces, where something does, or of all of it.
//
// Source:      Redis Cluster specification, key distribution model: CRC-16/XMODEM modulo 16384.
std::uint16_t key_slot(std::string_view key) noexcept;

// The shortest, and of those the first, text of lower case letters and digits that, after a '!',
// lies in that slot: the name of a shard whose own keys are to lie on the master of the slot.
//
// Requires:    slot < kSlots.
// Cost:        some 16,000 hashes.
std::string name_in_slot(std::uint16_t slot);

}  // namespace weir::store::redis
