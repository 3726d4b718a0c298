#pragma once

#include <cstdint>

#include "limit/numbers.h"
#include "limit/step.h"
#include "store/memory/pooled_log.h"
#include "weir/clock.h"

namespace weir::store {

// The steps of limit/sliding_log.h on a pooled log, divided as the store needs them: look first,
// charge when all counters of an ask are known to fit. The tests hold the two against each other.
//
// Cost:        O(entries over), O(1) amortised; a denial besides the entries that must be over
// before
//              the cost fits; a probe and a refund O(entries).

// What a charge of `cost` would be, changing nothing. Cost 0 answers as 1 would.
limit::Step peek_log(const limit::Numbers& numbers, const PooledLog& log, Instant now,
                     std::uint64_t cost) noexcept;

// Drops what is over, and brings what is of another clock to this one: what every step but a probe
// does first.
void settle_log(PooledLog& log, Instant now) noexcept;

// As peek_log(), of a log that settle_log() has seen at `now`.
limit::Step peek_settled_log(const limit::Numbers& numbers, const PooledLog& log, Instant now,
                             std::uint64_t cost) noexcept;

// Charges units that fit, and says what is left. Requires: settled at `now`; a spare cell where the
// log is full.
limit::Step charge_log(const limit::Numbers& numbers, PooledLog& log, Instant now,
                       std::uint32_t units, std::uint32_t& spare) noexcept;

// Gives units back to the charge of that receipt. Requires: settled at `now`.
limit::Step refund_log(const limit::Numbers& numbers, PooledLog& log, Instant now,
                       std::uint64_t units, Instant receipt) noexcept;

// The instant from which the log cannot be told from a fresh one.
std::int64_t log_expires_at_ns(const PooledLog& log) noexcept;

}  // namespace weir::store
