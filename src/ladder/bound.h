#pragma once

#include <cstdint>
#include <optional>

#include "limit/numbers.h"
#include "weir/clock.h"
#include "weir/limits.h"

namespace weir::ladder {

// The bound: the most units that can be admitted, whatever fails and whenever. What is printed,
// what is enforced and what tests and drills compare with comes from here.

// The most that one counter admits in any interval of this length, kept by one exact store.
//
// Units:       units; the interval is half open and may begin anywhere.
// Guarantees:  never too low. gcra: burst + floor(T / interval). sliding_log: the limit for each
//              period begun. The window algorithms: the limit for each window touched.
std::uint64_t most_in(const limit::Numbers& numbers, Nanos interval) noexcept;

// The most that one counter admits in one window: one of its own for fixed_window and
// sliding_window, any interval of one period for gcra and sliding_log.
// Where each worker counts by its own clock, and two are `clocks_apart`: what one clock sees as an
// interval of a log, or as the moving window, took so much less or more than its length. A window
// that lies fixed admits its limit, wherever it was seen to begin.
std::uint64_t most_in_window(const limit::Numbers& numbers, Nanos clocks_apart = Nanos{0}) noexcept;

// What a fleet went through in one window of a limit. Where there are several regions, each of them
// is such a fleet, with a store of its own, and went through as much.
struct Exposure {
  std::uint32_t workers = 1;       // members of the fleet
  std::uint32_t cut_off = 0;       // of these, how many could not reach the store for some of it
  bool store_answered = true;      // the store answered somebody
  std::uint32_t replaced = 0;      // restarted, replaced or gone between two outages of the window
  bool fallback_answered = false;  // a second store was asked instead
  std::uint32_t losses = 0;        // times that the store lost its data
  std::uint32_t regions = 1;       // fleets that each grant the whole limit
  Nanos clocks_apart{0};           // of two workers, where each counts by its own
  // settle: units that a metered rule may serve beyond its parts; absent: as many as come.
  std::optional<std::uint64_t> overspend = 0;
  const limit::Numbers* ceiling = nullptr;  // of the route, one in each process; null: none
};

// The most that one key can be admitted in one window (see most_in_window).
//
//   the store answered                         the limit
//   workers cut off, bounded or settle         the sum of their parts; settle: and the overspend
//   a worker replaced between two outages      its part again
//   workers cut off, with a ceiling            no more than their ceilings let through
//   a fallback store answered                  the limit once more
//   the store lost its data                    at most the limit a loss
//   several regions                            all of it, once a region
//
// Absent where nothing bounds it: somebody cut off, and open or an overspend without end, and no
// ceiling.
std::optional<std::uint64_t> most_admitted(const limit::Numbers& numbers, FailurePolicy policy,
                                           const Exposure& exposure) noexcept;

// The sum of the largest `cut_off` parts of one counter over a fleet of `workers`, in one window.
std::uint64_t most_of_parts(const limit::Numbers& numbers, std::uint32_t workers,
                            std::uint32_t cut_off) noexcept;

// The most that a ceiling lets through in any interval, over all keys of a route, in `workers`
// processes.
std::uint64_t most_under_ceiling(const limit::Numbers& ceiling, std::uint32_t workers,
                                 Nanos interval) noexcept;

}  // namespace weir::ladder
