#include "policy/utf8.h"

#include <cstdint>

namespace weir::policy {
namespace {

// Length of the well-formed sequence that begins at `at`, or 0.
// Source:      Unicode 15, table 3-7.
std::size_t sequence_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<std::uint8_t>(text[at + i]) : std::uint8_t{0};
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const std::uint8_t b0 = byte(0);
  const std::uint8_t b1 = byte(1);
  if (b0 < 0x80) return 1;
  if (b0 >= 0xc2 && b0 <= 0xdf) return tail(1) ? 2 : 0;
  if (b0 >= 0xe0 && b0 <= 0xef) {
    if (b0 == 0xe0 && b1 < 0xa0) return 0;  // overlong
    if (b0 == 0xed && b1 > 0x9f) return 0;  // surrogate
    return tail(1) && tail(2) ? 3 : 0;
  }
  if (b0 >= 0xf0 && b0 <= 0xf4) {
    if (b0 == 0xf0 && b1 < 0x90) return 0;  // overlong
    if (b0 == 0xf4 && b1 > 0x8f) return 0;  // past U+10FFFF
    return tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

bool is_control(char c) {
  const auto byte = static_cast<std::uint8_t>(c);
  return (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') || byte == 0x7f;
}

}  // namespace

std::optional<std::size_t> first_not_text(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence_length(text, at);
    if (length == 0 || is_control(text[at])) return at;
    at += length;
  }
  return std::nullopt;
}

}  // namespace weir::policy
