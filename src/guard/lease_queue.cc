#include <algorithm>
#include <chrono>
#include <utility>

#include "breaker/lease_id.h"
#include "guard/shared_limit.h"

// Those of this process that wait for a shared limit. However many they are, the first alone asks
// the store: renewals go on the same line, and must not stand behind hundreds that are told "full".

namespace weir::guard {

namespace {

// The first of a queue asks again after so long at the latest, and at the earliest.
constexpr Nanos kAskAgain = std::chrono::milliseconds(100);
constexpr Nanos kLeastPause = std::chrono::milliseconds(5);
constexpr Nanos kMostPatience = std::chrono::hours(24);
// Callers of a counter for which nobody waits yet ask at once; of a crowd so many, the rest waits.
constexpr std::uint32_t kMostTrying = 16;

bool worth_waiting(LeaseRefusal why) noexcept {
  return why == LeaseRefusal::full || why == LeaseRefusal::store_away;
}

LeaseAnswer no(LeaseRefusal why) {
  return {.lease = {}, .refusal = why, .retry_after = {}};
}

}  // namespace

void SharedLimit::acquire(const Counter& counter, std::uint32_t weight, Nanos patience, Done done) {
  const LeaseRequest request{.id = {}, .weight = weight};
  if (patience <= Nanos::zero()) return lease(counter, request, std::move(done));
  if (auto wrong = wrong_with(counter, request)) return done(*std::move(wrong));
  Waiter waiter{.id = breaker::unguessable_lease_id(),
                .weight = weight,
                .give_up = clock_.mono() + std::min(patience, kMostPatience),
                .done = std::move(done)};
  std::unique_lock lock(mutex_);
  const bool never = weight > config_.limit;
  const auto trying = trying_.find(counter.key);
  const std::uint32_t tries = trying != trying_.end() ? trying->second : 0;
  const bool others = queues_.contains(counter.key) || tries >= kMostTrying;
  if (never || !others) ++trying_[counter.key];
  lock.unlock();
  if (others && !never) return wait(counter, std::move(waiter));
  // Nobody is before it. It joins the queue where it is not given.
  const std::string id = waiter.id;
  ask(counter, id, weight,
      [self = shared_from_this(), counter, waiter = std::move(waiter)](LeaseAnswer answer) mutable {
        self->tried(counter);
        if (answer || !worth_waiting(answer.refusal))
          return waiter.done(self->counted(std::move(answer)));
        waiter.last = answer.refusal;
        self->wait(counter, std::move(waiter));
      });
}

void SharedLimit::tried(const Counter& counter) {
  std::lock_guard lock(mutex_);
  const auto found = trying_.find(counter.key);
  if (--found->second == 0) trying_.erase(found);
}

void SharedLimit::wait(const Counter& counter, Waiter waiter) {
  std::unique_lock lock(mutex_);
  const auto found = queues_.find(counter.key);
  const std::size_t before = found != queues_.end() ? found->second.waiting.size() : 0;
  if (desk_ == nullptr || before >= config_.max_waiting) {
    const LeaseRefusal why = desk_ == nullptr ? LeaseRefusal::store_away : LeaseRefusal::queue_full;
    lock.unlock();
    return waiter.done(counted(no(why)));
  }
  const MonoTime now = clock_.mono();
  Queue& queue = queues_[counter.key];
  if (before == 0) {
    queue.counter = counter;
    queue.next = now + kLeastPause;
  }
  ++asking_[{counter.key, waiter.id}].by;
  desk_->turn_by(std::min(queue.next, waiter.give_up));
  queue.waiting.push_back(std::move(waiter));
}

void SharedLimit::ask_for_first(const std::string& key) {
  std::unique_lock lock(mutex_);
  const auto found = queues_.find(key);
  if (found == queues_.end()) return;
  Queue& queue = found->second;
  if (queue.out || clock_.mono() < queue.next) return;
  queue.out = true;
  const Counter counter = queue.counter;
  const std::string id = queue.waiting.front().id;
  const std::uint32_t weight = queue.waiting.front().weight;
  lock.unlock();
  ask(counter, id, weight, [self = shared_from_this(), counter, id](LeaseAnswer answer) {
    self->first_heard(counter, id, std::move(answer));
  });
}

void SharedLimit::first_heard(const Counter& counter, const std::string& id, LeaseAnswer answer) {
  std::optional<Waiter> served;
  std::unique_lock lock(mutex_);
  const auto found = queues_.find(counter.key);
  if (found != queues_.end()) {
    Queue& queue = found->second;
    const MonoTime now = clock_.mono();
    const auto first = std::find_if(queue.waiting.begin(), queue.waiting.end(),
                                    [&](const Waiter& each) { return each.id == id; });
    const bool waits = first != queue.waiting.end();
    queue.out = false;
    queue.next = now;
    if (waits && !answer && worth_waiting(answer.refusal)) {
      first->last = answer.refusal;
      queue.next = now + std::clamp(answer.retry_after.value_or(kAskAgain), kLeastPause, kAskAgain);
    } else if (waits) {
      served = std::move(*first);
      queue.waiting.erase(first);
      settle_locked(queue.counter, id);
    }
    if (desk_ != nullptr && !queue.waiting.empty()) desk_->turn_by(queue.next);
    if (queue.waiting.empty()) queues_.erase(found);
  }
  lock.unlock();
  if (served) return served->done(counted(std::move(answer)));
  // Given in the moment in which its patience ended.
  if (answer) release(counter, id, [](const Result<bool>&) {});
}

std::optional<MonoTime> SharedLimit::look_at_queues_locked(MonoTime now, std::vector<Waiter>& over,
                                                           std::vector<std::string>& due) {
  std::optional<MonoTime> next;
  const auto by = [&next](MonoTime when) { next = std::min(next.value_or(when), when); };
  for (auto at = queues_.begin(); at != queues_.end();) {
    Queue& queue = at->second;
    for (auto waiter = queue.waiting.begin(); waiter != queue.waiting.end();) {
      if (now < waiter->give_up) {
        by(waiter->give_up);
        ++waiter;
        continue;
      }
      settle_locked(queue.counter, waiter->id);
      over.push_back(std::move(*waiter));
      waiter = queue.waiting.erase(waiter);
    }
    if (queue.waiting.empty()) {
      at = queues_.erase(at);
      continue;
    }
    if (!queue.out && now >= queue.next) due.push_back(at->first);
    if (!queue.out && now < queue.next) by(queue.next);
    ++at;
  }
  return next;
}

// That nobody here could say is another answer than that others held it all the time.
void SharedLimit::give_up(Waiter waiter) {
  waiter.done(counted(no(waiter.last == LeaseRefusal::store_away ? LeaseRefusal::store_away
                                                                 : LeaseRefusal::timed_out)));
}

}  // namespace weir::guard
