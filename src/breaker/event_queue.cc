#include "breaker/event_queue.h"

#include <utility>

namespace weir::breaker {
namespace {

thread_local std::uint32_t held_back = 0;

}  // namespace

HoldEvents::HoldEvents() noexcept {
  ++held_back;
}
HoldEvents::~HoldEvents() {
  --held_back;
}

void EventQueue::push(BreakerEvent event) {
  if (!listener_) return;
  std::lock_guard lock(mutex_);
  event.seq = ++seq_;
  if (waiting_.size() >= kMost) {
    waiting_.pop_front();
    ++dropped_;
  }
  waiting_.push_back(std::move(event));
  pending_.store(true, std::memory_order_release);
}

void EventQueue::deliver() noexcept {
  if (!pending_.load(std::memory_order_acquire) || held_back != 0) return;
  std::unique_lock lock(mutex_);
  if (delivering_) return;  // whoever delivers takes ours along
  delivering_ = true;
  while (!waiting_.empty()) {
    const BreakerEvent event = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      listener_(event);
    } catch (...) {  // promised: what a listener throws is dropped
    }
    lock.lock();
  }
  delivering_ = false;
  pending_.store(false, std::memory_order_release);
}

std::uint64_t EventQueue::dropped() const {
  std::lock_guard lock(mutex_);
  return dropped_;
}

}  // namespace weir::breaker
