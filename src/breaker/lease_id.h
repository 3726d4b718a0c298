#pragma once

#include <string>
#include <string_view>

namespace weir::breaker {

// Whether a caller may name a lease so: 16 to 64 letters, digits, '-' or '_'.
bool valid_lease_id(std::string_view id) noexcept;

// 128 bits of the machine's own randomness: nobody guesses them.
std::string unguessable_lease_id();

}  // namespace weir::breaker
