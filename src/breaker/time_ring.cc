#include "breaker/time_ring.h"

#include <algorithm>
#include <bit>

#include "breaker/points.h"
#include "limit/reciprocal.h"

namespace weir::breaker {
namespace {

// How far a bucket may be ahead of a record and still be the newer one. Beyond it, it is one of
// long ago that serials have come round to.
constexpr std::uint32_t kAhead = 1U << 16;

// Adds one to the count of `serial`. False: the bucket is a newer one's already.
bool count_in(std::atomic<std::uint64_t>& cell, std::uint32_t serial) noexcept {
  std::uint64_t held = cell.load(std::memory_order_relaxed);
  std::uint64_t next = 0;
  do {
    const auto theirs = static_cast<std::uint32_t>(held >> 32);
    if (theirs == serial) {
      if (static_cast<std::uint32_t>(held) == UINT32_MAX) return true;
      next = held + 1;
    } else {
      if (theirs - serial < kAhead) return false;
      next = std::uint64_t{serial} << 32 | 1;
    }
  } while (!cell.compare_exchange_weak(held, next, std::memory_order_acq_rel,
                                       std::memory_order_relaxed));
  return true;
}

std::uint32_t count_of(const std::atomic<std::uint64_t>& cell, std::uint32_t serial) noexcept {
  const std::uint64_t held = cell.load(std::memory_order_acquire);
  return static_cast<std::uint32_t>(held >> 32) == serial ? static_cast<std::uint32_t>(held) : 0;
}

// Never back: a record that was held up must not hide a later one.
void advance(std::atomic<std::uint32_t>& mark, std::uint32_t serial) noexcept {
  std::uint32_t held = mark.load(std::memory_order_relaxed);
  while (static_cast<std::int32_t>(serial - held) > 0 &&
         !mark.compare_exchange_weak(held, serial, std::memory_order_acq_rel,
                                     std::memory_order_relaxed)) {
  }
}

std::uint32_t plus(std::uint32_t a, std::uint32_t b) noexcept {
  return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

}  // namespace

TimeRing::TimeRing(Nanos length, std::uint32_t buckets)
    : width_(static_cast<std::uint64_t>(length.count()) / buckets),
      reciprocal_(limit::reciprocal_of(width_)),
      remembered_(buckets),
      mask_(std::bit_ceil(buckets) - 1),
      buckets_(std::make_unique<Bucket[]>(std::size_t{mask_} + 1)) {}

void TimeRing::begin(MonoTime now) noexcept {
  // Serials of the new generation begin beyond all that the one before can have used: what is
  // remembered of it is out of sight at once.
  const std::uint32_t used = serial_of(now);
  base_serial_.store(used + 2 * (remembered_ + 1), std::memory_order_release);
  base_time_.store(now.time_since_epoch().count(), std::memory_order_release);
  last_bad_.store(used, std::memory_order_release);
}

std::uint32_t TimeRing::serial_of(MonoTime now) const noexcept {
  const std::int64_t elapsed =
      now.time_since_epoch().count() - base_time_.load(std::memory_order_acquire);
  const auto serial = limit::quotient(
      static_cast<std::uint64_t>(std::max<std::int64_t>(elapsed, 0)), width_, reciprocal_);
  return base_serial_.load(std::memory_order_acquire) + static_cast<std::uint32_t>(serial);
}

bool TimeRing::record(const std::atomic<std::uint64_t>& word, std::uint64_t mine, Vote vote,
                      MonoTime now, Tally& tally) noexcept {
  const std::uint32_t serial = serial_of(now);
  // begin() follows after the word has changed. If the word still says `mine`, both bases were read
  // before that; if not, what is counted below is not counted at all.
  if (word.load(std::memory_order_acquire) != mine) return false;
  Bucket& bucket = buckets_[serial & mask_];
  at(Point::bucket_chosen);
  if (!count_in(bucket.calls, serial)) return false;
  if (vote.bad()) {
    // The mark first: who counts a good call after these must look.
    advance(last_bad_, serial);
    if (vote.failed) (void)count_in(bucket.failures, serial);
    if (vote.slow) (void)count_in(bucket.slow, serial);
  } else if (serial - last_bad_.load(std::memory_order_acquire) >= remembered_) {
    return true;  // nothing bad is remembered, so no rate can be reached
  }
  sum(serial, tally);
  return true;
}

void TimeRing::sum(std::uint32_t serial, Tally& tally) const noexcept {
  for (std::uint32_t back = 0; back < remembered_; ++back) {
    const Bucket& bucket = buckets_[(serial - back) & mask_];
    tally.calls = plus(tally.calls, count_of(bucket.calls, serial - back));
    tally.failures = plus(tally.failures, count_of(bucket.failures, serial - back));
    tally.slow = plus(tally.slow, count_of(bucket.slow, serial - back));
  }
}

Tally TimeRing::tally(MonoTime now) const noexcept {
  Tally tally;
  sum(serial_of(now), tally);
  return tally;
}

}  // namespace weir::breaker
