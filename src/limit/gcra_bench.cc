// The pure steps, without a store: what one decision costs before anybody shares it. The floor of
// comparison is a bare compare-and-swap on one word, which any store of its own pays besides.

#include "limit/gcra.h"

#include <benchmark/benchmark.h>

#include <atomic>

#include "limit/sliding_log.h"
#include "limit/step.h"

namespace weir::limit {
namespace {

using namespace std::chrono_literals;

Numbers numbers_of(Algorithm algorithm, std::uint64_t limit, Period period) {
  return Numbers::make({.algorithm = algorithm, .limit = limit, .period = period}).value();
}

// Calls 100 ns apart, so that a limit of a million a second, and no less, admits about a tenth.
constexpr Nanos kApart{100};

// Asks for what a caller reads, without forcing the step itself into memory.
void keep(const Step& step) {
  auto remaining = step.remaining;
  auto outcome = step.outcome;
  benchmark::DoNotOptimize(remaining);
  benchmark::DoNotOptimize(outcome);
}

void BareCompareAndSwap(benchmark::State& state) {
  std::atomic<std::int64_t> word{0};
  for (auto _ : state) {
    std::int64_t seen = word.load(std::memory_order_relaxed);
    benchmark::DoNotOptimize(word.compare_exchange_strong(seen, seen + 1));
  }
}
BENCHMARK(BareCompareAndSwap);

void GcraInline(benchmark::State& state, std::uint64_t limit) {
  const Numbers numbers = numbers_of(Algorithm::gcra, limit, {1s});
  State counter;
  Instant now{1'700'000'000s};
  for (auto _ : state) {
    const Step step = gcra_take(numbers, counter, now, 1);
    keep(step);
    counter.time_ns = step.next.time_ns;
    now += kApart;
  }
}
BENCHMARK_CAPTURE(GcraInline, allowed, 50'000'000);
BENCHMARK_CAPTURE(GcraInline, mostly_denied, 1'000'000);

void Take(benchmark::State& state, Algorithm algorithm, std::uint64_t limit, Period period) {
  const Numbers numbers = numbers_of(algorithm, limit, period);
  State counter;
  Instant now{1'700'000'000s};
  for (auto _ : state) {
    const Step step = take(numbers, counter, now, 1);
    keep(step);
    counter = step.next;
    now += kApart;
  }
}
BENCHMARK_CAPTURE(Take, gcra, Algorithm::gcra, 50'000'000, Period{1s});
BENCHMARK_CAPTURE(Take, fixed_window, Algorithm::fixed_window, 50'000'000, Period{1s});
BENCHMARK_CAPTURE(Take, fixed_window_month, Algorithm::fixed_window, 4'000'000'000,
                  Period{.calendar = Calendar::month});
BENCHMARK_CAPTURE(Take, sliding_window, Algorithm::sliding_window, 50'000'000, Period{1s});
BENCHMARK_CAPTURE(Take, sliding_window_denied, Algorithm::sliding_window, 1'000'000, Period{1s});

void TakeFromALog(benchmark::State& state) {
  const auto limit = static_cast<std::uint64_t>(state.range(0));
  const Numbers numbers = numbers_of(Algorithm::sliding_log, limit, {1s});
  LogState log;
  Instant now{1'700'000'000s};
  const Nanos apart = Nanos(1s) / (2 * state.range(0));  // twice the limit: every other is denied
  for (auto _ : state) {
    benchmark::DoNotOptimize(log_take(numbers, log, now, 1).remaining);
    now += apart;
  }
}
BENCHMARK(TakeFromALog)->Arg(10)->Arg(1'000)->Arg(100'000);

}  // namespace
}  // namespace weir::limit
