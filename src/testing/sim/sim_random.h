#pragma once

#include <cstdint>

#include "weir/clock.h"

namespace weir::testing {

// Numbers that a seed draws: the same on every machine.
class SimRandom {
 public:
  explicit SimRandom(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() noexcept {
    state_ += 0x9e3779b97f4a7c15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  // 0 .. most - 1; 0 where most is 0.
  std::uint64_t below(std::uint64_t most) noexcept { return most == 0 ? 0 : next() % most; }
  bool percent(std::uint64_t chance) noexcept { return below(100) < chance; }
  // Between the two, both included.
  Nanos between(Nanos low, Nanos high) noexcept {
    const auto width = static_cast<std::uint64_t>((high - low).count()) + 1;
    return low + Nanos(static_cast<std::int64_t>(below(width)));
  }

 private:
  std::uint64_t state_;
};

}  // namespace weir::testing
