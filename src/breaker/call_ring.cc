#include "breaker/call_ring.h"

#include <algorithm>

#include "breaker/points.h"

namespace weir::breaker {
namespace {

constexpr std::uint64_t kOneCall = std::uint64_t{1} << 28;
constexpr std::uint64_t kOneFailure = std::uint64_t{1} << 14;
constexpr std::uint64_t kOneSlow = 1;
constexpr std::uint32_t kCellTags = UINT32_MAX >> 3;

std::uint64_t units(bool failed, bool slow) {
  return (failed ? kOneFailure : 0) + (slow ? kOneSlow : 0);
}

std::uint32_t over(std::uint64_t field, std::uint64_t bias) {
  return static_cast<std::uint32_t>(std::max(field, bias) - bias);
}

}  // namespace

CallRing::CallRing(std::uint32_t calls)
    : size_(calls),
      // For one cell, a reciprocal of 0 leaves every turn at 0.
      reciprocal_(calls == 1 ? 0 : UINT64_MAX / calls + 1),
      cells_(std::make_unique<std::atomic<std::uint32_t>[]>(calls)) {
  static_assert(kOneCall == std::uint64_t{1} << (2 * kField));
  static_assert(kOneFailure == std::uint64_t{1} << kField);
  static_assert(kCellTags == UINT32_MAX >> kCellBits);
  begin(0);
}

void CallRing::begin(std::uint64_t generation) noexcept {
  totals_.store(totals_tag(generation) << kTagShift | kNothingBad, std::memory_order_release);
}

bool CallRing::replace(std::atomic<std::uint32_t>& cell, std::uint64_t generation,
                       std::uint32_t mine, Tally& tally) noexcept {
  std::uint32_t held = cell.load(std::memory_order_relaxed);
  do {
    const std::uint32_t ahead = ((held >> kCellBits) - (mine >> kCellBits)) & kCellTags;
    const bool newer = ahead != 0 && ahead <= kCellTags / 2 && (held & kFilled) != 0;
    if (newer) return false;
  } while (!cell.compare_exchange_weak(held, mine, std::memory_order_acq_rel,
                                       std::memory_order_relaxed));

  at(Point::cell_taken);

  const bool same_time = (held & kFilled) != 0 && held >> kCellBits == mine >> kCellBits;
  // Two's complement does the subtraction; the bias keeps each field from borrowing.
  std::uint64_t delta = units((mine & kFailed) != 0, (mine & kSlow) != 0);
  delta +=
      same_time ? std::uint64_t{0} - units((held & kFailed) != 0, (held & kSlow) != 0) : kOneCall;
  std::uint64_t totals = totals_.load(std::memory_order_acquire);
  if (!add(totals_tag(generation), delta, totals)) return false;
  if ((totals & kBadMask) != kNothingBad) unpack(totals, tally);
  return true;
}

bool CallRing::add(std::uint64_t tag, std::uint64_t delta, std::uint64_t& totals) noexcept {
  for (;;) {
    if (totals >> kTagShift != tag) return false;
    const std::uint64_t next = totals + delta;
    if (totals_.compare_exchange_weak(totals, next, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      totals = next;
      return true;
    }
  }
}

void CallRing::unpack(std::uint64_t totals, Tally& tally) noexcept {
  tally.calls = static_cast<std::uint32_t>((totals >> (2 * kField)) & kFieldMask);
  tally.failures = over((totals >> kField) & kFieldMask, kBias);
  tally.slow = over(totals & kFieldMask, kBias);
}

Tally CallRing::tally() const noexcept {
  Tally tally;
  unpack(totals_.load(std::memory_order_acquire), tally);
  return tally;
}

}  // namespace weir::breaker
