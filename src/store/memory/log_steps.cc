#include "store/memory/log_steps.h"

#include <algorithm>

#include "limit/reach.h"

namespace weir::store {
namespace {

using limit::Outcome;
using limit::Step;

// The log as `now` sees it: the instant that counts, and whether the clock was set back, so that
// charges after that instant count as charged at it.
struct Seen {
  std::int64_t now_ns;
  std::int64_t at_ns;
  bool stepped_back;
};

Seen see(const PooledLog& log, Instant now) {
  const std::int64_t now_ns = limit::instant_ns(now);
  const std::int64_t last_ns = log.node().last_seen_ns;
  if (last_ns <= now_ns) return {now_ns, now_ns, false};
  const bool stepped_back = last_ns - now_ns > limit::kBackstepNs;
  return {now_ns, stepped_back ? now_ns : last_ns, stepped_back};
}

// What stands of a log: its oldest entry that is not over, and the units from there on.
struct Standing {
  PooledLog::Cursor first;
  std::uint64_t used;
};

std::int64_t over_at(std::int64_t period_ns, const Seen& seen, const limit::LogEntry& entry) {
  return std::min(entry.time_ns, seen.at_ns) + period_ns;
}

Standing standing_at(const limit::Numbers& numbers, const PooledLog& log, const Seen& seen) {
  Standing standing{log.begin(), log.node().used};
  while (!log.at_end(standing.first)) {
    const limit::LogEntry oldest = log.entry(standing.first);
    if (over_at(numbers.period_ns, seen, oldest) > seen.at_ns) break;
    standing.used -= oldest.units;
    standing.first = log.next(standing.first);
  }
  return standing;
}

std::uint32_t units_left(const limit::Numbers& numbers, std::uint64_t used) {
  return used >= numbers.limit ? 0 : static_cast<std::uint32_t>(numbers.limit - used);
}

// Until so many of the oldest units are over that `ask` fits. Requires: ask <= limit.
std::int64_t retry_after(const limit::Numbers& numbers, const PooledLog& log, const Seen& seen,
                         const Standing& standing, std::uint64_t ask) {
  std::uint64_t used = standing.used;
  PooledLog::Cursor cursor = standing.first;
  std::int64_t over_ns = seen.now_ns;
  while (used + ask > numbers.limit) {
    const limit::LogEntry oldest = log.entry(cursor);
    used -= oldest.units;
    over_ns = over_at(numbers.period_ns, seen, oldest);
    cursor = log.next(cursor);
  }
  return over_ns - seen.now_ns;
}

Step answer(const limit::Numbers& numbers, const PooledLog& log, const Seen& seen,
            const Standing& standing, std::uint64_t cost) {
  const std::uint64_t ask = std::max<std::uint64_t>(cost, 1);
  Step step;
  step.next.time_ns = seen.at_ns;
  step.remaining = units_left(numbers, standing.used);
  if (numbers.limit > 0 && !log.at_end(standing.first)) {
    step.reset_after_ns = over_at(numbers.period_ns, seen, log.back()) - seen.now_ns;
  }
  if (ask > numbers.limit) {
    step.outcome = Outcome::never_fits;
  } else if (ask > step.remaining) {
    step.outcome = Outcome::limited;
    step.retry_after_ns = retry_after(numbers, log, seen, standing, ask);
  } else {
    step.outcome = Outcome::allowed;
    if (cost > 0) {
      step.remaining -= static_cast<std::uint32_t>(cost);
      step.reset_after_ns = seen.at_ns + numbers.period_ns - seen.now_ns;
    }
  }
  return step;
}

}  // namespace

Step peek_log(const limit::Numbers& numbers, const PooledLog& log, Instant now,
              std::uint64_t cost) noexcept {
  const Seen seen = see(log, now);
  return answer(numbers, log, seen, standing_at(numbers, log, seen), cost);
}

bool clock_was_set_back(const PooledLog& log, Instant now) noexcept {
  return see(log, now).stepped_back;
}

void settle_log(PooledLog& log, Instant now) noexcept {
  const Seen seen = see(log, now);
  if (seen.stepped_back) log.bring_back(seen.at_ns);
  log.node().last_seen_ns = seen.at_ns;
  const std::int64_t period_ns = log.node().period_ns;
  while (!log.empty() && over_at(period_ns, seen, log.entry(log.begin())) <= seen.at_ns) {
    log.pop_front();
  }
}

void charge_log(PooledLog& log, Instant now, std::uint32_t units, std::uint32_t& spare) noexcept {
  settle_log(log, now);
  log.append(log.node().last_seen_ns, units, spare);
}

std::uint32_t refundable(const limit::Numbers& numbers, const PooledLog& log, Instant now,
                         Instant receipt) noexcept {
  const Seen seen = see(log, now);
  const std::int64_t charged_ns = limit::instant_ns(receipt);
  // Once the clock was set back, the instants of earlier charges are no longer known.
  if (seen.stepped_back || charged_ns + numbers.period_ns <= seen.at_ns) return 0;
  return log.units_at(charged_ns);
}

void refund_log(PooledLog& log, Instant now, std::uint64_t units, Instant receipt) noexcept {
  log.take_back(limit::instant_ns(receipt), units);
  settle_log(log, now);
}

std::int64_t log_expires_at_ns(const PooledLog& log) noexcept {
  if (log.empty()) return log.node().last_seen_ns;
  return log.back().time_ns + log.node().period_ns;
}

}  // namespace weir::store
