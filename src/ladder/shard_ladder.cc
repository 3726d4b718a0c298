#include "ladder/shard_ladder.h"

#include <algorithm>
#include <array>
#include <memory>

namespace weir::ladder {

using limit::Outcome;
using store::Counter;
using store::Finding;

namespace {

bool blocks(const Counter& counter) {
  return counter.numbers->limit == 0 && !counter.shadow;
}

Nanos longest_wait(std::span<const Counter> counters, std::span<const Finding> findings) {
  Nanos longest{0};
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (!counters[i].shadow && findings[i].step.outcome == Outcome::limited) {
      longest = std::max(longest, Nanos(findings[i].step.retry_after_ns));
    }
  }
  return longest;
}

}  // namespace

ShardLadder::ShardLadder(const Options& options)
    : breaker_(options.breaker, options.random_seed),
      known_(options.known_keys, options.random_seed),
      division_(
          std::make_unique<Division>(Division::none("has not read the fleet's members yet"))) {}

void ShardLadder::divide(Division division) {
  division_.publish(std::make_unique<Division>(std::move(division)));
}

ShardLadder::Begin ShardLadder::begin(const LadderRequest& request, const Moment& now,
                                      std::span<Finding> findings,
                                      LadderVerdict& verdict) noexcept {
  // A limit of 0 holds in every mode: nobody needs to be asked.
  if (std::any_of(request.counters.begin(), request.counters.end(), blocks)) {
    verdict = {.verdict = Verdict::limited,
               .rung = Rung::policy,
               .reason = Reason::blocked,
               .retry_after = {}};
    return Begin::decided;
  }
  // A key asks everywhere or nowhere while the fleet recovers, so a request asks when all its keys
  // may.
  const bool admitted = std::all_of(request.counters.begin(), request.counters.end(),
                                    [&](const Counter& c) { return breaker_.admits(c.digest.lo); });
  if (!admitted) return Begin::away;
  return deny_by_known(request, now, kKnownDenialAge, findings, verdict) ? Begin::decided
                                                                         : Begin::ask;
}

bool ShardLadder::deny_by_known(const LadderRequest& request, const Moment& now,
                                std::optional<Nanos> max_age, std::span<Finding> findings,
                                LadderVerdict& verdict) const noexcept {
  bool denied = false;
  for (std::size_t i = 0; i < request.counters.size(); ++i) {
    const Counter& counter = request.counters[i];
    findings[i] = Finding{
        .op = counter.op, .remaining_known = false, .retry_known = false, .reset_known = false};
    findings[i].step.outcome = Outcome::allowed;
    if (counter.shadow || counter.op != store::Op::take) continue;
    const std::optional<limit::Step> step = known_.denial(counter, now.store, now.mono, max_age);
    if (!step) continue;
    denied = true;
    findings[i] = Finding{.step = *step, .op = counter.op};
  }
  if (!denied) return false;
  verdict = {.verdict = Verdict::limited,
             .rung = Rung::known,
             .reason = Reason::over_limit,
             .retry_after = longest_wait(request.counters, findings),
             .numbers_known = true};
  return true;
}

LadderVerdict ShardLadder::refused(const Moment& now) const noexcept {
  return {.verdict = Verdict::refused,
          .rung = Rung::policy,
          .reason = Reason::store_unavailable,
          .retry_after = breaker_.retry_hint(now.mono)};
}

LadderVerdict ShardLadder::without(const LadderRequest& request, const Moment& now,
                                   std::span<Finding> findings) noexcept {
  LadderVerdict verdict;
  if (deny_by_known(request, now, std::nullopt, findings, verdict)) return verdict;
  switch (request.when_store_fails) {
    case FailurePolicy::closed:
      return refused(now);
    case FailurePolicy::bounded:
    case FailurePolicy::settle:
      return share(request, now, findings);
    case FailurePolicy::open:
      verdict = {.verdict = Verdict::allowed,
                 .rung = Rung::policy,
                 .reason = Reason::store_unavailable,
                 .retry_after = {},
                 .unenforced = true};
      (void)under_ceiling(request, now.store, verdict);
      return verdict;
  }
  return refused(now);
}

bool ShardLadder::under_ceiling(const LadderRequest& request, Instant now,
                                LadderVerdict& verdict) noexcept {
  if (request.ceiling == nullptr || request.ceiling_numbers == nullptr) return true;
  const limit::Step step = request.ceiling->take(*request.ceiling_numbers, now, request.cost);
  if (step.outcome == Outcome::allowed) return true;
  verdict = {.verdict = Verdict::refused,
             .rung = Rung::policy,
             .reason = Reason::over_ceiling,
             .retry_after = {}};
  if (step.outcome == Outcome::limited) verdict.retry_after = Nanos(step.retry_after_ns);
  return false;
}

std::span<const KnownTable::Share> ShardLadder::shares_of(const LadderRequest& request,
                                                          Shares& room) const noexcept {
  const auto division = division_.read();
  for (std::size_t i = 0; i < request.counters.size(); ++i) {
    const Counter& counter = request.counters[i];
    const limit::Place place{division->place(counter.digest), division->workers()};
    room[i] = {&counter, place,
               division->has_part() ? limit::part_numbers(*counter.numbers, place) : std::nullopt};
  }
  return {room.data(), request.counters.size()};
}

void ShardLadder::unspend(const LadderRequest& request, const Moment& now,
                          std::span<const Finding> findings) noexcept {
  Shares room;
  known_.unspend(shares_of(request, room), now.store, findings);
}

LadderVerdict ShardLadder::share(const LadderRequest& request, const Moment& now,
                                 std::span<Finding> findings) noexcept {
  Shares room;
  const std::span<const KnownTable::Share> mine = shares_of(request, room);
  // When the table is full of counters with spending, newcomers share one: as large as the ceiling,
  // or one part.
  static const limit::Numbers kNothing =
      limit::Numbers::make({.algorithm = Algorithm::fixed_window,
                            .limit = 0,
                            .period = {.length = std::chrono::seconds(1)}})
          .value();
  const limit::Numbers& overflow = request.ceiling_numbers != nullptr ? *request.ceiling_numbers
                                   : mine.front().part                ? *mine.front().part
                                                                      : kNothing;
  LadderVerdict verdict{.verdict = Verdict::allowed,
                        .rung = Rung::share,
                        .reason = Reason::within_limit,
                        .retry_after = {},
                        .numbers_known = true};
  switch (known_.spend(mine, now.store, overflow, findings)) {
    case KnownTable::Spent::admitted:
      if (!under_ceiling(request, now.store, verdict)) known_.unspend(mine, now.store, findings);
      return verdict;
    case KnownTable::Spent::exhausted:
      verdict.verdict = Verdict::limited;
      verdict.reason = Reason::over_share;
      verdict.retry_after = longest_wait(request.counters, findings);
      return verdict;
    case KnownTable::Spent::no_part:
      return refused(now);
    case KnownTable::Spent::crowded: {
      LadderVerdict crowded = refused(now);
      crowded.reason = Reason::keys_exhausted;
      return crowded;
    }
  }
  return refused(now);
}

}  // namespace weir::ladder
