#pragma once

#include <cstdint>

#include "limit/sliding_log.h"
#include "store/memory/cell_pool.h"

namespace weir::store {

// Five entries of a log.
struct LogCell {
  static constexpr unsigned kEntries = 5;
  std::int64_t time_ns[kEntries];
  std::uint32_t units[kEntries];
  std::uint32_t next;
};
static_assert(sizeof(LogCell) == CellPool::kCellBytes);

// A key among the logs: a sliding_log, or a sliding window too short for a slot.
struct alignas(CellPool::kCellBytes) LogNode {
  std::uint64_t digest_hi;
  std::uint64_t digest_lo;
  std::int64_t period_ns;
  std::int64_t
      last_seen_ns;    // log: latest instant of a step that was not a probe; window: its start
  std::uint64_t used;  // log: units of all entries
  std::uint32_t head;  // log: cell of the oldest entry, 0 if there is none; window: current
  std::uint32_t tail;  // log: cell of the newest entry; window: previous
  std::uint32_t next;  // in its bucket
  std::uint8_t first;  // place of the oldest entry in head
  std::uint8_t end;    // places used in tail
  bool window;
};
static_assert(sizeof(LogNode) == CellPool::kCellBytes);

// The entries of one log, oldest first, in cells of a pool. No two have one time but where units of
// one would pass 2^32; the newest has units.
//
// Requires:    the lock of the node's shard.
class PooledLog {
 public:
  PooledLog(CellPool& pool, LogNode& node) : pool_(&pool), node_(&node) {}

  struct Cursor {
    std::uint32_t cell;
    unsigned place;
  };

  LogNode& node() const noexcept { return *node_; }
  bool empty() const noexcept { return node_->head == 0; }

  Cursor begin() const noexcept { return {node_->head, node_->first}; }
  bool at_end(Cursor cursor) const noexcept {
    return cursor.cell == 0 || (cursor.cell == node_->tail && cursor.place == node_->end);
  }
  limit::LogEntry entry(Cursor cursor) const noexcept {
    const LogCell& cell = *pool_->at<LogCell>(cursor.cell);
    return {cell.time_ns[cursor.place], cell.units[cursor.place]};
  }
  Cursor next(Cursor cursor) const noexcept {
    if (cursor.place + 1 < LogCell::kEntries || cursor.cell == node_->tail) {
      return {cursor.cell, cursor.place + 1};
    }
    return {pool_->at<LogCell>(cursor.cell)->next, 0};
  }
  // Requires: !empty().
  limit::LogEntry back() const noexcept { return entry({node_->tail, node_->end - 1U}); }

  bool back_is_over(std::int64_t now_ns) const noexcept {
    return !empty() && back().time_ns + node_->period_ns <= now_ns;
  }

  // Whether one more entry needs one more cell.
  bool full() const noexcept { return empty() || node_->end == LogCell::kEntries; }

  // Appends units charged at `time_ns`, which is no earlier than the newest entry's. Takes `spare`
  // for it, a cell of the pool, where it needs one; sets it to 0 then.
  void append(std::int64_t time_ns, std::uint32_t units, std::uint32_t& spare) noexcept;
  void pop_front() noexcept;
  // Takes up to `units` back from the entry of that time; returns how many there were.
  std::uint32_t take_back(std::int64_t time_ns, std::uint64_t units) noexcept;
  std::uint32_t units_at(std::int64_t time_ns) const noexcept;
  // Brings all charges from `time_ns` on to that instant.
  void bring_back(std::int64_t time_ns) noexcept;
  void clear() noexcept;

 private:
  // Drops every entry from `cursor` on.
  void cut(Cursor cursor) noexcept;
  void trim_back() noexcept;

  CellPool* pool_;
  LogNode* node_;
};

}  // namespace weir::store
