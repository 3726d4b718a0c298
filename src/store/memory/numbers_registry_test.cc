#include "store/memory/numbers_registry.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace weir::store {
namespace {

limit::Numbers limit_of(std::uint64_t limit) {
  return limit::Numbers::make({.algorithm = Algorithm::fixed_window,
                               .limit = limit,
                               .period = {.length = std::chrono::seconds(60)}})
      .value();
}

TEST(NumbersRegistry, GivesEqualNumbersOneId) {
  NumbersRegistry registry = NumbersRegistry::make().value();
  const unsigned ten = registry.acquire(limit_of(10), 1);
  EXPECT_EQ(registry.acquire(limit_of(10), 1), ten);
  EXPECT_NE(registry.acquire(limit_of(11), 1), ten);
  EXPECT_EQ(registry.numbers(ten), limit_of(10));
}

TEST(NumbersRegistry, TellsNumbersOfOneStampApart) {
  NumbersRegistry registry = NumbersRegistry::make().value();
  limit::Numbers twin = limit_of(11);
  twin.stamp = limit_of(10).stamp;
  const unsigned ten = registry.acquire(limit_of(10), 1);
  const unsigned other = registry.acquire(twin, 1);
  EXPECT_NE(ten, other);
  EXPECT_EQ(registry.numbers(other).limit, 11U);
  EXPECT_EQ(registry.acquire(twin, 1), other);
}

TEST(NumbersRegistry, RemembersTheNewestLoad) {
  NumbersRegistry registry = NumbersRegistry::make().value();
  const unsigned id = registry.acquire(limit_of(10), 3);
  registry.acquire(limit_of(10), 2);
  EXPECT_EQ(registry.generation(id), 3U);
  registry.acquire(limit_of(10), 5);
  EXPECT_EQ(registry.generation(id), 5U);
  EXPECT_TRUE(registry.is_current(id, limit_of(10).stamp, 5));
  EXPECT_FALSE(registry.is_current(id, limit_of(10).stamp, 6));
}

TEST(NumbersRegistry, IsFullAtItsBoundAndUsesIdsAgain) {
  NumbersRegistry registry = NumbersRegistry::make().value();
  std::vector<unsigned> ids;
  std::set<unsigned> distinct;
  for (std::uint64_t limit = 1; limit <= NumbersRegistry::kMost; ++limit) {
    ids.push_back(registry.acquire(limit_of(limit), 1));
    ASSERT_NE(ids.back(), 0U) << limit;
    distinct.insert(ids.back());
  }
  EXPECT_EQ(distinct.size(), NumbersRegistry::kMost);
  EXPECT_EQ(registry.acquire(limit_of(1'000'000), 1), 0U);
  EXPECT_EQ(registry.acquire(limit_of(77), 1), ids[76]);  // those it has can be had
  registry.release(ids[4]);
  EXPECT_EQ(registry.acquire(limit_of(1'000'000), 1), ids[4]);
  EXPECT_EQ(registry.numbers(ids[4]).limit, 1'000'000U);
  EXPECT_EQ(registry.acquire(limit_of(5), 1), 0U);
}

TEST(NumbersRegistry, CountsReferencesOfManyThreads) {
  NumbersRegistry registry = NumbersRegistry::make().value();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&registry, t] {
      for (std::uint64_t i = 0; i < 5'000; ++i) {
        const limit::Numbers numbers = limit_of(1 + (i + t) % 7);
        const unsigned id = registry.acquire(numbers, 1);
        EXPECT_EQ(registry.numbers(id), numbers);
        registry.release(id);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  // Nothing is referred to any more, so every id can be had.
  for (std::uint64_t limit = 1'000; limit < 1'000 + NumbersRegistry::kMost; ++limit) {
    ASSERT_NE(registry.acquire(limit_of(limit), 1), 0U);
  }
}

}  // namespace
}  // namespace weir::store
