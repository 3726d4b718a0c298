#pragma once

#include <cstdint>

#include "limit/numbers.h"
#include "limit/step.h"

namespace weir::limit {

// The steps of step.h for sliding_window: the count of the current window, and of the one before
// it the part that a window ending now still covers, as if its units had come evenly. The estimate
// is compared as a fraction, in 128 bits: neither rounding up nor down decides.

Step sliding_take(const Numbers& numbers, const State& state, Instant now,
                  std::uint64_t cost) noexcept;
Step sliding_drain(const Numbers& numbers, const State& state, Instant now,
                   std::uint64_t cost) noexcept;
Step sliding_refund(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost,
                    Instant receipt) noexcept;

}  // namespace weir::limit
