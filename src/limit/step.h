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
//                   and in the one before
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
// Guarantees:  remaining <= burst; it is what is left after the step where it is allowed, and what
//              is left now where it is not. retry_after is the smallest wait after which the same
//              step is allowed: one nanosecond earlier it is not; 0 when allowed, and 0 when it
//              never fits. reset_after is the wait until nothing is used any more; 0 where the
//              limit is 0, for which there is none. Where the step is not allowed, `next` is the
//              state that was given, with one exception: a clock that was set back (see take) moves
//              it to where `now` reaches it. A store that finds next != state then writes it, or
//              else the wait would be counted from the wrong clock. For cost 0 `next` is always the
//              state that was given.
struct Step {
  Outcome outcome = Outcome::limited;
  std::uint32_t remaining = 0;
  std::int64_t retry_after_ns = 0;
  std::int64_t reset_after_ns = 0;
  State next;

  // What refund() asks for as the charge's receipt: of a step that charged something. For gcra it
  // is not the time of the charge but the time by which it has been emitted again.
  Instant receipt() const noexcept { return Instant{Nanos{next.time_ns}}; }
};

// Answers whether `cost` more units fit, and what the state becomes if they do. Cost 0 is a probe:
// it answers as cost 1 would, and charges nothing.
//
// Guarantees:  gcra: in any interval T at most burst + floor(T / interval) units are admitted.
//              fixed_window: at most limit in each window. sliding_window: at most limit by the
//              weighted estimate, which never rises by the passing of time.
// Requires:    numbers are not of a sliding_log (such are answered never_fits).
// Time:        a `now` up to one second before what is stored gains nothing and loses nothing: the
//              stored time stands. One further back means that the clock was set back: the counter
//              then counts as used as it was (gcra: as exhausted) at `now`, so that it is never
//              locked for longer than the numbers themselves can lock it.
// Threads:     pure; safe from any thread.
// Cost:        O(1), no allocation, no system call.
// Errors:      none: any State and any cost up to 2^64-1 is answered.
// Source:      gcra: ITU-T I.371, virtual scheduling. docs/decisions/0003-nanosecond-gcra.md
Step take(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost) noexcept;

// Charges `cost` after the fact: as much as is left is taken, the rest dropped; never an overdraft.
//
// Guarantees:  outcome is allowed where all of it fitted, else as take() would have said;
// retry_after
//              is counted from after the drain. remaining is what is left after it in any case.
//              next.time_ns is a receipt for what was charged: the difference in remaining.
Step drain(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost) noexcept;

// Gives back `cost` units of a charge, named by the Step::receipt() of the step that charged them.
//
// Guarantees:  the counter is never left with more than if the charge had not been: nothing is
//              given back once the window of the charge is over (gcra: only what has not been
//              emitted again since), so a late refund changes nothing, and none mints. The outcome
//              is always allowed.
// Requires:    the receipt's charge is refunded no more than once; that is the caller's to see to.
//              Where the numbers changed in between, what is given back may be off by what was
//              emitted since the charge.
Step refund(const Numbers& numbers, const State& state, Instant now, std::uint64_t cost,
            Instant receipt) noexcept;

// The state under `to` of a counter kept under `from`: used stays used, remaining becomes new burst
// - used. Where more is used than fits, windows remember it (remaining is 0 until they are over);
// gcra becomes exactly exhausted, or the wait would be as long as the old limit is larger.
// Only numbers of one identity (same algorithm, same period) are converted; others start fresh, and
// so does a gcra that was blocked or becomes so.
//
// Where a charge does not fit a gcra that was converted, a store writes the converted state as it
// would an admitted one: what stands there drains by the old numbers, and the wait that the caller
// is told is that of the new ones. The same brings it to where `now` reaches it, after a clock that
// was set back.
State convert(const Numbers& from, const Numbers& to, const State& state, Instant now) noexcept;

// The instant from which the state cannot be told from a fresh one: when its memory may be dropped,
// and the least time to live in a store.
std::int64_t expires_at_ns(const Numbers& numbers, const State& state) noexcept;

// Start of the window that holds `now`, and of the one after it. Only for the window algorithms.
struct Window {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};
Window window_at(const Numbers& numbers, Instant now) noexcept;

}  // namespace weir::limit
