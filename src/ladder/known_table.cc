#include "ladder/known_table.h"

#include <algorithm>

#include "ladder/known_entry.h"

namespace weir::ladder {

using limit::Numbers;
using limit::Outcome;
using limit::State;
using limit::Step;
using store::Counter;

namespace {

// How many entries from the old end are looked at for one that may go, before the slot counts as
// crowded.
constexpr int kEvictionReach = 64;

}  // namespace

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

void KnownTable::learn(const Counter& counter, const State& state, Instant store_now, MonoTime seen,
                       const Step* denied) {
  Slot& slot = slot_of(counter.digest);
  std::lock_guard lock(slot.mutex);
  Entry* entry = find_or_make(slot, counter.digest, store_now);
  if (entry == nullptr) return;
  if (entry->known && seen < entry->seen) return;  // an older answer that arrived later
  entry->known = true;
  entry->known_numbers = *counter.numbers;
  entry->known_state = state;
  entry->converted.reset();
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
  if (!is_log(current)) return entry->known_under(current, store_now);
  State state = entry->known_state;
  state.time_ns = entry->known_at.time_since_epoch().count();
  return state;
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
  // Where two workers have different numbers the store goes by the newer ones, which may not be
  // these: as long as it is there, it is asked.
  if (max_age && entry->known_numbers.stamp != counter.numbers->stamp) return std::nullopt;
  const State& state = entry->known_under(*counter.numbers, store_now);
  const Step step = limit::take(*counter.numbers, state, store_now, counter.cost);
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
    charge(shares[i], *entries[i], store_now, counter.cost, findings[i]);
  }
  return verdict;
}

void KnownTable::charge(const Share& share, Entry& entry, Instant store_now, std::uint64_t units,
                        store::Finding& finding) {
  const Counter& counter = *share.counter;
  finding.charged = true;
  finding.units = units;
  entry.charge(store_now, units);
  entry.spent = true;
  // Nobody who counts there could tell a second telling from the first.
  if (counter.kept != store::Kept::weir) return;
  entry.owe(*counter.numbers, next_outage_, store_now, units);
  recount(slot_of(counter.digest), entry, store_now);
}

void KnownTable::use_up(std::span<const Share> shares, Instant store_now,
                        std::span<store::Finding> findings) {
  const Locks locks(*this, shares);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const Counter& counter = *shares[i].counter;
    findings[i] = {.op = counter.op, .charged = false};
    Entry* const entry =
        shares[i].part ? find_or_make(slot_of(counter.digest), counter.digest, store_now) : nullptr;
    (void)look(shares[i], entry, store_now, findings[i].step);
    if (entry == nullptr) continue;
    const std::uint64_t units =
        std::min<std::uint64_t>(entry->peek(store_now, 0).remaining, counter.cost);
    if (units == 0) continue;
    // As of a charge that fits: what is left, and its receipt.
    const Outcome outcome = findings[i].step.outcome;
    findings[i].step = entry->peek(store_now, units);
    findings[i].step.outcome = outcome;
    charge(shares[i], *entry, store_now, units, findings[i]);
  }
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
