#include "limit/parts.h"

#include <algorithm>

#include "base/wide.h"
#include "limit/reciprocal.h"

namespace weir::limit {
namespace {

constexpr std::int64_t kCoarseEnoughNs = 1'000;

std::int64_t part_interval_ns(const Numbers& whole, std::uint64_t parts, std::uint32_t limit) {
  if (whole.interval_ns < kCoarseEnoughNs) {
    return whole.interval_ns * static_cast<std::int64_t>(parts);
  }
  const Wide exact = static_cast<Wide>(whole.interval_ns) * whole.limit;
  return static_cast<std::int64_t>((exact + limit - 1) / limit);
}

}  // namespace

std::uint64_t participants(const Numbers& numbers, std::uint64_t members) noexcept {
  return std::min({std::max<std::uint64_t>(members, 1), std::uint64_t{numbers.limit},
                   std::uint64_t{numbers.burst}});
}

std::uint32_t part_of(const Numbers& numbers, std::uint32_t units, Place place) noexcept {
  const std::uint64_t parts = participants(numbers, place.members);
  if (place.rank >= parts) return 0;
  return static_cast<std::uint32_t>(units / parts + (place.rank < units % parts ? 1 : 0));
}

std::optional<Numbers> part_numbers(const Numbers& whole, Place place) noexcept {
  const std::uint64_t parts = participants(whole, place.members);
  if (place.rank >= parts) return std::nullopt;
  if (parts == 1) return whole;
  Numbers part = whole;
  part.limit = part_of(whole, whole.limit, place);
  part.burst = part_of(whole, whole.burst, place);
  if (whole.algorithm == Algorithm::gcra) {
    part.interval_ns = part_interval_ns(whole, parts, part.limit);
    part.tolerance_ns = part.interval_ns * part.burst;
    part.reciprocal = reciprocal_of(static_cast<std::uint64_t>(part.interval_ns));
  }
  part.stamp = stamp_of(part);
  return part;
}

std::uint64_t most_of_parts(const Numbers& whole) noexcept {
  switch (whole.algorithm) {
    case Algorithm::fixed_window:
    case Algorithm::sliding_window:
      return whole.limit;
    case Algorithm::gcra:
      return 2 * std::uint64_t{whole.burst};
    case Algorithm::sliding_log:
      return 2 * std::uint64_t{whole.limit};
  }
  return 0;
}

}  // namespace weir::limit
