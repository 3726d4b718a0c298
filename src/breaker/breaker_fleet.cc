#include <algorithm>
#include <condition_variable>
#include <utility>

#include "breaker/breaker_core.h"

// How a breaker goes with a fleet: what it asks the store, and what it makes of what stands there.

namespace weir {
namespace {

using breaker::FleetPart;
using breaker::HalfOpen;
using Flag = store::redis::CircuitAction::Flag;

constexpr detail::Gate gate_of(std::uint64_t word) {
  return static_cast<detail::Gate>(word & 0xff);
}

std::int64_t ticks(MonoTime time) {
  return time.time_since_epoch().count();
}

// Beyond the store's deadline, within which the answer is promised.
constexpr Nanos kBeyond = std::chrono::milliseconds(50);

void hand(const std::function<void(Admission)>& done, Admission admission) noexcept {
  try {
    done(std::move(admission));
  } catch (...) {  // promised: what it throws is dropped
  }
}

BreakerMode mode_of(store::redis::CircuitRecord::Mode mode) {
  using Mode = store::redis::CircuitRecord::Mode;
  return mode == Mode::forced_open     ? BreakerMode::forced_open
         : mode == Mode::forced_closed ? BreakerMode::forced_closed
                                       : BreakerMode::automatic;
}

}  // namespace

void BreakerCore::share(breaker::FleetCarrier* carrier, std::uint64_t who) {
  FleetPart::Waiting waits;
  {
    std::lock_guard lock(mutex_);
    if (carrier_ == carrier) return;
    carrier_ = carrier;
    if (carrier != nullptr && !fleet_) fleet_ = std::make_unique<FleetPart>(who, random_ ^ who);
    if (carrier == nullptr && fleet_) {
      waits = fleet_->take_waiting();
      fleet_->forget_verdicts();
      count_ended_locked();
    }
    if (carrier == nullptr && fleet_half_.load(std::memory_order_relaxed))
      half_open_locked(clock->mono());
  }
  if (waits) waits(false, 0);
  events_.deliver();
}

// ---- May a call go?

bool BreakerCore::fleet_governs_locked(MonoTime now) const {
  if (carrier_ == nullptr || !fleet_->record() || !carrier_->answers()) return false;
  const BreakerState state = fleet_->state(now);
  return state == BreakerState::open || state == BreakerState::half_open;
}

void BreakerCore::enter_round_locked(MonoTime now) {
  if (!fleet_governs_locked(now)) return half_open_locked(now);
  adopted_epoch_ = fleet_->record()->epoch;
  half_open_.begin(now);
  blocked_until_.store(0, std::memory_order_release);
  fleet_half_.store(true, std::memory_order_release);
  change_locked(Gate::half_open, now, {.cause = BreakerCause::wait_over});
}

void BreakerCore::admit_async(MonoTime now, AdmitOptions options,
                              std::function<void(Admission)> done) noexcept {
  if (auto admission = admit_changing(now, options)) return hand(done, *std::move(admission));
  ask_fleet(now, options, false, std::move(done));
}

void BreakerCore::ask_fleet(MonoTime now, AdmitOptions options, bool waits,
                            std::function<void(Admission)> done) noexcept {
  {
    std::lock_guard lock(mutex_);
    const bool may_ask = fleet_half_.load(std::memory_order_relaxed) && carrier_ != nullptr &&
                         !fleet_->asking() && (!waits || carrier_->may_wait());
    if (may_ask) {
      fleet_->ask([this, options, done](bool granted, std::uint32_t probe) {
        hand(done, admit_told(granted, probe, options));
      });
      carrier_->poke();
      return;
    }
  }
  // Another call of this process asks just now.
  (void)now;
  hand(done, reject(RejectReason::probing, FleetPart::kPace));
}

Admission BreakerCore::ask_fleet_and_wait(MonoTime now, AdmitOptions options) noexcept {
  struct Box {
    std::mutex mutex;
    std::condition_variable filled;
    std::optional<Admission> admission;
  };
  // Shared: what comes after this call has given up is let go of with it.
  const auto box = std::make_shared<Box>();
  Nanos patience = kBeyond;
  {
    std::lock_guard lock(mutex_);
    if (carrier_ != nullptr) patience += carrier_->patience();
  }
  ask_fleet(now, options, true, [box](Admission admission) {
    std::lock_guard lock(box->mutex);
    box->admission = std::move(admission);
    box->filled.notify_one();
  });
  std::unique_lock lock(box->mutex);
  if (box->filled.wait_for(lock, patience, [&] { return box->admission.has_value(); }))
    return *std::move(box->admission);
  lock.unlock();
  return reject(RejectReason::probing, FleetPart::kPace);
}

// What the caller is told that waited for the store.
Admission BreakerCore::admit_told(bool granted, std::uint32_t probe,
                                  AdmitOptions options) noexcept {
  const MonoTime now = clock->mono();
  if (granted) {
    std::lock_guard lock(mutex_);
    const std::uint64_t seen = word.load(std::memory_order_relaxed);
    if (gate_of(seen) == Gate::half_open && fleet_half_.load(std::memory_order_relaxed)) {
      Permit going = permit(Permit::Kind::fleet, seen, now);
      going.probe_ = probe;
      return Admission(std::move(going));
    }
    (void)fleet_->settle(probe, Flag::neither, Nanos::zero(), {}, now);
    if (carrier_ != nullptr) carrier_->poke();
  }
  if (auto admission = admit_changing(now, options)) return *std::move(admission);
  return reject(RejectReason::probing, FleetPart::kPace);
}

void BreakerCore::settle_fleet(const Permit& permit, HalfOpen::Vote vote,
                               const CallVerdict& verdict,
                               std::optional<breaker::CallCounters::Kind> reported,
                               MonoTime now) noexcept {
  {
    std::lock_guard lock(mutex_);
    // Of a round that is over, as far as is known here. The store is told all the same, and judges
    // by its own; but nothing opens by it.
    const bool current = word.load(std::memory_order_relaxed) == permit.word_ &&
                         fleet_half_.load(std::memory_order_relaxed);
    const Flag flag = verdict.open || vote == HalfOpen::Vote::failure ? Flag::failed
                      : vote == HalfOpen::Vote::success               ? Flag::ok
                                                                      : Flag::neither;
    const Nanos wanted = verdict.retry_after.value_or(Nanos::zero());
    const bool told = fleet_->settle(permit.probe_, flag, wanted, reported, now);
    if (!told && reported) counters_.add(breaker::CallCounters::late);
    if (carrier_ == nullptr) fleet_->forget_verdicts();
    count_ended_locked();
    // A slot is free again: the next call may ask for it.
    if (current) blocked_until_.store(0, std::memory_order_release);
    if (told && current && verdict.open && opens_locked())
      open_locked(
          now, {.cause = BreakerCause::directive, .wanted = verdict.retry_after, .by_probe = true});
    if (carrier_ != nullptr) carrier_->poke();
  }
  events_.deliver();
}

void BreakerCore::count_ended_locked() {
  using Counters = breaker::CallCounters;
  for (const FleetPart::Ended& ended : fleet_->take_ended())
    counters_.add(ended.counted ? ended.kind : Counters::late);
}

// ---- What is told, and what is heard

FleetPart::Local BreakerCore::local_locked(MonoTime now) {
  const Gate gate = gate_of(word.load(std::memory_order_relaxed));
  FleetPart::Local local{.working = opens_locked(),
                         .closed = gate == Gate::closed || gate == Gate::recovering};
  if (gate == Gate::open)
    local.open_for = Nanos(open_until_.load(std::memory_order_relaxed) - ticks(now));
  if (local.closed && fleet_->vote_due(now))
    local.enough_calls = enough_locked(now).value_or(false);
  return local;
}

std::optional<bool> BreakerCore::enough_locked(MonoTime now) const {
  const Gate gate = gate_of(word.load(std::memory_order_relaxed));
  if (gate != Gate::closed && gate != Gate::recovering) return std::nullopt;
  if (fleet_->standing(now)) return true;
  // Without a rate there is no minimum: any call since it last spoke.
  if (!rules_.rates.load(std::memory_order_relaxed)) return calls_so_far() > counted_;
  const std::uint64_t calls = gate == Gate::closed ? tally_locked(now).calls : ramp_.calls();
  return calls >= config_.minimum_calls;
}

std::uint64_t BreakerCore::calls_so_far() const noexcept {
  using Counters = breaker::CallCounters;
  return counters_.sum(Counters::ok) + counters_.sum(Counters::failed) +
         counters_.sum(Counters::slow);
}

std::vector<FleetPart::Due> BreakerCore::fleet_due(bool store_up, MonoTime now) {
  std::vector<FleetPart::Due> due;
  {
    std::lock_guard lock(mutex_);
    if (carrier_ == nullptr) return {};
    (void)end_mode_locked(now);
    expired_probes_ += fleet_->expire(now);
    due = fleet_->due(config_, local_locked(now), store_up, now);
  }
  events_.deliver();
  return due;
}

void BreakerCore::fleet_heard(const FleetPart::Ticket& ticket,
                              const store::redis::CircuitReply* reply, bool late, MonoTime now,
                              std::optional<MonoTime> asked) {
  FleetPart::Waiting caller;
  FleetPart::Heard heard;
  {
    std::lock_guard lock(mutex_);
    if (!fleet_) return;
    heard = fleet_->heard(ticket, reply, late, config_, asked.value_or(now), now);
    using Reply = store::redis::CircuitReply;
    if (ticket.kind == store::redis::CircuitAction::Kind::vote && reply != nullptr &&
        reply->outcome != Reply::Outcome::stale)
      counted_ = calls_so_far();
    if (carrier_ != nullptr && heard.follow) follow_locked(now);
    if (carrier_ != nullptr && heard.again) carrier_->poke();
    if (heard.answered) caller = fleet_->take_waiting();
    if (heard.answered && !heard.granted && fleet_half_.load(std::memory_order_relaxed))
      blocked_until_.store(ticks(fleet_->next_slot(now, config_.max_half_open)),
                           std::memory_order_release);
    if (heard.granted && !caller)
      (void)fleet_->settle(heard.probe, Flag::neither, Nanos::zero(), {}, now);
    count_ended_locked();
  }
  events_.deliver();
  if (caller) caller(heard.granted, heard.probe);
}

void BreakerCore::fleet_read(const std::optional<store::redis::CircuitRecord>& record,
                             Instant store_now, MonoTime now, std::optional<MonoTime> asked) {
  {
    std::lock_guard lock(mutex_);
    if (carrier_ == nullptr) return;
    (void)fleet_->note(record, store_now, asked.value_or(now), now);
    follow_locked(now);
  }
  events_.deliver();
}

// ---- What stands in the store, followed

void BreakerCore::follow_locked(MonoTime now) {
  follow_mode_locked(now);
  // A record that is gone changes nothing: what is open stays so by its own clock.
  if (!opens_locked() || !fleet_->record() || fleet_->mode(now) != BreakerMode::automatic) return;
  const BreakerState state = fleet_->state(now);
  const Gate gate = gate_of(word.load(std::memory_order_relaxed));
  switch (state) {
    case BreakerState::open:
      follow_open_locked(now);
      break;
    case BreakerState::half_open: {
      const bool waits = gate == Gate::open && fleet_->tripped() &&
                         ticks(now) < open_until_.load(std::memory_order_relaxed);  // its own clock
      const bool there = gate == Gate::half_open && fleet_half_.load(std::memory_order_relaxed);
      const std::uint64_t known = std::exchange(adopted_epoch_, fleet_->record()->epoch);
      if (!waits && !there) enter_round_locked(now);
      if (there && known != adopted_epoch_) next_round_locked(now);
      break;
    }
    case BreakerState::recovering:
    case BreakerState::closed:
      follow_closed_locked(state, now);
      break;
  }
}

void BreakerCore::next_round_locked(MonoTime now) {
  since_ = now;
  blocked_until_.store(0, std::memory_order_release);
  const std::uint64_t generation = word.load(std::memory_order_relaxed) >> 8;
  word.store((generation + 1) << 8 | static_cast<std::uint64_t>(Gate::half_open),
             std::memory_order_release);
}

void BreakerCore::follow_open_locked(MonoTime now) {
  const MonoTime until = std::max(fleet_->until(), now);
  const bool was_open = gate_of(word.load(std::memory_order_relaxed)) == Gate::open;
  adopted_epoch_ = fleet_->record()->epoch;
  if (was_open) {
    // The later of the two: its own clock is kept, and nobody probes before the fleet does.
    if (ticks(until) > open_until_.load(std::memory_order_relaxed))
      open_until_.store(ticks(until), std::memory_order_release);
    return;
  }
  if (const auto enough = enough_locked(now)) fleet_->leaves_window(*enough, config_, now);
  open_until_.store(ticks(until), std::memory_order_release);
  openings_ = fleet_->record()->openings;
  ++opened_;
  fleet_half_.store(false, std::memory_order_release);
  change_locked(Gate::open, now, {.cause = BreakerCause::fleet, .open_for = until - now});
}

void BreakerCore::follow_closed_locked(BreakerState state, MonoTime now) {
  const Gate gate = gate_of(word.load(std::memory_order_relaxed));
  if (gate != Gate::open && gate != Gate::half_open) return;
  const bool tried_since =
      adopted_epoch_ != 0 ? fleet_->record()->round > 0 && fleet_->record()->epoch > adopted_epoch_
                          : fleet_->closed_since(since_);
  // Not enough others say so, or the record is a new one: it goes by what it sees itself.
  if (!tried_since) {
    if (gate == Gate::half_open && fleet_half_.load(std::memory_order_relaxed))
      half_open_locked(now);
    return;
  }
  if (state == BreakerState::recovering)
    pass_probes_locked(now, BreakerCause::fleet);
  else
    close_locked(now, BreakerCause::fleet);
}

FleetTie BreakerCore::tie() const {
  std::lock_guard lock(mutex_);
  if (carrier_ == nullptr) return FleetTie::none;
  return carrier_->answers() ? FleetTie::follows : FleetTie::alone;
}

void BreakerCore::snapshot_fleet_locked(MonoTime now, BreakerSnapshot& shot) const {
  if (carrier_ == nullptr) return;
  shot.tie = carrier_->answers() ? FleetTie::follows : FleetTie::alone;
  shot.pushed = carrier_->pushed();
  shot.store_writes = fleet_->told();
  shot.store_lost = fleet_->lost();
  if (fleet_half_.load(std::memory_order_relaxed)) shot.probes_in_flight = fleet_->probes_out();
  const auto& record = fleet_->record();
  if (!record) return;
  const auto bad = std::count_if(record->votes.begin(), record->votes.end(),
                                 [](const auto& vote) { return vote.bad; });
  shot.fleet = FleetRecord{.state = fleet_->state(now),
                           .mode = mode_of(record->mode),
                           .epoch = record->epoch,
                           .round = record->round,
                           .reporting = static_cast<std::uint32_t>(record->votes.size()),
                           .bad = static_cast<std::uint32_t>(bad),
                           .probes_in_flight = static_cast<std::uint32_t>(record->probes.size()),
                           .age = now - fleet_->read_at()};
}

}  // namespace weir
