#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "store/memory/cell_pool.h"
#include "store/memory/item.h"
#include "store/memory/key_budget.h"
#include "store/memory/pooled_log.h"

namespace weir::store {

// The counters whose state does not fit a slot: logs, whose memory grows with their charges, and
// sliding windows shorter than a second. Buckets of nodes in shards, each with its lock.
//
// Guarantees:  at most `most_cells` cells of 64 bytes: one a key, and one for every five entries of
// a
//              log. What finds none left is not charged.
// Threads:     every member from any thread.
class LogTable {
 public:
  static constexpr unsigned kShards = 64;
  // So many cells a key of the store's cap, and never fewer than kLeastCells: a few long logs take
  // more than many short ones.
  static constexpr std::uint64_t kCellsAKey = 2;
  static constexpr std::uint64_t kLeastCells = 1 << 16;

  static Result<std::unique_ptr<LogTable>> open(KeyBudget& budget, std::uint64_t max_keys);

  // Drops the expired keys of the next `count` buckets; shards that are in use are left out.
  // Whether there were any.
  bool sweep(Instant now, unsigned count) noexcept { return sweep_buckets(now, count, false); }
  bool sweep_for_room(Instant now) noexcept { return sweep_buckets(now, 32, true); }

  std::size_t resident_bytes() const { return pool_.resident_bytes() + buckets_.resident_bytes(); }

 private:
  friend class LogAsk;

  struct alignas(64) Shard {
    std::mutex mutex;
  };

  LogTable(KeyBudget& budget, Region buckets, unsigned bucket_bits, CellPool pool)
      : budget_(budget),
        buckets_(std::move(buckets)),
        bucket_bits_(bucket_bits),
        pool_(std::move(pool)) {}

  std::uint64_t bucket_of(const KeyDigest& digest) const noexcept {
    return digest.hi >> (64 - bucket_bits_);
  }
  std::uint32_t& head_of(std::uint64_t bucket) const noexcept {
    return static_cast<std::uint32_t*>(buckets_.data())[bucket];
  }
  static unsigned shard_of(std::uint64_t bucket) noexcept {
    return static_cast<unsigned>(bucket % kShards);
  }

  std::uint32_t find(const KeyDigest& digest) const noexcept;
  void insert(std::uint32_t id, const KeyDigest& digest) noexcept;
  // Takes the node out of its bucket and gives its cells back.
  void remove(std::uint32_t id) noexcept;
  std::int64_t expires_at_ns(LogNode& node) noexcept;
  void settle_node(LogNode& node, Instant now) noexcept;
  bool sweep_buckets(Instant now, unsigned count, bool for_room) noexcept;
  int sweep_bucket(std::uint64_t bucket, Instant now, bool for_room) noexcept;

  KeyBudget& budget_;
  Region buckets_;
  const unsigned bucket_bits_;
  CellPool pool_;
  std::array<Shard, kShards> shards_;
  std::atomic<std::uint64_t> cursor_{0};
  std::atomic<std::uint64_t> nodes_{0};
};

// The log table's part of one ask: its shards locked in order, steps taken, cells reserved, and the
// charges written, or nothing.
class LogAsk {
 public:
  LogAsk(LogTable& table, std::span<Item> items, Instant now) noexcept
      : table_(table), items_(items), now_(now) {}
  ~LogAsk();
  LogAsk(const LogAsk&) = delete;
  LogAsk& operator=(const LogAsk&) = delete;

  void evaluate() noexcept;
  // Takes the cells that the charges need. A shadow rule's counter that finds none is not charged.
  bool reserve() noexcept;
  void write() noexcept;
  void report(bool carried_out) noexcept;

 private:
  PooledLog log_of(const Item& item) noexcept;
  limit::Step peek(const Item& item, std::uint64_t cost) noexcept;
  void evaluate_log(Item& item) noexcept;
  bool reserve_one(Item& item) noexcept;
  void release(Item& item) noexcept;
  void write_log(Item& item) noexcept;

  LogTable& table_;
  std::span<Item> items_;
  const Instant now_;
  std::uint64_t locked_ = 0;  // a bit a shard
  LogNode fresh_{};           // what a counter that is not kept looks like
};

}  // namespace weir::store
