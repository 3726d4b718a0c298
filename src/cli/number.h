#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace weir::cli {

// A whole number in decimal digits and nothing else: no sign, no blank, no other base.
std::optional<std::uint64_t> parse_number(std::string_view text);

}  // namespace weir::cli
