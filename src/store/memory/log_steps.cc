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
  if (!log.at_end(standing.first)) {
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

// What is left, of a step that is carried out.
Step carried_out(const limit::Numbers& numbers, const PooledLog& log, Instant now) {
  const Seen seen = see(log, now);
  Step step;
  step.outcome = Outcome::allowed;
  step.next.time_ns = seen.at_ns;
  step.remaining = units_left(numbers, log.node().used);
  if (!log.empty())
    step.reset_after_ns = over_at(numbers.period_ns, seen, log.back()) - seen.now_ns;
  return step;
}

}  // namespace

Step peek_log(const limit::Numbers& numbers, const PooledLog& log, Instant now,
              std::uint64_t cost) noexcept {
  const Seen seen = see(log, now);
  return answer(numbers, log, seen, standing_at(numbers, log, seen), cost);
}

void settle_log(PooledLog& log, Instant now) noexcept {
  const Seen seen = see(log, now);
  if (seen.stepped_back) log.bring_back(seen.at_ns);
  log.node().last_seen_ns = seen.at_ns;
  while (!log.empty() &&
         over_at(log.node().period_ns, seen, log.entry(log.begin())) <= seen.at_ns) {
    log.pop_front();
  }
}

Step peek_settled_log(const limit::Numbers& numbers, const PooledLog& log, Instant now,
                      std::uint64_t cost) noexcept {
  return answer(numbers, log, see(log, now), {log.begin(), log.node().used}, cost);
}

Step charge_log(const limit::Numbers& numbers, PooledLog& log, Instant now, std::uint32_t units,
                std::uint32_t& spare) noexcept {
  if (units > 0) log.append(see(log, now).at_ns, units, spare);
  return carried_out(numbers, log, now);
}

Step refund_log(const limit::Numbers& numbers, PooledLog& log, Instant now, std::uint64_t units,
                Instant receipt) noexcept {
  log.take_back(limit::instant_ns(receipt), units);
  return carried_out(numbers, log, now);
}

std::int64_t log_expires_at_ns(const PooledLog& log) noexcept {
  if (log.empty()) return log.node().last_seen_ns;
  return log.back().time_ns + log.node().period_ns;
}

}  // namespace weir::store
