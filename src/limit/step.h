#pragma once

#include <cstdint>

#include "limit/numbers.h"
#include "weir/clock.h"

namespace weir::limit {

// The state of one counter between two steps, for every algorithm but the log (see sliding_log.h).
// The default is a fresh counter. Which fields mean something depends on the algorithm:
//   gcra            time_ns: theoretical arrival time, nanoseconds since the epoch
//   fixed_window    time_ns: start of the window that `current` counts
//   sliding_window  time_ns: start of the current window; current and previous: units used in it
//   and in the one before
struct State {
  std::int64_t time_ns = 0;
  std::uint32_t current = 0;
  std::uint32_t previous = 0;

  friend bool operator==(const State&, const State&) = default;
};

enum class Outcome : std::uint8_t {
  allowed,     // fits
  limited,     // does not fit now; fits at now + retry_after if nothing else is charged
  never_fits,  // the cost exceeds the burst (or the limit is 0): waiting is useless
};

// What one step found, and the state to store if it is carried out.
//
// Units:       nanoseconds.
// Guarantees:  on limited and never_fits, and for cost 0, `next` spends nothing; remaining <= limit
// (gcra: <= burst);
//              remaining is what is left after the step where it is allowed, and what is left now
//              where it is not; retry_after is the smallest wait after which the same step is
//              allowed: one nanosecond earlier it is not; 0 when allowed, and 0 when it never fits.
struct Step {
  Outcome outcome = Outcome::limited;
  std::uint32_t remaining = 0;
  std::int64_t retry_after_ns = 0;
  std::int64_t reset_after_ns = 0;
  State next;
};

// Answers whether `cost` more units fit, and what the state becomes if they do.
//
// Guarantees:  gcra: in any interval T at most burst + floor(T / interval) units are admitted.
// fixed_window: at most
//              limit in each window. sliding_window: at most limit by the weighted estimate.
// Time:        a `now` before the last seen instant counts as that instant; a stored time further
// ahead than these
//              numbers can reach is clamped to what they can, so a clock step never locks a
//              counter.
// Threads:     pure; safe from any thread.
// Cost:        O(1), no allocation, no system call.
// Errors:      none: any State and any cost up to 2^64-1 is answered.
// Source:      gcra: ITU-T I.371, virtual scheduling. docs/decisions/0003-nanosecond-gcra.md
Step take(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost) noexcept;

// Charges `cost` after the fact: as much as is left is taken, the rest dropped; never an overdraft.
// outcome is limited where not all of it fitted.
Step drain(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost) noexcept;

// Gives back `cost` units that were charged at `charged_at`.
//
// Guarantees:  never below unused; nothing is given back once the window of the charge is over
// (gcra: once the charge
//              has been emitted again), so a late refund changes nothing.
Step refund(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost,
            Instant charged_at) noexcept;

// The state under `to` of a counter kept under `from`: used stays used, remaining becomes new limit
// - used (never below 0). Only numbers of one identity (same algorithm, same period) are converted;
// others start fresh.
State convert(const Numbers& from, const Numbers& to, const State& state, Instant now) noexcept;

// The instant after which the state cannot be told from a fresh one: when its memory may be
// dropped, and the least time to live in a store.
std::int64_t expires_at_ns(const Numbers& numbers, const State& state) noexcept;

// Start of the window that holds `now`, and of the one after it. Only for the window algorithms.
struct Window {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};
Window window_at(const Numbers& numbers, Instant now) noexcept;

}  // namespace weir::limit
