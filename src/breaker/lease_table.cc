#include "breaker/lease_table.h"

namespace weir::breaker {

const LeaseTable::Held* LeaseTable::find(std::string_view id) const {
  const auto found = leases_.find(id);
  return found == leases_.end() ? nullptr : &found->second;
}

void LeaseTable::add(std::string_view id, const Held& held) {
  const auto [at, added] = leases_.emplace(std::string(id), held);
  if (!added) return;
  ends_.emplace(held.ends, at->first);
  units_ += held.weight;
}

void LeaseTable::extend(std::string_view id, MonoTime ends) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return;
  ends_.erase({found->second.ends, found->first});
  found->second.ends = ends;
  ends_.emplace(ends, found->first);
}

std::uint32_t LeaseTable::remove(std::string_view id) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return 0;
  const std::uint32_t weight = found->second.weight;
  ends_.erase({found->second.ends, found->first});
  leases_.erase(found);
  units_ -= weight;
  return weight;
}

LeaseTable::Swept LeaseTable::sweep(MonoTime now, std::size_t most) {
  Swept swept;
  while (swept.leases < most && !ends_.empty() && ends_.begin()->first <= now) {
    const auto found = leases_.find(ends_.begin()->second);
    ++swept.leases;
    swept.units += found->second.weight;
    ends_.erase(ends_.begin());
    leases_.erase(found);
  }
  units_ -= swept.units;
  return swept;
}

std::optional<MonoTime> LeaseTable::next_end() const {
  if (ends_.empty()) return std::nullopt;
  return ends_.begin()->first;
}

std::optional<MonoTime> LeaseTable::last_end() const {
  if (ends_.empty()) return std::nullopt;
  return ends_.rbegin()->first;
}

}  // namespace weir::breaker
