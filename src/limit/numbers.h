#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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
  Nanos length{
      0};  // none: the exact length; calendar: the nominal one (24 h, 7 d, 30 d, 365 d) times count
  Calendar calendar = Calendar::none;  // only fixed windows are laid by the calendar
  std::uint32_t count = 1;             // calendar units a window, e.g. 3 for a quarter
};

// What a rule asks for, before it is known whether it can be held exactly.
struct Request {
  Algorithm algorithm = Algorithm::gcra;
  std::uint64_t limit = 0;  // units a period; 0 blocks everything
  Period period;
  std::optional<std::uint64_t> burst;  // gcra only; absent: the limit
};

// The numbers of one rule, checked and ready for the steps. Immutable and trivially copyable.
//
// Units:       interval and tolerance in nanoseconds.
// Guarantees:  everything a step multiplies or adds with these fits its type; see make().
struct Numbers {
  Algorithm algorithm = Algorithm::gcra;
  Calendar calendar = Calendar::none;
  std::uint32_t calendar_count = 1;
  std::uint32_t limit = 0;
  std::uint32_t burst = 0;       // most units at once; equals limit except for gcra
  std::int64_t period_ns = 0;    // as Period::length
  std::int64_t interval_ns = 0;  // gcra: emission interval, period / limit rounded up; else 0
  std::uint32_t stamp = 0;       // names these numbers: equal numbers, equal stamp; never 0

  // Checks a request and computes its numbers.
  //
  // Guarantees:  what is returned never admits more than asked: intervals round up. For gcra the
  // rate is low by less
  //              than one part in 1,000.
  // Errors:      invalid_argument, with the reason and what is allowed: limit or burst above
  // kMaxUnits; burst 0, or burst
  //              on another algorithm; period of 0 or above 366 days times kMaxUnits' reach; a gcra
  //              rate that rounding to whole nanoseconds would change by more than 0.1 % (names the
  //              nearest rates that are exact); a state that would not fit 62 bits of nanoseconds.
  static Result<Numbers> make(const Request& request);
};

// "5 per minute", "10 per 30 seconds": in the units a person would say.
std::string to_text(const Numbers& numbers);

}  // namespace weir::limit
