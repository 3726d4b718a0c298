#include <algorithm>

#include "breaker/backoff.h"
#include "breaker/breaker_core.h"
#include "breaker/points.h"

// How a breaker goes from one state to the next.

namespace weir {
namespace {

using breaker::HalfOpen;
using breaker::Ramp;

constexpr detail::Gate gate_of(std::uint64_t word) {
  return static_cast<detail::Gate>(word & 0xff);
}

std::int64_t ticks(MonoTime time) {
  return time.time_since_epoch().count();
}

}  // namespace

bool BreakerCore::opens_locked() const noexcept {
  const BreakerMode mode = mode_.load(std::memory_order_relaxed);
  return mode == BreakerMode::automatic || mode == BreakerMode::shadow;
}

void BreakerCore::change_locked(Gate gate, MonoTime now, BreakerEvent event) {
  const std::uint64_t before = word.load(std::memory_order_relaxed);
  event.breaker = name_;
  event.from = state();
  event.mode = mode_.load(std::memory_order_relaxed);
  event.at = now;
  since_ = now;
  word.store(((before >> 8) + 1) << 8 | static_cast<std::uint64_t>(gate),
             std::memory_order_release);
  event.to = state();
  events_.push(std::move(event));
}

Nanos BreakerCore::draw_wait_locked(MonoTime now, std::optional<Nanos> wanted) noexcept {
  if (state() == BreakerState::closed && now - since_ >= config_.forget_after) openings_ = 0;
  const Nanos base = breaker::doubled(config_.open_wait, openings_, config_.max_open_wait);
  if (openings_ < UINT32_MAX) ++openings_;
  Nanos wait = breaker::jittered(base, config_.jitter_percent, random_);
  if (wanted && *wanted > Nanos::zero()) {
    // Never sooner than asked, and not everybody at that very instant.
    const Nanos asked = std::min(*wanted, config_.max_retry_after);
    const Nanos spread = asked / 200 * config_.jitter_percent;
    wait = std::max(wait, breaker::jittered(asked, config_.jitter_percent / 2, random_) + spread);
    wait = std::max(wait, asked);
  }
  return wait;
}

void BreakerCore::open_locked(MonoTime now, const Opening& opening) {
  std::optional<bool> enough;
  if (carrier_ != nullptr) enough = enough_locked(now);
  // Without a rate any call gives a say, and the one that opens it is not counted yet.
  if (enough && !rules_.rates.load(std::memory_order_relaxed)) enough = true;
  const Nanos wait = draw_wait_locked(now, opening.wanted);
  open_until_.store(ticks(now + wait), std::memory_order_release);
  breaker::at(breaker::Point::deadline_written);
  ++opened_;
  change_locked(Gate::open, now,
                {.cause = opening.cause,
                 .calls = opening.tally.calls,
                 .failures = opening.tally.failures,
                 .slow = opening.tally.slow,
                 .open_for = wait});
  fleet_half_.store(false, std::memory_order_release);
  adopted_epoch_ = 0;
  if (carrier_ == nullptr) return;
  const bool directive =
      opening.cause == BreakerCause::directive || opening.cause == BreakerCause::operator_set;
  fleet_->opened({.directive = directive,
                  .fenced = opening.by_probe,
                  .wanted = opening.wanted,
                  .enough = enough},
                 config_, now);
  carrier_->poke();
}

void BreakerCore::half_open_locked(MonoTime now) {
  fleet_half_.store(false, std::memory_order_release);
  half_open_.begin(now);
  block_probes_locked();
  change_locked(Gate::half_open, now, {.cause = BreakerCause::wait_over});
}

void BreakerCore::block_probes_locked() noexcept {
  const bool room =
      half_open_.in_flight() < config_.probes_in_flight &&
      half_open_.in_flight() + half_open_.successes() + half_open_.failures() < config_.probes;
  std::int64_t until = 0;
  if (!room) {
    const MonoTime end = half_open_.since() + config_.max_half_open;
    until = ticks(std::min(half_open_.next_deadline().value_or(end), end));
  }
  blocked_until_.store(until, std::memory_order_release);
}

bool BreakerCore::advance_half_open_locked(MonoTime now) {
  const std::uint32_t expired = half_open_.expire(config_, now);
  expired_probes_ += expired;
  if (expired > 0) block_probes_locked();
  if (decide_half_open_locked(now)) return true;
  if (now < half_open_.since() + config_.max_half_open) return false;
  open_locked(now, {.cause = BreakerCause::no_verdict, .tally = tally_locked(now)});
  return true;
}

bool BreakerCore::decide_half_open_locked(MonoTime now) {
  switch (half_open_.decide(config_)) {
    case HalfOpen::Decision::none:
      return false;
    case HalfOpen::Decision::passed:
      pass_probes_locked(now);
      return true;
    case HalfOpen::Decision::failed:
      open_locked(now, {.cause = BreakerCause::probes_failed, .tally = tally_locked(now)});
      return true;
  }
  return false;
}

void BreakerCore::pass_probes_locked(MonoTime now, BreakerCause cause) {
  if (!config_.ramp) return close_locked(now, cause);
  fleet_half_.store(false, std::memory_order_release);
  adopted_epoch_ = 0;
  if (fleet_) fleet_->recovered(config_, now);
  ramp_.begin(*config_.ramp, now);
  publish_ramp_locked();
  change_locked(Gate::recovering, now, {.cause = cause});
}

void BreakerCore::close_locked(MonoTime now, BreakerCause cause,
                               std::shared_ptr<const ModeOrder> order) {
  std::uint64_t generation = word.load(std::memory_order_relaxed) >> 8;
  if (gate_of(word.load(std::memory_order_relaxed)) == Gate::closed) {
    // A window's records trust the word to have left their generation before it begins anew.
    word.store(++generation << 8 | static_cast<std::uint64_t>(Gate::disabled),
               std::memory_order_release);
    breaker::at(breaker::Point::generation_left);
  }
  fleet_half_.store(false, std::memory_order_release);
  adopted_epoch_ = 0;
  if (fleet_) fleet_->recovered(config_, now);
  run_.begin(generation + 1);
  if (last_calls_) last_calls_->begin(generation + 1);
  if (last_time_) last_time_->begin(now);
  change_locked(Gate::closed, now, {.cause = cause, .order = std::move(order)});
}

void BreakerCore::publish_ramp_locked() noexcept {
  share_.store(ramp_.share(), std::memory_order_release);
  step_end_.store(ticks(ramp_.step_end()), std::memory_order_release);
}

bool BreakerCore::apply_ramp_locked(Ramp::Change change, MonoTime now) {
  switch (change) {
    case Ramp::Change::none:
      return false;
    case Ramp::Change::stepped:
    case Ramp::Change::fell_back:
      publish_ramp_locked();
      return false;
    case Ramp::Change::failed:
      open_locked(now, {.cause = BreakerCause::ramp_failed, .tally = ramp_.tally()});
      return true;
    case Ramp::Change::done:
      close_locked(now, BreakerCause::ramp_done);
      return true;
  }
  return false;
}

void BreakerCore::poll_locked(MonoTime now) {
  (void)end_mode_locked(now);
  switch (gate_of(word.load(std::memory_order_relaxed))) {
    case Gate::open:
      if (ticks(now) >= open_until_.load(std::memory_order_relaxed)) enter_round_locked(now);
      break;
    case Gate::half_open:
      if (!fleet_half_.load(std::memory_order_relaxed))
        (void)advance_half_open_locked(now);
      else if (!fleet_governs_locked(now))
        half_open_locked(now);
      break;
    case Gate::recovering:
      (void)apply_ramp_locked(ramp_.poll(config_, now), now);
      break;
    case Gate::closed:
    case Gate::forced_open:
    case Gate::disabled:
      break;
  }
}

void BreakerCore::poll(MonoTime now) noexcept {
  {
    std::lock_guard lock(mutex_);
    poll_locked(now);
  }
  events_.deliver();
}

void BreakerCore::trip(std::optional<Nanos> wait) {
  {
    std::lock_guard lock(mutex_);
    if (!opens_locked() || state() == BreakerState::open) return;
    open_locked(clock->mono(), {.cause = BreakerCause::operator_set, .wanted = wait});
  }
  events_.deliver();
}

void BreakerCore::close() {
  {
    std::lock_guard lock(mutex_);
    if (!opens_locked()) return;
    openings_ = 0;
    if (carrier_ != nullptr) {
      fleet_->force({.mode = BreakerMode::automatic, .by = {}, .reason = {}}, {}, clock->mono());
      carrier_->poke();
    }
    close_locked(clock->mono(), BreakerCause::operator_set);
  }
  events_.deliver();
}

Result<void> BreakerCore::configure(const BreakerConfig& config) {
  std::string faults;
  for (const ConfigFault& fault : check_breaker_config(config))
    faults += (faults.empty() ? "" : "\n") + fault.text();
  if (!faults.empty()) return Error{ErrorCode::invalid_argument, std::move(faults)};
  {
    std::lock_guard lock(mutex_);
    if (config.window != config_.window)
      return Error{ErrorCode::failed_precondition,
                   "breaker " + name_ + ": another window takes a new breaker"};
    take_rules_locked(config);
    const Gate gate = gate_of(word.load(std::memory_order_relaxed));
    if (gate == Gate::half_open && !fleet_half_.load(std::memory_order_relaxed))
      block_probes_locked();
    if (gate == Gate::recovering && !config_.ramp)
      close_locked(clock->mono(), BreakerCause::ramp_done);
  }
  events_.deliver();
  return {};
}

breaker::Tally BreakerCore::tally_locked(MonoTime now) const noexcept {
  switch (gate_of(word.load(std::memory_order_relaxed))) {
    case Gate::closed:
      return last_calls_ ? last_calls_->tally() : last_time_->tally(now);
    case Gate::half_open:
      if (fleet_half_.load(std::memory_order_relaxed) && fleet_->record())
        return {.calls = fleet_->record()->ok + fleet_->record()->failed,
                .failures = fleet_->record()->failed};
      return {.calls = half_open_.successes() + half_open_.failures(),
              .failures = half_open_.failures()};
    case Gate::recovering:
      return ramp_.tally();
    case Gate::open:
    case Gate::forced_open:
    case Gate::disabled:
      break;
  }
  return {};
}

BreakerSnapshot BreakerCore::snapshot(MonoTime now) {
  if (mode_is_over(now)) end_mode(now);
  using Counters = breaker::CallCounters;
  std::lock_guard lock(mutex_);
  const std::uint64_t seen = word.load(std::memory_order_relaxed);
  const Tally tally = tally_locked(now);
  BreakerSnapshot shot;
  shot.name = name_;
  shot.state = state();
  shot.mode = mode_.load(std::memory_order_relaxed);
  snapshot_mode_locked(now, shot);
  shot.generation = seen >> 8;
  shot.for_time = std::max(Nanos::zero(), now - since_);
  if (gate_of(seen) == Gate::open) {
    const Nanos left(open_until_.load(std::memory_order_relaxed) - ticks(now));
    shot.probe_due = left <= Nanos::zero();
    shot.until_probe = std::max(Nanos::zero(), left);
  }
  if (shot.state == BreakerState::open || shot.state == BreakerState::half_open)
    shot.share_percent = 0;
  if (shot.state == BreakerState::recovering)
    shot.share_percent =
        static_cast<std::uint32_t>(std::uint64_t{ramp_.share()} * 100 / Ramp::kAll);
  shot.openings_in_a_row = openings_;
  shot.calls = tally.calls;
  shot.failures = tally.failures;
  shot.slow = tally.slow;
  shot.consecutive_failures = shot.state == BreakerState::closed ? run_.length() : 0;
  shot.probes_in_flight = shot.state == BreakerState::half_open ? half_open_.in_flight() : 0;
  shot.ok = counters_.sum(Counters::ok);
  shot.failed = counters_.sum(Counters::failed);
  shot.slow_calls = counters_.sum(Counters::slow);
  shot.ignored = counters_.sum(Counters::ignored);
  shot.cancelled = counters_.sum(Counters::cancelled);
  shot.local_rejects = counters_.sum(Counters::local_reject);
  shot.late = counters_.sum(Counters::late);
  shot.rejected = counters_.sum(Counters::rejected);
  shot.expired_probes = expired_probes_;
  shot.would_reject = would_reject_.load(std::memory_order_relaxed);
  shot.opened = opened_;
  shot.events_dropped = events_.dropped();
  if (fleet_) snapshot_fleet_locked(now, shot);
  return shot;
}

}  // namespace weir
