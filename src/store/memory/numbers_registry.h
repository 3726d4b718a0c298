#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "limit/numbers.h"
#include "store/memory/line.h"
#include "store/memory/region.h"

namespace weir::store {

// The numbers that counters are kept under, each under a small id that fits a slot.
//
// An id lives as long as some slot refers to it. At most kMost sets of numbers at once; past that
// no counter of new numbers can be kept.
//
// Threads:     every member from any thread; what is asked of an id asks that the caller holds a
// reference (the lock
//              of a line with a slot of it, or an acquire() of its own).
class NumbersRegistry {
 public:
  static constexpr unsigned kMost = (1U << kNumbersIdBits) - 1;

  static Result<NumbersRegistry> make();
  NumbersRegistry(NumbersRegistry&& other) noexcept : region_(std::move(other.region_)) {}

  // A reference to these numbers, known to belong to that policy load. 0: no id is left.
  unsigned acquire(const limit::Numbers& numbers, std::uint32_t generation) noexcept;
  void add_reference(unsigned id) noexcept {
    std::atomic_ref(entry(id).stamp_and_refs).fetch_add(1, std::memory_order_relaxed);
  }
  void release(unsigned id) noexcept {
    std::atomic_ref(entry(id).stamp_and_refs).fetch_sub(1, std::memory_order_release);
  }

  std::uint32_t stamp(unsigned id) const noexcept {
    return static_cast<std::uint32_t>(
        std::atomic_ref(entry(id).stamp_and_refs).load(std::memory_order_relaxed) >> 32);
  }
  // Whether the id is of these numbers, and known to belong to that policy load or a newer one.
  bool is_current(unsigned id, std::uint32_t stamp, std::uint32_t generation) const noexcept {
    return this->stamp(id) == stamp && this->generation(id) >= generation;
  }
  const limit::Numbers& numbers(unsigned id) const noexcept { return entry(id).numbers; }

  // The newest policy load that these numbers were seen in.
  std::uint32_t generation(unsigned id) const noexcept {
    return std::atomic_ref(entry(id).generation).load(std::memory_order_relaxed);
  }
  void saw_generation(unsigned id, std::uint32_t generation) noexcept;

 private:
  struct alignas(64) Entry {
    std::uint64_t stamp_and_refs;  // 0: never used; stamp 0 with a reference: being rewritten
    std::uint32_t generation;
    limit::Numbers numbers;
  };

  explicit NumbersRegistry(Region region) : region_(std::move(region)) {}
  Entry& entry(unsigned id) const noexcept { return static_cast<Entry*>(region_.data())[id]; }
  bool try_acquire(unsigned id, const limit::Numbers& numbers, std::uint64_t seen) noexcept;
  unsigned acquire_slowly(const limit::Numbers& numbers, std::uint32_t generation) noexcept;

  Region region_;
  std::mutex mutex_;  // held by whoever gives an id to new numbers
};

}  // namespace weir::store
