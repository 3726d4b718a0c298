#include "guard/shared_limit.h"

#include <algorithm>
#include <utility>

#include "breaker/lease_id.h"

namespace weir {

// Makes slots of what is no Concurrency of this process.
struct detail::SlotMaker {
  static Slot make(ConcurrencyGate& gate, std::uint32_t weight, std::shared_ptr<void> keep) {
    Slot slot(&gate, weight);
    slot.keep_ = std::move(keep);
    return slot;
  }
  static Slot refused(LeaseRefusal why) { return Slot(why); }
};

namespace guard {

namespace redis = store::redis;
using Kind = redis::LeaseAction::Kind;
using Outcome = redis::LeaseReply::Outcome;

namespace {

constexpr std::size_t kMostEnded = 10'000;

LeaseAnswer no(LeaseRefusal why, std::optional<Nanos> retry_after = {}) {
  return {.lease = {}, .refusal = why, .retry_after = retry_after};
}

}  // namespace

// What a slot keeps: its end is the lease's.
struct SharedLimit::Renewed {
  std::shared_ptr<Mark> mark = std::make_shared<Mark>();  // its word is 0 once the lease is over
  std::weak_ptr<SharedLimit> limit;
  Counter counter;
  std::string id;

  Renewed() = default;
  Renewed(const Renewed&) = delete;
  ~Renewed() {
    if (const auto of = limit.lock()) of->release(counter, id, [](const Result<bool>&) {});
  }
};

std::uint64_t SharedLimit::identity(std::string_view name) {
  static const KeyHasher hasher(
      KeyHasher::Secret{'w', 'e', 'i', 'r', ' ', 'l', 'e', 'a', 's', 'e', 's'});
  return hasher(name).lo;
}

void SharedLimit::go_by(LeaseDesk* desk) {
  std::map<std::string, Queue, std::less<>> left;
  {
    std::lock_guard lock(mutex_);
    desk_ = desk;
    if (desk == nullptr) left.swap(queues_);
    for (const auto& [key, queue] : left)
      for (const Waiter& each : queue.waiting) settle_locked(queue.counter, each.id);
  }
  // Nobody would ask for them any more.
  for (auto& [key, queue] : left)
    for (Waiter& each : queue.waiting) each.done(counted(no(LeaseRefusal::store_away)));
}

void SharedLimit::configure(const ConcurrencyConfig& config) {
  std::lock_guard lock(mutex_);
  config_ = config;
}

// ---- What is asked

LeaseAnswer SharedLimit::counted(LeaseAnswer answer) {
  if (answer) return answer;
  std::lock_guard lock(mutex_);
  ++refused_;
  return answer;
}

std::optional<LeaseAnswer> SharedLimit::wrong_with(const Counter& counter,
                                                   const LeaseRequest& request) {
  if (request.id && !breaker::valid_lease_id(*request.id))
    return counted(no(LeaseRefusal::invalid_id));
  if (request.weight == 0) return counted(no(LeaseRefusal::never_fits));
  std::unique_lock lock(mutex_);
  sweep_locked(clock_.mono());
  // What was given stands, and takes no room.
  const bool full = held_.size() >= kMost &&
                    !(request.id && held_.contains({counter.key, std::string(*request.id)}));
  lock.unlock();
  if (full) return counted(no(LeaseRefusal::too_many_keys));
  return std::nullopt;
}

void SharedLimit::lease(const Counter& counter, const LeaseRequest& request, Done done) {
  if (auto wrong = wrong_with(counter, request)) return done(*std::move(wrong));
  ask(counter, request.id ? std::string(*request.id) : breaker::unguessable_lease_id(),
      request.weight, [self = shared_from_this(), done = std::move(done)](LeaseAnswer answer) {
        done(self->counted(std::move(answer)));
      });
}

LeaseAnswer SharedLimit::lease_without(const Counter& counter, const LeaseRequest& request) {
  if (auto wrong = wrong_with(counter, request)) return *std::move(wrong);
  return counted(without(counter,
                         request.id ? std::string(*request.id) : breaker::unguessable_lease_id(),
                         request.weight));
}

void SharedLimit::ask(const Counter& counter, const std::string& id, std::uint32_t weight,
                      Done done) {
  std::unique_lock lock(mutex_);
  LeaseDesk* const desk = desk_locked(counter);
  if (desk == nullptr) {
    lock.unlock();
    return done(without(counter, id, weight));
  }
  // What is over and still to be told goes first, or the store would say that it stands, and then
  // hear that it is over.
  if (const auto over = ended_.extract({counter.key, id}))
    send_release_locked(*desk, over.key(), over.mapped());
  ++asking_[{counter.key, id}].by;
  call_locked(
      *desk, counter, {.kind = Kind::acquire, .id = id, .weight = weight}, desk->deadline(),
      [self = shared_from_this(),
       asked = std::make_shared<const Asked>(Asked{counter, id, weight, std::move(done)})](
          const redis::LeaseReply* reply, bool late) { self->acquired(*asked, reply, late); });
}

void SharedLimit::acquired(const Asked& asked, const redis::LeaseReply* reply, bool late) {
  if (late) {
    // Refused without the store meanwhile, and given by it after all.
    if (reply == nullptr || reply->outcome != Outcome::done) return;
    std::lock_guard lock(mutex_);
    end_later_locked(asked.id, {asked.counter, clock_.mono() + config_.lease});
    return;
  }
  asked.done(reply != nullptr ? answered(asked, *reply)
                              : without(asked.counter, asked.id, asked.weight));
  settle(asked.counter, asked.id);
}

LeaseAnswer SharedLimit::answered(const Asked& asked, const redis::LeaseReply& reply) {
  switch (reply.outcome) {
    case Outcome::full:
      return no(LeaseRefusal::full, reply.next_end);
    case Outcome::held_otherwise:
      return no(LeaseRefusal::held_otherwise);
    case Outcome::above_limit:
      return no(LeaseRefusal::never_fits);
    case Outcome::none:
    case Outcome::done:
    case Outcome::stood:
      break;
  }
  LeaseAnswer answer = renewed(asked.counter, asked.id, reply);
  if (answer.lease) answer.lease->repeated = reply.outcome == Outcome::stood;
  if (reply.outcome == Outcome::done) {
    std::lock_guard lock(mutex_);
    ++given_;
  }
  return answer;
}

// This worker's part, less what it holds.
LeaseAnswer SharedLimit::without(const Counter& counter, const std::string& id,
                                 std::uint32_t weight) {
  std::lock_guard lock(mutex_);
  const MonoTime now = clock_.mono();
  sweep_locked(now);
  if (const auto found = held_.find({counter.key, id}); found != held_.end()) {
    if (found->second.weight != weight) return no(LeaseRefusal::held_otherwise);
    LeaseAnswer answer{.lease = seen_locked(id, found->second, now)};
    answer.lease->repeated = true;
    return answer;
  }
  const std::uint32_t part = part_locked(counter);
  if (weight > config_.limit) return no(LeaseRefusal::never_fits);
  if (weight > part) return no(LeaseRefusal::store_away, Nanos(std::chrono::seconds(1)));
  if (units_locked(counter.key) + weight > part) {
    LeaseAnswer full = no(LeaseRefusal::full);
    // Those of this key alone: of all others there may be very many.
    for (auto each = held_.lower_bound({counter.key, ""});
         each != held_.end() && each->first.first == counter.key; ++each) {
      const Nanos left = each->second.ends - now;
      full.retry_after = std::min(full.retry_after.value_or(left), left);
    }
    return full;
  }
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(
      desk_->ports().store_now().time_since_epoch());
  last_fence_ = std::max(last_fence_ + 1, static_cast<std::uint64_t>(micros.count()));
  const Held held{.counter = counter,
                  .weight = weight,
                  .fence = last_fence_,
                  .since = now,
                  .ends = now + std::min(config_.lease, config_.max_hold),
                  .untold = true,
                  .anew = ended_.erase({counter.key, id}) > 0};
  held_.emplace(Id{counter.key, id}, held);
  units_[counter.key] += weight;
  ++given_;
  ++given_without_;
  desk_->poke();
  return {.lease = seen_locked(id, held, now)};
}

void SharedLimit::renew(const Counter& counter, std::string_view of, Done done) {
  const std::string id(of);
  std::unique_lock lock(mutex_);
  LeaseDesk* const desk = desk_locked(counter);
  const auto found = held_.find({counter.key, id});
  // The store does not know yet what it was given without, or what is over: it is not asked.
  const bool ours =
      found != held_.end() ? found->second.untold : ended_.contains({counter.key, id});
  if (desk == nullptr || ours) {
    lock.unlock();
    return done(renew_without(counter, id));
  }
  call_locked(*desk, counter, {.kind = Kind::renew, .id = id}, desk->deadline(),
              [self = shared_from_this(), counter, id, done = std::move(done)](
                  const redis::LeaseReply* reply, bool late) {
                if (late) return;
                done(reply != nullptr ? self->counted(self->renewed(counter, id, *reply))
                                      : self->renew_without(counter, id));
              });
}

LeaseAnswer SharedLimit::renew_without(const Counter& counter, std::string_view of) {
  const std::string id(of);
  LeaseAnswer answer;
  {
    std::lock_guard lock(mutex_);
    const MonoTime now = clock_.mono();
    sweep_locked(now);
    const auto found = held_.find({counter.key, id});
    if (found != held_.end()) {
      Held& held = found->second;
      const MonoTime ends = std::min(now + config_.lease, held.since + config_.max_hold);
      if (ends > held.ends) held.ends = ends;
      held.untold = true;
      if (desk_ != nullptr) desk_->poke();
      return {.lease = seen_locked(id, held, now)};
    }
    answer = ended_.contains({counter.key, id})
                 ? no(LeaseRefusal::gone)
                 : no(LeaseRefusal::store_away, Nanos(std::chrono::seconds(1)));
  }
  return counted(std::move(answer));
}

// What the store holds is what is remembered.
LeaseAnswer SharedLimit::renewed(const Counter& counter, const std::string& id,
                                 const redis::LeaseReply& reply) {
  std::lock_guard lock(mutex_);
  const MonoTime now = clock_.mono();
  const Id key{counter.key, id};
  auto found = held_.find(key);
  if (reply.outcome == Outcome::none) {
    if (found != held_.end()) {
      if (const auto mark = found->second.slot.lock()) mark->word = 0;
      units_[counter.key] -= found->second.weight;
      held_.erase(found);
    }
    return no(LeaseRefusal::gone);
  }
  if (found == held_.end()) {
    // Released while it was being renewed.
    if (ended_.contains(key)) return no(LeaseRefusal::gone);
    found = held_.emplace(key, Held{.counter = counter, .weight = reply.weight}).first;
    units_[counter.key] += reply.weight;
  }
  Held& held = found->second;
  held.fence = reply.fence;
  held.since = now - reply.held_for;
  held.ends = now + reply.left;
  held.untold = held.anew = false;
  last_fence_ = std::max(last_fence_, reply.fence);
  return {.lease = seen_locked(id, held, now)};
}

Result<bool> SharedLimit::release_without(const Counter& counter, std::string_view id) {
  std::lock_guard lock(mutex_);
  if (end_locked(counter, std::string(id), true)) return true;
  if (ended_.contains({counter.key, std::string(id)})) return false;
  return Error{ErrorCode::unavailable,
               "the store does not answer, and this worker does not know the lease; it ends by "
               "itself"};
}

void SharedLimit::release(const Counter& counter, std::string_view of,
                          std::function<void(Result<bool>)> done) {
  const std::string id(of);
  std::unique_lock lock(mutex_);
  LeaseDesk* const desk = desk_locked(counter);
  if (desk == nullptr) {
    lock.unlock();
    return done(release_without(counter, of));
  }
  const bool known = end_locked(counter, id, false);
  call_locked(
      *desk, counter, {.kind = Kind::release, .id = id}, desk->deadline(),
      [self = shared_from_this(), counter, id, known, done = std::move(done)](
          const redis::LeaseReply* reply, bool late) {
        if (late) return;
        if (reply != nullptr) {
          self->released(counter, id);
          return done(known || reply->outcome == Outcome::done);
        }
        if (!known) return done(self->release_without(counter, id));
        {
          std::lock_guard held(self->mutex_);
          self->end_later_locked(id, {counter, self->clock_.mono() + self->config_.max_hold});
        }
        done(true);
      });
}

void SharedLimit::released(const Counter& counter, const std::string& id) {
  {
    std::lock_guard lock(mutex_);
    // A renewal that was on its way with it has remembered it again.
    const auto found = held_.find({counter.key, id});
    if (found != held_.end() && !found->second.untold) (void)end_locked(counter, id, false);
    const auto queue = queues_.find(counter.key);
    if (queue == queues_.end()) return;
    queue->second.next = clock_.mono();
  }
  ask_for_first(counter.key);
}

// ---- Slots

Slot SharedLimit::slot(const Counter& counter, const Lease& lease) {
  auto renewed = std::make_shared<Renewed>();
  renewed->mark->word = lease.weight;
  renewed->limit = weak_from_this();
  renewed->counter = counter;
  renewed->id = lease.id;
  {
    std::lock_guard lock(mutex_);
    const auto found = held_.find({counter.key, lease.id});
    if (found != held_.end()) {
      found->second.slot = renewed->mark;
      // What has little left, as one that was asked for again and again has, is renewed at once.
      const MonoTime now = clock_.mono();
      const bool old = found->second.ends - now < config_.lease * 2 / 3;
      if (desk_ != nullptr) desk_->turn_by(old ? now : now + step_locked());
    } else {
      renewed->mark->word = 0;  // over before its holder heard of it
    }
  }
  Mark& mark = *renewed->mark;
  return detail::SlotMaker::make(mark, lease.weight, std::move(renewed));
}

Slot SharedLimit::no_slot(LeaseRefusal why) {
  return detail::SlotMaker::refused(why);
}

// ---- Under the lock

LeaseDesk* SharedLimit::desk_locked(const Counter& counter) const {
  const bool answers = desk_ != nullptr && desk_->line().answering(desk_->keys().slot(counter.key));
  return answers ? desk_ : nullptr;
}

void SharedLimit::call_locked(LeaseDesk& desk, const Counter& counter,
                              const redis::LeaseAction& action, Nanos within, Heard heard) {
  desk.line().post([&desk, within, slot = desk.keys().slot(counter.key),
                    asked = redis::lease_call(action, config_, desk.keys().counter(counter.key)),
                    heard = std::move(heard)] {
    desk.line().call(slot, asked, within,
                     [heard](const redis::ErrorRow* error, const redis::Reply* reply, bool late) {
                       redis::LeaseReply read;
                       const bool good =
                           error == nullptr && reply != nullptr && redis::read_lease(*reply, read);
                       heard(good ? &read : nullptr, late);
                     });
  });
}

bool SharedLimit::end_locked(const Counter& counter, const std::string& id, bool tell) {
  sweep_locked(clock_.mono());
  const auto found = held_.find({counter.key, id});
  if (found == held_.end()) return false;
  const MonoTime till = found->second.ends;
  units_[counter.key] -= found->second.weight;
  held_.erase(found);
  if (tell) end_later_locked(id, {counter, till});
  return true;
}

void SharedLimit::end_later_locked(const std::string& id, Ended ended) {
  Id key{ended.counter.key, id};
  if (held_.contains(key)) return;
  if (const auto asking = asking_.find(key); asking != asking_.end()) {
    asking->second.unheld = std::move(ended);
    return;
  }
  if (ended_.size() < kMostEnded) ended_.insert_or_assign(std::move(key), std::move(ended));
  if (desk_ != nullptr) desk_->poke();
}

void SharedLimit::settle(const Counter& counter, const std::string& id) {
  std::lock_guard lock(mutex_);
  settle_locked(counter, id);
}

void SharedLimit::settle_locked(const Counter& counter, const std::string& id) {
  const auto at = asking_.find({counter.key, id});
  if (at == asking_.end() || --at->second.by > 0) return;
  std::optional<Ended> unheld = std::move(at->second.unheld);
  asking_.erase(at);
  if (!unheld) return;
  // Given without the store, which may hold it otherwise.
  if (const auto found = held_.find({counter.key, id}); found != held_.end())
    found->second.anew = found->second.untold;
  else
    end_later_locked(id, *std::move(unheld));
}

void SharedLimit::sweep_locked(MonoTime now) {
  // All of them are looked at: not at every call.
  constexpr Nanos kBetween = std::chrono::milliseconds(10);
  if (held_.size() > 1'000 && now < swept_ + kBetween) return;
  swept_ = now;
  for (auto at = held_.begin(); at != held_.end();) {
    if (now < at->second.ends) {
      ++at;
      continue;
    }
    if (const auto mark = at->second.slot.lock()) mark->word = 0;
    ++expired_;
    units_[at->first.first] -= at->second.weight;
    at = held_.erase(at);
  }
  std::erase_if(units_, [](const auto& each) { return each.second == 0; });
}

Lease SharedLimit::seen_locked(const std::string& id, const Held& held, MonoTime now) const {
  return {.id = id,
          .fence = held.fence,
          .weight = held.weight,
          .expires_in = held.ends - now,
          .held_for = now - held.since,
          .without_store = held.untold};
}

std::uint32_t SharedLimit::part_locked(const Counter& counter) const {
  if (desk_ == nullptr) return 0;
  return desk_->ports().part(config_.limit, desk_->keys().slot(counter.key), counter.digest);
}

std::uint64_t SharedLimit::units_locked(const std::string& key) const {
  const auto found = units_.find(key);
  return found == units_.end() ? 0 : found->second;
}

ConcurrencySnapshot SharedLimit::snapshot() {
  std::lock_guard lock(mutex_);
  sweep_locked(clock_.mono());
  ConcurrencySnapshot out{.name = name_,
                          .limit = config_.limit,
                          .leases = held_.size(),
                          .waiting = 0,
                          .leases_given = given_,
                          .leases_expired = expired_,
                          .refused = refused_,
                          .shared = true,
                          .given_without_store = given_without_,
                          .untold = ended_.size()};
  for (const auto& [id, held] : held_) {
    out.held += held.weight;
    out.untold += held.untold ? 1 : 0;
  }
  for (const auto& [key, queue] : queues_) out.waiting += queue.waiting.size();
  // Any counter's store: on a cluster each may have another.
  out.store_answers = desk_ != nullptr && desk_->line().answering(0);
  return out;
}

}  // namespace guard
}  // namespace weir
