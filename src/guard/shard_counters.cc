#include "guard/shard_counters.h"

#include <algorithm>
#include <string_view>

namespace weir::guard {

namespace redis = store::redis;

namespace {

using namespace std::chrono_literals;

constexpr std::array<Nanos, 13> kLatencyBounds = {100us, 250us, 500us, 1ms,   2500us, 5ms, 10ms,
                                                  25ms,  50ms,  100ms, 250ms, 500ms,  1s};

}  // namespace

std::uint64_t number_of(breaker::ProbeState state) noexcept {
  switch (state) {
    case breaker::ProbeState::closed:
      return 0;
    case breaker::ProbeState::recovering:
      return 1;
    case breaker::ProbeState::open:
      return 2;
  }
  return 2;
}

void ShardCounters::count_answer(Nanos latency) noexcept {
  static_assert(kLatencyBounds.size() == kBounds);
  const auto bucket = static_cast<std::size_t>(
      std::lower_bound(kLatencyBounds.begin(), kLatencyBounds.end(), latency) -
      kLatencyBounds.begin());
  add(latencies_[bucket], 1);
  add(latency_sum_ns_, static_cast<std::uint64_t>(std::max(latency, Nanos(0)).count()));
}

void write_shards(std::span<const ShardView> shards, render::Exposition& out) {
  using Type = render::Exposition::Type;
  using Counter = ShardCounters::Counter;
  const auto read = [](const Counter& counter) { return counter.load(std::memory_order_relaxed); };
  // One family, a sample a shard.
  const auto each = [&](std::string_view name, Type type, std::string_view help, auto value) {
    out.family(name, type, help);
    for (const ShardView& shard : shards) out.sample({{"shard", shard.name}}, value(shard));
  };
  each("weir_breaker_state", Type::gauge,
       "Whether the store is asked: 0 closed, 1 recovering, 2 open.",
       [](const ShardView& shard) { return number_of(shard.ladder.breaker().state()); });
  each("weir_store_away_seconds", Type::gauge,
       "For how long the store has been away, also where nobody asked it; 0: it is there.",
       [](const ShardView& shard) { return shard.away_for.value_or(Nanos(0)); });
  out.family("weir_breaker_transitions_total", Type::counter,
             "Times that the store's breaker changed.");
  for (const ShardView& shard : shards) {
    out.sample({{"shard", shard.name}, {"to", "open"}}, read(shard.counters.openings_));
    out.sample({{"shard", shard.name}, {"to", "closed"}}, read(shard.counters.closings_));
  }
  out.family("weir_store_seconds", Type::histogram,
             "Time that the store took for what it answered.");
  for (const ShardView& shard : shards) {
    std::array<std::uint64_t, ShardCounters::kBounds + 1> counts{};
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = read(shard.counters.latencies_[i]);
    out.histogram({"shard", shard.name}, kLatencyBounds, counts,
                  Nanos(static_cast<std::int64_t>(read(shard.counters.latency_sum_ns_))));
  }
  const bool skewed = std::any_of(shards.begin(), shards.end(),
                                  [](const ShardView& shard) { return shard.skew.has_value(); });
  if (skewed) {
    out.family("weir_clock_skew_seconds", Type::gauge, "The store's clock less this host's.");
    for (const ShardView& shard : shards) {
      if (shard.skew) out.sample({{"shard", shard.name}}, *shard.skew);
    }
  }
  out.family("weir_store_errors_total", Type::counter,
             "Asks and connections that failed, by class.");
  for (const ShardView& shard : shards) {
    for (std::size_t i = 0; i < ShardCounters::kErrorClasses; ++i) {
      out.sample(
          {{"shard", shard.name}, {"class", redis::to_string(static_cast<redis::ErrorClass>(i))}},
          read(shard.counters.errors_[i]));
    }
  }
  each("weir_store_unknown_total", Type::counter, "Asks that were sent and never had a reply.",
       [&](const ShardView& shard) { return read(shard.counters.unknown_); });
  each("weir_store_repaired_total", Type::counter,
       "Foreign or damaged values found at counters' keys, and replaced.",
       [&](const ShardView& shard) { return read(shard.counters.repaired_); });
  each("weir_store_no_room_total", Type::counter,
       "Asks decided without the store because too many waited for its thread.",
       [&](const ShardView& shard) { return read(shard.counters.no_room_); });
  each("weir_keys_exhausted_total", Type::counter,
       "Calls not admitted without the store because the table of known keys was full.",
       [](const ShardView& shard) { return shard.ladder.known().crowded(); });
  each("weir_store_coalesced_total", Type::counter,
       "Asks that went to the store as one with another's.",
       [&](const ShardView& shard) { return read(shard.counters.coalesced_); });
  out.family("weir_store_give_backs_total", Type::counter,
             "Charges of asks that were answered without the store, or denied by another shard, "
             "returned.");
  for (const ShardView& shard : shards) {
    out.sample({{"shard", shard.name}, {"result", "done"}}, read(shard.counters.given_back_));
    out.sample({{"shard", shard.name}, {"result", "lost"}}, read(shard.counters.not_given_back_));
  }
  each("weir_over_bound_total", Type::counter,
       "Tellings after which all workers had told more than their parts come to.",
       [&](const ShardView& shard) { return read(shard.counters.over_bound_); });
  each("weir_owed_units", Type::gauge,
       "Units admitted locally that the store has not been told of.",
       [](const ShardView& shard) { return shard.ladder.known().owed_units(shard.store_now); });
  each("weir_workers", Type::gauge, "Workers that share the limits while the store is away.",
       [](const ShardView& shard) { return std::uint64_t{shard.ladder.division()->workers()}; });
}

}  // namespace weir::guard
