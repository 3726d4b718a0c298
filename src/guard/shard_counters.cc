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

void ShardCounters::write(const ladder::ShardLadder& ladder, Instant store_now,
                          std::optional<Nanos> skew, render::Exposition& out) const {
  using Type = render::Exposition::Type;
  constexpr std::string_view kShard = "0";
  const auto read = [](const Counter& counter) { return counter.load(std::memory_order_relaxed); };
  out.family("weir_breaker_state", Type::gauge,
             "Whether the store is asked: 0 closed, 1 recovering, 2 open.");
  out.sample({{"shard", kShard}}, number_of(ladder.breaker().state()));
  out.family("weir_breaker_transitions_total", Type::counter,
             "Times that the store's breaker changed.");
  out.sample({{"shard", kShard}, {"to", "open"}}, read(openings_));
  out.sample({{"shard", kShard}, {"to", "closed"}}, read(closings_));
  out.family("weir_store_seconds", Type::histogram,
             "Time that the store took for what it answered.");
  std::array<std::uint64_t, kBounds + 1> counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = read(latencies_[i]);
  out.histogram({"shard", kShard}, kLatencyBounds, counts,
                Nanos(static_cast<std::int64_t>(read(latency_sum_ns_))));
  if (skew) {
    out.family("weir_clock_skew_seconds", Type::gauge, "The store's clock less this host's.");
    out.sample({{"shard", kShard}}, *skew);
  }
  out.family("weir_store_errors_total", Type::counter,
             "Asks and connections that failed, by class.");
  for (std::size_t i = 0; i < kErrorClasses; ++i) {
    out.sample({{"shard", kShard}, {"class", redis::to_string(static_cast<redis::ErrorClass>(i))}},
               read(errors_[i]));
  }
  out.family("weir_store_unknown_total", Type::counter,
             "Asks that were sent and never had a reply.");
  out.sample({{"shard", kShard}}, read(unknown_));
  out.family("weir_store_coalesced_total", Type::counter,
             "Asks that went to the store as one with another's.");
  out.sample({{"shard", kShard}}, read(coalesced_));
  out.family("weir_store_give_backs_total", Type::counter,
             "Charges of asks that were answered without the store, returned to their counters.");
  out.sample({{"shard", kShard}, {"result", "done"}}, read(given_back_));
  out.sample({{"shard", kShard}, {"result", "lost"}}, read(not_given_back_));
  out.family("weir_over_bound_total", Type::counter,
             "Counters found above the bound on the store's return.");
  out.sample({{"shard", kShard}}, read(over_bound_));
  out.family("weir_owed_units", Type::gauge,
             "Units admitted locally that the store has not been told of.");
  out.sample({{"shard", kShard}}, ladder.known().owed_units(store_now));
  out.family("weir_workers", Type::gauge, "Workers that share the limits while the store is away.");
  out.sample({{"shard", kShard}}, std::uint64_t{ladder.division()->workers()});
}

}  // namespace weir::guard
