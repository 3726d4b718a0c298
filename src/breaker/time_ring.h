#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "breaker/tally.h"
#include "weir/clock.h"

namespace weir::breaker {

// The outcomes of the last so long, in buckets.
//
// Guarantees:  a record of an earlier generation changes nothing, as CallRing. A bucket counts up
// to
//              2^32 - 1 calls.
// Cost:        record() of a good call while nothing bad is remembered: one compare-and-swap.
// Others
//              read every bucket. No allocation.
// Threads:     record() and tally() from any; begin() from one at a time.
class TimeRing {
 public:
  TimeRing(Nanos length, std::uint32_t buckets);

  // Empties it. Requires: `word` does not hold a generation that records may still be let into.
  void begin(MonoTime now) noexcept;

  // `word` holds `mine` exactly as long as the generation lasts.
  // Fills in `tally`; nothing, where nothing bad is remembered. False: the generation is over, and
  // nothing was counted that is still looked at.
  [[nodiscard]] bool record(const std::atomic<std::uint64_t>& word, std::uint64_t mine, Vote vote,
                            MonoTime now, Tally& tally) noexcept;
  Tally tally(MonoTime now) const noexcept;

 private:
  struct Bucket {
    std::atomic<std::uint64_t> calls{0};  // serial << 32 | count, as the others
    std::atomic<std::uint64_t> failures{0};
    std::atomic<std::uint64_t> slow{0};
  };

  std::uint32_t serial_of(MonoTime now) const noexcept;
  void sum(std::uint32_t serial, Tally& tally) const noexcept;

  const std::uint64_t width_;  // of a bucket, in nanoseconds
  const std::uint64_t reciprocal_;
  const std::uint32_t remembered_;
  const std::uint32_t mask_;
  std::unique_ptr<Bucket[]> buckets_;
  std::atomic<std::int64_t> base_time_{0};
  std::atomic<std::uint32_t> base_serial_{0};
  std::atomic<std::uint32_t> last_bad_{0};  // the serial of the last bad call
};

}  // namespace weir::breaker
