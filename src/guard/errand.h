#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "guard/shared_ask.h"
#include "ladder/shard_ladder.h"
#include "limit/numbers.h"
#include "store/counter.h"
#include "weir/clock.h"

namespace weir::guard {

class SharedStore;

// What is told a shared store beside an answer: it lives until the store has heard it, which may be
// long after the request that it is of, and after the policy. So it owns all that it asks about:
// keys, and numbers, which a request may have brought itself.
class Errand : public SharedAsk {
 public:
  // `loaded`: when the policy of those numbers was.
  Errand(std::span<const store::Counter> what, Instant loaded);
  std::span<const store::Counter> counters() const noexcept { return counters_; }
  bool counts_at(const ShardDriver&) noexcept override { return false; }

 private:
  std::vector<std::string> keys_;
  std::vector<limit::Numbers> numbers_;
  std::vector<store::Counter> counters_;
};

// Counters that one call reaches, and their places among all.
struct InSlot {
  std::uint16_t slot = 0;
  std::vector<store::Counter> counters;
  std::vector<std::size_t> places;
};

// What is done afterwards is right whatever becomes of the rest: a call a slot, and none undoes
// another, nor waits for one that is away.
std::vector<InSlot> by_slot(std::span<const store::Counter> counters, const SharedStore& store);

// Charges work that is done with what is left of the limits that had no room for it, and nobody
// waits for it: in the store that denied it by `verdict`. Where no store did, this worker's parts
// are used up before this returns, and are owed, if `policy` is to serve parts.
//
// Requires:    `drains` are counters of the denied request, to be drained.
void charge_rest(std::span<const store::Counter> drains, const ladder::LadderVerdict& verdict,
                 FailurePolicy policy, Instant loaded_at, SharedStore& store, MonoTime now);

// Gives back what a store charged for a request that is not served: `refunds` are its counters, to
// be refunded by their receipts. It is asked again until the store has done it or time is up, and
// counted: see GiveBacks.
void give_back_charged(std::span<const store::Counter> refunds, SharedAsk::Where where,
                       Instant loaded_at, SharedStore& store, MonoTime now);

// One that nobody waits for: it goes once it was decided.
class LooseErrand final : public Errand {
 public:
  using Done = std::function<void(const ladder::LadderVerdict&, std::span<const store::Finding>)>;

  // `done` may be empty.
  LooseErrand(std::span<const store::Counter> what, Instant loaded, Done done)
      : Errand(what, loaded), done_(std::move(done)) {}

  // Hands it to the store, which decides it by its deadline.
  static void send(std::unique_ptr<LooseErrand> errand, SharedStore& store, MonoTime now);

  void decided(const ladder::LadderVerdict& verdict, Instant) noexcept override {
    const std::unique_ptr<LooseErrand> self(this);
    if (done_) done_(verdict, findings());
  }

 private:
  Done done_;
};

}  // namespace weir::guard
