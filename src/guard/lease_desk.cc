#include "guard/lease_desk.h"

#include <algorithm>
#include <utility>

#include "guard/shared_limit.h"

namespace weir::guard {

void LeaseDesk::serve(std::vector<std::shared_ptr<SharedLimit>> limits) {
  std::vector<std::shared_ptr<SharedLimit>> before;
  {
    std::lock_guard lock(mutex_);
    before = std::exchange(limits_, limits);
  }
  for (const auto& old : before)
    if (std::find(limits.begin(), limits.end(), old) == limits.end()) old->go_by(nullptr);
  for (const auto& limit : limits) limit->go_by(this);
  if (!limits.empty()) poke();
}

void LeaseDesk::turn_by(MonoTime when) {
  MonoTime next = next_.load();
  while (when < next) {
    if (!next_.compare_exchange_weak(next, when)) continue;
    line_.post([this] { arm(); });
    return;
  }
}

void LeaseDesk::arm() {
  const MonoTime next = next_.load();
  if (next == kNone) return;
  if (clock_.mono() >= next) return on_wake();
  ports_.wake_at(next);
}

void LeaseDesk::on_wake() {
  next_.store(kNone);
  std::vector<std::shared_ptr<SharedLimit>> all;
  {
    std::lock_guard lock(mutex_);
    all = limits_;
  }
  MonoTime next = kNone;
  for (const auto& limit : all) next = std::min(next, limit->turn().value_or(kNone));
  if (next != kNone) turn_by(next);
}

std::uint32_t lease_part(const ladder::Division& division, std::uint32_t limit,
                         const KeyDigest& digest) noexcept {
  if (!division.has_part()) return 0;
  const std::uint32_t sharing = std::min(std::max(division.workers(), 1U), limit);
  const std::uint32_t place = division.place(digest);
  if (place >= sharing) return 0;
  return limit / sharing + (place < limit % sharing ? 1 : 0);
}

}  // namespace weir::guard
