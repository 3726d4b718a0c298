#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/key_digest.h"

namespace weir::policy {

// Writes the structural encoding of one counter: its rule's identity, then its values in the order
// of `by`.
//
//   identity   8 bytes, little endian
//   value      length (1 byte, 0 to 64), bytes        a value of up to 64 bytes
//              0xFF, 16 bytes                         the digest of a longer one
//              0xFE                                   absent, which is not the empty value
//
// Guarantees:  two keys are equal only if identity and all values are (long ones: their digests);
// a_b + c is not
//              a + b_c. At most kMaxKeyBytes; no allocation.
class KeyWriter {
 public:
  static constexpr std::size_t kMaxPlainValue = 64;
  static constexpr std::size_t kMaxValues = 16;
  static constexpr std::size_t kMaxKeyBytes = 8 + kMaxValues * (1 + kMaxPlainValue);
  static constexpr unsigned char kAbsent = 0xfe;
  static constexpr unsigned char kDigested = 0xff;

  // Requires: `buffer` holds kMaxKeyBytes.
  KeyWriter(char* buffer, std::uint64_t identity) noexcept : begin_(buffer), end_(buffer + 8) {
    for (int i = 0; i < 8; ++i) buffer[i] = static_cast<char>(identity >> (8 * i));
  }

  // Requires: at most kMaxValues values.
  void value(std::string_view bytes, const ValueDigester& digester) noexcept {
    if (bytes.size() <= kMaxPlainValue) {
      *end_++ = static_cast<char>(bytes.size());
      std::memcpy(end_, bytes.data(), bytes.size());
      end_ += bytes.size();
      return;
    }
    *end_++ = static_cast<char>(kDigested);
    const ValueDigester::Digest digest = digester(bytes);
    std::memcpy(end_, digest.data(), digest.size());
    end_ += digest.size();
  }
  void absent() noexcept { *end_++ = static_cast<char>(kAbsent); }

  std::string_view view() const noexcept {
    return {begin_, static_cast<std::size_t>(end_ - begin_)};
  }

 private:
  char* begin_;
  char* end_;
};

}  // namespace weir::policy
