#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "limit/step.h"

namespace weir::limit {

// One charge of a sliding_log counter. Charges of one instant are one entry.
struct LogEntry {
  std::int64_t time_ns = 0;
  std::uint32_t units = 0;

  friend bool operator==(const LogEntry&, const LogEntry&) = default;
};

// The state of one sliding_log counter: every charge still inside the period, oldest first. The
// default is a fresh counter.
//
// Guarantees:  at most two entries a unit of the limit, so the limit bounds its memory.
struct LogState {
  std::vector<LogEntry> entries;  // those before `first` are over and await their removal
  std::size_t first = 0;
  std::uint64_t used = 0;         // units of the entries from `first` on
  std::int64_t last_seen_ns = 0;  // latest instant of a step that changed the log
};

// As the steps of step.h, on a log that is changed in place where the step is allowed. A charge
// counts during [t, t + period): at t + period it is over. Step::next holds no state here, but
// Step::receipt() is good.
//
// Guarantees:  at most limit units in every interval of one period, wherever it begins; a denial
//              changes nothing, unless the clock was set back.
// Time:        as take(): a `now` before the last seen instant counts as that instant; where it is
//              more than a second before, the clock was set back and charges of the future count as
//              charged now.
// Cost:        O(1) amortised, allocation as vector has it; what does not fit is O(entries) until
//              it would.
Step log_take(const Numbers& numbers, LogState& state, Instant now, std::uint64_t cost);
Step log_peek(const Numbers& numbers, const LogState& state, Instant now,
              std::uint64_t cost) noexcept;
Step log_drain(const Numbers& numbers, LogState& state, Instant now, std::uint64_t cost);
Step log_refund(const Numbers& numbers, LogState& state, Instant now, std::uint64_t cost,
                Instant receipt);

// As expires_at_ns() of step.h. A log needs no conversion: used stays used under other numbers of
// the same period.
std::int64_t log_expires_at_ns(const Numbers& numbers, const LogState& state) noexcept;

}  // namespace weir::limit
