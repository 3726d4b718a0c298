#pragma once

#include <cstdint>

namespace weir::breaker {

// What a window holds.
struct Tally {
  std::uint32_t calls = 0;
  std::uint32_t failures = 0;
  std::uint32_t slow = 0;

  friend bool operator==(const Tally&, const Tally&) = default;
};

// How one call counts; it may be both.
struct Vote {
  bool failed = false;
  bool slow = false;

  bool bad() const noexcept { return failed || slow; }
};

// Whether `part` of `whole` is `percent` or more.
constexpr bool reaches(std::uint64_t part, std::uint64_t whole, std::uint64_t percent) noexcept {
  return part * 100 >= whole * percent;
}

}  // namespace weir::breaker
