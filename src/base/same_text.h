#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace weir {

// a == b, without a call where they are short: names on the way of every decision are.
inline bool same_text(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  const std::size_t size = a.size();
  const auto differs = [&]<class Word>(Word, std::size_t at) {
    Word left, right;
    std::memcpy(&left, a.data() + at, sizeof left);
    std::memcpy(&right, b.data() + at, sizeof right);
    return left ^ right;
  };
  // Two words that overlap where the size lies between.
  if (size > 16) return std::memcmp(a.data(), b.data(), size) == 0;
  if (size >= 8) return (differs(std::uint64_t{}, 0) | differs(std::uint64_t{}, size - 8)) == 0;
  if (size >= 4) return (differs(std::uint32_t{}, 0) | differs(std::uint32_t{}, size - 4)) == 0;
  if (size == 0) return true;
  const auto byte_differs = [&](std::size_t at) { return a[at] ^ b[at]; };
  return (byte_differs(0) | byte_differs(size / 2) | byte_differs(size - 1)) == 0;
}

}  // namespace weir
