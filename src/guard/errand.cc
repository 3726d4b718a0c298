#include "guard/errand.h"

#include "guard/shared_store.h"

namespace weir::guard {

Errand::Errand(std::span<const store::Counter> what, Instant loaded)
    : counters_(what.begin(), what.end()) {
  // Room first, so that what points to them holds.
  keys_.reserve(counters_.size());
  numbers_.reserve(counters_.size());
  for (store::Counter& counter : counters_) {
    counter.key = keys_.emplace_back(counter.key);
    counter.numbers = &numbers_.emplace_back(*counter.numbers);
    counter.rule = {};  // for reports: nobody makes one of it
  }
  request = {.counters = counters_, .cost = 0};
  loaded_at = loaded;
}

void LooseErrand::send(std::unique_ptr<LooseErrand> errand, SharedStore& store, MonoTime now) {
  errand->answer_by = now + store.deadline();
  store.decide(*errand.release());
}

}  // namespace weir::guard
