#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::drill {

// Sends, and takes what comes until the peer closes, it ends in `end`, or two seconds are over.
// Empty where nobody can be reached.
std::string exchange(const std::string& address, const std::string& text, std::string_view end);

// A port of 127.0.0.1 that was free a moment ago; 0 where there is none.
std::uint16_t free_port();

std::string loopback(std::uint16_t port);

}  // namespace weir::drill
