#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/thread_stripe.h"

namespace weir {

// A value that many threads read and few replace: a reader pays two uncontended atomic additions
// and never waits.
//
// Guarantees:  a reader's pointer stays valid until its Ref is gone, however often the value is
// replaced meanwhile.
//              A replaced value is destroyed once no reader can hold it: at publish(), or at a
//              later one if some reader holds on longer than kPatience (so publish() from inside a
//              reader is late, never stuck).
// Threads:     read() and publish() from any thread.
//
// How: readers count themselves in and out of one of two phases. A replaced value is free once both
// phases have been seen empty after the replacement, each after new readers were sent to the other
// one. Both sides order "announce" before "look" (sequentially consistent), so either the writer
// sees the reader, or the reader sees the new value.
template <class T>
class SnapshotCell {
 public:
  static constexpr auto kPatience = std::chrono::milliseconds(100);

  class Ref {
   public:
    Ref(Ref&& other) noexcept
        : value_(std::exchange(other.value_, nullptr)),
          count_(std::exchange(other.count_, nullptr)) {}
    Ref& operator=(Ref&& other) noexcept {
      std::swap(value_, other.value_);
      std::swap(count_, other.count_);
      return *this;
    }
    ~Ref() {
      if (count_ != nullptr) count_->fetch_sub(1, std::memory_order_release);
    }
    const T& operator*() const noexcept { return *value_; }
    const T* operator->() const noexcept { return value_; }
    const T* get() const noexcept { return value_; }

   private:
    friend class SnapshotCell;
    Ref(const T* value, std::atomic<std::uint64_t>* count) : value_(value), count_(count) {}
    const T* value_;
    std::atomic<std::uint64_t>* count_;
  };

  explicit SnapshotCell(std::unique_ptr<const T> first) : current_(first.release()) {}
  SnapshotCell(const SnapshotCell&) = delete;
  SnapshotCell& operator=(const SnapshotCell&) = delete;
  // Requires: no reader is left.
  ~SnapshotCell() { delete current_.load(); }

  Ref read() const noexcept {
    std::atomic<std::uint64_t>& count =
        stripes_[thread_stripe() % kStripes].readers[phase_.load(std::memory_order_relaxed)];
    count.fetch_add(1, std::memory_order_seq_cst);
    return Ref(current_.load(std::memory_order_seq_cst), &count);
  }

  void publish(std::unique_ptr<const T> next) {
    std::lock_guard lock(writer_);
    retired_.emplace_back(current_.exchange(next.release(), std::memory_order_seq_cst));
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    if (drained(give_up) && drained(give_up)) retired_.clear();
  }

 private:
  static constexpr std::size_t kStripes = 32;
  struct alignas(64) Stripe {
    std::array<std::atomic<std::uint64_t>, 2> readers{};
  };

  // Sends new readers to the other phase and waits until the one left is empty.
  bool drained(std::chrono::steady_clock::time_point give_up) {
    const unsigned leaving = phase_.load();
    phase_.store(1 - leaving);
    for (;;) {
      std::uint64_t inside = 0;
      for (const Stripe& stripe : stripes_) inside += stripe.readers[leaving].load();
      if (inside == 0) return true;
      if (std::chrono::steady_clock::now() >= give_up) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  mutable std::array<Stripe, kStripes> stripes_{};
  std::atomic<const T*> current_;
  std::atomic<unsigned> phase_{0};
  std::mutex writer_;
  std::vector<std::unique_ptr<const T>> retired_;
};

}  // namespace weir
