#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace weir {

// Sixteen hexadecimal digits, lower case.
inline std::string hex(std::uint64_t number) {
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; number >>= 4) text[i] = "0123456789abcdef"[number & 15];
  return text;
}

}  // namespace weir
