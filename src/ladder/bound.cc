#include "ladder/bound.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/wide.h"
#include "limit/parts.h"

namespace weir::ladder {
namespace {

constexpr std::int64_t kDayNs = 86'400'000'000'000;

std::uint64_t clamped(Wide units) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  return units > kMost ? kMost : static_cast<std::uint64_t>(units);
}

// Windows of the calendar are not all equally long; the bound is over the shortest.
std::uint64_t shortest_window_ns(const limit::Numbers& numbers) {
  if (numbers.calendar != limit::Calendar::month)
    return static_cast<std::uint64_t>(numbers.period_ns);
  return static_cast<std::uint64_t>(28 * kDayNs) * numbers.calendar_count;
}

// An interval that begins within one window and ends within another has all between them inside.
std::uint64_t windows_touched(const limit::Numbers& numbers, std::uint64_t interval_ns) {
  if (interval_ns < 2) return interval_ns;
  return (interval_ns - 2) / shortest_window_ns(numbers) + 2;
}

std::uint64_t longest_window_ns(const limit::Numbers& numbers) {
  if (numbers.calendar == limit::Calendar::month)
    return static_cast<std::uint64_t>(31 * kDayNs) * numbers.calendar_count;
  if (numbers.calendar == limit::Calendar::year)
    return static_cast<std::uint64_t>(366 * kDayNs) * numbers.calendar_count;
  return static_cast<std::uint64_t>(numbers.period_ns);
}

// The part of the bound that workers admit by themselves; absent where nothing holds them.
std::optional<Wide> most_without_store(const limit::Numbers& numbers, FailurePolicy policy,
                                       const Exposure& exposure) {
  const std::uint32_t cut_off = std::min(exposure.cut_off, std::max(exposure.workers, 1u));
  if (cut_off == 0 || policy == FailurePolicy::closed) return Wide{0};
  std::optional<Wide> most;
  if (policy == FailurePolicy::bounded || (policy == FailurePolicy::settle && exposure.overspend)) {
    most = most_of_parts(numbers, exposure.workers, cut_off);
    *most += Wide{exposure.replaced} * most_of_parts(numbers, exposure.workers, 1);
    if (policy == FailurePolicy::settle) *most += *exposure.overspend;
  }
  if (exposure.ceiling == nullptr) return most;
  const Nanos window(static_cast<std::int64_t>(longest_window_ns(numbers)));
  const Wide ceilings = most_under_ceiling(*exposure.ceiling, cut_off + exposure.replaced, window);
  return most ? std::min(*most, ceilings) : ceilings;
}

}  // namespace

std::uint64_t most_in(const limit::Numbers& numbers, Nanos interval) noexcept {
  if (numbers.limit == 0 || numbers.burst == 0 || interval.count() <= 0) return 0;
  const auto length = static_cast<std::uint64_t>(interval.count());
  const Wide limit = numbers.limit;
  switch (numbers.algorithm) {
    case Algorithm::gcra:
      return numbers.burst + length / static_cast<std::uint64_t>(numbers.interval_ns);
    case Algorithm::sliding_log: {
      const auto period = static_cast<std::uint64_t>(numbers.period_ns);
      return clamped(limit * (length / period + (length % period > 0 ? 1 : 0)));
    }
    case Algorithm::fixed_window:
    case Algorithm::sliding_window:
      return clamped(limit * windows_touched(numbers, length));
  }
  return 0;
}

std::uint64_t most_in_window(const limit::Numbers& numbers, Nanos clocks_apart) noexcept {
  const Nanos period(numbers.period_ns);
  if (numbers.algorithm == Algorithm::gcra) return most_in(numbers, period + clocks_apart);
  if (numbers.algorithm == Algorithm::fixed_window || clocks_apart.count() == 0)
    return numbers.limit;
  return most_in(numbers, period + clocks_apart);
}

std::uint64_t most_of_parts(const limit::Numbers& numbers, std::uint32_t workers,
                            std::uint32_t cut_off) noexcept {
  const std::uint64_t members = std::max(workers, 1u);
  const std::uint64_t parts = limit::participants(numbers, members);
  if (parts == 0) return 0;
  // The first in a key's order have the largest parts; who is first, each key decides by itself.
  const std::uint64_t counted = std::min<std::uint64_t>(cut_off, parts);
  // Parts differ only where the remainder of the limit, or of the burst, ends.
  std::array<std::uint64_t, 4> ends = {0, numbers.limit % parts, numbers.burst % parts, counted};
  for (std::uint64_t& end : ends) end = std::min(end, counted);
  std::sort(ends.begin(), ends.end());
  Wide sum = 0;
  for (std::size_t i = 1; i < ends.size(); ++i) {
    if (ends[i] == ends[i - 1]) continue;
    if (const auto part = limit::part_numbers(numbers, {.rank = ends[i - 1], .members = members}))
      sum += Wide{ends[i] - ends[i - 1]} * most_in_window(*part);
  }
  return clamped(sum);
}

std::optional<std::uint64_t> most_admitted(const limit::Numbers& numbers, FailurePolicy policy,
                                           const Exposure& exposure) noexcept {
  const Wide whole = most_in_window(numbers, exposure.clocks_apart);
  if (whole == 0) return 0;  // a block holds in every mode
  Wide most = 0;
  if (exposure.store_answered) most += whole * (Wide{1} + exposure.losses);
  if (exposure.fallback_answered) most += whole;
  const auto without = most_without_store(numbers, policy, exposure);
  if (!without) return std::nullopt;
  return clamped((most + *without) * std::max(exposure.regions, 1u));
}

std::uint64_t most_under_ceiling(const limit::Numbers& ceiling, std::uint32_t workers,
                                 Nanos interval) noexcept {
  return clamped(Wide{most_in(ceiling, interval)} * std::max(workers, 1u));
}

}  // namespace weir::ladder
