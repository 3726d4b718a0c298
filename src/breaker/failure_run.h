#pragma once

#include <atomic>
#include <cstdint>

namespace weir::breaker {

// Failures in a row.
//
// Guarantees:  a record of an earlier generation changes nothing.
// Cost:        a good call after a good one: one load.
// Threads:     record() and length() from any; begin() from one at a time.
class FailureRun {
 public:
  void begin(std::uint64_t generation) noexcept {
    word_.store(tag(generation), std::memory_order_release);
  }

  // Fills in the length that this call makes it. False: the generation is over.
  [[nodiscard]] bool record(std::uint64_t generation, bool failed, std::uint32_t& length) noexcept {
    std::uint64_t held = word_.load(std::memory_order_acquire);
    for (;;) {
      if ((held & kTagMask) != tag(generation)) return false;
      length = static_cast<std::uint32_t>(held);
      if (!failed && length == 0) return true;
      if (failed && length == UINT32_MAX) return true;
      const std::uint64_t next = failed ? held + 1 : tag(generation);
      if (word_.compare_exchange_weak(held, next, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
        length = static_cast<std::uint32_t>(next);
        return true;
      }
    }
  }

  std::uint32_t length() const noexcept {
    return static_cast<std::uint32_t>(word_.load(std::memory_order_acquire));
  }

 private:
  static constexpr std::uint64_t kTagMask = ~std::uint64_t{UINT32_MAX};
  static std::uint64_t tag(std::uint64_t generation) noexcept { return generation << 32; }

  std::atomic<std::uint64_t> word_{0};
};

}  // namespace weir::breaker
