#pragma once

#include <cstddef>
#include <cstdint>

#include "base/key_digest.h"
#include "base/wide.h"

namespace weir {

// Where a digest lies in a table of this process. A fleet's digests are keyed by what its
// configuration says, which is no secret: with a number of the process's own, nobody outside
// chooses keys that lie together.
//
// Cost: two multiplications.
class SecretHash {
 public:
  explicit SecretHash(std::uint64_t random = 0) noexcept
      : low_(random ^ 0x243f6a8885a308d3U),
        high_((random << 32 | random >> 32) ^ 0x13198a2e03707344U) {}

  std::size_t operator()(const KeyDigest& digest) const noexcept {
    const std::uint64_t mixed = folded(digest.lo ^ low_, digest.hi ^ high_);
    return static_cast<std::size_t>(folded(mixed ^ high_, 0x9e3779b97f4a7c15U));
  }

 private:
  static std::uint64_t folded(std::uint64_t a, std::uint64_t b) noexcept {
    const Wide product = Wide{a} * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  std::uint64_t low_;
  std::uint64_t high_;
};

}  // namespace weir
