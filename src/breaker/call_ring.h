#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/wide.h"
#include "breaker/tally.h"

namespace weir::breaker {

// The outcomes of the last N calls.
//
// Guarantees:  a record of an earlier generation changes nothing, wherever its thread was held up:
//              every cell and the totals carry the generation that they belong to. Records that
//              overlap each other may see a tally without the other's; once all are done it is
//              exact.
// Cost:        record() of what the oldest cell already says (a healthy dependency): one locked
//              addition. No allocation.
// Threads:     record() and tally() from any; begin() from one at a time.
class CallRing {
 public:
  static constexpr std::uint32_t kMaxCalls = 10'000;
  // Most records under way at once for which totals cannot underflow.
  static constexpr std::uint32_t kMaxOverlap = 1'000;

  explicit CallRing(std::uint32_t calls);

  // Empties it, for calls of a new generation. Nobody may know `generation` before this returns.
  void begin(std::uint64_t generation) noexcept;
  // Fills in `tally`; nothing, where nothing bad is remembered. False: the generation is over, and
  // nothing was counted.
  [[nodiscard]] bool record(std::uint64_t generation, Vote vote, Tally& tally) noexcept {
    std::atomic<std::uint32_t>& cell = next_cell();
    const std::uint32_t mine = cell_of(generation, vote);
    if (cell.load(std::memory_order_relaxed) == mine) [[likely]] {
      const std::uint64_t totals = totals_.load(std::memory_order_acquire);
      if (totals >> kTagShift != totals_tag(generation)) return false;
      if ((totals & kBadMask) != kNothingBad) unpack(totals, tally);
      return true;
    }
    return replace(cell, generation, mine, tally);
  }
  Tally tally() const noexcept;

 private:
  // A cell: generation << 3 | filled | slow | failed.
  static constexpr std::uint32_t kFailed = 1;
  static constexpr std::uint32_t kSlow = 2;
  static constexpr std::uint32_t kFilled = 4;
  static constexpr unsigned kCellBits = 3;

  // The totals: generation << 42 | calls, failures, slow, 14 bits each. A record that overwrites a
  // failure may take it off before its own thread has put it on, so the last two start above 0.
  static constexpr unsigned kField = 14;
  static constexpr unsigned kTagShift = 3 * kField;
  static constexpr std::uint64_t kFieldMask = (1U << kField) - 1;
  static constexpr std::uint64_t kBias = kMaxOverlap;
  static constexpr std::uint64_t kBadMask = kFieldMask << kField | kFieldMask;
  static constexpr std::uint64_t kNothingBad = kBias << kField | kBias;
  static_assert(kMaxCalls + 2 * kMaxOverlap <= kFieldMask);

  static std::uint32_t cell_of(std::uint64_t generation, Vote vote) noexcept {
    return static_cast<std::uint32_t>(generation) << kCellBits | kFilled | (vote.slow ? kSlow : 0) |
           (vote.failed ? kFailed : 0);
  }
  static std::uint64_t totals_tag(std::uint64_t generation) noexcept {
    return generation & (UINT64_MAX >> kTagShift);
  }
  // The turns go round: turn % size_ in two multiplications (Lemire, Kaser and Kurz 2019).
  std::atomic<std::uint32_t>& next_cell() noexcept {
    const auto turn = static_cast<std::uint32_t>(next_.fetch_add(1, std::memory_order_relaxed));
    return cells_[static_cast<std::size_t>((static_cast<Wide>(reciprocal_ * turn) * size_) >> 64)];
  }
  // Into place: a tally that is returned is copied wider than it was written, which the processor
  // waits for.
  static void unpack(std::uint64_t totals, Tally& tally) noexcept;
  bool replace(std::atomic<std::uint32_t>& cell, std::uint64_t generation, std::uint32_t mine,
               Tally& tally) noexcept;
  bool add(std::uint64_t tag, std::uint64_t delta, std::uint64_t& totals) noexcept;

  const std::uint32_t size_;
  const std::uint64_t reciprocal_;
  std::unique_ptr<std::atomic<std::uint32_t>[]> cells_;
  alignas(64) std::atomic<std::uint64_t> totals_;
  alignas(64) std::atomic<std::uint64_t> next_{0};
};

}  // namespace weir::breaker
