#pragma once

#include <string>
#include <string_view>

namespace weir::testing {

// SHA-1 in hexadecimal, as Redis names scripts.
std::string sha1_hex(std::string_view bytes);

}  // namespace weir::testing
