#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weir/clock.h"
#include "weir/limits.h"
#include "weir/result.h"

namespace weir::limit {

// How long a limit's period is, and how its windows are laid.
enum class Calendar : std::uint8_t {
  none,   // windows of `length`, aligned to the Unix epoch
  day,    // UTC days
  week,   // ISO weeks: Monday 00:00 UTC
  month,  // UTC calendar months
  year,   // UTC calendar years
};

struct Period {
  // none: the exact length. Calendar: 0, or the nominal one (24 h, 7 d, 30 d, 365 d) times count.
  Nanos length{0};
  Calendar calendar = Calendar::none;  // only fixed windows are laid by the calendar
  // Calendar units a window, e.g. 3 months for a quarter; windows are counted from 1970, so that
  // quarters begin in January and decades in years ending in 0. Without calendar: 1.
  std::uint32_t count = 1;
};

// What a rule asks for, before it is known whether it can be held exactly.
struct Request {
  Algorithm algorithm = Algorithm::gcra;
  std::uint64_t limit = 0;  // units a period; 0 blocks everything, whatever the burst
  Period period;
  std::optional<std::uint64_t> burst;  // gcra only; absent: the limit
};

// The numbers of one rule, checked and ready for the steps. Immutable and trivially copyable; made
// by make() alone, since the steps trust that its fields belong together.
//
// Units:       interval, tolerance and period in nanoseconds.
// Guarantees:  everything a step multiplies or adds with these fits its type; see make().
struct Numbers {
  Algorithm algorithm = Algorithm::gcra;
  Calendar calendar = Calendar::none;
  std::uint32_t calendar_count = 1;
  std::uint32_t limit = 0;
  std::uint32_t burst = 0;        // most units at once; equals limit except for gcra; 0 blocks
  std::int64_t period_ns = 0;     // as Period::length
  std::int64_t interval_ns = 0;   // gcra: emission interval, period / limit rounded up; else 0
  std::int64_t tolerance_ns = 0;  // gcra: burst * interval; else 0
  std::uint64_t reciprocal = 0;   // of the interval (gcra) or the period: see reciprocal.h
  // Names these numbers: equal numbers, equal stamp; never 0. Stores keep it, so it is the same in
  // every process and version. Limits without a burst of their own never share one within a rule.
  std::uint32_t stamp = 0;

  // Checks a request and computes its numbers.
  //
  // Guarantees:  what is returned never admits more than asked: intervals round up, and the rate of
  //              a gcra is low by at most one part in 1,000.
  // Errors:      invalid_argument, with the value and what is allowed: limit or burst above
  //              kMaxUnits; burst 0, or burst on another algorithm; period not above 0 or longer
  //              than ten years; a calendar on another algorithm than fixed_window, or with a
  //              length that is not its own; a gcra rate that rounding to whole nanoseconds would
  //              change by more than 0.1 % (names the nearest rates on both sides that are not); a
  //              burst that takes longer than 18 years to be emitted again.
  static Result<Numbers> make(const Request& request);

  friend bool operator==(const Numbers&, const Numbers&) = default;
};

// The stamp of numbers whose other fields are set: see Numbers::stamp.
std::uint32_t stamp_of(const Numbers& numbers) noexcept;

// "5 per minute", "10 per 30 seconds", "100 per month": in the units a person would say. A month
// or year is one of the calendar; of fixed length, they are 30 and 365 days.
std::string to_text(const Numbers& numbers);

}  // namespace weir::limit
