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

// Whether the clock was set back since the log was last changed.
bool clock_was_set_back(const PooledLog& log, Instant now) noexcept;

// Drops what is over, and brings what is of another clock to this one: what a step does that
// writes.
void settle_log(PooledLog& log, Instant now) noexcept;

// Charges units that fit. Takes the spare cell where the log is full.
void charge_log(PooledLog& log, Instant now, std::uint32_t units, std::uint32_t& spare) noexcept;

// Units that a refund would find to give back, and gives them back.
std::uint32_t refundable(const limit::Numbers& numbers, const PooledLog& log, Instant now,
                         Instant receipt) noexcept;
void refund_log(PooledLog& log, Instant now, std::uint64_t units, Instant receipt) noexcept;

// The instant from which the log cannot be told from a fresh one.
std::int64_t log_expires_at_ns(const PooledLog& log) noexcept;

}  // namespace weir::store
