#pragma once

#include <cstdint>

#include "limit/numbers.h"
#include "limit/step.h"

namespace weir::limit {

// The nominal length of one calendar unit: 24 h, 7 d, 30 d, 365 d. 0 for none.
std::int64_t nominal_length_ns(Calendar calendar) noexcept;

// The window of `count` calendar units that holds `now_ns`, UTC, proleptic Gregorian; leap seconds
// do not exist in Unix time. Windows of several units are counted from 1970-01-01 (weeks: from the
// Monday before it).
//
// Requires:    calendar is not none; count > 0; now_ns within [0, 2^62 + 2^30].
Window calendar_window(Calendar calendar, std::uint32_t count, std::int64_t now_ns) noexcept;

}  // namespace weir::limit
