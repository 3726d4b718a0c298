#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "store/local_store.h"
#include "testing/model_counter.h"
#include "weir/clock.h"

namespace weir::testing {

// The oracle for every store: a map of ModelCounters, and the rule of all or nothing in as many
// words. It never forgets, never fills up and is never away.
//
// Guarantees:  findings as store/counter.h promises them. Step::next holds the receipt and nothing
//              else. A counter under new numbers is converted when something is written to it; a
//              probe leaves it as it is, and so does a denial, but for a bucket that the ask itself
//              does not fit into: from then on it drips by the new numbers, or the wait it was told
//              would be that of no bucket.
// Threads:     one.
class ModelLimiter final : public store::LocalStore {
 public:
  store::LocalAnswer decide(std::span<const store::Counter> counters, Instant now,
                            std::span<store::Finding> findings) noexcept override;
  // Counters that were ever charged and not reset.
  std::uint64_t keys() const noexcept override { return kept_.size(); }

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;
  struct Kept {
    ModelCounter counter;
    std::uint32_t generation = 0;
  };

  // The counter as this ask sees it: fresh, as kept, or converted to the numbers of a newer load.
  Kept seen_by(const store::Counter& asked, Instant now) const;

  std::map<Key, Kept> kept_;
};

}  // namespace weir::testing
