#include "guard/errand.h"

#include <algorithm>
#include <array>

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

void charge_rest(std::span<const store::Counter> drains, const ladder::LadderVerdict& verdict,
                 FailurePolicy policy, Instant loaded_at, SharedStore& store, MonoTime now) {
  // Who is blocked by one limit has used nothing of the others.
  if (drains.empty() || verdict.reason == Reason::blocked) return;
  const bool by_fallback = verdict.rung == Rung::fallback;
  const bool by_store = verdict.rung == Rung::store || verdict.rung == Rung::known;
  // Who counts there too drains nothing: what it denies has been added, or is known while it is
  // away.
  const bool is_told = drains.front().kept == store::Kept::weir;
  if (is_told && (by_store || by_fallback)) {
    for (const InSlot& each : by_slot(drains, store)) {
      auto errand = std::make_unique<LooseErrand>(each.counters, loaded_at, nullptr);
      errand->where = by_fallback ? SharedAsk::Where::fallback : SharedAsk::Where::first;
      // A denial that is known may be all there is: the store is away.
      if (by_store) errand->request.when_store_fails = policy;
      LooseErrand::send(std::move(errand), store, now);
    }
    return;
  }
  std::array<store::Finding, store::kMaxCounters> findings;
  (void)store.decide_without({.counters = drains, .cost = 0, .when_store_fails = policy},
                             std::span(findings).first(drains.size()));
}

void give_back_charged(std::span<const store::Counter> refunds, SharedAsk::Where where,
                       Instant loaded_at, SharedStore& store, MonoTime now) {
  for (const InSlot& each : by_slot(refunds, store)) {
    auto errand = std::make_unique<LooseErrand>(each.counters, loaded_at, nullptr);
    errand->where = where;
    errand->gives_back = true;
    LooseErrand::send(std::move(errand), store, now);
  }
}

void LooseErrand::send(std::unique_ptr<LooseErrand> errand, SharedStore& store, MonoTime now) {
  errand->answer_by = now + store.deadline();
  store.decide(*errand.release());
}

}  // namespace weir::guard
