#include "guard/errand.h"

#include <algorithm>

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

std::vector<InSlot> by_slot(std::span<const store::Counter> counters, const SharedStore& store) {
  std::vector<InSlot> parts;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    const std::uint16_t slot = store.slot(counters[i]);
    auto part = std::find_if(parts.begin(), parts.end(),
                             [&](const InSlot& each) { return each.slot == slot; });
    if (part == parts.end()) {
      part = parts.insert(parts.end(), InSlot{.slot = slot, .counters = {}, .places = {}});
    }
    part->counters.push_back(counters[i]);
    part->places.push_back(i);
  }
  return parts;
}

void LooseErrand::send(std::unique_ptr<LooseErrand> errand, SharedStore& store, MonoTime now) {
  errand->answer_by = now + store.deadline();
  store.decide(*errand.release());
}

}  // namespace weir::guard
