#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
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
// Weir's own counters that stand beside a rule's, so that one call reaches both also on a cluster,
// begin with an identity that own_identity() makes, and then repeat the rule's values, or
//              0xFD, identity                         that rule's identity, where it has no values
// Their last value alone is their own.
//
// Guarantees:  two keys are equal only if identity and all values are (long ones: their digests);
// a_b + c is not
//              a + b_c. At most kMaxKeyBytes; no allocation.
class KeyWriter {
 public:
  static constexpr std::size_t kMaxPlainValue = 64;
  static constexpr std::size_t kMaxValues = 16;
  static constexpr std::size_t kMaxKeyBytes = 8 + kMaxValues * (1 + kMaxPlainValue);
  static constexpr unsigned char kBeside = 0xfd;
  static constexpr unsigned char kAbsent = 0xfe;
  static constexpr unsigned char kDigested = 0xff;
  static constexpr std::size_t kIdentityBytes = 8;
  // Of a counter beside one of the longest keys, whose own value is plain.
  static constexpr std::size_t kMaxBesideBytes = kMaxKeyBytes + 1 + kMaxPlainValue;

  // Requires: `buffer` holds kMaxKeyBytes.
  KeyWriter(char* buffer, std::uint64_t identity) noexcept : begin_(buffer), end_(buffer + 8) {
    for (int i = 0; i < 8; ++i) buffer[i] = static_cast<char>(identity >> (8 * i));
  }

  // Requires: at most kMaxValues values.
  void value(std::string_view bytes, const ValueDigester& digester) noexcept {
    if (bytes.size() <= kMaxPlainValue) {
      *end_++ = static_cast<char>(bytes.size());
      copy_plain(end_, bytes.data(), bytes.size());
      end_ += bytes.size();
      return;
    }
    *end_++ = static_cast<char>(kDigested);
    const ValueDigester::Digest digest = digester(bytes);
    std::memcpy(end_, digest.data(), digest.size());
    end_ += digest.size();
  }
  void absent() noexcept { *end_++ = static_cast<char>(kAbsent); }

  // An identity of no rule, which are hashes of their texts: "weir-" and three letters.
  static constexpr std::uint64_t own_identity(char first, char second, char third) noexcept {
    const std::uint64_t letters = std::uint64_t{static_cast<unsigned char>(first)} << 16 |
                                  std::uint64_t{static_cast<unsigned char>(second)} << 8 |
                                  static_cast<unsigned char>(third);
    return std::uint64_t{0x77'65'69'72'2d} << 24 | letters;
  }
  // Whether a key begins with such a one.
  static bool is_own(std::string_view key) noexcept {
    return key.size() >= kIdentityBytes && key.substr(3, 5) == "-riew";
  }
  // Where the counter of `key` lies: what beside() takes.
  static std::string place_of(std::string_view key) {
    const std::string_view values = key.substr(kIdentityBytes);
    if (!values.empty()) return std::string(values);
    return static_cast<char>(kBeside) + std::string(key.substr(0, kIdentityBytes));
  }
  // Before the only value. Requires: an own identity; `buffer` holds kMaxBesideBytes.
  void beside(std::string_view place) noexcept {
    std::memcpy(end_, place.data(), place.size());
    end_ += place.size();
  }

  std::string_view view() const noexcept {
    return {begin_, static_cast<std::size_t>(end_ - begin_)};
  }

 private:
  // memcpy without a call: parts of one width, the last of which may overlap the one before.
  static void copy_plain(char* to, const char* from, std::size_t size) noexcept {
    const auto in_parts = [&]<class Part>(Part part) {
      for (std::size_t at = 0; at + sizeof part < size; at += sizeof part) {
        std::memcpy(&part, from + at, sizeof part);
        std::memcpy(to + at, &part, sizeof part);
      }
      std::memcpy(&part, from + size - sizeof part, sizeof part);
      std::memcpy(to + size - sizeof part, &part, sizeof part);
    };
    if (size >= 8) return in_parts(std::uint64_t{});
    if (size >= 4) return in_parts(std::uint32_t{});
    for (std::size_t i = 0; i < size; ++i) to[i] = from[i];
  }

  char* begin_;
  char* end_;
};

}  // namespace weir::policy
