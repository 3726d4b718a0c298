#pragma once

#include <cstdint>
#include <string_view>

namespace weir {

// What becomes of a reservation that nobody settles.
enum class OnExpiry : std::uint8_t {
  full,            // all that was reserved is billed
  last_heartbeat,  // what the last heartbeat said, and nothing where none came
  zero,            // nothing is billed
};

std::string_view to_string(OnExpiry on_expiry);

}  // namespace weir
