#include "render/metrics.h"

#include <benchmark/benchmark.h>

namespace weir::render {
namespace {

Metrics& metrics() {
  static Metrics shared;
  return shared;
}

void BM_MetricsRecord(benchmark::State& state) {
  const auto slot = metrics().route_slot("login");
  for (auto _ : state) {
    metrics().record(slot, Verdict::allowed, Rung::store);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_MetricsRecord)->ThreadRange(1, 2);

void BM_MetricsRecordTimed(benchmark::State& state) {
  const auto slot = metrics().route_slot("login");
  for (auto _ : state) {
    metrics().record(slot, Verdict::allowed, Rung::store, Nanos(730));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_MetricsRecordTimed)->ThreadRange(1, 2);

}  // namespace
}  // namespace weir::render
