#include "guard/shared_limit.h"

#include <algorithm>
#include <utility>
#include <vector>

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

// Nobody waits for what is told afterwards.
constexpr Nanos kUnhurried = std::chrono::seconds(1);
constexpr std::size_t kMostEnded = 10'000;
// Told or renewed in one turn.
constexpr std::size_t kMostInTurn = 256;

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
  std::lock_guard lock(mutex_);
  desk_ = desk;
}

void SharedLimit::configure(const ConcurrencyConfig& config) {
  std::lock_guard lock(mutex_);
  config_ = config;
}

// ---- What is asked

LeaseAnswer SharedLimit::refuse(LeaseRefusal why, std::optional<Nanos> retry_after) {
  std::lock_guard lock(mutex_);
  ++refused_;
  return {.lease = {}, .refusal = why, .retry_after = retry_after};
}

std::optional<LeaseAnswer> SharedLimit::wrong_with(const LeaseRequest& request) {
  if (request.id && !breaker::valid_lease_id(*request.id)) return refuse(LeaseRefusal::invalid_id);
  if (request.weight == 0) return refuse(LeaseRefusal::never_fits);
  std::unique_lock lock(mutex_);
  sweep_locked(clock_.mono());
  const bool full = held_.size() >= kMost;
  lock.unlock();
  if (full) return refuse(LeaseRefusal::too_many_keys);
  return std::nullopt;
}

LeaseDesk* SharedLimit::desk_for(const Counter& counter) {
  LeaseDesk* desk = nullptr;
  {
    std::lock_guard lock(mutex_);
    desk = desk_;
  }
  if (desk == nullptr || !desk->line().answering(desk->keys().slot(counter.key))) return nullptr;
  return desk;
}

void SharedLimit::call(LeaseDesk& desk, const Counter& counter, const redis::LeaseAction& action,
                       Nanos within, std::function<void(const redis::LeaseReply*, bool)> heard) {
  ConcurrencyConfig config;
  {
    std::lock_guard lock(mutex_);
    config = config_;
  }
  desk.line().post([&desk, within, slot = desk.keys().slot(counter.key),
                    asked = redis::lease_call(action, config, desk.keys().counter(counter.key)),
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

void SharedLimit::lease(const Counter& counter, const LeaseRequest& request, Done done) {
  if (auto wrong = wrong_with(request)) return done(*std::move(wrong));
  const auto asked = std::make_shared<const Asked>(
      Asked{counter, request.id ? std::string(*request.id) : breaker::unguessable_lease_id(),
            request.weight, std::move(done)});
  LeaseDesk* const desk = desk_for(counter);
  if (desk == nullptr) return asked->done(without(counter, asked->id, asked->weight));
  call(*desk, counter, {.kind = Kind::acquire, .id = asked->id, .weight = asked->weight},
       desk->deadline(),
       [self = shared_from_this(), asked](const redis::LeaseReply* reply, bool late) {
         self->acquired(asked, reply, late);
       });
}

LeaseAnswer SharedLimit::lease_without(const Counter& counter, const LeaseRequest& request) {
  if (auto wrong = wrong_with(request)) return *std::move(wrong);
  return without(counter, request.id ? std::string(*request.id) : breaker::unguessable_lease_id(),
                 request.weight);
}

void SharedLimit::acquired(const std::shared_ptr<const Asked>& asked,
                           const redis::LeaseReply* reply, bool late) {
  const Id id{asked->counter.key, asked->id};
  if (late) {
    // Refused without the store meanwhile, and given by it after all: nobody holds it.
    std::unique_lock lock(mutex_);
    const bool unheard = reply != nullptr && reply->outcome == Outcome::done && !held_.contains(id);
    if (!unheard) return;
    ended_.push_back({asked->counter, asked->id, clock_.mono() + config_.lease});
    LeaseDesk* const desk = desk_;
    lock.unlock();
    if (desk != nullptr) desk->poke();
    return;
  }
  if (reply == nullptr) return asked->done(without(asked->counter, asked->id, asked->weight));
  switch (reply->outcome) {
    case Outcome::full:
      return asked->done(refuse(LeaseRefusal::full, reply->next_end));
    case Outcome::held_otherwise:
      return asked->done(refuse(LeaseRefusal::held_otherwise));
    case Outcome::above_limit:
      return asked->done(refuse(LeaseRefusal::never_fits));
    case Outcome::none:
    case Outcome::done:
    case Outcome::stood:
      break;
  }
  LeaseAnswer answer;
  {
    std::lock_guard lock(mutex_);
    if (reply->outcome == Outcome::done) ++given_;
    answer.lease = Lease{.id = asked->id,
                         .fence = reply->fence,
                         .weight = reply->weight,
                         .expires_in = reply->left,
                         .held_for = reply->held_for,
                         .repeated = reply->outcome == Outcome::stood};
  }
  (void)renewed(asked->counter, asked->id, *reply);
  asked->done(std::move(answer));
}

// This worker's part, less what it holds.
LeaseAnswer SharedLimit::without(const Counter& counter, const std::string& id,
                                 std::uint32_t weight) {
  LeaseAnswer answer;
  LeaseRefusal why = LeaseRefusal::none;
  std::optional<Nanos> retry;
  {
    std::lock_guard lock(mutex_);
    const MonoTime now = clock_.mono();
    sweep_locked(now);
    const auto found = held_.find({counter.key, id});
    const std::uint32_t part = part_locked(counter);
    if (found != held_.end()) {
      if (found->second.weight != weight) {
        why = LeaseRefusal::held_otherwise;
      } else {
        answer.lease = seen_locked(id, found->second, now);
        answer.lease->repeated = true;
      }
    } else if (weight > config_.limit) {
      why = LeaseRefusal::never_fits;
    } else if (weight > part) {
      why = LeaseRefusal::store_away;
      retry = Nanos(std::chrono::seconds(1));
    } else if (units_locked(counter.key) + weight > part) {
      why = LeaseRefusal::full;
      for (const auto& [key, held] : held_)
        if (key.first == counter.key)
          retry = std::min(retry.value_or(held.ends - now), held.ends - now);
    } else {
      const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(
          desk_->ports().store_now().time_since_epoch());
      last_fence_ = std::max(last_fence_ + 1, static_cast<std::uint64_t>(micros.count()));
      const Held held{.counter = counter,
                      .weight = weight,
                      .fence = last_fence_,
                      .since = now,
                      .ends = now + std::min(config_.lease, config_.max_hold),
                      .untold = true};
      held_.emplace(Id{counter.key, id}, held);
      units_[counter.key] += weight;
      ++given_;
      ++given_without_;
      answer.lease = seen_locked(id, held, now);
      desk_->poke();
    }
  }
  return why == LeaseRefusal::none ? answer : refuse(why, retry);
}

void SharedLimit::renew(const Counter& counter, std::string_view of, Done done) {
  const std::string id(of);
  LeaseDesk* const desk = desk_for(counter);
  bool untold = false;
  {
    std::lock_guard lock(mutex_);
    const auto found = held_.find({counter.key, id});
    untold = found != held_.end() && found->second.untold;
  }
  // The store does not know yet what it was given without: it is told, and not asked.
  if (desk == nullptr || untold) return done(renew_without(counter, id));
  call(*desk, counter, {.kind = Kind::renew, .id = id}, desk->deadline(),
       [self = shared_from_this(), counter, id, done = std::move(done)](
           const redis::LeaseReply* reply, bool late) {
         if (late) return;
         done(reply != nullptr ? self->renewed(counter, id, *reply)
                               : self->renew_without(counter, id));
       });
}

LeaseAnswer SharedLimit::renew_without(const Counter& counter, std::string_view of) {
  const std::string id(of);
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
  }
  return refuse(LeaseRefusal::store_away, Nanos(std::chrono::seconds(1)));
}

// What the store holds is what is remembered.
LeaseAnswer SharedLimit::renewed(const Counter& counter, const std::string& id,
                                 const redis::LeaseReply& reply) {
  std::lock_guard lock(mutex_);
  const MonoTime now = clock_.mono();
  const Id key{counter.key, id};
  auto found = held_.find(key);
  if (reply.outcome == Outcome::none) {
    ++refused_;
    if (found != held_.end()) {
      if (const auto mark = found->second.slot.lock()) mark->word = 0;
      units_[counter.key] -= found->second.weight;
      held_.erase(found);
    }
    return {.lease = {}, .refusal = LeaseRefusal::gone, .retry_after = {}};
  }
  if (found == held_.end()) {
    found = held_.emplace(key, Held{.counter = counter, .weight = reply.weight}).first;
    units_[counter.key] += reply.weight;
  }
  Held& held = found->second;
  held.fence = reply.fence;
  held.since = now - reply.held_for;
  held.ends = now + reply.left;
  held.untold = false;
  last_fence_ = std::max(last_fence_, reply.fence);
  return {.lease = seen_locked(id, held, now)};
}

bool SharedLimit::end_locked(const Counter& counter, const std::string& id, bool tell) {
  sweep_locked(clock_.mono());
  const auto found = held_.find({counter.key, id});
  if (found == held_.end()) return false;
  units_[counter.key] -= found->second.weight;
  if (tell && ended_.size() < kMostEnded) ended_.push_back({counter, id, found->second.ends});
  held_.erase(found);
  return true;
}

Result<bool> SharedLimit::release_without(const Counter& counter, std::string_view id) {
  std::lock_guard lock(mutex_);
  if (end_locked(counter, std::string(id), true)) {
    if (desk_ != nullptr) desk_->poke();
    return true;
  }
  return Error{ErrorCode::unavailable,
               "the store does not answer, and this worker does not know the lease; it ends by "
               "itself"};
}

void SharedLimit::release(const Counter& counter, std::string_view of,
                          std::function<void(Result<bool>)> done) {
  LeaseDesk* const desk = desk_for(counter);
  if (desk == nullptr) return done(release_without(counter, of));
  const std::string id(of);
  bool known = false;
  {
    std::lock_guard lock(mutex_);
    known = end_locked(counter, id, false);
  }
  call(*desk, counter, {.kind = Kind::release, .id = id}, desk->deadline(),
       [self = shared_from_this(), counter, id, known, done = std::move(done)](
           const redis::LeaseReply* reply, bool late) {
         if (late) return;
         if (reply != nullptr) return done(known || reply->outcome == Outcome::done);
         if (!known) return done(self->release_without(counter, id));
         {
           std::lock_guard lock(self->mutex_);
           self->ended_.push_back({counter, id, self->clock_.mono() + self->config_.max_hold});
           if (self->desk_ != nullptr) self->desk_->poke();
         }
         done(true);
       });
}

// ---- Slots

Slot SharedLimit::slot(const Counter& counter, const Lease& lease) {
  auto renewed = std::make_shared<Renewed>();
  renewed->mark->word = lease.weight;
  renewed->limit = weak_from_this();
  renewed->counter = counter;
  renewed->id = lease.id;
  LeaseDesk* desk = nullptr;
  {
    std::lock_guard lock(mutex_);
    const auto found = held_.find({counter.key, lease.id});
    if (found != held_.end()) found->second.slot = renewed->mark;
    desk = desk_;
  }
  if (desk != nullptr) desk->poke();
  Mark& mark = *renewed->mark;
  return detail::SlotMaker::make(mark, lease.weight, std::move(renewed));
}

Slot SharedLimit::no_slot(LeaseRefusal why) {
  return detail::SlotMaker::refused(why);
}

// ---- The loop's turn

bool SharedLimit::turn() {
  std::vector<std::pair<Id, Held>> telling;
  std::vector<std::pair<Id, Held>> renewing;
  std::vector<Ended> ended;
  LeaseDesk* desk = nullptr;
  bool more = false;
  {
    std::lock_guard lock(mutex_);
    desk = desk_;
    if (desk == nullptr) return false;
    const MonoTime now = clock_.mono();
    sweep_locked(now);
    for (auto& [id, held] : held_) {
      const bool slot = !held.slot.expired();
      more |= held.untold || slot;
      if (held.out || telling.size() + renewing.size() >= kMostInTurn) continue;
      const bool there = desk->line().up(desk->keys().slot(held.counter.key));
      if (held.untold && there) {
        held.out = true;
        telling.emplace_back(id, held);
      } else if (slot && held.ends - now < config_.lease * 2 / 3) {
        held.out = there;
        renewing.emplace_back(id, held);
      }
    }
    std::erase_if(ended_, [now](const Ended& each) { return now >= each.till; });
    for (std::size_t i = ended_.size(); i > 0 && ended.size() < kMostInTurn; --i) {
      Ended& each = ended_.front();
      if (!desk->line().up(desk->keys().slot(each.counter.key))) break;
      ended.push_back(std::move(each));
      ended_.pop_front();
    }
    more |= !ended_.empty() || !ended.empty();
  }
  for (const auto& [id, held] : telling) tell(id, held);
  for (const auto& [id, held] : renewing) renew_slot(id, held);
  for (const Ended& each : ended) {
    call(*desk, each.counter, {.kind = Kind::release, .id = each.id}, kUnhurried,
         [self = shared_from_this(), each](const redis::LeaseReply* reply, bool late) {
           if (late || reply != nullptr) return;
           std::lock_guard lock(self->mutex_);
           self->ended_.push_back(each);
         });
  }
  return more;
}

void SharedLimit::tell(const Id& id, const Held& held) {
  LeaseDesk* desk = nullptr;
  redis::LeaseAction action{.kind = Kind::keep, .id = id.second, .weight = held.weight};
  {
    std::lock_guard lock(mutex_);
    desk = desk_;
    const MonoTime now = clock_.mono();
    action.fence = held.fence;
    action.held_for = now - held.since;
    action.left = held.ends - now;
  }
  if (desk == nullptr) return;
  call(
      *desk, held.counter, action, kUnhurried,
      [self = shared_from_this(), id, told = held.ends](const redis::LeaseReply* reply, bool late) {
        if (late) return;
        std::lock_guard lock(self->mutex_);
        const auto found = self->held_.find(id);
        if (found == self->held_.end()) {
          // Released while it was being told.
          if (reply == nullptr) return;
          Ended& ended = self->ended_.emplace_back();
          ended.counter.key = id.first;
          ended.id = id.second;
          ended.till = told;
          return;
        }
        found->second.out = false;
        if (reply != nullptr && found->second.ends == told) found->second.untold = false;
      });
}

void SharedLimit::renew_slot(const Id& id, const Held& held) {
  renew(held.counter, id.second, [self = shared_from_this(), id](const LeaseAnswer&) {
    std::lock_guard lock(self->mutex_);
    const auto found = self->held_.find(id);
    if (found != self->held_.end()) found->second.out = false;
  });
}

// ---- Under the lock

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
  // Any counter's store: on a cluster each may have another.
  out.store_answers = desk_ != nullptr && desk_->line().answering(0);
  return out;
}

}  // namespace guard
}  // namespace weir
