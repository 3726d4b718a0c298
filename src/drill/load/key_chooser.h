#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string_view>
#include <vector>

namespace weir::drill {

enum class Distribution : std::uint8_t {
  uniform,  // every key alike
  zipf,     // the k-th key in proportion to 1/k
  hot,      // nine in ten calls ask for one key, the rest for any
};

std::string_view to_string(Distribution distribution);
std::optional<Distribution> distribution_of(std::string_view text);

// Draws keys 0 .. count-1.
class KeyChooser {
 public:
  KeyChooser(Distribution distribution, std::uint32_t count, std::uint64_t seed);
  std::uint32_t next();

 private:
  Distribution distribution_;
  std::mt19937_64 random_;
  std::uniform_int_distribution<std::uint32_t> any_;
  std::vector<double> up_to_;  // zipf: the part of all calls that keys 0 .. i have
};

}  // namespace weir::drill
