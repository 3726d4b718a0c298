#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>

#include "limit/gcra.h"
#include "store/local_store.h"
#include "store/memory/item.h"
#include "store/memory/key_budget.h"
#include "store/memory/log_table.h"
#include "store/memory/table.h"
#include "store/memory/table_ask.h"

namespace weir::store {

// The memory store, with hooks at the named points of its protocol: see MemoryStore.
template <class Hooks>
class BasicMemoryStore {
 public:
  // Every so many asks of a thread look for expired counters in so many lines and log buckets.
  static constexpr unsigned kAsksBetweenSweeps = 256;
  static constexpr unsigned kLinesASweep = 4;
  static constexpr unsigned kBucketsASweep = 4;
  // An ask that finds its keys' neighbourhoods crowded makes room so often, at most.
  static constexpr int kMostHops = 2 * static_cast<int>(kMaxCounters);

  static Result<std::unique_ptr<BasicMemoryStore>> open(std::uint64_t max_keys) {
    auto memory = Table<Hooks>::reserve(max_keys);
    if (!memory) return std::move(memory).error();
    std::unique_ptr<BasicMemoryStore> store(new BasicMemoryStore(max_keys, *std::move(memory)));
    auto logs = LogTable::open(store->budget_, max_keys);
    if (!logs) return std::move(logs).error();
    store->logs_ = *std::move(logs);
    return store;
  }

  LocalAnswer decide(std::span<const Counter> counters, Instant now,
                     std::span<Finding> findings) noexcept {
    LocalAnswer answer;
    const bool decided =
        counters.size() == 1 && decide_known(counters[0], now, findings[0], answer);
    if (!decided) [[unlikely]] {
      answer = decide_anywhere(counters, now, findings);
    }
    if (sweep_is_due()) [[unlikely]] {
      (void)sweep(now, kLinesASweep, kBucketsASweep);
    }
    return answer;
  }

  // Fetches the counters' home lines. Logs stand elsewhere, and are as few as they are slow.
  void expect(std::span<const Counter> counters) const noexcept {
    const auto geometry = table_.geometry();
    for (const Counter& counter : counters)
      __builtin_prefetch(table_.home_of(counter.digest, geometry), 1);
  }

  // Drops expired counters from the next so many lines and log buckets; whether there were any.
  [[gnu::noinline]] bool sweep(Instant now, unsigned lines, unsigned buckets) noexcept {
    const bool in_lines = table_.sweep(now, lines);
    return logs_->sweep(now, buckets) || in_lines;
  }

  [[gnu::noinline]] bool sweep_for_room(Instant now) noexcept {
    const bool in_lines = table_.sweep_for_room(now);
    return logs_->sweep_for_room(now) || in_lines;
  }

  std::uint64_t keys() const noexcept { return budget_.kept(); }
  std::size_t resident_bytes() const { return table_.resident_bytes() + logs_->resident_bytes(); }
  Table<Hooks>& table() noexcept { return table_; }

 private:
  BasicMemoryStore(std::uint64_t max_keys, typename Table<Hooks>::Memory memory)
      : budget_(max_keys), table_(budget_, std::move(memory)) {}

  static bool sweep_is_due() noexcept {
    thread_local unsigned asks = 0;
    return ++asks % kAsksBetweenSweeps == 0;
  }

  // The common case: one counter, charged or probed, that is kept under the numbers that are asked
  // for. False: not that case, and nothing has changed.
  bool decide_known(const Counter& counter, Instant now, Finding& finding,
                    LocalAnswer& answer) noexcept {
    const limit::Numbers& numbers = *counter.numbers;
    if (counter.op != Op::take || !fits_slot(numbers)) return false;
    const auto geometry = table_.geometry();
    Line* const line = table_.home_of(counter.digest, geometry);
    Hooks::at(Point::home_chosen);
    const std::uint32_t meta = lock(*line);
    const bool line_holds = table_.geometry() == geometry;
    const int found = find_slot(*line, meta, tag_of(counter.digest, 0));
    if (found < 0 && line_holds && (meta & kLineOverflowed) != 0) {
      return decide_displaced({line, meta}, counter, now, finding, answer);
    }
    const bool known =
        found >= 0 && line_holds && take_if_current(*line, meta, found, counter, now, finding);
    unlock(*line, meta);
    if (known) answer = answer_of(counter, finding);
    return known;
  }

  // The same for a key that does not stand in its home line.
  [[gnu::noinline]] bool decide_displaced(Held home, const Counter& counter, Instant now,
                                          Finding& finding, LocalAnswer& answer) noexcept {
    Held at{};
    const int found = table_.find_beyond(home, counter.digest, at);
    bool known = false;
    if (found >= 0) {
      known = take_if_current(*at.line, at.meta, found, counter, now, finding);
      unlock(*at.line, at.meta);
    }
    unlock(*home.line, home.meta);
    if (known) answer = answer_of(counter, finding);
    return known;
  }

  static LocalAnswer answer_of(const Counter& counter, const Finding& finding) noexcept {
    const bool fits = finding.step.outcome == limit::Outcome::allowed;
    return {LocalOutcome::decided, fits || counter.shadow};
  }

  bool take_if_current(Line& line, std::uint32_t meta, int found, const Counter& counter,
                       Instant now, Finding& finding) noexcept {
    const auto slot = static_cast<unsigned>(found);
    if (!table_.registry().is_current(slot_id(line, meta, slot), counter.numbers->stamp,
                                      counter.generation)) {
      return false;
    }
    Hooks::at(Point::homes_locked);
    take_in_place(line, slot, counter, now, finding.step);
    const bool fits = finding.step.outcome == limit::Outcome::allowed;
    finding.op = Op::take;
    finding.charged = fits && counter.cost > 0;
    finding.units = fits ? counter.cost : 0;
    finding.remaining_known = finding.retry_known = finding.reset_known = true;
    return true;
  }

  void take_in_place(Line& line, unsigned slot, const Counter& counter, Instant now,
                     limit::Step& step) noexcept {
    const limit::Numbers& numbers = *counter.numbers;
    if (numbers.algorithm == Algorithm::gcra) [[likely]] {
      const auto arrival_ns = static_cast<std::int64_t>(line.word[slot]);
      // Made in its place: copying it costs more than the arithmetic.
      ::new (static_cast<void*>(&step))
          limit::Step(limit::gcra_take(numbers, {.time_ns = arrival_ns}, now, counter.cost));
      line.word[slot] = static_cast<std::uint64_t>(step.next.time_ns);
      return;
    }
    const limit::State state = table_.state_in(line, slot, numbers, now);
    step = limit::take(numbers, state, now, counter.cost);
    if (step.next != state) table_.put_state(line, slot, numbers, step.next);
  }

  [[gnu::noinline]] LocalAnswer decide_anywhere(std::span<const Counter> counters, Instant now,
                                                std::span<Finding> findings) noexcept {
    Outcome outcome;
    LocalAnswer answer = decide_all(counters, now, findings, false, outcome);
    for (int hops = 0; outcome.crowded != nullptr && hops < kMostHops; ++hops) {
      if (!table_.make_room(outcome.crowded, now)) break;
      answer = decide_all(counters, now, findings, false, outcome);
    }
    if (answer.outcome == LocalOutcome::exhausted) {
      const bool freed = sweep_for_room(now);
      if (freed || outcome.crowded != nullptr) {
        answer = decide_all(counters, now, findings, true, outcome);
      }
    }
    if (outcome.grew) table_.grow();
    return answer;
  }

  // Room for the items of one ask, unwritten until they are needed: those of the table from the
  // front, those of the logs from the back.
  struct Items {
    alignas(Item) std::byte storage[kMaxCounters * sizeof(Item)];
    std::size_t in_table = 0;
    std::size_t in_logs = 0;

    Items(std::span<const Counter> counters, std::span<Finding> findings) noexcept {
      for (std::size_t i = 0; i < counters.size(); ++i) {
        const std::size_t place =
            fits_slot(*counters[i].numbers) ? in_table++ : kMaxCounters - ++in_logs;
        Item* item = ::new (storage + place * sizeof(Item)) Item;
        item->counter = &counters[i];
        item->finding = &findings[i];
        item->reserved = false;
        item->new_id = 0;
      }
    }
    Item* at(std::size_t place) noexcept {
      return std::launder(reinterpret_cast<Item*>(storage + place * sizeof(Item)));
    }
    std::span<Item> table() noexcept { return {at(0), in_table}; }
    std::span<Item> logs() noexcept { return {at(kMaxCounters - in_logs), in_logs}; }
  };

  // Two counters of one digest would be two slots of one key.
  static bool all_distinct(std::span<const Counter> counters) noexcept {
    for (std::size_t i = 0; i < counters.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (counters[i].digest == counters[k].digest) return false;
      }
    }
    return counters.size() <= kMaxCounters;
  }

  struct Outcome {
    bool grew = false;        // a key was added
    Line* crowded = nullptr;  // there was no room near this line
  };

  // Shards of logs are locked before lines, always.
  LocalAnswer decide_all(std::span<const Counter> counters, Instant now,
                         std::span<Finding> findings, bool last_attempt,
                         Outcome& outcome) noexcept {
    outcome = Outcome{};
    assert(all_distinct(counters));
    Items items(counters, findings);
    LogAsk logs(*logs_, items.logs(), now);
    TableAsk<Hooks> table(table_, items.table(), now);
    logs.evaluate();
    const bool logs_allow = std::none_of(items.logs().begin(), items.logs().end(), denies);
    bool allowed = false;
    bool logs_have_room = false;
    for (;;) {
      table.evaluate();
      allowed = logs_allow && std::none_of(items.table().begin(), items.table().end(), denies);
      if (!allowed) break;
      logs_have_room = logs_have_room || logs.reserve();
      if (!logs_have_room) return {LocalOutcome::exhausted, false};
      const auto room = table.reserve(last_attempt);
      if (room == TableAsk<Hooks>::Room::reserved) break;
      outcome.crowded = table.crowded_home();
      if (room != TableAsk<Hooks>::Room::again) return {LocalOutcome::exhausted, false};
    }
    if (allowed) {
      table.write();
      logs.write();
      outcome = {.grew = table.grew()};
    }
    table.report(allowed);
    logs.report(allowed);
    return {LocalOutcome::decided, allowed};
  }

  KeyBudget budget_;
  Table<Hooks> table_;
  std::unique_ptr<LogTable> logs_;
};

}  // namespace weir::store
