#include "guard/idempotency_table.h"

#include <utility>

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
  std::vector<Told> waiting;
  {
    std::lock_guard lock(mutex_);
    waiting = end_claim(name);
    const Entry entry{.asked = name.asked, .at = at, .rung = rung, .recorded = recorded};
    const auto [found, fresh] = entries_.emplace(name.key, entry);
    found->second = entry;
    if (fresh) by_age_.push_back(name.key);
    while (by_age_.size() > kMost) {
      entries_.erase(by_age_.front());
      by_age_.pop_front();
    }
  }
  for (const Told& told : waiting) told(rung);
}

IdempotencyTable::Claim IdempotencyTable::claim(const RequestName& name, Instant now, Told told) {
  Rung rung = Rung::store;
  {
    std::lock_guard lock(mutex_);
    const auto known = entries_.find(name.key);
    if (known != entries_.end() && now - known->second.at < kIdempotencyMemory) {
      if (known->second.asked != name.asked) return Claim::other;
      rung = known->second.rung;
    } else {
      const auto [claimed, mine] =
          claimed_.emplace(name.key, Claimed{.asked = name.asked, .waiting = {}});
      if (mine) return Claim::mine;
      if (claimed->second.asked != name.asked) return Claim::other;
      claimed->second.waiting.push_back(std::move(told));
      return Claim::same;
    }
  }
  told(rung);
  return Claim::same;
}

void IdempotencyTable::release(const RequestName& name) {
  std::vector<Told> waiting;
  {
    std::lock_guard lock(mutex_);
    waiting = end_claim(name);
  }
  for (const Told& told : waiting) told(std::nullopt);
}

std::vector<IdempotencyTable::Told> IdempotencyTable::end_claim(const RequestName& name) {
  const auto claimed = claimed_.find(name.key);
  if (claimed == claimed_.end() || claimed->second.asked != name.asked) return {};
  std::vector<Told> waiting = std::move(claimed->second.waiting);
  claimed_.erase(claimed);
  return waiting;
}

}  // namespace weir::guard
