#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ladder/shard_ladder.h"
#include "render/metrics.h"
#include "store/redis/error_class.h"

namespace weir::guard {

// A breaker's state as the metrics write it: 0 closed, 1 recovering, 2 open.
std::uint64_t number_of(breaker::ProbeState state) noexcept;

struct ShardView;

// What happened on one shard, counted for the metrics.
//
// Threads:     any.
class ShardCounters {
 public:
  void count_error(const store::redis::ErrorRow& row) noexcept {
    add(errors_[static_cast<std::size_t>(row.error_class) % kErrorClasses], 1);
  }
  void count_opening() noexcept { add(openings_, 1); }
  void count_closing() noexcept { add(closings_, 1); }
  void count_unknown(std::uint64_t asks) noexcept { add(unknown_, asks); }
  // A charge that came too late to be an answer: returned to its counter, or lost.
  void count_give_back(bool done) noexcept { add(done ? given_back_ : not_given_back_, 1); }
  void count_answer(Nanos latency) noexcept;
  void count_over_bound() noexcept { add(over_bound_, 1); }
  // A value at one of our keys that was none of ours, or damaged: it was treated as fresh, and
  // replaced.
  void count_repaired() noexcept { add(repaired_, 1); }
  // A request that was decided without the store.
  void count_without() noexcept { add(without_, 1); }
  // A request that another store decided in its place.
  void count_by_fallback() noexcept { add(by_fallback_, 1); }
  // An ask for which there was no room on the way to the store's thread.
  void count_no_room() noexcept { add(no_room_, 1); }
  // Callers whose ask went to the store with another's.
  void count_coalesced(std::uint64_t asks) noexcept { add(coalesced_, asks); }

  std::uint64_t unknown() const noexcept { return unknown_.load(); }
  std::uint64_t coalesced() const noexcept { return coalesced_.load(); }
  std::uint64_t over_bound() const noexcept { return over_bound_.load(); }
  std::uint64_t without() const noexcept { return without_.load(); }
  std::uint64_t by_fallback() const noexcept { return by_fallback_.load(); }
  std::uint64_t not_given_back() const noexcept { return not_given_back_.load(); }

 private:
  friend void write_shards(std::span<const ShardView> shards, render::Exposition& out);

  static constexpr std::size_t kErrorClasses = 5;
  static constexpr std::size_t kBounds = 13;
  using Counter = std::atomic<std::uint64_t>;

  static void add(Counter& counter, std::uint64_t by) noexcept {
    counter.fetch_add(by, std::memory_order_relaxed);
  }

  Counter openings_{0};
  Counter closings_{0};
  Counter unknown_{0};
  Counter over_bound_{0};
  Counter repaired_{0};
  Counter without_{0};
  Counter by_fallback_{0};
  Counter no_room_{0};
  Counter coalesced_{0};
  Counter given_back_{0};
  Counter not_given_back_{0};
  std::array<Counter, kErrorClasses> errors_{};
  std::array<Counter, kBounds + 1> latencies_{};  // the last has no bound
  Counter latency_sum_ns_{0};
};

// One shard for the metrics: its label, and where its numbers are.
struct ShardView {
  std::string_view name;
  const ShardCounters& counters;
  const ladder::ShardLadder& ladder;
  Instant store_now;
  std::optional<Nanos> skew;  // the store's clock less this host's, where it is known
  std::optional<Nanos> away_for;
};

// Writes the families of all shards.
void write_shards(std::span<const ShardView> shards, render::Exposition& out);

}  // namespace weir::guard
