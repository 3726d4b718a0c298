#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#include "weir/breaker.h"

namespace weir::breaker {

// Hands events to a listener one by one, in order, outside every lock.
//
// Guarantees:  push() under the breaker's lock fixes the order; deliver() calls the listener in one
//              thread at a time, so an event is heard after the one before it. A listener that
//              causes an event hears of it after it has returned. At most kMost wait: a listener
//              that is stuck costs events, which are counted, never memory.
// Threads:     any.
class EventQueue {
 public:
  static constexpr std::size_t kMost = 1'000;

  explicit EventQueue(BreakerListener listener) : listener_(std::move(listener)) {}

  void push(BreakerEvent event);
  // While this thread holds events back, nothing: see HoldEvents.
  void deliver() noexcept;
  std::uint64_t dropped() const;

 private:
  const BreakerListener listener_;
  mutable std::mutex mutex_;
  std::deque<BreakerEvent> waiting_;
  std::uint64_t seq_ = 0;
  std::uint64_t dropped_ = 0;
  bool delivering_ = false;
  std::atomic<bool> pending_{false};  // what deliver() looks at first: most calls change nothing
};

// While one lives, this thread delivers nothing: for whoever changes breakers under a lock of its
// own, and delivers once it has let go of that. Events stay in their queues meanwhile, in order,
// and another thread that delivers takes them along.
class HoldEvents {
 public:
  HoldEvents() noexcept;
  HoldEvents(const HoldEvents&) = delete;
  HoldEvents& operator=(const HoldEvents&) = delete;
  ~HoldEvents();
};

}  // namespace weir::breaker
