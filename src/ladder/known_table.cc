#include "ladder/known_table.h"

#include <algorithm>
#include <bit>

namespace weir::ladder {

using limit::LogState;
using limit::Numbers;
using limit::Outcome;
using limit::State;
using limit::Step;
using store::Counter;

namespace {

// How many entries from the old end are looked at for one that may go, before the slot counts as
// crowded.
constexpr int kEvictionReach = 64;

bool is_log(const Numbers& numbers) {
  return numbers.algorithm == Algorithm::sliding_log;
}

bool same_family(const Numbers& a, const Numbers& b) {
  return a.algorithm == b.algorithm && a.calendar == b.calendar &&
         a.calendar_count == b.calendar_count;
}

}  // namespace

struct KnownTable::Entry {
  std::list<KeyDigest>::iterator use;
  bool stays = false;  // `use` is of the slot's `staying`
  bool held = false;   // a call under way points to it

  bool known = false;
  Numbers known_numbers;
  State known_state;
  std::uint32_t known_remaining = 0;  // sliding_log
  Instant known_at{};
  MonoTime seen{};
  std::uint64_t origin = 0;
  std::uint64_t denied_cost = 0;  // sliding_log: what the store did not let through; 0: it did
  Step denied;                    // and what it said of that, at known_at
  // The known state under numbers that the rule got since, from when they were first asked under.
  struct Converted {
    Numbers numbers;
    State state;
  };
  mutable std::unique_ptr<Converted> converted;

  bool spent = false;
  Numbers part_numbers;
  State local;
  std::unique_ptr<LogState> log;
  std::int64_t forget_at_ns = 0;    // local spending means nothing from then on
  OwedUnits owed;                   // of the latest outage and window
  std::uint64_t told_units = 0;     // of which the store has been told
  std::uint64_t sent_units = 0;     // of which it may have been told
  Instant run_off_at{};             // gcra: when all of it has, at the whole's rate
  std::int64_t owing_until_ns = 0;  // nothing is owed from then on
  // What the slot's total counts of it.
  std::uint64_t counted_units = 0;
  std::int64_t counted_until_ns = 0;

  bool pinned(Instant now) const { return spent && now.time_since_epoch().count() < forget_at_ns; }

  // What the store would say remains now, as far as this worker knows; absent where it knows
  // nothing.
  std::optional<std::uint32_t> remaining(const Numbers& current, Instant now) const {
    if (!known) return std::nullopt;
    if (is_log(current)) {
      if (now - known_at >= Nanos(current.period_ns)) return std::nullopt;  // all of it is over
      return known_remaining;
    }
    if (!same_family(known_numbers, current)) return std::nullopt;
    return limit::take(current, state_under(current, now), now, 0).remaining;
  }

  // Converted once, as the store would: from then on it runs off under the new numbers, and who
  // waits as a denial under them said is not told to wait again. What was learnt stays beside it,
  // for a caller that is still on its way with the numbers before.
  const State& state_under(const Numbers& current, Instant now) const {
    if (known_numbers.stamp == current.stamp) return known_state;
    if (!converted || converted->numbers.stamp != current.stamp) {
      const State state = limit::convert(known_numbers, current, known_state, now);
      converted = std::make_unique<Converted>(Converted{current, state});
    }
    return converted->state;
  }

  void adopt(const Numbers& numbers, Instant now) {
    if (spent && part_numbers.stamp == numbers.stamp) return;
    if (is_log(numbers)) {
      if (!log) log = std::make_unique<LogState>();
    } else if (spent && same_family(part_numbers, numbers)) {
      local = limit::convert(part_numbers, numbers, local, now);
    } else {
      local = State{};
    }
    part_numbers = numbers;
  }

  Step peek(Instant now, std::uint64_t cost) const {
    return is_log(part_numbers) ? limit::log_peek(part_numbers, *log, now, cost)
                                : limit::take(part_numbers, local, now, cost);
  }

  void charge(Instant now, std::uint64_t cost) {
    if (is_log(part_numbers)) {
      (void)limit::log_take(part_numbers, *log, now, cost);
      forget_at_ns = now.time_since_epoch().count() + part_numbers.period_ns;
    } else {
      local = limit::take(part_numbers, local, now, cost).next;
      forget_at_ns = limit::expires_at_ns(part_numbers, local);
    }
  }

  void drain(Instant now, std::uint64_t units) {
    if (is_log(part_numbers)) {
      (void)limit::log_drain(part_numbers, *log, now, units);
    } else {
      local = limit::drain(part_numbers, local, now, units).next;
    }
  }

  // Local room never exceeds this worker's part of what was last known to remain.
  void hold_to_known(const Numbers& current, limit::Place place, Instant now) {
    const std::optional<std::uint32_t> left = remaining(current, now);
    if (!left) return;
    const std::uint32_t mine = limit::part_of(current, *left, place);
    const std::uint32_t room = peek(now, 0).remaining;
    if (room > mine) drain(now, room - mine);
  }

  // How long until the store has so many units, and until the part has room; absent: never.
  std::optional<Nanos> wait_for_whole(const Numbers& current, std::uint64_t units,
                                      Instant now) const;
  std::optional<Nanos> wait_for_part(const Numbers& part, std::uint64_t cost, Instant now) const;

  // Counts what was just admitted. gcra: as a bucket of the whole's own rate would stand, since
  // that is how fast the store will let it run off.
  void owe(const Numbers& whole, std::atomic<std::uint64_t>& next_outage, Instant now,
           std::uint64_t units) {
    const bool windowed =
        whole.algorithm == Algorithm::fixed_window || whole.algorithm == Algorithm::sliding_window;
    const Instant window =
        windowed ? Instant{Nanos(limit::window_at(whole, now).start_ns)} : Instant{};
    if (owed.outage == 0 || owed.window != window) {
      owed = {.outage = next_outage.fetch_add(1, std::memory_order_relaxed), .window = window};
      told_units = sent_units = 0;
      run_off_at = Instant{};
    }
    owed.units += units;
    if (whole.algorithm == Algorithm::gcra) {
      run_off_at =
          std::max(run_off_at, now) + Nanos(whole.interval_ns * static_cast<std::int64_t>(units));
    }
    owing_until_ns = windowed ? limit::window_at(whole, now).end_ns
                     : whole.algorithm == Algorithm::gcra
                         ? later(now, run_off_at.time_since_epoch().count())
                         : later(now, forget_at_ns);
  }

  // An instant not before `until_ns`, and so that there are few of them: as entries of a total.
  static std::int64_t later(Instant now, std::int64_t until_ns) {
    const std::int64_t left = std::max<std::int64_t>(until_ns - now.time_since_epoch().count(), 8);
    const auto grain =
        static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(left / 8)));
    return (until_ns / grain + 1) * grain;
  }

  // Returns how many of the units are owed no more: of what may have been told none can be.
  std::uint64_t disown(const Numbers& whole, std::uint64_t units) {
    const std::uint64_t untold = owed.units - std::max(told_units, sent_units);
    const std::uint64_t lowered = std::min(untold, units);
    owed.units -= lowered;
    if (whole.algorithm == Algorithm::gcra) {
      run_off_at -= Nanos(whole.interval_ns * static_cast<std::int64_t>(lowered));
    }
    return lowered;
  }

  std::optional<OwedUnits> still_owed(const Numbers& whole, Instant now) const;

  // Which of its charges are over the store alone knows: what it denied it still denies until the
  // time it named.
  std::optional<Step> log_denial(const Counter& counter, Instant now) const {
    if (denied_cost == 0 || counter.cost < denied_cost) return std::nullopt;
    if (known_numbers.stamp != counter.numbers->stamp) return std::nullopt;
    if (counter.cost > counter.numbers->limit) {
      Step never = denied;
      never.outcome = Outcome::never_fits;
      never.retry_after_ns = 0;
      return never;
    }
    const std::int64_t passed = std::max<std::int64_t>((now - known_at).count(), 0);
    if (denied.outcome != Outcome::limited || passed >= denied.retry_after_ns) return std::nullopt;
    Step still = denied;
    still.retry_after_ns -= passed;
    still.reset_after_ns = std::max<std::int64_t>(still.reset_after_ns - passed, 0);
    return still;
  }

  // Units that this worker has spent and that still count, by its own part's arithmetic.
  std::uint64_t standing(Instant now) const {
    const std::uint32_t most =
        part_numbers.algorithm == Algorithm::gcra ? part_numbers.burst : part_numbers.limit;
    return most - peek(now, 0).remaining;
  }
};

KnownTable::KnownTable(std::size_t capacity, std::uint64_t random)
    : hash_(random),
      capacity_per_slot_(std::max<std::size_t>(1, capacity / kSlots)),
      next_outage_(random | 1) {
  for (Slot& slot : slots_) slot.entries = decltype(slot.entries)(0, hash_);
}
KnownTable::~KnownTable() = default;

// The slot's total counts what the entry owes now.
void KnownTable::recount(Slot& slot, Entry& entry, Instant store_now) {
  uncount(slot, entry);
  const std::uint64_t units = entry.owed.units - std::min(entry.owed.units, entry.told_units);
  if (units == 0 || entry.owing_until_ns <= store_now.time_since_epoch().count()) return;
  entry.counted_units = units;
  entry.counted_until_ns = entry.owing_until_ns;
  slot.owing[entry.counted_until_ns] += units;
}

void KnownTable::uncount(Slot& slot, Entry& entry) {
  if (entry.counted_units == 0) return;
  const auto found = slot.owing.find(entry.counted_until_ns);
  // Else the time has come, and the total has dropped it.
  if (found != slot.owing.end()) {
    found->second -= std::min(found->second, entry.counted_units);
    if (found->second == 0) slot.owing.erase(found);
  }
  entry.counted_units = 0;
}

KnownTable::Entry* KnownTable::find(Slot& slot, const KeyDigest& digest) const {
  const auto found = slot.entries.find(digest);
  return found == slot.entries.end() ? nullptr : &found->second;
}

KnownTable::Entry* KnownTable::find_or_make(Slot& slot, const KeyDigest& digest,
                                            Instant store_now) {
  if (Entry* entry = find(slot, digest)) {
    slot.by_use.splice(slot.by_use.begin(), entry->stays ? slot.staying : slot.by_use, entry->use);
    entry->stays = false;
    return entry;
  }
  if (slot.entries.size() >= capacity_per_slot_ && !make_room(slot, store_now)) return nullptr;
  slot.by_use.push_front(digest);
  Entry& entry = slot.entries[digest];
  entry.use = slot.by_use.begin();
  return &entry;
}

bool KnownTable::make_room(Slot& slot, Instant store_now) {
  // Entries that stay are set apart when they are come upon, so that they do not hide those that
  // may go; and one of them is looked at each time, for whether its window is over.
  if (go_or_stay(slot, slot.staying, store_now)) return true;
  for (int looked = 0; looked < kEvictionReach && !slot.by_use.empty(); ++looked) {
    if (go_or_stay(slot, slot.by_use, store_now)) return true;
  }
  return false;
}

// Whether the list's oldest entry went.
bool KnownTable::go_or_stay(Slot& slot, std::list<KeyDigest>& list, Instant store_now) {
  if (list.empty()) return false;
  const auto oldest = std::prev(list.end());
  const auto found = slot.entries.find(*oldest);
  Entry& entry = found->second;
  if (entry.held || entry.pinned(store_now)) {
    entry.stays = true;
    slot.staying.splice(slot.staying.begin(), list, oldest);
    return false;
  }
  uncount(slot, entry);
  slot.entries.erase(found);
  list.erase(oldest);
  return true;
}

void KnownTable::learn(const Counter& counter, const State& state, std::uint32_t remaining,
                       Instant store_now, MonoTime seen, const Step* denied) {
  Slot& slot = slot_of(counter.digest);
  std::lock_guard lock(slot.mutex);
  Entry* entry = find_or_make(slot, counter.digest, store_now);
  if (entry == nullptr) return;
  if (entry->known && seen < entry->seen) return;  // an older answer that arrived later
  entry->known = true;
  entry->known_numbers = *counter.numbers;
  entry->known_state = state;
  entry->converted.reset();
  entry->known_remaining = remaining;
  entry->known_at = store_now;
  entry->seen = seen;
  entry->origin = origin_.load(std::memory_order_relaxed);
  entry->denied_cost = denied != nullptr ? counter.cost : 0;
  if (denied != nullptr) entry->denied = *denied;
}

std::optional<State> KnownTable::before_loss(const Counter& counter, Instant store_now) const {
  Slot& slot = slot_of(counter.digest);
  std::lock_guard lock(slot.mutex);
  const Entry* entry = find(slot, counter.digest);
  if (entry == nullptr || !entry->known) return std::nullopt;
  if (entry->origin == origin_.load(std::memory_order_relaxed)) return std::nullopt;
  const Numbers& current = *counter.numbers;
  if (!same_family(entry->known_numbers, current)) return std::nullopt;
  const std::optional<std::uint32_t> left = entry->remaining(current, store_now);
  const std::uint32_t most = current.algorithm == Algorithm::gcra ? current.burst : current.limit;
  if (!left || *left >= most) return std::nullopt;  // as good as a fresh one
  if (is_log(current)) {
    State state;
    state.time_ns = entry->known_at.time_since_epoch().count();
    state.current = most - *left;
    return state;
  }
  return entry->state_under(current, store_now);
}

std::optional<Step> KnownTable::denial(const Counter& counter, Instant store_now, MonoTime now,
                                       std::optional<Nanos> max_age) const {
  Slot& slot = slot_of(counter.digest);
  std::lock_guard lock(slot.mutex);
  const Entry* entry = find(slot, counter.digest);
  if (entry == nullptr || !entry->known) return std::nullopt;
  if (max_age && now - entry->seen > *max_age) return std::nullopt;
  if (!same_family(entry->known_numbers, *counter.numbers)) return std::nullopt;
  if (is_log(*counter.numbers)) return entry->log_denial(counter, store_now);
  const bool same_numbers = entry->known_numbers.stamp == counter.numbers->stamp;
  // Where two workers have different numbers the store goes by the newer ones, which may not be
  // these: as long as it is there, it is asked.
  if (max_age && !same_numbers) return std::nullopt;
  const Step step = limit::take(*counter.numbers, entry->state_under(*counter.numbers, store_now),
                                store_now, counter.cost);
  if (step.outcome == Outcome::allowed) return std::nullopt;
  return step;
}

namespace {

// The least of a whole of which this place's part holds the cost; absent: not even all of it.
std::optional<std::uint64_t> least_whole(const Numbers& whole, limit::Place place,
                                         std::uint64_t cost) {
  const auto holds = [&](std::uint64_t units) {
    return limit::part_of(whole, static_cast<std::uint32_t>(units), place) >= cost;
  };
  std::uint64_t most = whole.algorithm == Algorithm::gcra ? whole.burst : whole.limit;
  if (!holds(most)) return std::nullopt;
  std::uint64_t least = 0;
  while (least < most) {
    const std::uint64_t middle = least + (most - least) / 2;
    if (holds(middle)) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  return most;
}

// Absent: never.
std::optional<Nanos> wait_of(const Step& step) {
  if (step.outcome == Outcome::never_fits) return std::nullopt;
  return Nanos(step.outcome == Outcome::allowed ? 0 : step.retry_after_ns);
}

}  // namespace

std::optional<Nanos> KnownTable::part_wait(const Share& share, Instant store_now) const {
  const Counter& counter = *share.counter;
  const std::uint64_t cost = std::max<std::uint64_t>(counter.cost, 1);
  const auto whole = least_whole(*counter.numbers, share.place, cost);
  if (!share.part || !whole) return std::nullopt;
  Slot& slot = slot_of(counter.digest);
  std::lock_guard lock(slot.mutex);
  const Entry* entry = find(slot, counter.digest);
  if (entry == nullptr) return Nanos{0};
  const std::optional<Nanos> of_whole = entry->wait_for_whole(*counter.numbers, *whole, store_now);
  const std::optional<Nanos> of_part = entry->wait_for_part(*share.part, cost, store_now);
  if (!of_whole || !of_part) return std::nullopt;
  return std::max(*of_whole, *of_part);
}

std::optional<Nanos> KnownTable::Entry::wait_for_whole(const Numbers& current, std::uint64_t units,
                                                       Instant now) const {
  const std::optional<std::uint32_t> left = remaining(current, now);
  if (!left || *left >= units) return Nanos{0};
  // Which of its charges go when the store alone knows.
  if (is_log(current)) return known_at + Nanos(current.period_ns) - now;
  return wait_of(limit::take(current, state_under(current, now), now, units));
}

std::optional<Nanos> KnownTable::Entry::wait_for_part(const Numbers& part, std::uint64_t cost,
                                                      Instant now) const {
  const bool counted = spent && same_family(part_numbers, part);
  if (is_log(part)) {
    if (counted && log) return wait_of(limit::log_peek(part, *log, now, cost));
    return wait_of(limit::log_peek(part, LogState{}, now, cost));
  }
  State state;
  if (counted) {
    state =
        part_numbers.stamp == part.stamp ? local : limit::convert(part_numbers, part, local, now);
  }
  return wait_of(limit::take(part, state, now, cost));
}

// Locks the slots that some counters stand in, in one order, each once.
class KnownTable::Locks {
 public:
  Locks(const KnownTable& table, std::span<const Share> shares) : slots_(table.slots_) {
    for (const Share& share : shares) wanted_ |= 1U << table.place_of(share.counter->digest);
    for (std::size_t i = 0; i < kSlots; ++i) {
      if ((wanted_ >> i & 1U) != 0) slots_[i].mutex.lock();
    }
  }
  ~Locks() {
    for (std::size_t i = 0; i < kSlots; ++i) {
      if ((wanted_ >> i & 1U) != 0) slots_[i].mutex.unlock();
    }
  }
  Locks(const Locks&) = delete;
  Locks& operator=(const Locks&) = delete;

 private:
  static_assert(kSlots == 16, "a digest's place is four bits of its hash");
  std::array<Slot, kSlots>& slots_;
  std::uint32_t wanted_ = 0;
};

KnownTable::Spent KnownTable::spend(std::span<const Share> shares, Instant store_now,
                                    std::span<store::Finding> findings) {
  const Locks locks(*this, shares);
  std::array<Entry*, store::kMaxCounters> entries{};
  Spent verdict = Spent::admitted;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const Counter& counter = *shares[i].counter;
    entries[i] = find_or_make(slot_of(counter.digest), counter.digest, store_now);
    if (entries[i] != nullptr) entries[i]->held = true;
    findings[i] = {.op = store::Op::take, .charged = false};
    const Spent found = look(shares[i], entries[i], store_now, findings[i].step);
    if (!counter.shadow) verdict = std::max(verdict, found);
  }
  for (Entry* entry : entries) {
    if (entry != nullptr) entry->held = false;
  }
  if (verdict == Spent::crowded) crowded_.fetch_add(1, std::memory_order_relaxed);
  if (verdict != Spent::admitted) return verdict;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const Counter& counter = *shares[i].counter;
    if (counter.cost == 0 || entries[i] == nullptr) continue;
    if (findings[i].step.outcome != Outcome::allowed) continue;
    findings[i].charged = true;
    findings[i].units = counter.cost;
    entries[i]->charge(store_now, counter.cost);
    entries[i]->spent = true;
    // Nobody who counts there could tell a second telling from the first.
    if (counter.kept != store::Kept::weir) continue;
    entries[i]->owe(*counter.numbers, next_outage_, store_now, counter.cost);
    recount(slot_of(counter.digest), *entries[i], store_now);
  }
  return verdict;
}

// What one part says of the cost, whether or not it is in shadow.
KnownTable::Spent KnownTable::look(const Share& share, Entry* entry, Instant store_now,
                                   Step& step) {
  const std::uint64_t cost = share.counter->cost;
  step.outcome = Outcome::never_fits;
  if (!share.part) return Spent::no_part;
  if (entry == nullptr) {
    if (cost > 0) return Spent::crowded;
    Entry fresh;
    return look(share, &fresh, store_now, step);
  }
  entry->adopt(*share.part, store_now);
  entry->hold_to_known(*share.counter->numbers, share.place, store_now);
  step = entry->peek(store_now, cost);
  if (step.outcome == Outcome::allowed) return Spent::admitted;
  return step.outcome == Outcome::never_fits ? Spent::no_part : Spent::exhausted;
}

void KnownTable::unspend(std::span<const Share> shares, Instant store_now,
                         std::span<const store::Finding> findings, std::uint64_t forgiven) {
  const Locks locks(*this, shares);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const Counter& counter = *shares[i].counter;
    Slot& slot = slot_of(counter.digest);
    Entry* entry = find(slot, counter.digest);
    if (!findings[i].charged || entry == nullptr || !entry->spent) continue;
    const Instant receipt = findings[i].step.receipt();
    if (is_log(entry->part_numbers)) {
      (void)limit::log_refund(entry->part_numbers, *entry->log, store_now, counter.cost, receipt);
    } else {
      entry->local =
          limit::refund(entry->part_numbers, entry->local, store_now, counter.cost, receipt).next;
    }
    if (counter.kept != store::Kept::weir || (forgiven >> i & 1) != 0) continue;
    // Of a window that is over nothing is owed any more; what is owed now is others'.
    if (entry->owed.window != Instant{} && entry->owed.window != receipt) continue;
    (void)entry->disown(*counter.numbers, counter.cost);
    recount(slot, *entry, store_now);
  }
}

std::optional<OwedUnits> KnownTable::Entry::still_owed(const Numbers& whole, Instant now) const {
  if (!spent || owed.units <= told_units) return std::nullopt;
  OwedUnits still = owed;
  switch (whole.algorithm) {
    case Algorithm::gcra: {
      if (run_off_at <= now) return std::nullopt;
      const std::int64_t interval = whole.interval_ns;
      const std::int64_t left = (run_off_at - now).count();
      still.standing =
          interval > 0 ? static_cast<std::uint64_t>((left + interval - 1) / interval) : owed.units;
      still.standing = std::min(still.standing, owed.units);
      return still;
    }
    case Algorithm::fixed_window:
    case Algorithm::sliding_window:
      // A window that is over is over for the limit; the ledger has what was used in it.
      if (Instant{Nanos(limit::window_at(whole, now).start_ns)} != owed.window) return std::nullopt;
      still.standing = owed.units;
      return still;
    case Algorithm::sliding_log:
      if (!log) return std::nullopt;
      still.standing = std::min(owed.units, standing(now));
      if (still.standing == 0) return std::nullopt;
      return still;
  }
  return std::nullopt;
}

std::optional<OwedUnits> KnownTable::owed(const Counter& counter, Instant store_now) const {
  Slot& slot = slot_of(counter.digest);
  std::lock_guard lock(slot.mutex);
  const Entry* entry = find(slot, counter.digest);
  return entry == nullptr ? std::nullopt : entry->still_owed(*counter.numbers, store_now);
}

std::optional<OwedUnits> KnownTable::tell(const Counter& counter, Instant store_now) {
  Slot& slot = slot_of(counter.digest);
  std::lock_guard lock(slot.mutex);
  Entry* entry = find(slot, counter.digest);
  if (entry == nullptr) return std::nullopt;
  const std::optional<OwedUnits> owed = entry->still_owed(*counter.numbers, store_now);
  if (!owed) return std::nullopt;
  entry->sent_units = std::max(entry->sent_units, owed->units);
  OwedUnits told = *owed;
  told.confirmed = entry->told_units;
  return told;
}

std::uint64_t KnownTable::outage_of(const KeyDigest& digest) const {
  Slot& slot = slot_of(digest);
  std::lock_guard lock(slot.mutex);
  const Entry* entry = find(slot, digest);
  return entry == nullptr ? 0 : entry->owed.outage;
}

std::uint64_t KnownTable::forgive(const Counter& counter, std::uint64_t outage, Instant receipt,
                                  std::uint64_t units, Instant store_now) {
  Slot& slot = slot_of(counter.digest);
  std::lock_guard lock(slot.mutex);
  Entry* entry = find(slot, counter.digest);
  // What is owed no more, or was owed for a window that is over, is counted by the charge alone.
  if (entry == nullptr || entry->owed.outage != outage) return 0;
  if (entry->owed.window != Instant{} && entry->owed.window != receipt) {
    return entry->owed.window < receipt ? 0 : units;
  }
  const std::uint64_t twice = units - entry->disown(*counter.numbers, units);
  recount(slot, *entry, store_now);
  return twice;
}

void KnownTable::settled(const KeyDigest& digest, const OwedUnits& told) {
  Slot& slot = slot_of(digest);
  std::lock_guard lock(slot.mutex);
  Entry* entry = find(slot, digest);
  if (entry == nullptr || entry->owed.outage != told.outage || entry->owed.window != told.window)
    return;
  entry->told_units = std::max(entry->told_units, told.units);
  recount(slot, *entry, Instant{});
}

std::size_t KnownTable::size() const {
  std::size_t sum = 0;
  for (const Slot& slot : slots_) {
    std::lock_guard lock(slot.mutex);
    sum += slot.entries.size();
  }
  return sum;
}

std::uint64_t KnownTable::owed_units(Instant store_now) const {
  const std::int64_t now = store_now.time_since_epoch().count();
  std::uint64_t sum = 0;
  for (Slot& slot : slots_) {
    std::lock_guard lock(slot.mutex);
    slot.owing.erase(slot.owing.begin(), slot.owing.upper_bound(now));
    for (const auto& [until, units] : slot.owing) sum += units;
  }
  return sum;
}

}  // namespace weir::ladder
