#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/asymmetric_fence.h"
#include "base/striped_counter.h"

namespace weir {

// A value that many threads read and few replace: a reader counts itself in and out in memory that
// no other thread writes, without a locked instruction, and never waits.
//
// Guarantees:  a reader's pointer stays valid until its Ref is gone, however often the value is
// replaced meanwhile.
//              A replaced value is destroyed once no reader can hold it: at publish(), or at a
//              later one if some reader holds on longer than kPatience (so publish() from inside a
//              reader is late, never stuck).
// Threads:     read() and publish() from any thread; a Ref may end in another thread than it began.
//
// How: readers count themselves in and out of one of two phases, each thread in a stripe of its
// own. A replaced value is free once both phases have been seen empty after the replacement, each
// after new readers were sent to the other one. Both sides order "announce" before "look", so
// either the writer sees the reader, or the reader sees the new value: the reader by a light fence,
// the writer by a heavy one, after the replacement and before it looks at either phase. Ins and
// outs are counted apart, and the outs are summed first: they add up to the ins only if nobody was
// inside in between.
template <class T, class Fence = AsymmetricFence>
class SnapshotCell {
  struct Phase {
    std::atomic<std::uint64_t> in{0};
    std::atomic<std::uint64_t> out{0};
    std::atomic<std::uint64_t> out_elsewhere{0};  // in threads that do not own the stripe
  };

 public:
  static constexpr auto kPatience = std::chrono::milliseconds(100);

  class Ref {
   public:
    Ref(Ref&& other) noexcept
        : value_(std::exchange(other.value_, nullptr)),
          phase_(std::exchange(other.phase_, nullptr)),
          stripe_(other.stripe_) {}
    Ref& operator=(Ref&& other) noexcept {
      std::swap(value_, other.value_);
      std::swap(phase_, other.phase_);
      std::swap(stripe_, other.stripe_);
      return *this;
    }
    ~Ref() {
      if (phase_ == nullptr) return;
      if (stripe_ < kOwnedStripes && stripe_ == counter_stripe()) [[likely]] {
        phase_->out.store(phase_->out.load(std::memory_order_relaxed) + 1,
                          std::memory_order_release);
      } else {
        phase_->out_elsewhere.fetch_add(1, std::memory_order_release);
      }
    }
    const T& operator*() const noexcept { return *value_; }
    const T* operator->() const noexcept { return value_; }
    const T* get() const noexcept { return value_; }

   private:
    friend class SnapshotCell;
    Ref(const T* value, Phase* phase, std::size_t stripe)
        : value_(value), phase_(phase), stripe_(stripe) {}
    const T* value_;
    Phase* phase_;
    std::size_t stripe_;
  };

  explicit SnapshotCell(std::unique_ptr<const T> first) : current_(first.release()) {
    Fence::prepare();
  }
  SnapshotCell(const SnapshotCell&) = delete;
  SnapshotCell& operator=(const SnapshotCell&) = delete;
  // Requires: no reader is left.
  ~SnapshotCell() { delete current_.load(); }

  Ref read() const noexcept {
    const std::size_t stripe = counter_stripe();
    Phase& phase = stripes_[stripe].phases[phase_.load(std::memory_order_relaxed)];
    add_to_stripe(phase.in, stripe, 1);
    Fence::light();
    return Ref(current_.load(std::memory_order_acquire), &phase, stripe);
  }

  // `patience`: nothing where the readers are in this thread, as in a simulation; whoever still
  // reads the old value is then waited for by nobody.
  void publish(std::unique_ptr<const T> next, std::chrono::nanoseconds patience = kPatience) {
    std::lock_guard lock(writer_);
    retired_.emplace_back(current_.exchange(next.release(), std::memory_order_seq_cst));
    if (!Fence::heavy()) return;
    const auto give_up = std::chrono::steady_clock::now() + patience;
    if (drained(give_up) && drained(give_up)) retired_.clear();
  }

 private:
  struct alignas(64) Stripe {
    std::array<Phase, 2> phases{};
  };

  bool is_empty(unsigned phase) const noexcept {
    std::uint64_t out = 0;
    for (const Stripe& stripe : stripes_) {
      out += stripe.phases[phase].out.load(std::memory_order_acquire);
      out += stripe.phases[phase].out_elsewhere.load(std::memory_order_acquire);
    }
    std::uint64_t in = 0;
    for (const Stripe& stripe : stripes_)
      in += stripe.phases[phase].in.load(std::memory_order_acquire);
    return in == out;
  }

  // Sends new readers to the other phase and waits until the one left is empty.
  bool drained(std::chrono::steady_clock::time_point give_up) {
    const unsigned leaving = phase_.load();
    phase_.store(1 - leaving);
    while (!is_empty(leaving)) {
      if (std::chrono::steady_clock::now() >= give_up) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return true;
  }

  mutable std::array<Stripe, kCounterStripes> stripes_{};
  std::atomic<const T*> current_;
  std::atomic<unsigned> phase_{0};
  std::mutex writer_;
  std::vector<std::unique_ptr<const T>> retired_;
};

}  // namespace weir
