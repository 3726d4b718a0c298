#include "breaker/probe_breaker.h"

#include <algorithm>

#include "breaker/backoff.h"

namespace weir::breaker {
namespace {

constexpr std::uint32_t kAllKeys = 0x10000;

}  // namespace

const char* to_string(ProbeState state) {
  switch (state) {
    case ProbeState::closed:
      return "closed";
    case ProbeState::open:
      return "open";
    case ProbeState::recovering:
      return "recovering";
  }
  return "unknown";
}

ProbeBreaker::ProbeBreaker(const ProbeBreakerConfig& config, std::uint64_t random_seed)
    : config_(config), random_(random_seed) {}

ProbeBreaker::Change ProbeBreaker::on_answer(std::uint32_t generation, Nanos latency,
                                             MonoTime now) {
  if (generation != generation_.load(std::memory_order_acquire)) return Change::none;
  if (consecutive_.load(std::memory_order_relaxed) != 0)
    consecutive_.store(0, std::memory_order_relaxed);
  if (config_.slow_call <= Nanos::zero()) return Change::none;
  std::lock_guard lock(mutex_);
  if (generation != generation_.load(std::memory_order_relaxed) || state_ == ProbeState::open)
    return Change::none;
  return count_call_locked(latency, now) ? open_locked(now) : Change::none;
}

ProbeBreaker::Change ProbeBreaker::on_failure(std::uint32_t generation, Nanos latency,
                                              MonoTime now) {
  std::lock_guard lock(mutex_);
  if (generation != generation_.load(std::memory_order_relaxed)) return Change::none;
  switch (state_) {
    case ProbeState::open:
      return Change::none;
    case ProbeState::closed: {
      // The slowest calls are those that nobody waited for.
      const bool too_slow = count_call_locked(latency, now);
      const std::uint32_t failed = consecutive_.fetch_add(1, std::memory_order_relaxed) + 1;
      return too_slow || failed >= config_.failures ? open_locked(now) : Change::none;
    }
    case ProbeState::recovering:
      if (step_ <= 1) return open_locked(now);
      set_step_locked(step_ - 1, now);
      return Change::fell_back;
  }
  return Change::none;
}

ProbeBreaker::Change ProbeBreaker::poll(MonoTime now) {
  std::lock_guard lock(mutex_);
  if (state_ == ProbeState::closed || probe_out_ || now < event_at_) return Change::none;
  if (state_ == ProbeState::open) {
    probe_out_ = true;
    return Change::probing;
  }
  if (step_ < config_.ramp_steps) {
    set_step_locked(step_ + 1, now);
    return Change::stepped;
  }
  state_ = ProbeState::closed;
  since_ = now;
  attempt_ = 0;
  consecutive_.store(0, std::memory_order_relaxed);
  threshold_.store(kAllKeys, std::memory_order_release);
  return Change::closed;
}

ProbeBreaker::Change ProbeBreaker::on_probe(bool answered, MonoTime now) {
  std::lock_guard lock(mutex_);
  if (state_ != ProbeState::open || !probe_out_) return Change::none;
  probe_out_ = false;
  if (!answered) {
    draw_cooldown_locked(now);
    return Change::none;
  }
  state_ = ProbeState::recovering;
  since_ = now;
  consecutive_.store(0, std::memory_order_relaxed);
  calls_ = slow_ = 0;
  set_step_locked(1, now);
  return Change::recovering;
}

void ProbeBreaker::hasten(MonoTime now) {
  std::lock_guard lock(mutex_);
  if (state_ == ProbeState::open && !probe_out_) event_at_ = std::min(event_at_, now);
}

ProbeBreaker::Change ProbeBreaker::trip(MonoTime now) {
  std::lock_guard lock(mutex_);
  return state_ == ProbeState::open ? Change::none : open_locked(now);
}

std::optional<MonoTime> ProbeBreaker::next_event() const {
  std::lock_guard lock(mutex_);
  if (state_ == ProbeState::closed || probe_out_) return std::nullopt;
  return event_at_;
}

void ProbeBreaker::begin(MonoTime now) {
  std::lock_guard lock(mutex_);
  since_ = now;
}

std::optional<Nanos> ProbeBreaker::until_probe(MonoTime now) const {
  std::lock_guard lock(mutex_);
  if (state_ == ProbeState::closed) return std::nullopt;
  return std::max(Nanos::zero(), event_at_ - now);
}

ProbeState ProbeBreaker::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

MonoTime ProbeBreaker::since() const {
  std::lock_guard lock(mutex_);
  return since_;
}

Nanos ProbeBreaker::recovery_bound() const {
  return config_.max_cooldown + config_.max_cooldown * config_.jitter_percent / 100 +
         config_.ramp_step * config_.ramp_steps;
}

ProbeBreaker::Change ProbeBreaker::open_locked(MonoTime now) {
  state_ = ProbeState::open;
  since_ = now;
  probe_out_ = false;
  step_ = 0;
  calls_ = slow_ = 0;
  threshold_.store(0, std::memory_order_release);
  generation_.fetch_add(1, std::memory_order_acq_rel);
  draw_cooldown_locked(now);
  return Change::opened;
}

void ProbeBreaker::draw_cooldown_locked(MonoTime now) {
  const Nanos wait = doubled(config_.cooldown, attempt_, config_.max_cooldown);
  ++attempt_;
  event_at_ = now + jittered(wait, config_.jitter_percent, random_);
}

void ProbeBreaker::set_step_locked(std::uint32_t step, MonoTime now) {
  step_ = step;
  event_at_ = now + config_.ramp_step;
  const std::uint64_t part = std::uint64_t{kAllKeys} * step / std::max(config_.ramp_steps, 1U);
  threshold_.store(static_cast<std::uint32_t>(part), std::memory_order_release);
}

// Whether the slow calls are now too many of them all.
bool ProbeBreaker::count_call_locked(Nanos latency, MonoTime now) {
  if (config_.slow_call <= Nanos::zero()) return false;
  if (now - slow_window_ >= std::chrono::seconds(1)) {
    slow_window_ = now;
    calls_ = slow_ = 0;
  }
  ++calls_;
  if (latency > config_.slow_call) ++slow_;
  return calls_ >= config_.slow_minimum &&
         std::uint64_t{slow_} * 100 >= std::uint64_t{calls_} * config_.slow_percent;
}

}  // namespace weir::breaker
