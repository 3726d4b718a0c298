#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/key_digest.h"

namespace weir {

// SipHash with 128 bits of output: so many rounds a word, and so many at the end of each half.
//
// Threads:     immutable. No allocation.
// Source:      Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012.
template <int kRoundsAWord, int kLastRounds>
class SipHash {
 public:
  explicit SipHash(const std::array<unsigned char, 16>& secret) noexcept {
    const std::uint64_t k0 = word(secret.data());
    const std::uint64_t k1 = word(secret.data() + 8);
    begin_ = {0x736f'6d65'7073'6575 ^ k0, 0x646f'7261'6e64'6f6d ^ k1 ^ 0xee,
              0x6c79'6765'6e65'7261 ^ k0, 0x7465'6462'7974'6573 ^ k1};
  }

  KeyDigest operator()(std::string_view bytes) const noexcept {
    State v = begin_;
    const char* at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 8; at += 8, left -= 8) v.absorb(word(at));
    v.absorb(std::uint64_t{bytes.size()} << 56 | tail(at, left));
    return v.digest();
  }

  // The digest of a text that need not be put together first: the bytes of `head`, little endian,
  // then `byte`, then `rest`.
  KeyDigest operator()(std::uint64_t head, unsigned char byte,
                       std::string_view rest) const noexcept {
    State v = begin_;
    v.absorb(head);
    std::uint64_t carried = byte;
    const char* at = rest.data();
    std::size_t left = rest.size();
    for (; left >= 8; at += 8, left -= 8) {
      const std::uint64_t next = word(at);
      v.absorb(carried | next << 8);
      carried = next >> 56;
    }
    carried |= tail(at, left) << 8;
    const std::uint64_t length = std::uint64_t{9 + rest.size()} << 56;
    if (left == 7) {
      v.absorb(carried);
      carried = 0;
    }
    v.absorb(length | carried);
    return v.digest();
  }

 private:
  struct State {
    std::uint64_t a, b, c, d;

    void round() noexcept {
      a += b;
      b = std::rotl(b, 13) ^ a;
      a = std::rotl(a, 32);
      c += d;
      d = std::rotl(d, 16) ^ c;
      a += d;
      d = std::rotl(d, 21) ^ a;
      c += b;
      b = std::rotl(b, 17) ^ c;
      c = std::rotl(c, 32);
    }
    void absorb(std::uint64_t word) noexcept {
      d ^= word;
      for (int i = 0; i < kRoundsAWord; ++i) round();
      a ^= word;
    }
    std::uint64_t finish() noexcept {
      for (int i = 0; i < kLastRounds; ++i) round();
      return a ^ b ^ c ^ d;
    }
    KeyDigest digest() noexcept {
      c ^= 0xee;
      KeyDigest out;
      out.hi = finish();
      b ^= 0xdd;
      out.lo = finish();
      return out;
    }
  };

  template <class Byte>
  static std::uint64_t word(const Byte* from) noexcept {
    std::uint64_t out = 0;
    std::memcpy(&out, from, sizeof out);
    if constexpr (std::endian::native == std::endian::big) out = __builtin_bswap64(out);
    return out;
  }
  // The last bytes, fewer than 8.
  static std::uint64_t tail(const char* at, std::size_t count) noexcept {
    std::uint64_t out = 0;
    for (std::size_t i = 0; i < count; ++i)
      out |= std::uint64_t{static_cast<unsigned char>(at[i])} << (8 * i);
    return out;
  }

  State begin_;
};

}  // namespace weir
