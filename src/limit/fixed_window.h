#pragma once

#include <cstdint>

#include "limit/numbers.h"
#include "limit/step.h"

namespace weir::limit {

// The steps of step.h for fixed_window: one counter a window. Windows lie one after the other from
// the epoch on, or as the calendar has them; at the end of one all is available again.

// window_at() for an instant already within [0, 2^62 + 2^30].
Window window_of(const Numbers& numbers, std::int64_t now_ns) noexcept;

Step fixed_take(const Numbers& numbers, const State& state, Instant now,
                std::uint64_t cost) noexcept;
Step fixed_drain(const Numbers& numbers, const State& state, Instant now,
                 std::uint64_t cost) noexcept;
Step fixed_refund(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost,
                  Instant receipt) noexcept;

}  // namespace weir::limit
