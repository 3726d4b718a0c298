#pragma once

#include <cstddef>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/key_digest.h"
#include "base/secret_hash.h"
#include "limit/numbers.h"
#include "limit/parts.h"
#include "limit/step.h"
#include "store/counter.h"
#include "weir/clock.h"

namespace weir::ladder {

// What metered rules were served beyond this worker's parts: a cap for each key and window of the
// rule, divided over the fleet as the limit itself.
//
// Guarantees:  within a window nothing is given twice, however often the store comes and goes. At
//              most `capacity` keys have overspent in windows that are not over; the next one gets
//              nothing.
// Threads:     any.
class OverspendTable {
 public:
  // `random` is this process's own: see SecretHash.
  OverspendTable(std::size_t capacity, std::uint64_t random)
      : capacity_(capacity), entries_(0, SecretHash(random)) {}

  // Takes the counter's cost from this worker's part of `cap`; false, and nothing is taken, where
  // it does not fit.
  bool take(const store::Counter& counter, std::uint64_t cap, limit::Place place, Instant now);
  // Gives back what take() just took.
  void give_back(const store::Counter& counter, std::uint64_t cap, limit::Place place, Instant now);

  // What an earlier process took of this counter, in the window that begins then: gone with the
  // window, and never renewed in it. May come late.
  void restore(const KeyDigest& digest, Instant window, std::uint64_t units);

  std::size_t size() const;

 private:
  struct Before {
    Instant window{};
    std::uint64_t units = 0;
  };
  struct Entry {
    limit::Numbers numbers;
    limit::State state;
  };

  Entry* find_or_make(const KeyDigest& digest, const limit::Numbers& numbers, Instant now);
  void sweep(Instant now);

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::unordered_map<KeyDigest, Entry, SecretHash> entries_;
  // Of counters that were not asked about since the start: their numbers are not known yet.
  std::unordered_map<KeyDigest, Before, SecretHash> before_;
  Instant swept_{};
};

}  // namespace weir::ladder
