#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::store::redis {

// Big-endian numbers as the scripts' struct.pack and struct.unpack have them. A pair is an instant
// or a length in nanoseconds, as seconds (5 bytes) and the rest (4 bytes).

inline constexpr std::size_t kPairBytes = 9;
inline constexpr std::int64_t kNanosInSecond = 1'000'000'000;

inline void append_uint(std::uint64_t value, int bytes, std::string& out) {
  for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i));
}
inline void append_u32(std::uint32_t value, std::string& out) {
  append_uint(value, 4, out);
}

// Requires: ns >= 0.
inline void append_pair(std::int64_t ns, std::string& out) {
  append_uint(static_cast<std::uint64_t>(ns / kNanosInSecond), 5, out);
  append_uint(static_cast<std::uint64_t>(ns % kNanosInSecond), 4, out);
}

// Reads such numbers from the front of a string; a short one, or a pair out of range, makes it bad
// for good.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  std::uint64_t uint(std::size_t bytes) {
    if (rest_.size() < bytes) {
      good_ = false;
      return 0;
    }
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) {
      value = value << 8 | static_cast<unsigned char>(rest_[i]);
    }
    rest_.remove_prefix(bytes);
    return value;
  }
  std::uint32_t u32() { return static_cast<std::uint32_t>(uint(4)); }
  std::int64_t pair() {
    const std::uint64_t seconds = uint(5);
    const std::uint64_t nanos = uint(4);
    if (seconds >= kLastSecond || nanos >= static_cast<std::uint64_t>(kNanosInSecond)) {
      good_ = false;
      return 0;
    }
    return static_cast<std::int64_t>(seconds) * kNanosInSecond + static_cast<std::int64_t>(nanos);
  }
  void skip(std::size_t bytes) { uint(bytes); }
  // Whether every number was there, and nothing is left.
  bool done() const { return good_ && rest_.empty(); }

 private:
  static constexpr std::uint64_t kLastSecond = std::uint64_t{1} << 33;

  std::string_view rest_;
  bool good_ = true;
};

}  // namespace weir::store::redis
