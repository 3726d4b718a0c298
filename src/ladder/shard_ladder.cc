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
  return counter.op == store::Op::take && counter.numbers->limit == 0 && !counter.shadow;
}

// What costs more than the whole limit nobody can let through, whatever is used of it.
std::optional<limit::Step> never_at_all(const Counter& counter) {
  if (counter.cost <= counter.numbers->burst) return std::nullopt;
  limit::Step step;
  step.outcome = Outcome::never_fits;
  return step;
}

bool drains(std::span<const Counter> counters) {
  return !counters.empty() && counters.front().op == store::Op::drain;
}

bool never_fits(std::span<const Counter> counters, std::span<const Finding> findings) {
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (!counters[i].shadow && findings[i].step.outcome == Outcome::never_fits) return true;
  }
  return false;
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
      overspend_(options.overspend
                     ? options.overspend
                     : std::make_shared<OverspendTable>(options.known_keys, options.random_seed)),
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
  const auto limits = request.counters.first(request.counters.size() - request.marks);
  const bool admitted = std::all_of(limits.begin(), limits.end(),
                                    [&](const Counter& c) { return breaker_.admits(c.digest.lo); });
  if (!admitted) return Begin::away;
  // What is over its limit now may have been admitted before, which the marks say.
  if (request.marks > 0) return Begin::ask;
  // Who else counts there adds what it denies, too, and so does this one.
  if (std::any_of(request.counters.begin(), request.counters.end(),
                  [](const Counter& c) { return c.kept != store::Kept::weir; })) {
    return Begin::ask;
  }
  return deny_by_known(request, now, kKnownDenialAge, findings, verdict) ? Begin::decided
                                                                         : Begin::ask;
}

// By what is known of the counters; where nobody else is to be asked (no `max_age`), also by what
// needs no knowing.
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
    if (const auto step = known_.denial(counter, now.store, now.mono, max_age)) {
      denied = true;
      findings[i] = Finding{.step = *step, .op = counter.op};
      continue;
    }
    // What is reported late was used, whatever the limit: it uses up the part.
    if (max_age || (request.late >> i & 1) != 0) continue;
    if (const auto never = never_at_all(counter)) {
      denied = true;
      findings[i].step = *never;
    }
  }
  if (!denied) return false;
  verdict = {.verdict = Verdict::limited,
             .rung = Rung::known,
             .reason = Reason::over_limit,
             .retry_after = longest_wait(request.counters, findings),
             .numbers_known = true};
  // Where one rule can never let the request through, waiting for the others is useless too.
  if (never_fits(request.counters, findings)) {
    verdict.reason = Reason::cost_exceeds_burst;
    verdict.retry_after.reset();
  }
  return true;
}

// Who waits until the whole limit has room again is decided by this worker's part then, where the
// policy is to serve parts. Metered rules may be served beyond theirs.
void ShardLadder::wait_for_part(const LadderRequest& request, const Moment& now,
                                std::span<Finding> findings,
                                LadderVerdict& verdict) const noexcept {
  const bool parts = request.when_store_fails == FailurePolicy::bounded ||
                     request.when_store_fails == FailurePolicy::settle;
  if (!parts || !verdict.retry_after) return;
  const auto division = division_.read();
  Shares mine;
  shares_of(request, *division, 0, mine);
  for (std::size_t i = 0; i < request.counters.size(); ++i) {
    const Counter& counter = request.counters[i];
    if (counter.shadow || counter.op != store::Op::take) continue;
    if (request.overspend != nullptr && (request.metered >> i & 1) != 0) continue;
    const std::optional<Nanos> wait = known_.part_wait(mine.view()[i], now.store);
    if (!wait || wait->count() == 0) continue;
    limit::Step& step = findings[i].step;
    if (step.outcome == Outcome::limited && step.retry_after_ns >= wait->count()) continue;
    step.outcome = Outcome::limited;
    step.retry_after_ns = wait->count();
    findings[i].retry_known = true;
  }
  verdict.retry_after = longest_wait(request.counters, findings);
}

LadderVerdict ShardLadder::refused(const Moment& now) const noexcept {
  return {.verdict = Verdict::refused,
          .rung = Rung::policy,
          .reason = Reason::store_unavailable,
          .retry_after = breaker_.retry_hint(now.mono)};
}

LadderVerdict ShardLadder::without(const LadderRequest& request, const Moment& now,
                                   std::span<Finding> findings) noexcept {
  if (request.marks == 0) return without_marks(request, now, findings);
  const LadderRequest limits = request.limits();
  for (std::size_t i = limits.counters.size(); i < findings.size(); ++i) {
    findings[i] = Finding{};
    findings[i].step.outcome = Outcome::allowed;
  }
  return without_marks(limits, now, findings.first(limits.counters.size()));
}

LadderVerdict ShardLadder::without_marks(const LadderRequest& request, const Moment& now,
                                         std::span<Finding> findings) noexcept {
  LadderVerdict verdict;
  if (deny_by_known(request, now, std::nullopt, findings, verdict)) {
    wait_for_part(request, now, findings, verdict);
    return verdict;
  }
  switch (request.when_store_fails) {
    case FailurePolicy::closed:
      if (!request.denied_by_none()) return refused(now);
      [[fallthrough]];
    case FailurePolicy::open:
      verdict = {.verdict = Verdict::allowed,
                 .rung = Rung::policy,
                 .reason = Reason::store_unavailable,
                 .retry_after = {},
                 .unenforced = true};
      (void)under_ceiling(request, now.store, verdict);
      return verdict;
    case FailurePolicy::bounded:
    case FailurePolicy::settle:
      return drains(request.counters) ? use_up(request, now, findings)
                                      : share(request, now, findings);
  }
  return refused(now);
}

bool ShardLadder::under_ceiling(const LadderRequest& request, Instant now,
                                LadderVerdict& verdict) noexcept {
  if (request.ceiling == nullptr || request.ceiling_numbers == nullptr) return true;
  if (request.denied_by_none()) return true;
  const limit::Step step = request.ceiling->take(*request.ceiling_numbers, now, request.cost);
  if (step.outcome == Outcome::allowed) return true;
  verdict = {.verdict = Verdict::refused,
             .rung = Rung::policy,
             .reason = Reason::over_ceiling,
             .retry_after = {}};
  if (step.outcome == Outcome::limited) verdict.retry_after = Nanos(step.retry_after_ns);
  return false;
}

void ShardLadder::shares_of(const LadderRequest& request, const Division& division,
                            std::uint64_t without, Shares& out) const noexcept {
  for (std::size_t i = 0; i < request.counters.size(); ++i) {
    if ((without >> i & 1) != 0) continue;
    const Counter& counter = request.counters[i];
    const limit::Place place{division.place(counter.digest), division.workers()};
    out.all[out.count++] = {
        &counter, place,
        division.has_part() ? limit::part_numbers(*counter.numbers, place) : std::nullopt};
  }
}

void ShardLadder::unspend(const LadderRequest& asked, const Moment& now,
                          std::span<const Finding> findings, std::uint64_t charged_late) noexcept {
  const LadderRequest request = asked.limits();
  findings = findings.first(request.counters.size());
  const auto division = division_.read();
  Shares mine;
  shares_of(request, *division, 0, mine);
  known_.unspend(mine.view(), now.store, findings, charged_late);
}

LadderVerdict ShardLadder::use_up(const LadderRequest& request, const Moment& now,
                                  std::span<Finding> findings) noexcept {
  const auto division = division_.read();
  Shares mine;
  shares_of(request, *division, 0, mine);
  known_.use_up(mine.view(), now.store, findings);
  return {.verdict = Verdict::allowed,
          .rung = Rung::share,
          .reason = Reason::within_limit,
          .retry_after = {},
          .numbers_known = true};
}

namespace {

// Whether the parts that cannot hold their cost are there, and are those of late reports alone:
// these are over the limit, as they would be where the whole of it cannot hold them.
bool only_late(const LadderRequest& request, std::span<const KnownTable::Share> shares,
               std::span<const Finding> findings) {
  bool any = false;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i].counter->shadow || findings[i].step.outcome != Outcome::never_fits) continue;
    if (!shares[i].part || (request.late >> i & 1) == 0) return false;
    any = true;
  }
  return any;
}

}  // namespace

LadderVerdict ShardLadder::share(const LadderRequest& request, const Moment& now,
                                 std::span<Finding> findings) noexcept {
  const auto division = division_.read();
  Shares mine;
  shares_of(request, *division, 0, mine);
  LadderVerdict verdict{.verdict = Verdict::allowed,
                        .rung = Rung::share,
                        .reason = Reason::within_limit,
                        .retry_after = {},
                        .numbers_known = true,
                        .record = request.metered != 0 && request.cost > 0};
  KnownTable::Spent spent = known_.spend(mine.view(), now.store, findings);
  const bool never = spent == KnownTable::Spent::no_part;
  if (never && only_late(request, mine.view(), findings)) spent = KnownTable::Spent::exhausted;
  if (spent != KnownTable::Spent::admitted && request.overspend != nullptr &&
      serve_beyond(request, *division, now, findings, verdict)) {
    return verdict;
  }
  switch (spent) {
    case KnownTable::Spent::admitted:
      if (!under_ceiling(request, now.store, verdict))
        known_.unspend(mine.view(), now.store, findings, 0);
      return verdict;
    case KnownTable::Spent::exhausted:
      verdict.verdict = Verdict::limited;
      verdict.reason = Reason::over_share;
      if (!never) verdict.retry_after = longest_wait(request.counters, findings);
      verdict.record = false;
      return verdict;
    case KnownTable::Spent::no_part: {
      LadderVerdict without_part = refused(now);
      without_part.reason = Reason::over_share;
      return without_part;
    }
    case KnownTable::Spent::crowded: {
      LadderVerdict crowded = refused(now);
      crowded.reason = Reason::keys_exhausted;
      return crowded;
    }
  }
  return refused(now);
}

// Metered rules whose part does not hold the cost serve it all the same, as far as was decided
// beforehand; every other rule must have room in its part.
bool ShardLadder::serve_beyond(const LadderRequest& request, const Division& division,
                               const Moment& now, std::span<Finding> findings,
                               LadderVerdict& verdict) noexcept {
  std::uint64_t beyond = 0;
  for (std::size_t i = 0; i < request.counters.size(); ++i) {
    if (!request.counters[i].shadow && findings[i].step.outcome != Outcome::allowed)
      beyond |= std::uint64_t{1} << i;
  }
  if (beyond == 0 || (beyond & ~request.metered) != 0 || request.cost == 0) return false;
  Shares within;
  shares_of(request, division, beyond, within);
  std::array<Finding, store::kMaxCounters> found;
  const std::span<Finding> of_within(found.data(), within.count);
  if (within.count > 0 &&
      known_.spend(within.view(), now.store, of_within) != KnownTable::Spent::admitted) {
    return false;
  }
  const bool fits = take_overspend(request, division, beyond, now.store);
  LadderVerdict served{.verdict = Verdict::allowed,
                       .rung = Rung::journal,
                       .reason = Reason::over_share,
                       .retry_after = {},
                       .numbers_known = true,
                       .record = true,
                       .overspent = beyond};
  if (!fits || !under_ceiling(request, now.store, served)) {
    if (within.count > 0) known_.unspend(within.view(), now.store, of_within, 0);
    if (!fits) return false;
    give_back_overspend(request, division, beyond, now.store);
  } else {
    for (std::size_t i = 0, at = 0; i < request.counters.size(); ++i) {
      if ((beyond >> i & 1) == 0) findings[i] = found[at++];
    }
  }
  verdict = served;
  return true;
}

bool ShardLadder::take_overspend(const LadderRequest& request, const Division& division,
                                 std::uint64_t which, Instant now) noexcept {
  if (request.overspend->mode != policy::OverspendMode::cap) return true;
  if (!division.has_part()) return false;
  for (std::size_t i = 0; i < request.counters.size(); ++i) {
    if ((which >> i & 1) == 0) continue;
    const Counter& counter = request.counters[i];
    const limit::Place place{division.place(counter.digest), division.workers()};
    if (overspend_->take(counter, request.overspend->cap, place, now)) continue;
    give_back_overspend(request, division, which & ((std::uint64_t{1} << i) - 1), now);
    return false;
  }
  return true;
}

void ShardLadder::give_back_overspend(const LadderRequest& request, const Division& division,
                                      std::uint64_t which, Instant now) noexcept {
  if (request.overspend->mode != policy::OverspendMode::cap) return;
  for (std::size_t i = 0; i < request.counters.size(); ++i) {
    if ((which >> i & 1) == 0) continue;
    const Counter& counter = request.counters[i];
    const limit::Place place{division.place(counter.digest), division.workers()};
    overspend_->give_back(counter, request.overspend->cap, place, now);
  }
}

LadderVerdict ShardLadder::not_recorded(const LadderRequest& asked, const Moment& now,
                                        std::span<Finding> findings,
                                        const LadderVerdict& served) noexcept {
  const LadderRequest request = asked.limits();
  findings = findings.first(request.counters.size());
  const auto division = division_.read();
  Shares within;
  shares_of(request, *division, served.overspent, within);
  std::array<Finding, store::kMaxCounters> found;
  std::uint64_t charged_late = 0;
  for (std::size_t i = 0, at = 0; i < request.counters.size(); ++i) {
    if ((served.overspent >> i & 1) != 0) continue;
    charged_late |= (served.charged_late >> i & 1) << at;
    found[at++] = findings[i];
  }
  if (within.count > 0)
    known_.unspend(within.view(), now.store, {found.data(), within.count}, charged_late);
  LadderVerdict verdict = refused(now);
  verdict.rung = Rung::journal;
  if (served.overspent == 0) return verdict;
  give_back_overspend(request, *division, served.overspent, now.store);
  // Without a journal this is what the part alone has to say.
  return {.verdict = Verdict::limited,
          .rung = Rung::share,
          .reason = Reason::over_share,
          .retry_after = longest_wait(request.counters, findings)};
}

}  // namespace weir::ladder
