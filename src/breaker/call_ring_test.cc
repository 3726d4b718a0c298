#include "breaker/call_ring.h"

#include <gtest/gtest.h>

#include <deque>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "breaker/failure_run.h"

namespace weir::breaker {
namespace {

// What a record made of the window; absent: it came late.
std::optional<Tally> recorded(CallRing& ring, std::uint64_t generation, Vote vote) {
  Tally tally;
  return ring.record(generation, vote, tally) ? std::optional(tally) : std::nullopt;
}

std::optional<std::uint32_t> recorded(FailureRun& run, std::uint64_t generation, bool failed) {
  std::uint32_t length = 0;
  return run.record(generation, failed, length) ? std::optional(length) : std::nullopt;
}

TEST(CallRing, HoldsWhatAListOfTheLastCallsHolds) {
  std::mt19937_64 random(7);
  for (const std::uint32_t size : {1U, 2U, 3U, 7U, 10U, 64U, 100U, 1'000U, 9'999U, 10'000U}) {
    CallRing ring(size);
    std::deque<Vote> model;
    std::uint64_t generation = 0;
    for (std::uint32_t i = 0; i < 4 * size + 50; ++i) {
      if (random() % (2 * size + 20) == 0) {
        ring.begin(++generation);
        model.clear();
      }
      const Vote vote{.failed = random() % 3 == 0, .slow = random() % 4 == 0};
      model.push_back(vote);
      if (model.size() > size) model.pop_front();
      Tally expected;
      if (size <= 100 || i % 997 == 0) {
        for (const Vote& v : model) {
          ++expected.calls;
          expected.failures += v.failed ? 1U : 0U;
          expected.slow += v.slow ? 1U : 0U;
        }
        const auto seen = recorded(ring, generation, vote);
        ASSERT_TRUE(seen);
        if (expected.failures > 0 || expected.slow > 0) {
          ASSERT_EQ(*seen, expected) << size << " at " << i;
        }
        ASSERT_EQ(ring.tally(), expected);
      } else {
        ASSERT_TRUE(recorded(ring, generation, vote));
      }
    }
  }
}

TEST(CallRing, ARecordOfAnEarlierGenerationChangesNothing) {
  CallRing ring(3);
  ring.begin(5);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(recorded(ring, 5, {.failed = true}));
  ring.begin(6);
  EXPECT_FALSE(recorded(ring, 5, {.failed = true})) << "the cells are free, but not for it";
  EXPECT_EQ(ring.tally(), Tally{});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(recorded(ring, 6, {.failed = false}));
  EXPECT_FALSE(recorded(ring, 5, {.failed = true})) << "the cells are a newer one's";
  EXPECT_EQ(ring.tally(), (Tally{.calls = 3}));
  EXPECT_TRUE(recorded(ring, 6, {.failed = true}));
  EXPECT_EQ(ring.tally(), (Tally{.calls = 3, .failures = 1}));
}

TEST(CallRing, ManyThreadsLeaveAnExactTally) {
  CallRing ring(100);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&ring, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 20'000; ++i)
        (void)recorded(ring, 0, {.failed = random() % 2 == 0, .slow = random() % 3 == 0});
      for (int i = 0; i < 100; ++i) (void)recorded(ring, 0, {});
    });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 100; ++i) (void)recorded(ring, 0, {});
  EXPECT_EQ(ring.tally(), (Tally{.calls = 100}));
}

TEST(CallRing, GenerationsThatChangeUnderManyThreadsLeaveAnExactTally) {
  CallRing ring(50);
  std::atomic<std::uint64_t> generation{0};
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      while (!over) (void)recorded(ring, generation.load(), {.failed = true, .slow = true});
    });
  for (std::uint64_t g = 1; g <= 2'000; ++g) {
    ring.begin(g);
    generation = g;
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 50; ++i) (void)recorded(ring, 2'000, {});
  EXPECT_EQ(ring.tally(), (Tally{.calls = 50}));
}

TEST(FailureRun, CountsFailuresInARowOfItsGeneration) {
  FailureRun run;
  EXPECT_EQ(recorded(run, 0, true), 1U);
  EXPECT_EQ(recorded(run, 0, true), 2U);
  EXPECT_EQ(recorded(run, 0, false), 0U);
  EXPECT_EQ(recorded(run, 0, true), 1U);
  run.begin(3);
  EXPECT_EQ(recorded(run, 0, true), std::nullopt);
  EXPECT_EQ(recorded(run, 3, false), 0U);
  EXPECT_EQ(run.length(), 0U);
}

}  // namespace
}  // namespace weir::breaker
