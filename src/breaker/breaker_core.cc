#include "breaker/breaker_core.h"

#include <algorithm>
#include <limits>

#include "base/random.h"
#include "breaker/backoff.h"
#include "breaker/points.h"
#include "breaker/tick.h"

namespace weir {
namespace {

using breaker::HalfOpen;
using breaker::Ramp;

constexpr detail::Gate gate_of(std::uint64_t word) {
  return static_cast<detail::Gate>(word & 0xff);
}
constexpr std::uint64_t generation_of(std::uint64_t word) {
  return word >> 8;
}
std::int64_t ticks(MonoTime time) {
  return time.time_since_epoch().count();
}

BreakerState state_of(detail::Gate gate) {
  switch (gate) {
    case detail::Gate::open:
    case detail::Gate::forced_open:
      return BreakerState::open;
    case detail::Gate::half_open:
      return BreakerState::half_open;
    case detail::Gate::recovering:
      return BreakerState::recovering;
    case detail::Gate::closed:
    case detail::Gate::disabled:
      break;
  }
  return BreakerState::closed;
}

}  // namespace

BreakerCore::BreakerCore(std::string name, const BreakerConfig& config, BreakerOptions options)
    : name_(std::move(name)),
      life_(random_number()),
      has_tick_(breaker::has_tick(options.clock != nullptr ? *options.clock : Clock::real())),
      events_(std::move(options.listener)),
      config_(config),
      random_(options.seed ? *options.seed : random_number()) {
  clock = options.clock != nullptr ? options.clock : &Clock::real();
  if (const auto* calls = std::get_if<LastCalls>(&config.window)) last_calls_.emplace(calls->calls);
  if (const auto* time = std::get_if<LastTime>(&config.window))
    last_time_.emplace(time->length, time->buckets);
  std::lock_guard lock(mutex_);
  take_rules_locked(config);
  since_ = mode_since_ = clock->mono();
  if (last_time_) last_time_->begin(since_);
}

void BreakerCore::take_rules_locked(const BreakerConfig& config) noexcept {
  config_ = config;
  half_open_.fit(config);
  rules_.consecutive = config.consecutive_failures.value_or(UINT32_MAX);
  rules_.failure_percent = config.failure_percent.value_or(101);
  rules_.slow_percent = config.slow_percent.value_or(101);
  rules_.minimum_calls = config.minimum_calls;
  rules_.slow_call = config.slow_call.value_or(Nanos::max()).count();
  rules_.rates = config.failure_percent.has_value() || config.slow_percent.has_value();
  timed = config.slow_call.has_value();
}

BreakerState BreakerCore::state() const noexcept {
  return state_of(gate_of(word.load(std::memory_order_acquire)));
}

BreakerConfig BreakerCore::config() const {
  std::lock_guard lock(mutex_);
  return config_;
}

// ---- may a call go?

Permit BreakerCore::permit(Permit::Kind kind, std::uint64_t seen, MonoTime now) noexcept {
  Permit permit;
  permit.gate_ = this;
  permit.word_ = seen;
  permit.started_ = now;
  permit.timed_ = true;
  permit.kind_ = kind;
  return permit;
}

// What is asked most while a dependency is away: a rejection's steps are compiled into one another.

[[gnu::always_inline]] inline bool BreakerCore::lets_through() noexcept {
  if (mode_.load(std::memory_order_relaxed) == BreakerMode::shadow) {
    would_reject_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  counters_.add(breaker::CallCounters::rejected);
  return false;
}

Admission BreakerCore::reject(RejectReason reason, Nanos retry_after) noexcept {
  if (lets_through()) [[unlikely]]
    return Admission(Permit());
  return Admission(reason, retry_after);
}

[[gnu::always_inline]] inline std::int64_t BreakerCore::open_left(MonoTime now) const noexcept {
  if (gate_of(word.load(std::memory_order_acquire)) != Gate::open || mode_is_over(now)) return 0;
  return open_until_.load(std::memory_order_acquire) - ticks(now);
}

[[gnu::always_inline]] inline Admission BreakerCore::admit(MonoTime now,
                                                           const AdmitOptions& options) noexcept {
  const std::int64_t left = open_left(now);
  if (left > 0 && !lets_through()) [[likely]]
    return Admission(RejectReason::open, Nanos(left));
  return left > 0 ? Admission(Permit()) : admit_other(now, options);
}

[[gnu::always_inline]] inline Admission BreakerCore::admit(const AdmitOptions& options) noexcept {
  if (has_tick_ && gate_of(word.load(std::memory_order_acquire)) == Gate::open) {
    const MonoTime now = breaker::tick();
    if (open_left(now) > breaker::kTickIsBehind.count()) [[likely]]
      return admit(now, options);
  }
  return admit(clock->mono(), options);
}

// A breaker's gate is its core: Breaker::make() makes no other.
Admission Breaker::admit_slow(const AdmitOptions& options) noexcept {
  return static_cast<BreakerCore*>(gate_)->admit(options);
}
Admission Breaker::admit_slow(MonoTime now, const AdmitOptions& options) noexcept {
  return static_cast<BreakerCore*>(gate_)->admit(now, options);
}

Admission BreakerCore::admit_other(MonoTime now, const AdmitOptions& options) noexcept {
  if (auto admission = admit_changing(now, options)) [[likely]]
    return *std::move(admission);
  return ask_fleet_and_wait(now, options);
}

std::optional<Admission> BreakerCore::admit_changing(MonoTime now, AdmitOptions options) noexcept {
  for (;;) {
    if (mode_is_over(now)) [[unlikely]]
      end_mode(now);
    const std::uint64_t seen = word.load(std::memory_order_acquire);
    std::optional<Admission> answer;
    switch (gate_of(seen)) {
      case Gate::closed:
        return Admission(permit(Permit::Kind::closed, seen, now));
      case Gate::disabled:
        return Admission(Permit());
      case Gate::forced_open:
        return forced_open(now);
      case Gate::open: {
        const std::int64_t left = open_until_.load(std::memory_order_acquire) - ticks(now);
        if (left > 0) return reject(RejectReason::open, Nanos(left));
        breaker::at(breaker::Point::wait_seen_over);
        begin_probing(seen, now);
        break;
      }
      case Gate::half_open:
        answer = admit_half_open(seen, now);
        if (!answer && fleet_half_.load(std::memory_order_acquire) &&
            word.load(std::memory_order_acquire) == seen) {
          events_.deliver();
          return std::nullopt;
        }
        break;
      case Gate::recovering:
        answer = admit_recovering(seen, now, options);
        break;
    }
    events_.deliver();
    if (answer) return *std::move(answer);
  }
}

Admission BreakerCore::forced_open(MonoTime now) noexcept {
  if (lets_through()) return Admission(Permit());
  Rejected rejected{.reason = RejectReason::forced_open};
  if (const auto ends = mode_end()) rejected.retry_after = std::max(*ends - now, Nanos::zero());
  return Admission(rejected);
}

void BreakerCore::begin_probing(std::uint64_t seen, MonoTime now) noexcept {
  std::lock_guard lock(mutex_);
  if (word.load(std::memory_order_relaxed) == seen) enter_round_locked(now);
}

std::optional<Admission> BreakerCore::admit_half_open(std::uint64_t seen, MonoTime now) noexcept {
  const std::int64_t left = blocked_until_.load(std::memory_order_acquire) - ticks(now);
  if (left > 0) return reject(RejectReason::probing, Nanos(left));
  breaker::at(breaker::Point::slot_seen_free);
  std::lock_guard lock(mutex_);
  if (word.load(std::memory_order_relaxed) != seen) return std::nullopt;
  if (fleet_half_.load(std::memory_order_relaxed)) {
    if (!fleet_governs_locked(now)) half_open_locked(now);
    return std::nullopt;
  }
  if (advance_half_open_locked(now)) return std::nullopt;
  const auto slot = half_open_.take(config_, now);
  block_probes_locked();
  if (!slot) {
    const std::int64_t wait = blocked_until_.load(std::memory_order_relaxed) - ticks(now);
    return reject(RejectReason::probing, Nanos(std::max<std::int64_t>(wait, 0)));
  }
  Permit probe = permit(Permit::Kind::probe, seen, now);
  probe.slot_ = slot->index;
  probe.probe_ = slot->probe;
  return Admission(std::move(probe));
}

std::optional<Admission> BreakerCore::admit_recovering(std::uint64_t seen, MonoTime now,
                                                       AdmitOptions options) noexcept {
  const std::int64_t left = step_end_.load(std::memory_order_acquire) - ticks(now);
  if (left <= 0) {
    std::lock_guard lock(mutex_);
    if (word.load(std::memory_order_relaxed) != seen ||
        apply_ramp_locked(ramp_.poll(config_, now), now))
      return std::nullopt;
  }
  // Without a hash of their own, calls are spread evenly: multiples of the golden ratio.
  const std::uint32_t place =
      options.spread ? static_cast<std::uint32_t>(*options.spread & 0xffff)
                     : (turn_.fetch_add(1, std::memory_order_relaxed) * 0x9e3779b9U) >> 16;
  if (place < share_.load(std::memory_order_acquire))
    return Admission(permit(Permit::Kind::ramp, seen, now));
  return reject(RejectReason::recovering, Nanos(std::max<std::int64_t>(left, 0)));
}

// ---- how a call ended
//
// Every call passes here, so the closed path's steps are compiled into one another: calls of calls
// cost it a fifth.

[[gnu::always_inline]] inline BreakerCore::Vote BreakerCore::vote_of(const Permit& permit,
                                                                     Outcome outcome,
                                                                     MonoTime now) const noexcept {
  Vote vote{.failed = outcome == Outcome::failure || outcome == Outcome::expired,
            .slow = outcome == Outcome::slow};
  const std::int64_t slow_call = rules_.slow_call.load(std::memory_order_relaxed);
  if (permit.timed_ && slow_call != INT64_MAX)
    vote.slow |= (now - permit.started_).count() > slow_call;
  return vote;
}

void BreakerCore::report(const Permit& permit, const CallVerdict& verdict) noexcept {
  // On the closed path nobody asks for the time unless something is measured by it.
  const bool needs_time = permit.kind_ != Permit::Kind::closed || verdict.open ||
                          timed.load(std::memory_order_relaxed) ||
                          (last_time_ && rules_.rates.load(std::memory_order_relaxed));
  if (needs_time)
    report(permit, verdict, clock->mono());
  else
    tell(permit, verdict, MonoTime{}, false);
}

void BreakerCore::report(const Permit& permit, const CallVerdict& verdict, MonoTime now) noexcept {
  tell(permit, verdict, now, true);
}

[[gnu::always_inline]] inline void BreakerCore::tell(const Permit& permit,
                                                     const CallVerdict& verdict, MonoTime now,
                                                     bool timely) noexcept {
  using Counters = breaker::CallCounters;
  const bool fleet = permit.kind_ == Permit::Kind::fleet;
  Counters::Kind kind = Counters::ok;
  bool counted = true;
  switch (verdict.outcome) {
    case Outcome::ok:
    case Outcome::failure:
    case Outcome::slow:
    case Outcome::expired: {
      const Vote vote = vote_of(permit, verdict.outcome, now);
      kind = vote.failed ? Counters::failed : vote.slow ? Counters::slow : Counters::ok;
      if (permit.kind_ == Permit::Kind::closed) [[likely]] {
        counted = report_closed(permit, vote, verdict, now, timely);
      } else if (permit.kind_ == Permit::Kind::ramp) {
        counted = report_ramp(permit, vote, verdict, now);
      } else {
        const bool slow_fails = rules_.slow_percent.load(std::memory_order_relaxed) <= 100;
        const bool failed = vote.failed || (vote.slow && slow_fails);
        const auto says = failed ? HalfOpen::Vote::failure : HalfOpen::Vote::success;
        if (fleet) return settle_fleet(permit, says, verdict, kind, now);
        counted = settle_probe(permit, says, verdict, now);
      }
      break;
    }
    case Outcome::ignored:
    case Outcome::cancelled:
    case Outcome::local_reject:
      kind = verdict.outcome == Outcome::ignored     ? Counters::ignored
             : verdict.outcome == Outcome::cancelled ? Counters::cancelled
                                                     : Counters::local_reject;
      if (fleet) return settle_fleet(permit, HalfOpen::Vote::none, verdict, kind, now);
      if (permit.is_probe())
        counted = settle_probe(permit, HalfOpen::Vote::none, verdict, now);
      else if (verdict.open)
        counted = direct(permit.word_, verdict, now);
      break;
  }
  counters_.add(counted ? kind : Counters::late);
}

[[gnu::always_inline]] inline BreakerCore::Judged BreakerCore::count_closed(
    std::uint64_t seen, Vote vote, MonoTime now, Opening& opening) noexcept {
  const std::uint64_t generation = generation_of(seen);
  std::uint32_t run = 0;
  if (!run_.record(generation, vote.failed, run)) return Judged::late;
  Judged judged = Judged::stays;
  if (run >= rules_.consecutive.load(std::memory_order_relaxed)) {
    judged = Judged::opens;
    opening.cause = BreakerCause::consecutive_failures;
  }
  if (!rules_.rates.load(std::memory_order_relaxed)) return judged;

  Tally& tally = opening.tally;
  if (!(last_calls_ ? last_calls_->record(generation, vote, tally)
                    : last_time_->record(word, seen, vote, now, tally)))
    return Judged::late;
  if (judged == Judged::opens || tally.calls < rules_.minimum_calls.load(std::memory_order_relaxed))
    return judged;
  if (breaker::reaches(tally.failures, tally.calls,
                       rules_.failure_percent.load(std::memory_order_relaxed)))
    opening.cause = BreakerCause::failure_rate;
  else if (breaker::reaches(tally.slow, tally.calls,
                            rules_.slow_percent.load(std::memory_order_relaxed)))
    opening.cause = BreakerCause::slow_rate;
  else
    return Judged::stays;
  return Judged::opens;
}

[[gnu::always_inline]] inline bool BreakerCore::report_closed(const Permit& permit, Vote vote,
                                                              const CallVerdict& verdict,
                                                              MonoTime now, bool timely) noexcept {
  if (word.load(std::memory_order_acquire) != permit.word_) return false;
  breaker::at(breaker::Point::word_checked);
  Opening opening;
  const Judged judged = count_closed(permit.word_, vote, now, opening);
  if (judged == Judged::late) return false;
  if (judged == Judged::stays && !verdict.open) [[likely]]
    return true;
  if (mode_.load(std::memory_order_relaxed) == BreakerMode::forced_closed) {
    const MonoTime at = timely ? now : clock->mono();
    if (mode_is_over(at)) end_mode(at);
    return true;
  }
  {
    std::lock_guard lock(mutex_);
    if (word.load(std::memory_order_relaxed) != permit.word_ || !opens_locked()) return true;
    if (verdict.open) opening.cause = BreakerCause::directive;
    opening.wanted = verdict.retry_after;
    open_locked(timely ? now : clock->mono(), opening);
  }
  events_.deliver();
  return true;
}

bool BreakerCore::settle_probe(const Permit& permit, HalfOpen::Vote vote,
                               const CallVerdict& verdict, MonoTime now) noexcept {
  bool counted = false;
  {
    std::lock_guard lock(mutex_);
    if (word.load(std::memory_order_relaxed) != permit.word_) return false;
    // An overdue probe has lost its slot even where nobody has asked since.
    (void)advance_half_open_locked(now);
    if (word.load(std::memory_order_relaxed) == permit.word_) {
      counted = half_open_.settle({.index = permit.slot_, .probe = permit.probe_}, vote);
      block_probes_locked();
      if (counted && verdict.open)
        open_locked(now, {.cause = BreakerCause::directive, .wanted = verdict.retry_after});
      else if (counted && half_open_.decide(config_) == HalfOpen::Decision::failed)
        open_locked(now, {.cause = BreakerCause::probes_failed,
                          .tally = tally_locked(now),
                          .wanted = verdict.retry_after});
      else
        (void)decide_half_open_locked(now);
    }
  }
  events_.deliver();
  return counted;
}

void BreakerCore::release(const Permit& permit) noexcept {
  const MonoTime now = clock->mono();
  if (permit.kind_ == Permit::Kind::fleet)
    settle_fleet(permit, HalfOpen::Vote::none, Outcome::cancelled, {}, now);
  else
    (void)settle_probe(permit, HalfOpen::Vote::none, Outcome::cancelled, now);
}

bool BreakerCore::report_ramp(const Permit& permit, Vote vote, const CallVerdict& verdict,
                              MonoTime now) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (word.load(std::memory_order_relaxed) != permit.word_) return false;
    if (verdict.open) {
      open_locked(now, {.cause = BreakerCause::directive, .wanted = verdict.retry_after});
    } else {
      const Tally before = ramp_.tally();
      const Ramp::Change change = ramp_.record(config_, vote, now);
      if (change == Ramp::Change::failed)
        open_locked(now, {.cause = BreakerCause::ramp_failed,
                          .tally = {.calls = before.calls + 1,
                                    .failures = before.failures + (vote.failed ? 1U : 0U),
                                    .slow = before.slow + (vote.slow ? 1U : 0U)},
                          .wanted = verdict.retry_after});
      else
        (void)apply_ramp_locked(change, now);
    }
  }
  events_.deliver();
  return true;
}

bool BreakerCore::direct(std::uint64_t seen, const CallVerdict& verdict, MonoTime now) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (word.load(std::memory_order_relaxed) != seen) return false;
    if (opens_locked())
      open_locked(now, {.cause = BreakerCause::directive, .wanted = verdict.retry_after});
  }
  events_.deliver();
  return true;
}

}  // namespace weir
