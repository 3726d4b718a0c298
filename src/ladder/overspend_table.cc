#include "ladder/overspend_table.h"

#include <algorithm>

namespace weir::ladder {

using limit::Numbers;
using limit::Outcome;

namespace {

// A full table is searched for windows that are over no more often.
constexpr Nanos kSweepEvery = std::chrono::seconds(1);

// The cap as a limit of its own, in windows as long as the rule's period.
std::optional<Numbers> part_of_cap(const Numbers& rule, std::uint64_t cap, limit::Place place) {
  const auto whole = Numbers::make({.algorithm = Algorithm::fixed_window,
                                    .limit = cap,
                                    .period = {.length = Nanos(rule.period_ns),
                                               .calendar = rule.calendar,
                                               .count = rule.calendar_count},
                                    .burst = std::nullopt});
  if (!whole) return std::nullopt;
  return limit::part_numbers(*whole, place);
}

}  // namespace

bool OverspendTable::take(const store::Counter& counter, std::uint64_t cap, limit::Place place,
                          Instant now) {
  const std::optional<Numbers> part = part_of_cap(*counter.numbers, cap, place);
  if (!part) return false;
  std::lock_guard lock(mutex_);
  Entry* entry = find_or_make(counter.digest, *part, now);
  if (entry == nullptr) return false;
  const limit::Step step = limit::take(entry->numbers, entry->state, now, counter.cost);
  if (step.outcome != Outcome::allowed) return false;
  entry->state = step.next;
  return true;
}

void OverspendTable::give_back(const store::Counter& counter, std::uint64_t cap, limit::Place place,
                               Instant now) {
  const std::optional<Numbers> part = part_of_cap(*counter.numbers, cap, place);
  if (!part) return;
  std::lock_guard lock(mutex_);
  const auto found = entries_.find(counter.digest);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  const limit::Step looked = limit::take(entry.numbers, entry.state, now, 0);
  entry.state = limit::refund(entry.numbers, entry.state, now, counter.cost, looked.receipt()).next;
}

void OverspendTable::restore(const KeyDigest& digest, Instant window, std::uint64_t units) {
  std::lock_guard lock(mutex_);
  if (const auto found = entries_.find(digest); found != entries_.end()) {
    Entry& entry = found->second;
    const std::int64_t start = window.time_since_epoch().count();
    if (entry.state.time_ns <= start && limit::window_at(entry.numbers, window).start_ns == start)
      entry.state = limit::drain(entry.numbers, entry.state, window, units).next;
    return;
  }
  if (before_.size() >= capacity_) return;
  Before& before = before_[digest];
  if (before.window < window) before = {.window = window, .units = 0};
  if (before.window == window) before.units += units;
}

std::size_t OverspendTable::size() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

OverspendTable::Entry* OverspendTable::find_or_make(const KeyDigest& digest, const Numbers& numbers,
                                                    Instant now) {
  auto found = entries_.find(digest);
  if (found == entries_.end()) {
    if (entries_.size() >= capacity_) sweep(now);
    if (entries_.size() >= capacity_) return nullptr;
    found = entries_.emplace(digest, Entry{.numbers = numbers, .state = {}}).first;
    if (const auto before = before_.find(digest); before != before_.end()) {
      // A later window than now's is of a process whose clock was ahead of this one's: it goes on.
      const Instant then = std::max(now, before->second.window);
      const Instant window{Nanos(limit::window_at(numbers, then).start_ns)};
      const auto used = std::min<std::uint64_t>(before->second.units, numbers.limit);
      if (before->second.window == window)
        found->second.state = limit::take(numbers, {}, then, used).next;
      before_.erase(before);
    }
  }
  Entry& entry = found->second;
  if (entry.numbers.stamp != numbers.stamp) {
    // The fleet or the policy changed: what is used stays used.
    entry.state = limit::convert(entry.numbers, numbers, entry.state, now);
    entry.numbers = numbers;
  }
  return &entry;
}

void OverspendTable::sweep(Instant now) {
  if (now - swept_ < kSweepEvery && now >= swept_) return;
  swept_ = now;
  std::erase_if(entries_, [now](const auto& item) {
    const Entry& entry = item.second;
    return limit::take(entry.numbers, entry.state, now, 0).remaining >= entry.numbers.limit;
  });
}

}  // namespace weir::ladder
