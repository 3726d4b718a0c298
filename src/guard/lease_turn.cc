#include <algorithm>
#include <utility>

#include "guard/shared_limit.h"

// What a shared limit does by itself, in the loop's thread: slots are renewed, and the store is
// told of what changed without it.

namespace weir::guard {

namespace redis = store::redis;
using Kind = redis::LeaseAction::Kind;

namespace {

// Nobody waits for what is told afterwards.
constexpr Nanos kUnhurried = std::chrono::seconds(1);
// Told or renewed in one turn.
constexpr std::size_t kMostInTurn = 256;
constexpr Nanos kLeastTurn = std::chrono::milliseconds(10);

void sooner(std::optional<MonoTime>& next, std::optional<MonoTime> when) {
  if (when && (!next || *when < *next)) next = when;
}

}  // namespace

// A slot is renewed once a third of its lease is over: by the turn after that there is still half.
Nanos SharedLimit::step_locked() const {
  return std::clamp(Nanos(config_.lease / 6), kLeastTurn, LeaseDesk::kTurn);
}

std::optional<MonoTime> SharedLimit::turn() {
  Telling telling;
  std::vector<Waiter> over;
  std::vector<std::string> due;
  std::optional<MonoTime> next;
  {
    std::lock_guard lock(mutex_);
    if (desk_ == nullptr) return std::nullopt;
    const MonoTime now = clock_.mono();
    sweep_locked(now);
    // Ends go first: what is held again under the same id is told after that.
    tell_ends_locked(*desk_, now);
    next = look_at_held_locked(*desk_, now, telling);
    if (!ended_.empty()) sooner(next, now + LeaseDesk::kTurn);
    sooner(next, look_at_queues_locked(now, over, due));
  }
  for (const auto& [id, held] : telling.keep) tell(id, held);
  for (const auto& [id, held] : telling.renew) renew_slot(id, held);
  for (Waiter& each : over) give_up(std::move(each));
  for (const std::string& key : due) ask_for_first(key);
  return next;
}

std::optional<MonoTime> SharedLimit::look_at_held_locked(LeaseDesk& desk, MonoTime now,
                                                         Telling& telling) {
  // All of them are looked at: not whenever somebody waits.
  if (held_.size() > 1'000 && now < looked_ + kLeastTurn) return looked_ + kLeastTurn;
  looked_ = now;
  std::optional<MonoTime> next;
  for (auto& [id, held] : held_) {
    const bool slot = !held.slot.expired();
    if (slot) sooner(next, now + step_locked());
    if (held.untold) sooner(next, now + LeaseDesk::kTurn);
    if (held.out || telling.keep.size() + telling.renew.size() >= kMostInTurn) continue;
    const bool there = desk.line().up(desk.keys().slot(held.counter.key));
    if (held.untold && there) {
      held.out = true;
      telling.keep.emplace_back(id, held);
    } else if (slot && held.ends - now < config_.lease * 2 / 3) {
      held.out = there;
      telling.renew.emplace_back(id, held);
    }
  }
  return next;
}

void SharedLimit::tell_ends_locked(LeaseDesk& desk, MonoTime now) {
  std::size_t sent = 0;
  for (auto at = ended_.begin(); at != ended_.end();) {
    const bool there = desk.line().up(desk.keys().slot(at->second.counter.key));
    if (now < at->second.till && (!there || sent >= kMostInTurn)) {
      ++at;
      continue;
    }
    if (now < at->second.till) {
      send_release_locked(desk, at->first, at->second);
      ++sent;
    }
    at = ended_.erase(at);
  }
}

void SharedLimit::send_release_locked(LeaseDesk& desk, const Id& id, const Ended& ended) {
  call_locked(desk, ended.counter, {.kind = Kind::release, .id = id.second}, kUnhurried,
              [self = shared_from_this(), id = id.second, ended](const redis::LeaseReply* reply,
                                                                 bool late) {
                if (late || reply != nullptr) return;
                std::lock_guard lock(self->mutex_);
                self->end_later_locked(id, ended);
              });
}

void SharedLimit::tell(const Id& id, const Held& held) {
  std::lock_guard lock(mutex_);
  if (desk_ == nullptr) return;
  const MonoTime now = clock_.mono();
  if (held.anew)
    call_locked(*desk_, held.counter, {.kind = Kind::release, .id = id.second}, kUnhurried,
                [](const redis::LeaseReply*, bool) {});
  call_locked(*desk_, held.counter,
              {.kind = Kind::keep,
               .id = id.second,
               .weight = held.weight,
               .fence = held.fence,
               .held_for = now - held.since,
               .left = held.ends - now},
              kUnhurried,
              [self = shared_from_this(), id, held](const redis::LeaseReply* reply, bool late) {
                if (!late) self->told(id, held, reply != nullptr);
              });
}

void SharedLimit::told(const Id& id, const Held& held, bool heard) {
  std::lock_guard lock(mutex_);
  const auto found = held_.find(id);
  if (found == held_.end()) {
    // Released while it was being told.
    if (heard) end_later_locked(id.second, {held.counter, held.ends});
    return;
  }
  found->second.out = false;
  if (!heard || found->second.fence != held.fence) return;
  found->second.anew = false;
  if (found->second.ends == held.ends) found->second.untold = false;
}

void SharedLimit::renew_slot(const Id& id, const Held& held) {
  renew(held.counter, id.second, [self = shared_from_this(), id](const LeaseAnswer&) {
    std::lock_guard lock(self->mutex_);
    const auto found = self->held_.find(id);
    if (found != self->held_.end()) found->second.out = false;
  });
}

}  // namespace weir::guard
