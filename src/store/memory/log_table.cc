#include "store/memory/log_table.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "limit/reach.h"
#include "store/memory/log_steps.h"
#include "store/memory/packed_state.h"

namespace weir::store {

Result<std::unique_ptr<LogTable>> LogTable::open(KeyBudget& budget, std::uint64_t max_keys) {
  const std::uint64_t buckets = std::bit_ceil(std::max<std::uint64_t>(max_keys, kShards));
  const std::uint64_t cells =
      std::min<std::uint64_t>(std::max(max_keys * kCellsAKey, kLeastCells), 0xffff'fffe);
  Result<Region> region = Region::map(buckets * sizeof(std::uint32_t));
  if (!region) return std::move(region).error();
  Result<CellPool> pool = CellPool::make(static_cast<std::uint32_t>(cells));
  if (!pool) return std::move(pool).error();
  return std::unique_ptr<LogTable>(new LogTable(budget, *std::move(region),
                                                static_cast<unsigned>(std::countr_zero(buckets)),
                                                *std::move(pool)));
}

std::uint32_t LogTable::find(const KeyDigest& digest) const noexcept {
  std::uint32_t id = head_of(bucket_of(digest));
  while (id != 0) {
    const LogNode& node = *pool_.at<LogNode>(id);
    if (node.digest_hi == digest.hi && node.digest_lo == digest.lo) break;
    id = node.next;
  }
  return id;
}

void LogTable::insert(std::uint32_t id, const KeyDigest& digest) noexcept {
  LogNode& node = *pool_.at<LogNode>(id);
  node.digest_hi = digest.hi;
  node.digest_lo = digest.lo;
  node.next = std::exchange(head_of(bucket_of(digest)), id);
  nodes_.fetch_add(1, std::memory_order_relaxed);
}

void LogTable::remove(std::uint32_t id) noexcept {
  LogNode& node = *pool_.at<LogNode>(id);
  std::uint32_t* link = &head_of(bucket_of({node.digest_hi, node.digest_lo}));
  while (*link != id) link = &pool_.at<LogNode>(*link)->next;
  *link = node.next;
  if (!node.window) PooledLog(pool_, node).clear();
  pool_.give(id);
  budget_.give();
  nodes_.fetch_sub(1, std::memory_order_relaxed);
}

std::int64_t LogTable::expires_at_ns(LogNode& node) noexcept {
  if (!node.window) return log_expires_at_ns(PooledLog(pool_, node));
  return node.last_seen_ns + 2 * node.period_ns;
}

// After the clock was set back, a key nobody asks for must not take the room of others for the
// length of that step.
void LogTable::settle_node(LogNode& node, Instant now) noexcept {
  const std::int64_t now_ns = limit::instant_ns(now);
  if (node.last_seen_ns - now_ns <= limit::kBackstepNs) return;
  if (node.window) {
    node.last_seen_ns = now_ns - now_ns % node.period_ns;
  } else {
    PooledLog log(pool_, node);
    settle_log(log, now);
  }
}

int LogTable::sweep_bucket(std::uint64_t bucket, Instant now, bool for_room) noexcept {
  std::unique_lock lock(shards_[shard_of(bucket)].mutex, std::try_to_lock);
  if (!lock.owns_lock()) return 0;
  int removed = 0;
  std::uint32_t id = head_of(bucket);
  while (id != 0) {
    LogNode& node = *pool_.at<LogNode>(id);
    const std::uint32_t next = node.next;
    if (for_room) settle_node(node, now);
    if (expires_at_ns(node) <= limit::instant_ns(now) - limit::kBackstepNs) {
      remove(id);
      ++removed;
    }
    id = next;
  }
  return removed;
}

bool LogTable::sweep_buckets(Instant now, unsigned count, bool for_room) noexcept {
  if (nodes_.load(std::memory_order_relaxed) == 0) return false;
  const std::uint64_t total = std::uint64_t{1} << bucket_bits_;
  const std::uint64_t first = cursor_.fetch_add(count, std::memory_order_relaxed);
  int removed = 0;
  for (unsigned i = 0; i < count; ++i) {
    removed += sweep_bucket((first + i) % total, now, for_room);
  }
  return removed != 0;
}

LogAsk::~LogAsk() {
  if (locked_ == 0) return;
  for (Item& item : items_) release(item);
  for (unsigned shard = 0; shard < LogTable::kShards; ++shard) {
    if ((locked_ >> shard & 1) != 0) table_.shards_[shard].mutex.unlock();
  }
}

PooledLog LogAsk::log_of(const Item& item) noexcept {
  return PooledLog(table_.pool_, item.log == 0 ? fresh_ : *table_.pool_.at<LogNode>(item.log));
}

void LogAsk::evaluate() noexcept {
  if (items_.empty()) return;
  std::uint64_t wanted = 0;
  for (const Item& item : items_) {
    wanted |= std::uint64_t{1} << LogTable::shard_of(table_.bucket_of(item.counter->digest));
  }
  for (unsigned shard = 0; wanted >> shard != 0; ++shard) {
    if ((wanted >> shard & 1) != 0) table_.shards_[shard].mutex.lock();
    if (shard == LogTable::kShards - 1) break;
  }
  locked_ = wanted;
  for (Item& item : items_) {
    item.log = table_.find(item.counter->digest);
    item.present = item.log != 0;
    item.spare = 0;
    item.units = 0;
    item.without_room = false;
    item.numbers = item.counter->numbers;
    evaluate_log(item);
  }
}

limit::State window_of(const LogNode& node) {
  return {node.last_seen_ns, node.head, node.tail};
}
void put_window(LogNode& node, const limit::State& state) {
  node.last_seen_ns = state.time_ns;
  node.head = state.current;
  node.tail = state.previous;
}
bool is_window(const Item& item) {
  return item.numbers->algorithm != Algorithm::sliding_log;
}

void LogAsk::evaluate_log(Item& item) noexcept {
  const Counter& counter = *item.counter;
  PooledLog log = log_of(item);
  // A key that was of the other kind before a reload begins afresh.
  if (item.present && log.node().window != is_window(item)) {
    table_.remove(item.log);
    item.log = 0;
    item.present = false;
    log = log_of(item);
  }
  item.state = is_window(item) ? window_of(log.node()) : limit::State{};
  if (is_window(item)) {
    item.step = step_for(counter, *item.numbers, item.state, now_);
    item.changes = step_changes(item);
    if (denial_writes(item)) put_window(log.node(), item.step.next);
    return;
  }
  item.step = peek_log(*item.numbers, log, now_, counter.op == Op::take ? counter.cost : 0);
  switch (counter.op) {
    case Op::take:
      item.changes = item.step.outcome == limit::Outcome::allowed && counter.cost > 0;
      if (item.present && counter.cost > 0 && !item.changes && clock_was_set_back(log, now_)) {
        settle_log(log, now_);
      }
      return;
    case Op::drain:
      item.changes = item.step.remaining > 0 && counter.cost > 0;
      item.step = peek_log(*item.numbers, log, now_, counter.cost);
      return;
    case Op::refund:
      item.changes = counter.cost > 0 && refundable(*item.numbers, log, now_, counter.receipt) > 0;
      item.step.outcome = limit::Outcome::allowed;
      item.step.retry_after_ns = 0;
      return;
    case Op::reset:
      item.changes = item.present;
      item.step = peek_log(*item.numbers, PooledLog(table_.pool_, fresh_), now_, 0);
      return;
  }
}

bool LogAsk::reserve() noexcept {
  for (Item& item : items_) {
    const bool charges = item.counter->op == Op::take || item.counter->op == Op::drain;
    if (!item.changes || !charges || reserve_one(item)) continue;
    if (!item.counter->shadow) return false;
    item.changes = false;
    item.without_room = true;
  }
  return true;
}

bool LogAsk::reserve_one(Item& item) noexcept {
  if (!item.present) {
    if (!table_.budget_.take()) return false;
    item.log = table_.pool_.take();
    if (item.log == 0) {
      table_.budget_.give();
      return false;
    }
    item.reserved = true;
  }
  if (is_window(item)) return true;
  PooledLog log = log_of(item);
  // Where all of it is over, its cells come back first.
  if (log.back_is_over(limit::instant_ns(now_))) settle_log(log, now_);
  if (!log.full()) return true;
  item.spare = table_.pool_.take();
  if (item.spare != 0) return true;
  release(item);
  return false;
}

// Gives back what was reserved and not used.
void LogAsk::release(Item& item) noexcept {
  if (item.spare != 0) table_.pool_.give(std::exchange(item.spare, 0));
  if (!item.reserved) return;
  table_.pool_.give(std::exchange(item.log, 0));
  table_.budget_.give();
  item.reserved = false;
}

void LogAsk::write() noexcept {
  for (Item& item : items_) {
    if (!item.changes) continue;
    if (item.counter->op == Op::reset) {
      table_.remove(std::exchange(item.log, 0));
      continue;
    }
    if (item.reserved) table_.insert(item.log, item.counter->digest);
    item.reserved = false;
    LogNode& node = *table_.pool_.at<LogNode>(item.log);
    node.period_ns = item.numbers->period_ns;
    node.window = is_window(item);
    if (!node.window) {
      write_log(item);
      continue;
    }
    item.units = units_charged(item, now_);
    put_window(node, item.step.next);
  }
}

void LogAsk::write_log(Item& item) noexcept {
  const Counter& counter = *item.counter;
  PooledLog log = log_of(item);
  if (counter.op == Op::refund) {
    refund_log(log, now_, counter.cost, counter.receipt);
    item.step = peek_log(*item.numbers, log, now_, 0);
    item.step.outcome = limit::Outcome::allowed;
    item.step.retry_after_ns = 0;
    return;
  }
  const std::uint32_t left = peek_log(*item.numbers, log, now_, 0).remaining;
  item.units = std::min<std::uint64_t>(counter.cost, left);
  charge_log(log, now_, static_cast<std::uint32_t>(item.units), item.spare);
  if (item.units < counter.cost) item.step = peek_log(*item.numbers, log, now_, counter.cost);
}

limit::Step LogAsk::peek(const Item& item, std::uint64_t cost) noexcept {
  if (is_window(item)) return limit::take(*item.numbers, item.state, now_, cost);
  return peek_log(*item.numbers, log_of(item), now_, cost);
}

void LogAsk::report(bool carried_out) noexcept {
  for (const Item& item : items_) {
    store::report(item, carried_out, [&](std::uint64_t cost) { return peek(item, cost); });
  }
}

}  // namespace weir::store
