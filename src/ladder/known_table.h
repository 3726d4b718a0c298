#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/key_digest.h"
#include "base/secret_hash.h"
#include "limit/numbers.h"
#include "limit/parts.h"
#include "limit/sliding_log.h"
#include "limit/step.h"
#include "store/counter.h"
#include "store/local_store.h"
#include "weir/clock.h"

namespace weir::ladder {

// What the store is still to be told of one counter: running totals of one outage and window, so
// that telling them again changes nothing. See store/redis/ask.h for what the store makes of them.
struct OwedUnits {
  std::uint64_t outage = 0;  // their number: begun anew with each window, and with each new entry
  std::uint64_t units = 0;   // admitted in `window`, or since the number began
  std::uint64_t confirmed = 0;  // of which the store has said that it applied them
  std::uint64_t standing = 0;   // gcra and log: how many of them have not run off since
  Instant window{};             // windows: the start of the one they were admitted in
  // The most that the parts of all workers came to, under any of the numbers they were admitted by.
  std::uint64_t bound = 0;
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
//              spending in their window stay. When all are pinned, a newcomer is not admitted:
//              nobody could count it.
// Threads:     any. Several counters are locked in one order.
class KnownTable {
 public:
  // Of several counters the last of these that holds for any: limited, else refused.
  enum class Spent : std::uint8_t {
    admitted,   // every counter that may deny had room in its part, and all were charged
    no_part,    // some part is 0, or smaller than the cost: this worker can never admit it
    crowded,    // the table is full of counters with spending: nobody could count this one
    exhausted,  // some part is used up
  };

  struct Share {
    const store::Counter* counter = nullptr;
    limit::Place place;                  // this worker's among all, in the counter's own order
    std::optional<limit::Numbers> part;  // the numbers of its part; absent: it has none
  };

  // `random` is this process's own. It begins the numbers that tell its tellings from any other's,
  // and says where entries lie: digests alone can be computed by whoever knows the fleet's prefix.
  KnownTable(std::size_t capacity, std::uint64_t random);
  ~KnownTable();
  KnownTable(const KnownTable&) = delete;
  KnownTable& operator=(const KnownTable&) = delete;

  // The store answered: `state` is what it holds now, at its time `store_now`. For sliding_log,
  // whose state stays in the store, `state.current` is how many units stand there, which may be
  // more than a lowered limit, and `denied`, where it did not let the counter's cost through, what
  // it said of that.
  void learn(const store::Counter& counter, const limit::State& state, Instant store_now,
             MonoTime seen, const limit::Step* denied = nullptr);

  // Which data the store holds from now on: its process and its epoch, in one number. What was
  // learnt before is of other data, which may have been lost.
  void set_origin(std::uint64_t origin) noexcept {
    origin_.store(origin, std::memory_order_relaxed);
  }
  // The last known state, where it was learnt from other data than the store holds now and still
  // says something: what the next ask brings, to be merged by maximum. For sliding_log `current`
  // units stand at `time_ns`.
  std::optional<limit::State> before_loss(const store::Counter& counter, Instant store_now) const;

  // Whether the last known state, at most `max_age` old (absent: any age), cannot fit this cost
  // under the current numbers. The same arithmetic as the store's, not a second cache; of
  // sliding_log what the store said of a cost holds for as much and more until the time it named.
  std::optional<limit::Step> denial(const store::Counter& counter, Instant store_now, MonoTime now,
                                    std::optional<Nanos> max_age) const;

  // When this worker's part will have room for the cost of a counter, if nobody else asks for it
  // meanwhile: what it has not spent of the part, and its part of what the store will have. Absent:
  // it never will.
  std::optional<Nanos> part_wait(const Share& share, Instant store_now) const;

  // Spends from this worker's parts: all counters or none. findings[i] says what each part would
  // have said. A counter for which there is no room is crowded, but for what charges nothing: a
  // probe is answered as of a fresh one, and one in shadow is not charged and denies nobody.
  Spent spend(std::span<const Share> shares, Instant store_now, std::span<store::Finding> findings);
  // Takes back what spend() just admitted with these findings: the ceiling said no, or the disk.
  // Bit i of `forgiven` says that of shares[i] nothing is owed any more: forgive() was told so.
  void unspend(std::span<const Share> shares, Instant store_now,
               std::span<const store::Finding> findings, std::uint64_t forgiven);

  // Charges this worker's parts with work that is done: as much as is left of each, up to the
  // counter's cost, and that is owed. Where there is no part, or no room to count, nothing.
  void use_up(std::span<const Share> shares, Instant store_now, std::span<store::Finding> findings);

  // What the store is to be told with the next ask of this counter; absent where nothing is owed
  // any more.
  std::optional<OwedUnits> owed(const store::Counter& counter, Instant store_now) const;
  // The same, and from now on it counts as told: forgive() leaves it alone, whatever became of it.
  std::optional<OwedUnits> tell(const store::Counter& counter, Instant store_now);
  // The store has answered an ask that told it so much.
  void settled(const KeyDigest& digest, const OwedUnits& told);

  // The number of the outage under which the latest spending of this counter is owed; 0: nothing
  // is.
  std::uint64_t outage_of(const KeyDigest& digest) const;
  // The store turned out to have charged `units` that are owed under `outage` too: lowers what is
  // owed, but never below what it may have been told. Returns how many units remain counted twice.
  // `receipt` is the charge's: of gcra an instant that may well be ahead of now.
  std::uint64_t forgive(const store::Counter& counter, std::uint64_t outage, Instant receipt,
                        std::uint64_t units, Instant store_now);

  std::size_t size() const;
  // Calls that were not admitted because there was no room to count them.
  std::uint64_t crowded() const noexcept { return crowded_.load(std::memory_order_relaxed); }
  // Units admitted locally that the store has not been told of, over all counters: a running total,
  // of which nobody need walk the table. Of windows that are over nothing is owed any more; a debt
  // that runs off counts for at most an eighth longer.
  std::uint64_t owed_units(Instant store_now) const;

 private:
  struct Entry;
  struct Slot {
    mutable std::mutex mutex;
    std::unordered_map<KeyDigest, Entry, SecretHash> entries;
    std::list<KeyDigest> by_use;   // most recent first
    std::list<KeyDigest> staying;  // those that could not go when they were the oldest
    // Units that are owed, by when they are owed no more.
    std::map<std::int64_t, std::uint64_t> owing;
  };
  static constexpr std::size_t kSlots = 16;

  std::size_t place_of(const KeyDigest& digest) const noexcept { return hash_(digest) >> 60; }
  Slot& slot_of(const KeyDigest& digest) const noexcept { return slots_[place_of(digest)]; }
  Entry* find(Slot& slot, const KeyDigest& digest) const;
  Entry* find_or_make(Slot& slot, const KeyDigest& digest, Instant store_now);
  void charge(const Share& share, Entry& entry, Instant store_now, std::uint64_t units,
              store::Finding& finding);
  static Spent look(const Share& share, Entry* entry, Instant store_now, limit::Step& step);
  bool make_room(Slot& slot, Instant store_now);
  static bool go_or_stay(Slot& slot, std::list<KeyDigest>& list, Instant store_now);
  static void recount(Slot& slot, Entry& entry, Instant store_now);
  static void uncount(Slot& slot, Entry& entry);
  class Locks;

  SecretHash hash_;
  mutable std::array<Slot, kSlots> slots_;
  std::atomic<std::uint64_t> origin_{0};
  std::atomic<std::uint64_t> crowded_{0};
  std::size_t capacity_per_slot_;
  std::atomic<std::uint64_t> next_outage_;
};

}  // namespace weir::ladder
