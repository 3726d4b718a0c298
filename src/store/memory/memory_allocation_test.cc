// Counts what is allocated while the store decides.

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "store/memory/memory_store.h"
#include "testing/allocations.h"

namespace weir::store {
namespace {

using std::chrono::seconds;
using testing::allocations;

TEST(MemoryStoreAllocation, TheCountSeesAnAllocation) {
  const std::uint64_t before = allocations();
  const std::vector<int> some(100);
  EXPECT_EQ(allocations(), before + 1) << some.size();
}

// New keys, growth, expiry, the cap, logs, several rules, refunds, resets: from the first ask on.
TEST(MemoryStoreAllocation, DecidingAllocatesNothing) {
  std::vector<limit::Numbers> rules;
  for (const Algorithm algorithm : {Algorithm::gcra, Algorithm::fixed_window,
                                    Algorithm::sliding_window, Algorithm::sliding_log}) {
    for (const Nanos period : {Nanos(200'000'000), Nanos(seconds(30))}) {
      rules.push_back(
          limit::Numbers::make({.algorithm = algorithm, .limit = 9, .period = {.length = period}})
              .value());
    }
  }
  const auto store = MemoryStore::open({.max_keys = 5'000}).value();
  std::mt19937_64 random(1);
  std::vector<Counter> counters(4);
  std::vector<Finding> findings(4);
  Instant now{seconds(1'700'000'000)};
  std::uint64_t refused = 0;
  const std::uint64_t before = allocations();
  for (int i = 0; i < 200'000; ++i) {
    now += Nanos(random() % 2'000'000);
    const std::size_t count = 1 + random() % 4;
    for (std::size_t k = 0; k < count; ++k) {
      Counter& counter = counters[k];
      counter = Counter{};
      counter.numbers = &rules[random() % rules.size()];
      const std::uint64_t key = random() % 5'000 * 4 + k;
      counter.digest = {key * 0x9E3779B97F4A7C15U, key << 32 | key};
      counter.cost = random() % 4;
      counter.op = static_cast<Op>(random() % 16 < 12 ? 0 : random() % 4);
      counter.receipt = now;
    }
    if (random() % 2 == 0) store->expect(std::span(counters).first(count));
    const auto answer =
        store->decide(std::span(counters).first(count), now, std::span(findings).first(count));
    refused += answer.outcome == LocalOutcome::exhausted ? 1 : 0;
  }
  EXPECT_EQ(allocations(), before);
  EXPECT_GT(refused, 0U);
  EXPECT_GT(store->keys(), 1'000U);
}

}  // namespace
}  // namespace weir::store
