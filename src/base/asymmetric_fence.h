#pragma once

#include <atomic>

namespace weir {

// Two fences that order the same things as two sequentially consistent ones, at uneven prices: the
// light side, which many threads pass all the time, costs nothing; the heavy side makes every
// thread of the process pass a fence (membarrier(2)), which takes microseconds.
//
// Guarantees:  of a store before light() in one thread and a store before a heavy() that returned
//              true in another, at least one is seen by the loads that the other thread does after
//              its fence.
// Requires:    prepare() was called, by any thread, before a heavy() is to be relied on.
// Threads:     any.
// Errors:      where the system has no such call, the light side is a full fence of its own, and
//              heavy() another; where it had one and refuses it later, heavy() returns false, and
//              orders nothing.
class AsymmetricFence {
 public:
  static void prepare() noexcept;
  static void light() noexcept {
    if (all_are_reached_.load(std::memory_order_relaxed)) [[likely]] {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }
  static bool heavy() noexcept;

 private:
  // Never goes back: a thread may have passed light() on the strength of it.
  static std::atomic<bool> all_are_reached_;
};

// The same interface, with no help of the system.
class FullFence {
 public:
  static void prepare() noexcept {}
  static void light() noexcept { std::atomic_thread_fence(std::memory_order_seq_cst); }
  static bool heavy() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return true;
  }
};

}  // namespace weir
