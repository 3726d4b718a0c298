#include "guard/idempotency_table.h"

namespace weir::guard {

std::optional<IdempotencyTable::Known> IdempotencyTable::find(const RequestName& name,
                                                              Instant now) const {
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(name.key);
  if (found == entries_.end() || now - found->second.at >= kIdempotencyMemory) return std::nullopt;
  const Entry& entry = found->second;
  return Known{.same = entry.asked == name.asked, .rung = entry.rung, .recorded = entry.recorded};
}

void IdempotencyTable::keep(const RequestName& name, Rung rung, Instant at, bool recorded) {
  std::lock_guard lock(mutex_);
  const Entry entry{.asked = name.asked, .at = at, .rung = rung, .recorded = recorded};
  const auto [found, fresh] = entries_.emplace(name.key, entry);
  if (!fresh) {
    found->second = entry;
    return;
  }
  by_age_.push_back(name.key);
  while (by_age_.size() > kMost) {
    entries_.erase(by_age_.front());
    by_age_.pop_front();
  }
}

}  // namespace weir::guard
