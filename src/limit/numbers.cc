#include "limit/numbers.h"

#include <array>
#include <string_view>
#include <utility>

#include "base/wide.h"
#include "limit/calendar.h"
#include "limit/reach.h"
#include "limit/reciprocal.h"

namespace weir::limit {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
constexpr std::int64_t kDayNs = 86'400 * kSecondNs;

Error refuse(std::string message) {
  return Error{ErrorCode::invalid_argument, std::move(message)};
}

std::string counted(std::int64_t count, std::string_view unit) {
  if (count == 1) return std::string(unit);
  return std::to_string(count) + " " + std::string(unit) + "s";
}

// A length in the largest unit that divides it: "minute", "30 seconds", "90 minutes".
std::string length_text(std::int64_t length_ns) {
  if (length_ns % (7 * kDayNs) == 0) return counted(length_ns / (7 * kDayNs), "week");
  static constexpr std::array<std::pair<std::int64_t, std::string_view>, 6> kUnits{{
      {kDayNs, "day"},
      {3'600 * kSecondNs, "hour"},
      {60 * kSecondNs, "minute"},
      {kSecondNs, "second"},
      {1'000'000, "millisecond"},
      {1'000, "microsecond"},
  }};
  for (const auto& [unit_ns, name] : kUnits) {
    if (length_ns % unit_ns == 0) return counted(length_ns / unit_ns, name);
  }
  return counted(length_ns, "nanosecond");
}

std::string rate_text(std::uint64_t limit, std::int64_t period_ns) {
  return std::to_string(limit) + " per " + length_text(period_ns);
}

std::int64_t interval_of(std::uint64_t limit, std::int64_t period_ns) {
  const auto period = static_cast<std::uint64_t>(period_ns);
  return static_cast<std::int64_t>(period / limit + (period % limit != 0));
}

// Whether rounding the interval up changes the rate by at most 0.1 %.
bool holds(std::uint64_t limit, std::int64_t period_ns) {
  const Wide held = static_cast<Wide>(interval_of(limit, period_ns)) * limit;
  return (held - static_cast<Wide>(period_ns)) * 1'000 <= static_cast<Wide>(period_ns);
}

std::uint64_t rate_with_interval(std::int64_t interval_ns, std::int64_t period_ns) {
  return static_cast<std::uint64_t>((period_ns + interval_ns - 1) / interval_ns);
}

// The nearest limits below and above that hold, for a limit that does not. Only intervals under
// 1,000 ns can be off by more than 0.1 %, so the searches are short.
std::optional<std::uint64_t> nearest_below(std::uint64_t limit, std::int64_t period_ns) {
  for (std::int64_t interval = interval_of(limit, period_ns); interval <= period_ns; ++interval) {
    const std::uint64_t rate = rate_with_interval(interval, period_ns);
    if (rate < limit && holds(rate, period_ns)) return rate;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> nearest_above(std::uint64_t limit, std::int64_t period_ns) {
  for (std::int64_t interval = period_ns / static_cast<std::int64_t>(limit); interval >= 1;
       --interval) {
    const std::uint64_t rate = rate_with_interval(interval, period_ns);
    if (rate > kMaxUnits) return std::nullopt;
    if (rate > limit && holds(rate, period_ns)) return rate;
  }
  return std::nullopt;
}

Error rate_not_held(std::uint64_t limit, std::int64_t period_ns) {
  std::string message = "a gcra of " + rate_text(limit, period_ns) +
                        " cannot be held: its interval in whole nanoseconds would change the rate "
                        "by more than 0.1 %; the nearest that can be held ";
  const auto below = nearest_below(limit, period_ns);
  const auto above = nearest_above(limit, period_ns);
  if (below && above) {
    message += "are " + rate_text(*below, period_ns) + " and " + rate_text(*above, period_ns);
  } else if (below) {
    message += "is " + rate_text(*below, period_ns) + "; there is none above";
  } else if (above) {
    message += "is " + rate_text(*above, period_ns) + "; there is none below";
  } else {
    message += "is none; choose a longer period";
  }
  return refuse(std::move(message));
}

// Bijective on 32 bits, so that different limits of one rule have different stamps.
std::uint32_t mixed(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return x;
}

Result<std::int64_t> checked_calendar(const Request& request) {
  const Period& period = request.period;
  if (request.algorithm != Algorithm::fixed_window) {
    return refuse("only fixed_window follows the calendar; " +
                  std::string(to_string(request.algorithm)) + " takes a period of fixed length");
  }
  const Wide nominal = static_cast<Wide>(nominal_length_ns(period.calendar)) * Wide{period.count};
  if (nominal > static_cast<Wide>(kMaxPeriodNs)) return kMaxPeriodNs + 1;
  const auto length = static_cast<std::int64_t>(nominal);
  if (period.length.count() != 0 && period.length.count() != length) {
    return refuse("a calendar period has the length that the calendar gives it");
  }
  return length;
}

// The length of a period, or what is wrong with it.
Result<std::int64_t> checked_period(const Request& request) {
  const Period& period = request.period;
  Result<std::int64_t> length = period.length.count();
  if (period.calendar != Calendar::none) {
    length = checked_calendar(request);
    if (!length) return length;
  } else if (period.count != 1) {
    return refuse("a count of calendar units needs a calendar");
  }
  if (*length <= 0) return refuse("the period must be longer than 0");
  if (*length > kMaxPeriodNs) return refuse("the period must be at most 10 years (3660 days)");
  return length;
}

std::optional<Error> fault_in_units(const Request& request) {
  const std::string most = std::to_string(kMaxUnits);
  if (request.limit > kMaxUnits) {
    return refuse("the limit must be at most " + most + ", not " + std::to_string(request.limit));
  }
  if (!request.burst) return std::nullopt;
  if (request.algorithm != Algorithm::gcra) {
    return refuse("only gcra takes a burst; " + std::string(to_string(request.algorithm)) +
                  " admits at most its limit at once");
  }
  if (*request.burst == 0) {
    return refuse(
        "the burst must be at least 1: with 0 nothing could ever pass; to block, set the "
        "limit to 0");
  }
  if (*request.burst > kMaxUnits) {
    return refuse("the burst must be at most " + most + ", not " + std::to_string(*request.burst));
  }
  return std::nullopt;
}

std::optional<Error> set_gcra(Numbers& numbers) {
  if (!holds(numbers.limit, numbers.period_ns)) {
    return rate_not_held(numbers.limit, numbers.period_ns);
  }
  numbers.interval_ns = interval_of(numbers.limit, numbers.period_ns);
  const Wide tolerance = static_cast<Wide>(numbers.interval_ns) * numbers.burst;
  if (tolerance > static_cast<Wide>(kMaxToleranceNs)) {
    const std::int64_t most = kMaxToleranceNs / numbers.interval_ns;
    return refuse("a burst of " + std::to_string(numbers.burst) + " at " +
                  rate_text(numbers.limit, numbers.period_ns) +
                  " would take longer than 18 years to be available again; the burst must be at "
                  "most " +
                  std::to_string(most));
  }
  numbers.tolerance_ns = static_cast<std::int64_t>(tolerance);
  numbers.reciprocal = reciprocal_of(static_cast<std::uint64_t>(numbers.interval_ns));
  return std::nullopt;
}

}  // namespace

std::uint32_t stamp_of(const Numbers& n) noexcept {
  std::uint32_t rule = mixed(static_cast<std::uint32_t>(n.algorithm) * 256U +
                             static_cast<std::uint32_t>(n.calendar) + 1U);
  rule = mixed(rule ^ n.calendar_count);
  rule = mixed(rule ^ static_cast<std::uint32_t>(n.period_ns));
  rule = mixed(rule ^ static_cast<std::uint32_t>(n.period_ns >> 32));
  const std::uint32_t stamp = mixed(n.limit ^ rule) ^ mixed(n.burst ^ n.limit);
  return stamp == 0 ? 1 : stamp;
}

Result<Numbers> Numbers::make(const Request& request) {
  if (auto fault = fault_in_units(request)) return *std::move(fault);
  const Result<std::int64_t> period = checked_period(request);
  if (!period) return period.error();

  Numbers numbers;
  numbers.algorithm = request.algorithm;
  numbers.calendar = request.period.calendar;
  numbers.calendar_count = request.period.count;
  numbers.limit = static_cast<std::uint32_t>(request.limit);
  numbers.burst = static_cast<std::uint32_t>(request.burst.value_or(request.limit));
  numbers.period_ns = *period;
  if (numbers.limit == 0) numbers.burst = 0;
  if (numbers.algorithm != Algorithm::gcra) {
    numbers.reciprocal = reciprocal_of(static_cast<std::uint64_t>(numbers.period_ns));
  } else if (numbers.limit != 0) {
    if (auto fault = set_gcra(numbers)) return *std::move(fault);
  }
  numbers.stamp = stamp_of(numbers);
  return numbers;
}

std::string to_text(const Numbers& numbers) {
  const std::string limit = std::to_string(numbers.limit) + " per ";
  switch (numbers.calendar) {
    case Calendar::none:
      return limit + length_text(numbers.period_ns);
    case Calendar::day:
      return limit + counted(numbers.calendar_count, "day");
    case Calendar::week:
      return limit + counted(numbers.calendar_count, "week");
    case Calendar::month:
      return limit + counted(numbers.calendar_count, "month");
    case Calendar::year:
      return limit + counted(numbers.calendar_count, "year");
  }
  return limit + length_text(numbers.period_ns);
}

}  // namespace weir::limit
