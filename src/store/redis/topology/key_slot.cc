#include "store/redis/topology/key_slot.h"

#include <array>

namespace weir::store::redis {
namespace {

constexpr std::array<std::uint16_t, 256> kCrc = [] {
  std::array<std::uint16_t, 256> table{};
  for (unsigned i = 0; i < table.size(); ++i) {
    unsigned crc = i << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x8000) != 0 ? 0x1021U : 0U);
    table[i] = static_cast<std::uint16_t>(crc);
  }
  return table;
}();

std::uint16_t crc16(std::string_view bytes) noexcept {
  unsigned crc = 0;
  for (const char c : bytes) {
    crc = (crc << 8 & 0xffff) ^ kCrc[(crc >> 8 ^ static_cast<unsigned char>(c)) & 0xff];
  }
  return static_cast<std::uint16_t>(crc);
}

}  // namespace

std::uint16_t key_slot(std::string_view key) noexcept {
  const std::size_t open = key.find('{');
  if (open != std::string_view::npos) {
    const std::size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1) {
      key = key.substr(open + 1, close - open - 1);
    }
  }
  return static_cast<std::uint16_t>(crc16(key) % kSlots);
}

std::string name_in_slot(std::uint16_t slot) {
  constexpr std::string_view kLetters = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string text = "!0";
  for (;;) {
    if (crc16(text) % kSlots == slot) return text.substr(1);
    // The next one: an odometer that grows by a letter when all have gone round.
    std::size_t at = text.size();
    while (--at > 0) {
      const std::size_t letter = kLetters.find(text[at]);
      if (letter + 1 < kLetters.size()) {
        text[at] = kLetters[letter + 1];
        break;
      }
      text[at] = kLetters.front();
    }
    if (at == 0) text.insert(1, 1, kLetters.front());
  }
}

}  // namespace weir::store::redis
