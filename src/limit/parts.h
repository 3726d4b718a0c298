#pragma once

#include <cstdint>
#include <optional>

#include "limit/numbers.h"

namespace weir::limit {

// The division of one limit over the members of a fleet that cannot reach their store, so that
// together they admit no more than the limit.

// One member among all, in the key's own order (see rendezvous.h).
struct Place {
  std::uint64_t rank = 0;     // how many members come before
  std::uint64_t members = 1;  // in all, this one included; 0 counts as 1
};

// How many members have a part: no more than there are units to give each at least one.
std::uint64_t participants(const Numbers& numbers, std::uint64_t members) noexcept;

// This member's units of a number that all divide: the floor for everyone, and the remainder one by
// one to the first in the order. Use for the limit, the burst, and what is known to remain.
//
// Guarantees:  over all ranks they sum to `units` exactly, for units up to the burst; a further
//              member raises nobody's.
std::uint32_t part_of(const Numbers& numbers, std::uint32_t units, Place place) noexcept;

// The numbers by which this member counts its part; nullopt where it has none.
//
// Guarantees:  limits and bursts sum exactly. A gcra's parts together emit at no more than the
//              whole's rate, and at no less than 99.9 % of it. Where the whole's interval is below
//              a microsecond, each part's interval is as many times longer as there are parts,
//              since rounding would take more than that; the parts' rates are equal then, and their
//              sum exact. A further member raises nobody's rate.
std::optional<Numbers> part_numbers(const Numbers& whole, Place place) noexcept;

// The most that all members together admit from their parts in one window; of gcra and sliding_log
// in as long as it takes until all of it counts no more, of which they may have admitted as much
// just before. Where a member is replaced within it, or another joins, it may be more.
std::uint64_t most_of_parts(const Numbers& whole) noexcept;

}  // namespace weir::limit
