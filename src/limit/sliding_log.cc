#include "limit/sliding_log.h"

#include <algorithm>

#include "limit/reach.h"

namespace weir::limit {
namespace {

// Entries that are over are removed together, once they are the larger part.
constexpr std::size_t kWorthRemoving = 16;

// The log as `now` sees it: the instant that counts, and whether the clock was set back, so that
// charges after that instant count as charged at it.
struct Seen {
  std::int64_t now_ns = 0;
  std::int64_t at_ns = 0;
  bool stepped_back = false;
};

Seen see(const LogState& state, Instant now) {
  Seen seen;
  seen.now_ns = seen.at_ns = instant_ns(now);
  if (state.last_seen_ns <= seen.now_ns) return seen;
  seen.stepped_back = state.last_seen_ns - seen.now_ns > kBackstepNs;
  if (!seen.stepped_back) seen.at_ns = state.last_seen_ns;
  return seen;
}

std::int64_t over_at(const Numbers& numbers, const Seen& seen, const LogEntry& entry) {
  return std::min(entry.time_ns, seen.at_ns) + numbers.period_ns;
}

// A log reduced to what stands at `seen`.
struct Standing {
  std::size_t first = 0;
  std::uint64_t used = 0;
};

Standing standing_at(const Numbers& numbers, const LogState& state, const Seen& seen) {
  Standing standing{state.first, state.used};
  while (standing.first < state.entries.size() &&
         over_at(numbers, seen, state.entries[standing.first]) <= seen.at_ns) {
    standing.used -= state.entries[standing.first++].units;
  }
  return standing;
}

std::uint32_t units_left(const Numbers& numbers, std::uint64_t used) {
  return used >= numbers.limit ? 0 : static_cast<std::uint32_t>(numbers.limit - used);
}

std::int64_t reset_after(const Numbers& numbers, const LogState& state, const Seen& seen,
                         const Standing& standing) {
  if (numbers.limit == 0 || standing.first >= state.entries.size()) return 0;
  return over_at(numbers, seen, state.entries.back()) - seen.now_ns;
}

// Until so many of the oldest units are over that `ask` fits. Requires: ask <= limit.
std::int64_t retry_after(const Numbers& numbers, const LogState& state, const Seen& seen,
                         const Standing& standing, std::uint64_t ask) {
  std::uint64_t used = standing.used;
  std::size_t index = standing.first;
  while (used + ask > numbers.limit) used -= state.entries[index++].units;
  return over_at(numbers, seen, state.entries[index - 1]) - seen.now_ns;
}

Step answer(const Numbers& numbers, const LogState& state, const Seen& seen,
            const Standing& standing, std::uint64_t ask) {
  Step step;
  step.next.time_ns = seen.at_ns;
  step.remaining = units_left(numbers, standing.used);
  step.reset_after_ns = reset_after(numbers, state, seen, standing);
  if (ask > numbers.limit) {
    step.outcome = Outcome::never_fits;
  } else if (ask > step.remaining) {
    step.retry_after_ns = retry_after(numbers, state, seen, standing, ask);
  } else {
    step.outcome = Outcome::allowed;
  }
  return step;
}

// Charges after `seen` are charged at it: one entry, and with it the order is kept.
void bring_back(LogState& state, const Seen& seen) {
  std::uint64_t later = 0;
  while (state.entries.size() > state.first && state.entries.back().time_ns >= seen.at_ns) {
    later += state.entries.back().units;
    state.entries.pop_back();
  }
  // One entry holds it all, unless the limit was lowered and raised in between.
  while (later > 0) {
    const std::uint64_t units = std::min<std::uint64_t>(later, kMaxUnits);
    state.entries.push_back({seen.at_ns, static_cast<std::uint32_t>(units)});
    later -= units;
  }
}

// Drops what is over and brings what is of another clock to this one.
Seen settle(const Numbers& numbers, LogState& state, Instant now) {
  const Seen seen = see(state, now);
  if (seen.stepped_back) bring_back(state, seen);
  state.last_seen_ns = seen.at_ns;
  const Standing standing = standing_at(numbers, state, seen);
  state.first = standing.first;
  state.used = standing.used;
  if (state.first == state.entries.size()) {
    state.entries.clear();
    state.first = 0;
  } else if (state.first >= kWorthRemoving && state.first * 2 >= state.entries.size()) {
    state.entries.erase(state.entries.begin(),
                        state.entries.begin() + static_cast<std::ptrdiff_t>(state.first));
    state.first = 0;
  }
  return seen;
}

void charge(LogState& state, const Seen& seen, std::uint32_t units) {
  state.used += units;
  const bool same_instant =
      state.entries.size() > state.first && state.entries.back().time_ns == seen.at_ns;
  if (same_instant && state.entries.back().units <= kMaxUnits - units) {
    state.entries.back().units += units;
  } else {
    state.entries.push_back({seen.at_ns, units});
  }
}

// The entry of the charge made at `time_ns`, where it is not over.
LogEntry* standing_entry(const Numbers& numbers, LogState& state, const Seen& seen,
                         std::int64_t time_ns) {
  const Standing standing = standing_at(numbers, state, seen);
  const auto begin = state.entries.begin() + static_cast<std::ptrdiff_t>(standing.first);
  const auto entry = std::lower_bound(
      begin, state.entries.end(), time_ns,
      [](const LogEntry& e, std::int64_t wanted_ns) { return e.time_ns < wanted_ns; });
  return entry != state.entries.end() && entry->time_ns == time_ns ? &*entry : nullptr;
}

void remove_if_empty(LogState& state, const LogEntry& entry) {
  if (entry.units == 0)
    state.entries.erase(state.entries.begin() + (&entry - state.entries.data()));
}

}  // namespace

Step log_peek(const Numbers& numbers, const LogState& state, Instant now,
              std::uint64_t cost) noexcept {
  const Seen seen = see(state, now);
  const Standing standing = standing_at(numbers, state, seen);
  Step step = answer(numbers, state, seen, standing, std::max<std::uint64_t>(cost, 1));
  if (step.outcome == Outcome::allowed && cost > 0) {
    step.remaining -= static_cast<std::uint32_t>(cost);
    step.reset_after_ns = seen.at_ns + numbers.period_ns - seen.now_ns;
  }
  return step;
}

Step log_take(const Numbers& numbers, LogState& state, Instant now, std::uint64_t cost) {
  const Step found = log_peek(numbers, state, now, cost);
  if (cost == 0) return found;
  if (found.outcome != Outcome::allowed) {
    if (see(state, now).stepped_back) settle(numbers, state, now);
    return found;
  }
  charge(state, settle(numbers, state, now), static_cast<std::uint32_t>(cost));
  return found;
}

Step log_drain(const Numbers& numbers, LogState& state, Instant now, std::uint64_t cost) {
  const std::uint32_t left = log_peek(numbers, state, now, 0).remaining;
  if (cost <= left || left == 0) return log_take(numbers, state, now, cost);
  charge(state, settle(numbers, state, now), left);
  return log_peek(numbers, state, now, cost);
}

Step log_refund(const Numbers& numbers, LogState& state, Instant now, std::uint64_t cost,
                Instant receipt) {
  const Seen seen = see(state, now);
  LogEntry* charged = nullptr;
  if (cost > 0 && !seen.stepped_back)
    charged = standing_entry(numbers, state, seen, instant_ns(receipt));
  if (charged != nullptr) {
    const auto back = static_cast<std::uint32_t>(std::min<std::uint64_t>(cost, charged->units));
    charged->units -= back;
    state.used -= back;
    remove_if_empty(state, *charged);
    settle(numbers, state, now);
  }
  Step step = answer(numbers, state, seen, standing_at(numbers, state, seen), 0);
  step.outcome = Outcome::allowed;
  return step;
}

std::int64_t log_expires_at_ns(const Numbers& numbers, const LogState& state) noexcept {
  if (state.first == state.entries.size()) return state.last_seen_ns;
  return state.entries.back().time_ns + numbers.period_ns;
}

}  // namespace weir::limit
