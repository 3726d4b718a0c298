#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/same_text.h"

namespace weir::policy {

// Places by name, for the one lookup that every check makes: a hash of a few multiplications, and
// as a rule one name compared. Names come from the policy, so nobody can crowd the table: whoever
// looks a name up only looks.
//
// Threads:     immutable once filled; any number at once.
class NameTable {
 public:
  // Room for so many names.
  explicit NameTable(std::size_t names = 0)
      : entries_(std::bit_ceil(2 * names + 1)), mask_(entries_.size() - 1) {}

  // Of two that are called alike, the first is found.
  //
  // Requires:    no more names than there is room for.
  void add(std::string_view name, std::uint32_t place) {
    std::size_t at = start(name);
    while (entries_[at].taken) at = (at + 1) & mask_;
    entries_[at] = {.name = std::string(name), .place = place, .taken = true};
  }

  // Null where nothing is called so.
  const std::uint32_t* find(std::string_view name) const noexcept {
    for (std::size_t at = start(name); entries_[at].taken; at = (at + 1) & mask_) {
      if (same_text(entries_[at].name, name)) return &entries_[at].place;
    }
    return nullptr;
  }

 private:
  struct Entry {
    std::string name;
    std::uint32_t place = 0;
    bool taken = false;
  };

  static std::uint64_t word(const char* from) noexcept {
    std::uint64_t out = 0;
    std::memcpy(&out, from, sizeof out);
    return out;
  }
  static std::uint64_t mixed(std::uint64_t hash, std::uint64_t more) noexcept {
    hash = (hash ^ more) * 0x9e37'79b9'7f4a'7c15;
    return hash ^ (hash >> 32);
  }
  // The last bytes, at most 8, each in it at least once.
  static std::uint64_t last_bytes(const char* at, std::size_t count) noexcept {
    if (count == 8) return word(at);
    if (count >= 4) {
      std::uint32_t first = 0, second = 0;
      std::memcpy(&first, at, sizeof first);
      std::memcpy(&second, at + count - 4, sizeof second);
      return std::uint64_t{second} << 32 | first;
    }
    if (count == 0) return 0;
    const auto byte = [&](std::size_t i) {
      return std::uint64_t{static_cast<unsigned char>(at[i])};
    };
    return byte(0) | byte(count / 2) << 8 | byte(count - 1) << 16;
  }
  std::size_t start(std::string_view name) const noexcept {
    const char* at = name.data();
    std::size_t left = name.size();
    std::uint64_t hash = left;
    for (; left > 8; at += 8, left -= 8) hash = mixed(hash, word(at));
    return static_cast<std::size_t>(mixed(hash, last_bytes(at, left))) & mask_;
  }

  std::vector<Entry> entries_;
  std::size_t mask_;  // of a place among them
};

}  // namespace weir::policy
