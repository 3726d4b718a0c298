#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include "ladder/known_table.h"
#include "limit/numbers.h"
#include "limit/sliding_log.h"
#include "limit/step.h"

namespace weir::ladder {

inline bool is_log(const limit::Numbers& numbers) noexcept {
  return numbers.algorithm == Algorithm::sliding_log;
}

// Whether what was counted under one can be counted on under the other.
inline bool same_family(const limit::Numbers& a, const limit::Numbers& b) noexcept {
  return a.algorithm == b.algorithm && a.calendar == b.calendar &&
         a.calendar_count == b.calendar_count;
}

// One counter of the table: what the store said of it, what this worker has spent of its part, and
// what of that the store is still to be told. Its slot's lock is held.
struct KnownTable::Entry {
  std::list<KeyDigest>::iterator use;
  bool stays = false;  // `use` is of the slot's `staying`
  bool held = false;   // a call under way points to it

  bool known = false;
  limit::Numbers known_numbers;
  limit::State known_state;  // sliding_log: `current` units stood at known_at
  Instant known_at{};
  MonoTime seen{};
  std::uint64_t origin = 0;
  std::uint64_t denied_cost = 0;  // sliding_log: what the store did not let through; 0: it did
  limit::Step denied;             // and what it said of that, at known_at
  // The known state under numbers that the rule got since, from when they were first asked under.
  struct Converted {
    limit::Numbers numbers;
    limit::State state;
  };
  mutable std::unique_ptr<Converted> converted;

  bool spent = false;
  limit::Numbers part_numbers;
  limit::State local;
  std::unique_ptr<limit::LogState> log;
  std::int64_t forget_at_ns = 0;    // local spending means nothing from then on
  OwedUnits owed;                   // of the latest outage and window
  std::uint64_t told_units = 0;     // of which the store has been told
  std::uint64_t sent_units = 0;     // of which it may have been told
  Instant run_off_at{};             // gcra: when all of it has, at the whole's rate
  std::int64_t owing_until_ns = 0;  // nothing is owed from then on
  // What the slot's total counts of it.
  std::uint64_t counted_units = 0;
  std::int64_t counted_until_ns = 0;

  bool pinned(Instant now) const { return spent && now.time_since_epoch().count() < forget_at_ns; }

  // The last known state under these numbers: used units stay used. Converted once, as the store
  // would: from then on it runs off under the new numbers, and who waits as a denial under them
  // said is not told to wait again. What was learnt stays beside it, for a caller that is still on
  // its way with the numbers before. Not of a sliding_log.
  const limit::State& known_under(const limit::Numbers& current, Instant now) const;
  // What the store would say remains now, as far as this worker knows; absent where it knows
  // nothing.
  std::optional<std::uint32_t> remaining(const limit::Numbers& current, Instant now) const;
  // Which charges of a log are over the store alone knows: what it denied it still denies until the
  // time it named.
  std::optional<limit::Step> log_denial(const store::Counter& counter, Instant now) const;

  // Counts by these numbers of its part from now on.
  void adopt(const limit::Numbers& numbers, Instant now);
  limit::Step peek(Instant now, std::uint64_t cost) const;
  void charge(Instant now, std::uint64_t cost);
  void drain(Instant now, std::uint64_t units);
  // Local room never exceeds this worker's part of what was last known to remain.
  void hold_to_known(const limit::Numbers& current, limit::Place place, Instant now);

  // How long until the store has so many units, and until the part has room; absent: never.
  std::optional<Nanos> wait_for_whole(const limit::Numbers& current, std::uint64_t units,
                                      Instant now) const;
  std::optional<Nanos> wait_for_part(const limit::Numbers& part, std::uint64_t cost,
                                     Instant now) const;

  // Counts what was just admitted. gcra: as a bucket of the whole's own rate would stand, since
  // that is how fast the store will let it run off.
  void owe(const limit::Numbers& whole, std::atomic<std::uint64_t>& next_outage, Instant now,
           std::uint64_t units);
  // Returns how many of the units are owed no more: of what may have been told none can be.
  std::uint64_t disown(const limit::Numbers& whole, std::uint64_t units);
  std::optional<OwedUnits> still_owed(const limit::Numbers& whole, Instant now) const;
  // Units that this worker has spent and that still count, by its own part's arithmetic.
  std::uint64_t standing(Instant now) const;
};

}  // namespace weir::ladder
