#include "guard/coalesce.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "limit/step.h"

namespace weir::guard {

namespace {

// Asks whose times are no further apart than this share an answer; the group is answered by the
// earliest.
constexpr Nanos kSameTime = std::chrono::milliseconds(1);

bool coalesces(const store::Counter& counter) noexcept {
  return counter.op == store::Op::take && counter.kept == store::Kept::weir && !counter.shadow &&
         counter.cost > 0 && counter.cost <= UINT32_MAX / kMostCoalesced &&
         counter.numbers->algorithm != Algorithm::sliding_log;
}

bool same_counter(const store::Counter& one, const store::Counter& other) noexcept {
  return one.digest == other.digest && one.cost == other.cost && one.identity == other.identity &&
         one.generation == other.generation &&
         (one.numbers == other.numbers || *one.numbers == *other.numbers) && one.key == other.key;
}

std::uint64_t hash_of(const SharedAsk& ask) noexcept {
  std::uint64_t hash = ask.request.cost;
  for (const store::Counter& counter : ask.request.counters) {
    hash = (hash ^ counter.digest.lo) * 0x9e3779b97f4a7c15U;
  }
  return hash ^ (hash >> 32);
}

}  // namespace

bool coalesces(const SharedAsk& ask) noexcept {
  const auto counters = ask.request.counters;
  // Requests of one idempotency key are one request: the store says so of the second.
  return !counters.empty() && ask.request.marks == 0 &&
         std::all_of(counters.begin(), counters.end(),
                     [](const store::Counter& counter) { return coalesces(counter); });
}

bool alike(const SharedAsk& one, const SharedAsk& other) noexcept {
  const auto a = one.request.counters;
  const auto b = other.request.counters;
  const Nanos apart = one.answer_by - other.answer_by;
  return one.loaded_at == other.loaded_at && apart <= kSameTime && -apart <= kSameTime &&
         std::equal(a.begin(), a.end(), b.begin(), b.end(), same_counter);
}

void Coalescer::link(std::span<SharedAsk* const> asks, MonoTime now) {
  groups_.clear();
  next_.assign(asks.size(), kNone);
  table_.assign(std::bit_ceil(asks.size() * 2), kNone);
  const std::size_t mask = table_.size() - 1;
  for (std::uint32_t i = 0; i < asks.size(); ++i) {
    const Group alone{.first = i, .last = i, .size = 1};
    if (asks[i]->answer_by <= now || !coalesces(*asks[i])) {
      groups_.push_back(alone);
      continue;
    }
    std::size_t place = hash_of(*asks[i]) & mask;
    while (table_[place] != kNone && !alike(*asks[groups_[table_[place]].first], *asks[i])) {
      place = (place + 1) & mask;
    }
    if (table_[place] == kNone || groups_[table_[place]].size == kMostCoalesced) {
      table_[place] = static_cast<std::uint32_t>(groups_.size());
      groups_.push_back(alone);
      continue;
    }
    Group& group = groups_[table_[place]];
    next_[group.last] = i;
    group.last = i;
    ++group.size;
  }
}

InTurn::InTurn(std::span<const store::Counter> counters, const store::redis::Answer& answer)
    : counters_(counters), answer_(answer) {
  states_.reserve(counters.size());
  for (const store::redis::CounterReply& reply : answer.counters) states_.push_back(reply.before);
}

bool InTurn::next(std::span<store::Finding> findings) noexcept {
  bool admitted = true;
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    findings[i] = answer_.counters[i].finding;  // what is said of the counter itself
    findings[i].step =
        limit::take(answer_.counters[i].numbers, states_[i], answer_.store_now, counters_[i].cost);
    admitted = admitted && findings[i].step.outcome == limit::Outcome::allowed;
  }
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    store::Finding& found = findings[i];
    found.charged = admitted;
    found.units = admitted ? counters_[i].cost : 0;
    if (admitted) {
      states_[i] = found.step.next;
    } else if (found.step.outcome == limit::Outcome::allowed) {
      // It fits here, but not elsewhere: what remains is as it was.
      found.step = limit::take(answer_.counters[i].numbers, states_[i], answer_.store_now, 0);
      found.step.outcome = limit::Outcome::allowed;
      found.step.retry_after_ns = 0;
    }
  }
  return admitted;
}

}  // namespace weir::guard
