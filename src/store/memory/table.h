#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/wide.h"
#include "limit/step.h"
#include "store/memory/key_budget.h"
#include "store/memory/line.h"
#include "store/memory/numbers_registry.h"
#include "store/memory/packed_state.h"
#include "store/memory/region.h"

namespace weir::store {

// Named points of the table's protocol, where a test may hold a thread. What ships has NoHooks,
// which compiles to nothing.
enum class Point : std::uint8_t {
  home_chosen,     // the home line is computed, and not locked yet
  homes_locked,    // every home line of an ask is locked
  candidate_seen,  // the key was seen in a later line, which is not locked yet
  reserved,        // a slot is taken for a new key, its state not written
  writing,         // about to write the new states
  splitting,       // a line's keys have moved, the geometry does not say so yet
};
struct NoHooks {
  static void at(Point) noexcept {}
};

// The lines, which of them are in use, and who may take a slot: docs/internals/memory-store.md.
//
// Threads:     every member from any thread.
template <class Hooks>
class Table {
 public:
  // Lines at the cap: 1.8 keys a line, 0.6 of its slots.
  static constexpr std::uint64_t lines_for(std::uint64_t max_keys) {
    return (max_keys * 5 + 8) / 9;
  }
  static constexpr unsigned kMaxLevels = 8;
  static constexpr std::uint64_t kLeastBaseLines = 64;
  static constexpr std::size_t kSmallTableBytes = std::size_t{2} << 20;

  struct Shape {
    std::uint64_t base_lines;
    unsigned levels;  // how often the base lines may double
    std::uint64_t most_lines() const noexcept { return base_lines << levels; }

    static Shape of(std::uint64_t max_keys) noexcept {
      const std::uint64_t needed = std::max<std::uint64_t>(lines_for(max_keys), Line::kProbe);
      unsigned levels = 0;
      while (levels < kMaxLevels && (needed >> (levels + 1)) >= kLeastBaseLines) ++levels;
      const std::uint64_t step = std::uint64_t{1} << levels;
      return {(needed + step - 1) / step, levels};
    }
  };
  struct Memory {
    Shape shape;
    Region lines;
    NumbersRegistry registry;
  };
  // The memory of a table for so many keys.
  // Errors:      resource_exhausted, where the system has no such address space.
  static Result<Memory> reserve(std::uint64_t max_keys) {
    const Shape shape = Shape::of(max_keys);
    Result<Region> region = Region::map((shape.most_lines() + Line::kProbe - 1) * sizeof(Line));
    if (!region) return std::move(region).error();
    // Lines are touched at random, so that most of a large table misses the cache of small pages
    // too. A small one stays with them, and takes no more than it needs.
    region->prefer_huge_pages_from(kSmallTableBytes);
    Result<NumbersRegistry> registry = NumbersRegistry::make();
    if (!registry) return std::move(registry).error();
    return Memory{shape, *std::move(region), *std::move(registry)};
  }

  Table(KeyBudget& budget, Memory memory)
      : shape_(memory.shape),
        region_(std::move(memory.lines)),
        lines_(static_cast<Line*>(region_.data())),
        budget_(budget),
        registry_(std::move(memory.registry)) {}

  // Which lines are in use, in one word that changes at once: the number of base lines doubled
  // `level` times (mask = 2^level - 1), and the first `split` lines of the next doubling.
  struct Geometry {
    std::uint64_t bits;
    std::uint64_t mask() const noexcept { return bits & 0xff; }
    std::uint64_t split() const noexcept { return bits >> 8; }
    friend bool operator==(Geometry, Geometry) = default;
  };
  Geometry geometry() const noexcept { return {geometry_.load(std::memory_order_relaxed)}; }

  Line* home_of(const KeyDigest& digest, Geometry geometry) const noexcept {
    const auto base =
        static_cast<std::uint64_t>((static_cast<Wide>(digest.hi) * shape_.base_lines) >> 64);
    const std::uint64_t fingerprint = digest.lo >> 8;
    std::uint64_t index = base + shape_.base_lines * (fingerprint & geometry.mask());
    if (index < geometry.split()) [[unlikely]] {
      index = base + shape_.base_lines * (fingerprint & (geometry.mask() * 2 + 1));
    }
    return lines_ + index;
  }

  // The place of one more key; false at the cap.
  bool take_budget() noexcept { return budget_.take(); }
  void give_budget() noexcept { budget_.give(); }

  NumbersRegistry& registry() noexcept { return registry_; }

  limit::State state_in(const Line& line, unsigned slot, const limit::Numbers& numbers,
                        Instant now) const noexcept {
    return unpack(numbers, {line.word[slot], line.aux[slot]}, now);
  }

  // The next line after the one `distance` lines from home where the key is seen, as a distance;
  // Line::kProbe if there is none. Sets `any` where some key of that home is seen.
  //
  // Only who holds a key's home line puts the key anywhere, so a key that is not seen in the later
  // lines, though they are not locked, is not there. One that is seen may be swept meanwhile: it
  // must be looked for again under its line's lock. Requires: the home line is locked.
  static unsigned next_seen(const Line* home, const KeyDigest& digest, unsigned distance,
                            bool& any) noexcept {
    while (++distance < Line::kProbe) {
      const Line& line = home[distance];
      const std::uint64_t wanted = tag_of(digest, distance);
      bool seen = false;
      for (unsigned slot = 0; slot < Line::kSlots; ++slot) {
        const std::uint64_t tag = load_tag(line, slot);
        any = any || distance_of(tag) == distance;
        seen = seen || same_key(tag, wanted);
      }
      if (seen) break;
    }
    return distance;
  }

  // Looks for a key in the lines after its home. Returns its slot and locks its line in `at`, or
  // -1. Requires: no line but `home` is locked, and the key is not in it.
  static int find_beyond(Held& home, const KeyDigest& digest, Held& at) noexcept {
    bool any = false;
    for (unsigned distance = 0;;) {
      distance = next_seen(home.line, digest, distance, any);
      if (distance == Line::kProbe) break;
      Hooks::at(Point::candidate_seen);
      at.line = home.line + distance;
      at.meta = lock(*at.line);
      const int slot = find_slot(*at.line, at.meta, tag_of(digest, distance));
      if (slot >= 0) return slot;
      unlock(*at.line, at.meta);
    }
    if (!any) home.meta &= ~kLineOverflowed;
    return -1;
  }

  static void put_state(Line& line, unsigned slot, const limit::Numbers& numbers,
                        const limit::State& state) noexcept {
    const PackedState packed = pack(numbers, state);
    line.word[slot] = packed.word;
    line.aux[slot] = packed.aux;
  }

  // Whether the slot's counter cannot be told from a fresh one any more, by any thread: clocks that
  // were read at different moments disagree by less than limit::kBackstepNs.
  bool expired(const Held& held, unsigned slot, Instant now) const noexcept {
    const unsigned id = slot_id(*held.line, held.meta, slot);
    if (id == 0) return false;
    const limit::Numbers& numbers = registry_.numbers(id);
    return limit::expires_at_ns(numbers, state_in(*held.line, slot, numbers, now)) <=
           limit::instant_ns(now) - limit::kBackstepNs;
  }
  // Empties an occupied slot. The key's budget stays taken.
  void evict(Held& held, unsigned slot) noexcept {
    registry_.release(slot_id(*held.line, held.meta, slot));
    clear_slot(held, slot);
  }

  // Empties the expired slots of the next `count` lines that hold keys; lines that are in use are
  // left out. Whether there were any.
  bool sweep(Instant now, unsigned count) noexcept { return sweep_lines(now, count, false) != 0; }

  // As sweep(), for a newcomer at the cap. Much is looked at while that frees something; once all
  // lines have been looked at in vain, little is, so that a flood of newcomers costs little.
  bool sweep_for_room(Instant now) noexcept {
    constexpr unsigned kMuch = 32;
    constexpr unsigned kLittle = 4;
    const bool in_vain = swept_in_vain_.load(std::memory_order_relaxed) >= lines_in_use();
    const unsigned count = in_vain ? kLittle : kMuch;
    if (sweep_lines(now, count, true) != 0) {
      swept_in_vain_.store(0, std::memory_order_relaxed);
      return true;
    }
    swept_in_vain_.fetch_add(count, std::memory_order_relaxed);
    return false;
  }

  // Makes room for one more key that is at home in that line, where all lines it may stand in are
  // full: from the next line with an empty slot, keys that may stand there move into it, each
  // leaving room further back. Called with no line locked. False: no room is near.
  bool make_room(Line* home, Instant now) noexcept {
    Neighbourhood run;
    const auto last = static_cast<unsigned>(std::min<std::uint64_t>(
        kNeighbours, lines_in_use() - static_cast<std::uint64_t>(home - lines_)));
    do {
      if (run.size == last) {
        run.unlock_all();
        return false;
      }
      run.lock_next(home);
    } while (!has_room(run.held[run.size - 1], now));
    unsigned free = run.size - 1;
    while (free >= Line::kProbe && hop(run, free)) {
    }
    run.unlock_all();
    return free < Line::kProbe;
  }

  // Adds lines while there are more keys than the present ones should hold. Called after new keys,
  // with no line locked; a bounded piece of work a call. One thread at a time; the others pass by,
  // but wait where growth has fallen behind the keys.
  void grow() noexcept {
    constexpr int kSplitsACall = 4;
    if (!wants_growth(kKeysForGrowth)) return;
    for (unsigned spin = 0; growing_.test_and_set(std::memory_order_acquire); ++spin) {
      if (!wants_growth(kKeysTooMany)) return;
      relax_in_spin(spin);
    }
    for (int i = 0; i < kSplitsACall && wants_growth(kKeysForGrowth) && split_next(); ++i) {
    }
    growing_.clear(std::memory_order_release);
  }

  std::uint64_t lines_in_use() const noexcept {
    const Geometry now = geometry();
    return shape_.base_lines * (now.mask() + 1) + now.split() + Line::kProbe - 1;
  }
  std::size_t resident_bytes() const { return region_.resident_bytes(); }

 private:
  // After the clock was set back, a counter nobody asks for must not take the room of others for
  // the length of that step: a charge that can never fit brings it to this clock, and spends
  // nothing.
  void settle(Held& held, unsigned slot, Instant now) noexcept {
    const unsigned id = slot_id(*held.line, held.meta, slot);
    if (id == 0) return;
    const limit::Numbers& numbers = registry_.numbers(id);
    const limit::State state = state_in(*held.line, slot, numbers, now);
    if (state.time_ns - numbers.tolerance_ns - limit::kBackstepNs <= limit::instant_ns(now)) return;
    put_state(*held.line, slot, numbers, limit::take(numbers, state, now, UINT64_MAX).next);
  }

  std::int64_t sweep_lines(Instant now, unsigned count, bool for_room) noexcept {
    const std::uint64_t total = lines_in_use();
    const std::uint64_t most = std::min<std::uint64_t>(total, 4 * std::uint64_t{count});
    std::int64_t freed = 0;
    for (unsigned looked_at = 0; count > 0 && looked_at < most; ++looked_at) {
      Line& line = lines_[cursor_.fetch_add(1, std::memory_order_relaxed) % total];
      if ((load_tag(line, 0) | load_tag(line, 1) | load_tag(line, 2)) == 0) continue;
      freed += sweep_line(line, now, for_room);
      --count;
    }
    if (freed != 0) budget_.give(freed);
    return freed;
  }

  int sweep_line(Line& line, Instant now, bool for_room) noexcept {
    Held held{&line, 0};
    if (!try_lock(line, held.meta)) return 0;
    int freed = 0;
    for (unsigned slot = 0; slot < Line::kSlots; ++slot) {
      if (for_room) settle(held, slot, now);
      if (!expired(held, slot, now)) continue;
      evict(held, slot);
      ++freed;
    }
    unlock(line, held.meta);
    return freed;
  }

  // In tenths of a key a line. One doubling takes place between 1.5 and 1.8 keys a line, so that no
  // line is ever asked to hold more than it does at the cap.
  static constexpr std::uint64_t kKeysForGrowth = 15;
  static constexpr std::uint64_t kKeysTooMany = 17;
  bool wants_growth(std::uint64_t tenths_a_line) const noexcept {
    const Geometry now = geometry();
    const std::uint64_t lines = shape_.base_lines * (now.mask() + 1);
    return lines < shape_.most_lines() && budget_.kept() * 10 > lines * tenths_a_line;
  }

  // Locked lines: a run of neighbours from a first one on.
  template <unsigned kMost>
  struct RunOf {
    Held held[kMost];
    unsigned size = 0;
    void lock_next(Line* first) noexcept {
      Line* line = first + size;
      held[size++] = {line, lock(*line)};
    }
    void unlock_all() noexcept {
      for (unsigned i = 0; i < size; ++i) unlock(*held[i].line, held[i].meta);
    }
    unsigned empty_slots() const noexcept {
      unsigned empty = 0;
      for (unsigned i = 0; i < size; ++i) {
        for (unsigned slot = 0; slot < Line::kSlots; ++slot) {
          empty += slot_id(*held[i].line, held[i].meta, slot) == 0 ? 1 : 0;
        }
      }
      return empty;
    }
  };

  using Run = RunOf<Line::kProbe>;
  static constexpr unsigned kNeighbours = 128;
  using Neighbourhood = RunOf<kNeighbours>;

  // Whether the line has an empty slot, or one whose counter has expired, which is emptied.
  bool has_room(Held& held, Instant now) noexcept {
    for (unsigned slot = 0; slot < Line::kSlots; ++slot) {
      if (slot_id(*held.line, held.meta, slot) == 0) return true;
      if (!expired(held, slot, now)) continue;
      evict(held, slot);
      give_budget();
      return true;
    }
    return false;
  }

  static void move_key(Held& from, unsigned slot, Held& to, Held& home) noexcept {
    const auto into = static_cast<unsigned>(find_empty_slot(*to.line, to.meta));
    const auto distance = static_cast<std::uint64_t>(to.line - home.line);
    const std::uint64_t fingerprint = load_tag(*from.line, slot) & ~std::uint64_t{0xff};
    to.line->word[into] = from.line->word[slot];
    to.line->aux[into] = from.line->aux[slot];
    set_slot_key(to, into, fingerprint | (distance << 5), slot_id(*from.line, from.meta, slot));
    if (distance > 0) home.meta |= kLineOverflowed;
    clear_slot(from, slot);
  }

  // Moves a key from further back into the empty slot of line `free`, whose place it leaves is the
  // empty one then. A key's home is never further back than it may stand, so it is in the run.
  static bool hop(Neighbourhood& run, unsigned& free) noexcept {
    for (unsigned from = free - (Line::kProbe - 1); from < free; ++from) {
      for (unsigned slot = 0; slot < Line::kSlots; ++slot) {
        const unsigned home = from - distance_of(load_tag(*run.held[from].line, slot));
        if (free - home >= Line::kProbe) continue;
        move_key(run.held[from], slot, run.held[free], run.held[home]);
        free = from;
        return true;
      }
    }
    return false;
  }

  // Calls `each(held, slot)` for the keys that are at home in the run's first line.
  template <class Each>
  static void for_keys_of(Run& run, Each each) noexcept {
    for (unsigned distance = 0; distance < run.size; ++distance) {
      Held& held = run.held[distance];
      for (unsigned slot = 0; slot < Line::kSlots; ++slot) {
        if (slot_id(*held.line, held.meta, slot) != 0 &&
            distance_of(load_tag(*held.line, slot)) == distance) {
          each(held, slot);
        }
      }
    }
  }

  static void move_to_first_empty(Held& from, unsigned slot, Run& to) noexcept {
    for (unsigned distance = 0; distance < to.size; ++distance) {
      if (find_empty_slot(*to.held[distance].line, to.held[distance].meta) < 0) continue;
      move_key(from, slot, to.held[distance], to.held[0]);
      return;
    }
  }

  // Divides the keys of the next line between it and a new one. Lines are locked upwards, as
  // everywhere. False where no doubling is left, or the new line's neighbourhood has no room.
  bool split_next() noexcept {
    const Geometry before = geometry();
    const std::uint64_t bit = before.mask() + 1;
    const std::uint64_t lines = shape_.base_lines * bit;
    if (lines >= shape_.most_lines()) return false;
    Line* const old_home = lines_ + before.split();
    Line* const new_home = old_home + lines;

    Run from;
    from.lock_next(old_home);
    while ((from.held[0].meta & kLineOverflowed) != 0 && from.size < Line::kProbe) {
      from.lock_next(old_home);
    }
    const auto moves = [bit](const Held& held, unsigned slot) {
      return ((load_tag(*held.line, slot) >> 8) & bit) != 0;
    };
    unsigned movers = 0;
    for_keys_of(from, [&](Held& held, unsigned slot) { movers += moves(held, slot) ? 1 : 0; });
    Run to;
    do {
      to.lock_next(new_home);
    } while (to.empty_slots() < movers && to.size < Line::kProbe);
    const bool room = to.empty_slots() >= movers;
    if (room) {
      bool displaced = false;
      for_keys_of(from, [&](Held& held, unsigned slot) {
        if (moves(held, slot)) {
          move_to_first_empty(held, slot, to);
        } else {
          displaced = displaced || held.line != old_home;
        }
      });
      if (!displaced) from.held[0].meta &= ~kLineOverflowed;
      Hooks::at(Point::splitting);
      const bool last = before.split() + 1 == lines;
      geometry_.store(last ? before.mask() * 2 + 1 : ((before.split() + 1) << 8) | before.mask(),
                      std::memory_order_relaxed);
    }
    from.unlock_all();
    to.unlock_all();
    return room;
  }

  const Shape shape_;
  const Region region_;
  Line* const lines_;
  KeyBudget& budget_;
  NumbersRegistry registry_;
  // A reader checks the geometry again under its home line's lock; whoever changes where that
  // line's keys are at home holds the same lock.
  alignas(64) std::atomic<std::uint64_t> geometry_{0};
  alignas(64) std::atomic<std::uint64_t> cursor_{0};
  std::atomic<std::uint64_t> swept_in_vain_{0};  // lines, since one last had an expired counter
  std::atomic_flag growing_;
};

}  // namespace weir::store
