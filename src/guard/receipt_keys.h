#pragma once

#include <string>
#include <string_view>

namespace weir::guard {

// The names of what a shared store charged, one after the other, each behind its length in two
// bytes: what Decision::receipt_keys holds. A key is at most a few hundred bytes long.

inline void append_receipt_key(std::string_view key, std::string& keys) {
  keys.push_back(static_cast<char>(key.size() >> 8));
  keys.push_back(static_cast<char>(key.size() & 0xff));
  keys.append(key);
}

// Takes the first name off `keys`; empty where none is left.
inline std::string_view take_receipt_key(std::string_view& keys) {
  if (keys.size() < 2) return {};
  const std::size_t size =
      (static_cast<unsigned char>(keys[0]) << 8) | static_cast<unsigned char>(keys[1]);
  if (keys.size() < 2 + size) return {};
  const std::string_view key = keys.substr(2, size);
  keys.remove_prefix(2 + size);
  return key;
}

}  // namespace weir::guard
