#include "breaker/concurrency_core.h"

#include <algorithm>
#include <chrono>

#include "breaker/lease_id.h"

namespace weir {
namespace {

// Fences go on from the process before: it gave out less than one a microsecond.
std::uint64_t first_fence(const Clock& clock) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(clock.now().time_since_epoch())
          .count());
}

}  // namespace

ConcurrencyCore::ConcurrencyCore(std::string name, const ConcurrencyConfig& config, Clock& clock,
                                 std::uint64_t fence)
    : name_(std::move(name)),
      clock_(clock),
      config_(config),
      fence_(std::max(fence, first_fence(clock))) {
  limit = config.limit;
}

LeaseRefusal ConcurrencyCore::refuse(LeaseRefusal why) noexcept {
  refused_.fetch_add(1, std::memory_order_relaxed);
  return why;
}

LeaseRefusal ConcurrencyCore::take_slow(std::uint32_t weight) noexcept {
  if (weight == 0 || weight > limit.load(std::memory_order_relaxed))
    return refuse(LeaseRefusal::never_fits);
  std::lock_guard lock(mutex_);
  return take_locked(weight, clock_.mono()) ? LeaseRefusal::none : refuse(LeaseRefusal::full);
}

LeaseRefusal ConcurrencyCore::wait(std::uint32_t weight, Nanos patience) {
  if (weight == 0 || weight > limit.load(std::memory_order_relaxed))
    return refuse(LeaseRefusal::never_fits);
  const auto give_up = std::chrono::steady_clock::now() +
                       std::clamp(patience, Nanos::zero(), Nanos(std::chrono::hours(24)));
  std::unique_lock lock(mutex_);
  if (waiting_.size() >= config_.max_waiting) return refuse(LeaseRefusal::queue_full);
  Waiter me{.weight = weight};
  const auto place = waiting_.insert(waiting_.end(), &me);
  for (;;) {
    mark_queue_locked();
    grant_locked();
    while (!me.granted && sweep_locked(clock_.mono())) {
    }
    if (me.granted) return LeaseRefusal::none;
    const auto now = std::chrono::steady_clock::now();
    if (now >= give_up) break;
    auto until = give_up;
    if (const auto ends = leases_.next_end())
      until = std::min(until,
                       now + std::max(Nanos(std::chrono::milliseconds(1)), *ends - clock_.mono()));
    me.wake.wait_until(lock, until);
    if (me.granted) return LeaseRefusal::none;
  }
  waiting_.erase(place);
  grant_locked();  // whoever stood behind us may fit
  mark_queue_locked();
  return refuse(LeaseRefusal::timed_out);
}

void ConcurrencyCore::hand_on() noexcept {
  std::lock_guard lock(mutex_);
  grant_locked();
  mark_queue_locked();
}

void ConcurrencyCore::mark_queue_locked() noexcept {
  if (waiting_.empty())
    word.fetch_and(~kWaiting, std::memory_order_acq_rel);
  else
    word.fetch_or(kWaiting, std::memory_order_acq_rel);
}

void ConcurrencyCore::grant_locked() noexcept {
  while (!waiting_.empty()) {
    Waiter& first = *waiting_.front();
    std::uint64_t held = word.load(std::memory_order_acquire);
    do {
      const std::uint64_t units = held & ~kWaiting;
      if (units + first.weight > limit.load(std::memory_order_relaxed)) return;
    } while (!word.compare_exchange_weak(held, held + first.weight, std::memory_order_acq_rel,
                                         std::memory_order_acquire));
    waiting_.pop_front();
    mark_queue_locked();
    first.granted = true;
    first.wake.notify_one();
  }
}

void ConcurrencyCore::give_back_locked(std::uint64_t units) noexcept {
  if (units == 0) return;
  word.fetch_sub(units, std::memory_order_acq_rel);
  grant_locked();
}

bool ConcurrencyCore::sweep_locked(MonoTime now) noexcept {
  const auto swept = leases_.sweep(now, kSweep);
  expired_ += swept.leases;
  give_back_locked(swept.units);
  return swept.leases == kSweep;
}

bool ConcurrencyCore::take_locked(std::uint32_t weight, MonoTime now) noexcept {
  bool more = sweep_locked(now);
  while (!take(weight)) {
    if (!more) return false;
    more = sweep_locked(now);
  }
  return true;
}

const breaker::LeaseTable::Held* ConcurrencyCore::find_locked(std::string_view id,
                                                              MonoTime now) noexcept {
  const auto* held = leases_.find(id);
  if (held == nullptr || held->ends > now) return held;
  ++expired_;
  give_back_locked(leases_.remove(id));
  return nullptr;
}

Lease ConcurrencyCore::seen_locked(std::string_view id, const breaker::LeaseTable::Held& held,
                                   MonoTime now) const {
  return {.id = std::string(id),
          .fence = held.fence,
          .weight = held.weight,
          .expires_in = held.ends - now,
          .held_for = now - held.since};
}

LeaseAnswer ConcurrencyCore::full_locked(MonoTime now) noexcept {
  LeaseAnswer answer{.refusal = refuse(LeaseRefusal::full)};
  if (const auto ends = leases_.next_end()) answer.retry_after = *ends - now;
  return answer;
}

LeaseAnswer ConcurrencyCore::lease(const LeaseRequest& request) {
  if (request.id && !breaker::valid_lease_id(*request.id))
    return {.refusal = refuse(LeaseRefusal::invalid_id)};
  if (request.weight == 0) return {.refusal = refuse(LeaseRefusal::never_fits)};
  std::lock_guard lock(mutex_);
  const MonoTime now = clock_.mono();
  // Before anything is said about the limit: what was given stands, whatever the limit is now.
  if (const auto* held = request.id ? find_locked(*request.id, now) : nullptr) {
    if (held->weight != request.weight) return {.refusal = refuse(LeaseRefusal::held_otherwise)};
    LeaseAnswer again{.lease = seen_locked(*request.id, *held, now)};
    again.lease->repeated = true;
    return again;
  }
  if (request.weight > limit.load(std::memory_order_relaxed))
    return {.refusal = refuse(LeaseRefusal::never_fits)};
  if (!take_locked(request.weight, now)) return full_locked(now);
  const std::string id = request.id ? std::string(*request.id) : breaker::unguessable_lease_id();
  const breaker::LeaseTable::Held held{.fence = ++fence_,
                                       .weight = request.weight,
                                       .since = now,
                                       .ends = now + std::min(config_.lease, config_.max_hold)};
  leases_.add(id, held);
  ++given_;
  return {.lease = seen_locked(id, held, now)};
}

LeaseAnswer ConcurrencyCore::renew(std::string_view id) {
  std::lock_guard lock(mutex_);
  const MonoTime now = clock_.mono();
  (void)sweep_locked(now);
  const auto* held = find_locked(id, now);
  if (held == nullptr) return {.refusal = refuse(LeaseRefusal::gone)};
  const MonoTime ends = std::min(now + config_.lease, held->since + config_.max_hold);
  if (ends > held->ends) leases_.extend(id, ends);
  return {.lease = seen_locked(id, *held, now)};
}

bool ConcurrencyCore::release(std::string_view id) {
  std::lock_guard lock(mutex_);
  const MonoTime now = clock_.mono();
  (void)sweep_locked(now);
  const std::uint32_t units = find_locked(id, now) != nullptr ? leases_.remove(id) : 0;
  give_back_locked(units);
  return units != 0;
}

void ConcurrencyCore::configure(const ConcurrencyConfig& config) {
  std::lock_guard lock(mutex_);
  config_ = config;
  limit.store(config.limit, std::memory_order_relaxed);
  grant_locked();
}

ConcurrencyConfig ConcurrencyCore::config() const {
  std::lock_guard lock(mutex_);
  return config_;
}

bool ConcurrencyCore::sweep() noexcept {
  std::lock_guard lock(mutex_);
  return sweep_locked(clock_.mono());
}

ConcurrencySnapshot ConcurrencyCore::snapshot() {
  // What is over is nobody's, whether anybody has asked for it since or not. Others go between.
  while (sweep()) {
  }
  return numbers();
}

ConcurrencySnapshot ConcurrencyCore::numbers() const {
  std::lock_guard lock(mutex_);
  return {.name = name_,
          .limit = config_.limit,
          .held = word.load(std::memory_order_acquire) & ~kWaiting,
          .leases = leases_.size(),
          .waiting = waiting_.size(),
          .leases_given = given_,
          .leases_expired = expired_,
          .refused = refused_.load(std::memory_order_relaxed)};
}

std::uint64_t ConcurrencyCore::fence() const {
  std::lock_guard lock(mutex_);
  return fence_;
}

bool ConcurrencyCore::idle() const noexcept {
  std::lock_guard lock(mutex_);
  const auto last = leases_.last_end();
  return waiting_.empty() && word.load(std::memory_order_acquire) == leases_.units() &&
         (!last || *last <= clock_.mono());
}

}  // namespace weir
