#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/key_digest.h"
#include "limit/numbers.h"
#include "limit/step.h"
#include "weir/clock.h"

namespace weir::store {

using weir::KeyDigest;

enum class Op : std::uint8_t {
  take,    // all or nothing with the other counters of the ask; cost 0 is a probe and never writes
  drain,   // after the fact: takes what is left, never denies the others
  refund,  // gives back what was charged under `receipt`
  reset,   // forgets the counter
};

// Whose names and values a counter has in a shared store.
enum class Kept : std::uint8_t {
  weir,
  // envoyproxy/ratelimit's, so that both count on one budget: a fixed window to which every ask is
  // added, also one that is denied. `key` is then the identity and that server's own name for the
  // counter, without the window. Takes alone, and what is charged is never given back.
  envoyproxy,
};

// One counter that an ask is about. A plain view: everything it points to outlives the ask.
struct Counter {
  const limit::Numbers* numbers = nullptr;
  std::string_view rule;  // its name, for stores that report it
  std::uint64_t identity =
      0;                 // of the rule: hash of its canonical identity text; never of its limit
  KeyDigest digest;      // of (identity, values)
  std::string_view key;  // the structural encoding of (identity, values), for stores that keep it
  std::uint64_t cost = 1;
  Op op = Op::take;
  bool shadow = false;  // charged where it fits, but never denies the others
  Kept kept = Kept::weir;
  // The policy load that `numbers` come from, counted from 1. Where a counter was kept under other
  // numbers, the newer load's hold: an ask of an older load is answered under them.
  std::uint32_t generation = 0;
  Instant receipt{};  // refund only: Step::receipt() of the charge
};

// What the store found for one counter.
//
// Guarantees:  where the ask as a whole is denied, `step` says of each counter whether it alone
//              would have fitted, with what remains now.
struct Finding {
  limit::Step step;
  Op op = Op::take;
  bool charged = false;     // units of this ask were taken from this counter (take and drain only)
  std::uint64_t units = 0;  // how many: a drain takes what is left, which may be less than the cost
  // What a store of the caller's own did not say is not known: step's number means nothing then.
  bool remaining_known = true;
  bool retry_known = true;
  bool reset_known = true;
  // Where it was decided under the numbers of a newer load than the counter's: those.
  struct Newer {
    std::uint32_t limit = 0;
    std::uint32_t burst = 0;
  };
  std::optional<Newer> newer = std::nullopt;
};

}  // namespace weir::store
