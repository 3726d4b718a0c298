#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/key_digest.h"
#include "limit/numbers.h"
#include "limit/parts.h"
#include "limit/sliding_log.h"
#include "limit/step.h"
#include "store/counter.h"
#include "store/local_store.h"
#include "weir/clock.h"

namespace weir::ladder {

// What the store is still to be told of one counter: see KnownTable::owed().
struct Owed {
  std::uint64_t outage = 0;
  std::int64_t window_start_ns = 0;  // window algorithms: the window it was spent in
  std::uint64_t units = 0;    // running total of that outage and window, less debt that has run off
  std::uint64_t counted = 0;  // the same with it: what settled() needs to tell the two apart
};

// What this worker knows of the counters it asked about, and what it has spent of them by itself
// while their shard was away. One table a shard.
//
// Knowing only takes away: what was spent locally in a window stays spent however often the store
// comes and goes, and local use never exceeds the part, nor the part of what was last known to
// remain.
//
// Guarantees:  at most `capacity` entries. When full, the entry longest unused that holds no local
// spending goes first
//              (unknown counts as a full part, which the bound already holds); entries with
//              spending in their window stay. When all are pinned, newcomers share one counter.
// Threads:     any. Several counters are locked in one order.
class KnownTable {
 public:
  enum class Spent : std::uint8_t {
    admitted,   // every counter that may deny had room in its part, and all were charged
    exhausted,  // some part is used up
    no_part,    // some part is 0, or smaller than the cost: this worker can never admit it
    crowded,    // the table is full of counters with spending, and the shared one is used up
  };

  struct Share {
    const store::Counter* counter = nullptr;
    limit::Place place;                  // this worker's among all, in the counter's own order
    std::optional<limit::Numbers> part;  // the numbers of its part; absent: it has none
  };

  explicit KnownTable(std::size_t capacity);
  ~KnownTable();
  KnownTable(const KnownTable&) = delete;
  KnownTable& operator=(const KnownTable&) = delete;

  // The store answered: `state` is what it holds now, at its time `store_now`. For sliding_log,
  // whose state stays in the store, `remaining` is what it said is left.
  void learn(const store::Counter& counter, const limit::State& state, std::uint32_t remaining,
             Instant store_now, MonoTime seen);

  // Whether the last known state, at most `max_age` old (absent: any age), cannot fit this cost
  // under the current numbers. The same arithmetic as the store's, not a second cache.
  std::optional<limit::Step> denial(const store::Counter& counter, Instant store_now, MonoTime now,
                                    std::optional<Nanos> max_age) const;

  // Spends from this worker's parts: all counters or none. findings[i] says what each part would
  // have said. `overflow` are the numbers of the counter that newcomers share when the table is
  // crowded.
  Spent spend(std::span<const Share> shares, std::uint64_t outage, Instant store_now,
              const limit::Numbers& overflow, std::span<store::Finding> findings);
  // Takes back what spend() just admitted with these findings: the ceiling said no.
  void unspend(std::span<const Share> shares, Instant store_now,
               std::span<const store::Finding> findings);

  // What the store is to be told with the next ask of this counter; absent where nothing is owed
  // any more.
  std::optional<Owed> owed(const store::Counter& counter, Instant store_now) const;
  // The store has applied what it was told.
  void settled(const KeyDigest& digest, const Owed& applied);

  std::size_t size() const;
  // Units owed over all counters, as counted when spent.
  std::uint64_t owed_units() const;

 private:
  struct Entry;
  struct Hash {
    std::size_t operator()(const KeyDigest& d) const noexcept {
      return static_cast<std::size_t>(d.lo);
    }
  };
  struct Slot {
    mutable std::mutex mutex;
    std::unordered_map<KeyDigest, Entry, Hash> entries;
    std::list<KeyDigest> by_use;  // most recent first
    limit::State overflow;
  };
  static constexpr std::size_t kSlots = 16;

  Slot& slot_of(const KeyDigest& digest) const noexcept { return slots_[digest.hi % kSlots]; }
  Entry* find(Slot& slot, const KeyDigest& digest) const;
  Entry* find_or_make(Slot& slot, const KeyDigest& digest, Instant store_now);
  bool make_room(Slot& slot, Instant store_now);

  mutable std::array<Slot, kSlots> slots_;
  std::size_t capacity_per_slot_;
};

}  // namespace weir::ladder
