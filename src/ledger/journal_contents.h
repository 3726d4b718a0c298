#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "ledger/journal_mark.h"
#include "ledger/sqlite.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::ledger {

// Events have numbers from 1, without gaps, in the order in which they became durable.
using EventNumber = std::uint64_t;

// What a journal holds.
struct JournalCounts {
  EventNumber last = 0;  // of the last durable event
  EventNumber settled_upto = 0;
  std::uint64_t settled = 0;    // events that the ledger has
  std::uint64_t unsettled = 0;  // events that wait for it, and their bytes
  std::uint64_t unsettled_bytes = 0;
  std::uint64_t quarantined = 0;  // events that it would not take
  std::uint64_t quarantined_bytes = 0;
  std::uint64_t standing_bytes = 0;  // of notes that stand: reservations
  std::uint64_t replayed = 0;        // events that left quarantine under a new number
  std::uint64_t skipped = 0;         // numbers that were passed over: see skip_to()
  std::optional<Instant> oldest;     // unsettled event
};

// What a journal holds, as its database says.
Result<JournalCounts> read_counts(Database& db);

// The time of the first event behind `seen` in a row of events: its number, the last of its
// events' numbers, and the events, packed.
std::optional<Instant> time_in(const Statement& row, EventNumber seen);

// Nothing, where a journal that is now as `now` holds what was marked of it; see JournalMark.
Result<void> check_mark(const std::string& path, const std::optional<JournalMark::Held>& held,
                        const JournalMark::Held& now);

// Every page and every event of a journal; `seen` is told how many events by and by.
Result<void> verify_journal(Database& db, const std::function<void(std::uint64_t)>& seen = {});

// What the journal at `path` takes of its disk.
std::uint64_t bytes_on_disk(const std::string& path);

}  // namespace weir::ledger
