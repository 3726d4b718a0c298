#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/striped_counter.h"

namespace weir::breaker {

// What became of the calls of one breaker. Eight counters a thread, in one cache line.
//
// Guarantees:  nothing is lost; sums never go down.
// Threads:     any.
class CallCounters {
 public:
  enum Kind : std::uint8_t { ok, failed, slow, ignored, cancelled, local_reject, late, rejected };

  void add(Kind kind) noexcept {
    const std::size_t stripe = counter_stripe();
    add_to_stripe(lines_[stripe].cells[kind], stripe, 1);
  }
  std::uint64_t sum(Kind kind) const noexcept {
    std::uint64_t total = 0;
    for (const Line& line : lines_) total += line.cells[kind].load(std::memory_order_relaxed);
    return total;
  }

 private:
  struct alignas(64) Line {
    std::array<std::atomic<std::uint64_t>, 8> cells{};
  };
  std::array<Line, kCounterStripes> lines_{};
};

}  // namespace weir::breaker
