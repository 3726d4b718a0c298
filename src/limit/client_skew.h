#pragma once

#include <cstdint>

#include "limit/reach.h"

namespace weir::limit {

// How far a worker that counts by its own clock (`clock: client`) may be from the store's, which
// all of its fleet see: two of them are then less apart than a step of the clock, with a fifth of
// it left for how well the store's time is known.
inline constexpr std::int64_t kMostClientSkewNs = 400'000'000;
static_assert(2 * kMostClientSkewNs < kBackstepNs);

}  // namespace weir::limit
