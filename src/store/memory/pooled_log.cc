#include "store/memory/pooled_log.h"

#include <algorithm>
#include <utility>

namespace weir::store {

void PooledLog::append(std::int64_t time_ns, std::uint32_t units, std::uint32_t& spare) noexcept {
  node_->used += units;
  if (!empty()) {
    LogCell& newest = *pool_->at<LogCell>(node_->tail);
    const unsigned place = node_->end - 1U;
    if (newest.time_ns[place] == time_ns && newest.units[place] <= kMaxUnits - units) {
      newest.units[place] += units;
      return;
    }
  }
  if (full()) {
    const std::uint32_t cell = std::exchange(spare, 0);
    if (empty()) {
      node_->head = cell;
      node_->first = 0;
    } else {
      pool_->at<LogCell>(node_->tail)->next = cell;
    }
    node_->tail = cell;
    node_->end = 0;
  }
  LogCell& newest = *pool_->at<LogCell>(node_->tail);
  newest.time_ns[node_->end] = time_ns;
  newest.units[node_->end] = units;
  ++node_->end;
}

void PooledLog::pop_front() noexcept {
  const std::uint32_t cell = node_->head;
  LogCell& oldest = *pool_->at<LogCell>(cell);
  node_->used -= oldest.units[node_->first];
  ++node_->first;
  const bool last = cell == node_->tail && node_->first == node_->end;
  if (!last && node_->first < LogCell::kEntries) return;
  node_->head = last ? 0 : oldest.next;
  node_->first = 0;
  if (last) node_->tail = 0;
  pool_->give(cell);
}

std::uint32_t PooledLog::units_at(std::int64_t time_ns) const noexcept {
  for (Cursor cursor = begin(); !at_end(cursor); cursor = next(cursor)) {
    const limit::LogEntry found = entry(cursor);
    if (found.time_ns == time_ns && found.units > 0) return found.units;
    if (found.time_ns > time_ns) break;
  }
  return 0;
}

std::uint32_t PooledLog::take_back(std::int64_t time_ns, std::uint64_t units) noexcept {
  for (Cursor cursor = begin(); !at_end(cursor); cursor = next(cursor)) {
    LogCell& cell = *pool_->at<LogCell>(cursor.cell);
    if (cell.time_ns[cursor.place] > time_ns) break;
    if (cell.time_ns[cursor.place] != time_ns || cell.units[cursor.place] == 0) continue;
    const auto back =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(units, cell.units[cursor.place]));
    cell.units[cursor.place] -= back;
    node_->used -= back;
    trim_back();
    return back;
  }
  return 0;
}

// An entry whose units were all given back stays in its place until it is over, but not as the
// newest one.
void PooledLog::trim_back() noexcept {
  if (empty() || back().units > 0) return;
  Cursor end = begin();
  for (Cursor cursor = begin(); !at_end(cursor); cursor = next(cursor)) {
    if (entry(cursor).units > 0) end = next(cursor);
  }
  cut(end);
}

void PooledLog::cut(Cursor cursor) noexcept {
  if (cursor.cell == node_->head && cursor.place == node_->first) {
    clear();
    return;
  }
  // A cursor at the beginning of a cell means the end of the one before.
  std::uint32_t last = cursor.cell;
  unsigned end = cursor.place;
  if (end == 0) {
    last = node_->head;
    while (pool_->at<LogCell>(last)->next != cursor.cell) last = pool_->at<LogCell>(last)->next;
    end = LogCell::kEntries;
  }
  std::uint32_t rest = std::exchange(pool_->at<LogCell>(last)->next, 0);
  while (rest != 0) pool_->give(std::exchange(rest, pool_->at<LogCell>(rest)->next));
  node_->tail = last;
  node_->end = static_cast<std::uint8_t>(end);
}

void PooledLog::bring_back(std::int64_t time_ns) noexcept {
  Cursor from = begin();
  while (!at_end(from) && entry(from).time_ns < time_ns) from = next(from);
  if (at_end(from)) return;
  std::uint64_t later = 0;
  for (Cursor cursor = from; !at_end(cursor); cursor = next(cursor)) later += entry(cursor).units;
  // As many entries as the units need, which is one but where the limit was lowered and raised
  // meanwhile; there were at least so many.
  while (later > 0) {
    const auto units = static_cast<std::uint32_t>(std::min<std::uint64_t>(later, kMaxUnits));
    LogCell& cell = *pool_->at<LogCell>(from.cell);
    cell.time_ns[from.place] = time_ns;
    cell.units[from.place] = units;
    later -= units;
    from = next(from);
  }
  if (!at_end(from)) cut(from);
}

void PooledLog::clear() noexcept {
  std::uint32_t cell = node_->head;
  while (cell != 0) {
    const std::uint32_t after = cell == node_->tail ? 0 : pool_->at<LogCell>(cell)->next;
    pool_->give(cell);
    cell = after;
  }
  node_->head = node_->tail = 0;
  node_->used = 0;
  node_->first = node_->end = 0;
}

}  // namespace weir::store
