#pragma once

#include <cstdint>
#include <random>

namespace weir {

// The next number of SplitMix64 (Steele, Lea and Flood 2014): for what needs to differ, between
// workers or in time, and not to be unguessable.
constexpr std::uint64_t next_random(std::uint64_t& state) noexcept {
  std::uint64_t z = state += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// Spreads numbers that are near one another over 64 bits: every bit of the input moves every bit
// of the output. Workers agree on it, so it stays what it is.
constexpr std::uint64_t spread_bits(std::uint64_t number) noexcept {
  return next_random(number);
}

// From the machine: what two processes must not agree on by chance.
inline std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace weir
