#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/period.h"
#include "policy/source.h"

namespace weir::policy {

// "5 per minute by ip", taken apart.
struct ShortLimit {
  std::uint64_t requests = 0;
  PeriodSpec per;
  std::vector<std::string> by;
};

inline constexpr std::string_view kShortForm =
    "N per [K] second|minute|hour|day|week|month|year [by SOURCE[, SOURCE ...]]";

// Errors:      absent, and `problem` says why.
std::optional<ShortLimit> parse_short_limit(std::string_view text, Problem& problem);

}  // namespace weir::policy
