#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "limit/numbers.h"
#include "weir/clock.h"
#include "weir/limits.h"

namespace weir::policy {

enum class PeriodUnit : std::uint8_t { exact, second, minute, hour, day, week, month, year };

// A period as a file says it, before it is known how the rule counts.
struct PeriodSpec {
  PeriodUnit unit = PeriodUnit::exact;
  std::uint32_t count = 1;
  Nanos exact{0};  // unit exact only

  bool is_calendar() const { return unit >= PeriodUnit::day; }
};

inline constexpr std::string_view kPeriodForm =
    "second, minute, hour, day, week, month or year, perhaps several of them (30 seconds), or a "
    "duration with a unit (250ms)";

// "minute", "30 seconds", "250ms". Absent where it is none of these, or a count of 0.
std::optional<PeriodSpec> parse_period(std::string_view text);

// "minute", "30 seconds", "250ms".
std::string to_text(const PeriodSpec& period);

// The period as the arithmetic takes it: days and longer follow the UTC calendar where the
// algorithm is fixed_window; elsewhere a month is 30 days and a year 365.
// Errors:      absent where it is longer than nanoseconds in 63 bits can say.
std::optional<limit::Period> period_of(const PeriodSpec& period, Algorithm algorithm);

}  // namespace weir::policy
