#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "policy/route.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::ledger {

// Names one event among all that any worker ever records: `hi` is drawn once a process, `lo`
// counts.
struct EventId {
  std::uint64_t hi = 0;
  std::uint64_t lo = 0;

  // 32 hexadecimal digits.
  std::string text() const;
  friend bool operator==(const EventId&, const EventId&) = default;
};

// Largest event as it is kept, in bytes. A longer one is refused, never cut.
inline constexpr std::size_t kMaxEventBytes = 8'192;

// What one served decision used of one metered rule. A plain view: what it points to outlives the
// call that it is handed to.
struct UsageEvent {
  EventId id;
  std::string_view tenant;  // the values that the rule counts by; any bytes
  std::string_view route;
  std::string_view rule;
  // What the caller named the request, so that a repetition is billed once; empty: nothing.
  std::string_view idempotency_key;
  std::uint64_t units = 0;
  std::uint64_t overspent = 0;  // of these units, those beyond what the limit had left to give
  policy::OverspendMode mode = policy::OverspendMode::cap;  // what becomes of them
  bool outage = false;                                      // decided without the store
  Instant at{};
  Instant window_start{};  // the rule's period that `at` falls into
  Nanos window{0};

  friend bool operator==(const UsageEvent&, const UsageEvent&) = default;
};

// Appends the event's bytes, as the journal keeps them, to `out`.
//
//   1 byte     version, 1
//   4 bytes    checksum of all that follows, little endian, as every number here
//   1 byte     bit 0: outage; bits 1 and 2: the mode
//   32 bytes   id.hi, id.lo, at, window_start
//   varints    window, units, overspent
//   4 texts    tenant, route, rule, idempotency_key: each its length as a varint, then its bytes
//
// Errors:      invalid_argument where it would be longer than kMaxEventBytes; `out` is unchanged.
Result<void> encode(const UsageEvent& event, std::string& out);

// The event in `bytes`; its texts point there.
//
// Errors:      invalid_argument: cut short, longer than it says, of another version, or damaged.
Result<UsageEvent> decode(std::string_view bytes);

}  // namespace weir::ledger
