#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "limit/numbers.h"
#include "limit/step.h"
#include "store/counter.h"
#include "store/redis/error_class.h"
#include "weir/clock.h"

namespace weir::store::redis {

// What one worker admitted for one counter while the store was away: a running total, so that it
// can be told again and again. The store applies what exceeds its record for that worker, outage
// and window, and never pushes the counter past exactly exhausted.
struct Owed {
  std::uint64_t worker = 0;
  std::uint64_t outage = 0;
  Instant window{};         // windows: the start of the one they were admitted in
  std::uint64_t units = 0;  // the running total of that outage and window
  // Of which an answer has said that they were applied: never applied again, although the store may
  // have lost its record of it.
  std::uint64_t confirmed = 0;
  // Most of them that still count: for gcra and logs the rest has run off since.
  std::uint64_t standing = kMaxUnits;
  // Most units that the parts of all workers come to, told of one window: limit::most_of_parts().
  std::uint64_t bound = 2 * kMaxUnits;
};

// The last state that a worker saw of a counter, merged by maximum into the store's. Only for a
// store that may have lost it: elsewhere it would undo refunds and resets.
struct Known {
  limit::State state;  // log: `current` units stand at `time_ns`
};

// Everything about an ask but its counters.
struct AskOptions {
  MonoTime answer_by{};  // the caller is answered by then, whatever happens
  MonoTime vote_by{};    // our own deadline: a store silent until then has failed; >= answer_by
  // When the numbers were loaded, by the clock that decides.
  Instant loaded_at{};
  std::uint32_t generation = 0;  // the breaker's, handed back with the vote
  // The client's clock decides, not the store's; whether the ask is late the store's says all the
  // same.
  std::optional<Instant> now;
  // Absent: worked out from answer_by. The store writes nothing once its clock is past it.
  std::optional<Instant> not_after;
  std::span<const std::optional<Owed>> owed;    // none, or one place a counter
  std::span<const std::optional<Known>> known;  // none, or one place a counter
  std::uint32_t expiry_margin_ms = 1'000;       // how much longer than needed a key lives
  bool at_exact_time = false;  // a denial's time is needed exactly (see Answer::store_now)
  bool asking = false;  // the slot is on its way to the node: it was named by an ASK redirection
};

// What the store found for one counter.
struct CounterReply {
  Finding finding;
  // The numbers it was decided under: the counter's own, or those of a newer load that the store
  // knows of.
  limit::Numbers numbers;
  limit::State before;         // not for logs
  std::uint64_t log_used = 0;  // log: units standing after the ask
  bool repaired = false;       // a foreign or damaged value stood at the key
  bool newer_numbers = false;  // `numbers` are not the counter's own
  bool converted = false;      // it was kept under other numbers, of an older load
  bool over_bound = false;     // all workers together told more than the bound that came with it
};

// The end of an ask.
struct Answer {
  const ErrorRow* error = nullptr;  // absent: decided
  std::string_view error_text;      // as the store said it
  bool allowed = false;             // every counter that may deny fitted, and all were charged
  std::span<const CounterReply> counters;
  // The time of the decision, by the clock that decides. Where a denial is certain at any time
  // until not-after the store does not look at its clock, and this is the earliest time it can have
  // been.
  Instant store_now{};
  Nanos latency{0};
  // A script and the C++ that explains it came to different verdicts: a fault of Weir. The
  // script's holds, for it is what was stored.
  bool disagreed = false;
  // An error, and yet the store may carry the ask out: how it ended follows, by
  // SessionEvents::on_late() or on_lost().
  bool reply_may_follow = false;
  // An error, and yet the store may have carried the ask out, or some of it, or do so still. Else
  // it did nothing, and never will.
  bool may_be_carried_out = false;

  bool decided() const noexcept { return error == nullptr; }
};

// Who asked. Called exactly once for each ask, before RedisSession::ask() returns where nothing
// can be sent.
class AskHandler {
 public:
  virtual ~AskHandler() = default;
  // Whatever `answer` points to ends with this call.
  virtual void on_answer(std::uint64_t token, const Answer& answer) = 0;
};

}  // namespace weir::store::redis
