#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>

#include "store/local_store.h"
#include "store/memory/item.h"
#include "store/memory/table.h"

namespace weir::store {

// The table's part of one ask: all its lines locked, its counters found, steps taken on them, room
// reserved, and the new states written, or nothing.
//
// Lines are waited for in address order only. One that is needed later and lies before a line that
// is held already is tried, never waited for; where that fails, everything is let go, and the next
// attempt takes it in its order.
template <class Hooks>
class TableAsk {
 public:
  enum class Room : std::uint8_t {
    reserved,
    full,     // the cap on keys, or on numbers, is reached
    crowded,  // every line that a key may stand in is full: see crowded_home()
    again,    // nothing is held any more; evaluate once more
  };

  TableAsk(Table<Hooks>& table, std::span<Item> items, Instant now) noexcept
      : table_(table), items_(items), now_(now) {}
  ~TableAsk() {
    drop_reservations();
    unlock_all();
  }
  TableAsk(const TableAsk&) = delete;
  TableAsk& operator=(const TableAsk&) = delete;

  // Locks what the counters need, finds them and takes their steps.
  void evaluate() noexcept {
    do {
      lock_homes();
    } while (!locate_all());
    for (Item& item : items_) {
      item.step = step_for(*item.counter, *item.numbers, item.state, now_);
      item.changes = step_changes(item);
      if (denial_writes(item)) put_state(item, item.step.next);
    }
  }

  // Takes a slot for every new key that is to be written. A shadow rule's key that finds no room is
  // not charged; nor is one that finds its neighbourhood crowded, where the ask is the last
  // attempt.
  Room reserve(bool last_attempt) noexcept {
    for (Item& item : items_) {
      if (!item.changes || item.present) continue;
      const Room room = reserve_one(item);
      if (room == Room::reserved) continue;
      if (room == Room::crowded) crowded_home_ = item.home;
      const bool no_room = room == Room::full || (room == Room::crowded && last_attempt);
      if (no_room && item.counter->shadow) {
        item.changes = false;
        item.without_room = true;
        continue;
      }
      drop_reservations();
      if (room == Room::again) unlock_all();
      return room;
    }
    return Room::reserved;
  }

  Line* crowded_home() const noexcept { return crowded_home_; }

  void write() noexcept {
    Hooks::at(Point::writing);
    for (Item& item : items_) {
      if (!item.changes) continue;
      if (item.counter->op == Op::reset) {
        table_.evict(*item.held, item.slot);
        table_.give_budget();
        continue;
      }
      item.units = units_charged(item, now_);
      put_state(item, item.step.next);
      grew_ = grew_ || item.reserved;
      item.reserved = false;
    }
  }

  void report(bool carried_out) noexcept {
    for (const Item& item : items_) {
      store::report(item, carried_out, [&](std::uint64_t cost) {
        return limit::take(*item.numbers, item.state, now_, cost);
      });
    }
  }

  // Whether write() added a key.
  bool grew() const noexcept { return grew_; }

 private:
  // Every home line, every line of an earlier attempt's lesson, and room for as many more.
  static constexpr std::size_t kMostExtra = 2 * kMaxCounters;
  static constexpr std::size_t kMostHeld = 2 * (kMaxCounters + kMostExtra);

  // Writes a state of the item's numbers, and with it that it is of these.
  void put_state(Item& item, const limit::State& state) noexcept {
    if (item.new_id != 0) {
      const std::uint64_t tag = load_tag(*item.held->line, item.slot) & ~std::uint64_t{31};
      table_.registry().release(slot_id(*item.held->line, item.held->meta, item.slot));
      set_slot_key(*item.held, item.slot, tag, std::exchange(item.new_id, 0));
    }
    table_.put_state(*item.held->line, item.slot, *item.numbers, state);
    item.state = state;
  }

  // ---- Locks
  // --------------------------------------------------------------------------------------

  Held* find_held(const Line* line) noexcept {
    for (std::size_t i = 0; i < held_count_; ++i) {
      if (held_[i].line == line) return &held_[i];
    }
    return nullptr;
  }

  void lock_homes() noexcept {
    std::array<Line*, kMaxCounters + kMostExtra> wanted;
    for (;;) {
      const auto geometry = table_.geometry();
      std::size_t count = 0;
      for (Item& item : items_) {
        item.home = table_.home_of(item.counter->digest, geometry);
        __builtin_prefetch(item.home, 1);  // they are on their way while the first one is locked
        wanted[count++] = item.home;
      }
      for (std::size_t i = 0; i < extra_count_; ++i) wanted[count++] = extra_[i];
      std::sort(wanted.begin(), wanted.begin() + count);
      Hooks::at(Point::home_chosen);
      for (std::size_t i = 0; i < count; ++i) {
        if (i == 0 || wanted[i] != wanted[i - 1]) lock_line(wanted[i]);
      }
      if (homes_still_hold()) break;
      unlock_all();
    }
    Hooks::at(Point::homes_locked);
  }

  // A line that was split before we locked it is no longer home to all that it was.
  bool homes_still_hold() noexcept {
    const auto geometry = table_.geometry();
    return std::all_of(items_.begin(), items_.end(), [&](const Item& item) {
      return item.home == table_.home_of(item.counter->digest, geometry);
    });
  }

  Held* lock_line(Line* line) noexcept {
    held_[held_count_] = {line, lock(*line)};
    highest_ = std::max(highest_, line);
    return &held_[held_count_++];
  }

  // Locks one more line, or remembers it for the next attempt.
  Held* hold(Line* line) noexcept {
    if (Held* held = find_held(line)) return held;
    if (held_count_ < kMostHeld) {
      if (line > highest_) return lock_line(line);
      std::uint32_t meta = 0;
      if (try_lock(*line, meta)) {
        held_[held_count_] = {line, meta};
        return &held_[held_count_++];
      }
    }
    if (extra_count_ == extra_.size()) extra_count_ = 0;
    extra_[extra_count_++] = line;
    return nullptr;
  }
  // Lets go of a line that turned out not to be needed.
  void drop(const Held* held) noexcept {
    if (held != &held_[held_count_ - 1]) return;  // it was held before, for another counter
    unlock(*held->line, held->meta);
    --held_count_;
  }

  void unlock_all() noexcept {
    for (Item& item : items_) {
      if (item.new_id != 0) table_.registry().release(std::exchange(item.new_id, 0));
    }
    for (std::size_t i = 0; i < held_count_; ++i) unlock(*held_[i].line, held_[i].meta);
    held_count_ = 0;
    highest_ = nullptr;
  }

  // ---- Finding
  // ------------------------------------------------------------------------------------

  bool locate_all() noexcept {
    for (Item& item : items_) {
      if (!locate(item)) {
        unlock_all();
        return false;
      }
      if (item.present) read_state(item);
    }
    return true;
  }

  // False: a line is needed that could not be waited for.
  bool locate(Item& item) noexcept {
    item.present = false;
    item.reserved = false;
    item.without_room = false;
    item.new_id = 0;
    item.units = 0;
    item.numbers = item.counter->numbers;
    item.state = limit::State{};
    Held* home = find_held(item.home);
    if (found_in(item, home, 0)) return true;
    return (home->meta & kLineOverflowed) == 0 || locate_beyond(item, home);
  }

  bool found_in(Item& item, Held* held, unsigned distance) noexcept {
    const int slot = find_slot(*held->line, held->meta, tag_of(item.counter->digest, distance));
    if (slot < 0) return false;
    item.present = true;
    item.held = held;
    item.slot = static_cast<unsigned>(slot);
    return true;
  }

  bool locate_beyond(Item& item, Held* home) noexcept {
    const KeyDigest& digest = item.counter->digest;
    bool any = false;
    for (unsigned distance = 0;;) {
      distance = table_.next_seen(item.home, digest, distance, any);
      if (distance == Line::kProbe) break;
      Hooks::at(Point::candidate_seen);
      const std::size_t held_before = held_count_;
      Held* held = hold(item.home + distance);
      if (held == nullptr) return false;
      if (found_in(item, held, distance)) return true;
      if (held_count_ != held_before) drop(held);
    }
    if (!any) home->meta &= ~kLineOverflowed;
    return true;
  }

  // Reads the counter's state, under the numbers of the newer policy load.
  void read_state(Item& item) noexcept {
    NumbersRegistry& registry = table_.registry();
    const Counter& counter = *item.counter;
    const unsigned id = slot_id(*item.held->line, item.held->meta, item.slot);
    const limit::Numbers& kept = registry.numbers(id);
    item.state = table_.state_in(*item.held->line, item.slot, kept, now_);
    if (kept.stamp == counter.numbers->stamp) {
      registry.saw_generation(id, counter.generation);
      return;
    }
    if (registry.generation(id) > counter.generation) {
      item.numbers = &kept;
      return;
    }
    item.new_id = registry.acquire(*counter.numbers, counter.generation);
    if (item.new_id == 0) {  // no id is left for the new numbers: the old ones hold on
      item.numbers = &kept;
      return;
    }
    item.state = limit::convert(kept, *counter.numbers, item.state, now_);
  }

  // ---- Room
  // ---------------------------------------------------------------------------------------

  // A slot is found before a budget is taken, so that none is held for a key that has no place.
  Room reserve_one(Item& item) noexcept {
    const Room room = find_room(item);
    if (room == Room::reserved && !table_.take_budget()) return Room::full;
    if (room != Room::reserved) return room;
    const unsigned id = table_.registry().acquire(*item.counter->numbers, item.counter->generation);
    if (id == 0) {
      table_.give_budget();
      return Room::full;
    }
    occupy(item, id);
    return room;
  }

  void occupy(Item& item, unsigned id) noexcept {
    const auto distance = static_cast<unsigned>(item.held->line - item.home);
    if (distance > 0) find_held(item.home)->meta |= kLineOverflowed;
    set_slot_key(*item.held, item.slot, tag_of(item.counter->digest, distance), id);
    put_state(item, limit::State{});
    item.reserved = true;
    Hooks::at(Point::reserved);
  }

  // Finds an empty slot near the item's home. Expired counters of the home line go in any case,
  // those of the later lines only where there is no other room.
  Room find_room(Item& item) noexcept {
    Held* home = find_held(item.home);
    drop_expired(home);
    if (use_empty(item, home)) return Room::reserved;
    for (const bool dropping : {false, true}) {
      for (unsigned distance = 1; distance < Line::kProbe; ++distance) {
        Line* line = item.home + distance;
        if (!dropping && !looks_empty(*line)) continue;
        const std::size_t held_before = held_count_;
        Held* held = hold(line);
        if (held == nullptr) return Room::again;
        if (dropping) drop_expired(held);
        if (use_empty(item, held)) return Room::reserved;
        if (held_count_ != held_before) drop(held);
      }
    }
    return Room::crowded;
  }

  static bool looks_empty(const Line& line) noexcept {
    return load_tag(line, 0) == 0 || load_tag(line, 1) == 0 || load_tag(line, 2) == 0;
  }

  bool use_empty(Item& item, Held* held) noexcept {
    const int slot = find_empty_slot(*held->line, held->meta);
    if (slot < 0) return false;
    item.held = held;
    item.slot = static_cast<unsigned>(slot);
    return true;
  }

  void drop_expired(Held* held) noexcept {
    for (unsigned slot = 0; slot < Line::kSlots; ++slot) {
      if (!table_.expired(*held, slot, now_) || belongs_to_ask(held, slot)) continue;
      table_.evict(*held, slot);
      table_.give_budget();
    }
  }

  // The slots of this ask's own counters are not anybody else's room, expired or not yet written.
  bool belongs_to_ask(const Held* held, unsigned slot) const noexcept {
    return std::any_of(items_.begin(), items_.end(), [&](const Item& item) {
      return (item.present || item.reserved) && item.held == held && item.slot == slot;
    });
  }

  void drop_reservations() noexcept {
    for (Item& item : items_) {
      if (!item.reserved) continue;
      table_.evict(*item.held, item.slot);
      table_.give_budget();
      item.reserved = false;
    }
  }

  Table<Hooks>& table_;
  std::span<Item> items_;
  const Instant now_;
  std::size_t held_count_ = 0;
  std::size_t extra_count_ = 0;
  Line* highest_ = nullptr;
  Line* crowded_home_ = nullptr;
  bool grew_ = false;
  std::array<Held, kMostHeld> held_;
  std::array<Line*, kMostExtra> extra_;
};

}  // namespace weir::store
