#pragma once

#include <cstdint>
#include <vector>

#include "limit/step.h"

namespace weir::limit {

// The state of one sliding_log counter: every charge still inside the period, oldest first.
// Charges of one instant are one entry.
struct LogEntry {
  std::int64_t time_ns = 0;
  std::uint32_t units = 0;

  friend bool operator==(const LogEntry&, const LogEntry&) = default;
};

struct LogState {
  std::vector<LogEntry> entries;
  std::int64_t last_seen_ns = 0;
};

// As take() of step.h, on a log that is changed in place where the step is allowed. A charge counts
// during [t, t + period): at t + period it is over.
//
// Guarantees:  at most limit units in every interval of one period, wherever it begins; on denial
// only entries that are
//              over are dropped.
// Cost:        O(entries over); denial O(entries).
Step log_take(const Numbers& numbers, LogState& state, Instant now, std::uint64_t cost);
Step log_peek(const Numbers& numbers, const LogState& state, Instant now,
              std::uint64_t cost) noexcept;
Step log_drain(const Numbers& numbers, LogState& state, Instant now, std::uint64_t cost);
Step log_refund(const Numbers& numbers, LogState& state, Instant now, std::uint64_t cost,
                Instant charged_at);

}  // namespace weir::limit
