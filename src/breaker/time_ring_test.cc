#include "breaker/time_ring.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <random>
#include <thread>
#include <vector>

namespace weir::breaker {
namespace {

using namespace std::chrono_literals;

// What a record made of the window; absent: it came late.
std::optional<Tally> recorded(TimeRing& ring, const std::atomic<std::uint64_t>& word,
                              std::uint64_t mine, Vote vote, MonoTime now) {
  Tally tally;
  return ring.record(word, mine, vote, now, tally) ? std::optional(tally) : std::nullopt;
}

constexpr MonoTime kStart{std::chrono::seconds(1'000)};

TEST(TimeRing, HoldsWhatAListOfBucketsHolds) {
  std::mt19937_64 random(11);
  for (const std::uint32_t buckets : {2U, 3U, 10U, 60U}) {
    std::atomic<std::uint64_t> word{0};
    TimeRing ring(10s, buckets);
    MonoTime now = kStart;
    MonoTime base = now;
    ring.begin(now);
    const Nanos width = Nanos(10s) / buckets;
    std::map<std::int64_t, Tally> model;
    for (int i = 0; i < 20'000; ++i) {
      now += Nanos(random() % static_cast<std::uint64_t>(Nanos(width).count() / 5));
      if (random() % 200 == 0) now += Nanos(width * static_cast<int>(random() % (2 * buckets)));
      if (random() % 1'000 == 0) {
        ring.begin(now);
        base = now;
        model.clear();
      }
      const Vote vote{.failed = random() % 50 == 0, .slow = random() % 60 == 0};
      const std::int64_t bucket = (now - base) / width;
      Tally& mine = model[bucket];
      ++mine.calls;
      mine.failures += vote.failed ? 1U : 0U;
      mine.slow += vote.slow ? 1U : 0U;
      Tally expected;
      for (const auto& [at, tally] : model) {
        if (at <= bucket - static_cast<std::int64_t>(buckets)) continue;
        expected.calls += tally.calls;
        expected.failures += tally.failures;
        expected.slow += tally.slow;
      }
      const auto tally = recorded(ring, word, 0, vote, now);
      ASSERT_TRUE(tally);
      if (expected.failures > 0 || expected.slow > 0) {
        ASSERT_EQ(*tally, expected) << buckets << " at " << i;
      }
      ASSERT_EQ(ring.tally(now), expected) << buckets << " at " << i;
    }
  }
}

TEST(TimeRing, ARecordOfAnEarlierGenerationChangesNothing) {
  std::atomic<std::uint64_t> word{1};
  TimeRing ring(10s, 10);
  ring.begin(kStart);
  word = 2;
  ring.begin(kStart);
  EXPECT_FALSE(recorded(ring, word, 1, {.failed = true}, kStart));
  EXPECT_TRUE(recorded(ring, word, 2, {}, kStart));
  EXPECT_EQ(ring.tally(kStart), (Tally{.calls = 1}));
}

TEST(TimeRing, WhatWasCountedBeforeIsOutOfSightInTheSameInstant) {
  std::atomic<std::uint64_t> word{1};
  TimeRing ring(10s, 10);
  ring.begin(kStart);
  for (int i = 0; i < 5; ++i) (void)recorded(ring, word, 1, {.failed = true}, kStart);
  ring.begin(kStart);
  EXPECT_EQ(ring.tally(kStart), Tally{});
}

TEST(TimeRing, ARecordThatWasHeldUpDoesNotHideLaterOnes) {
  std::atomic<std::uint64_t> word{1};
  TimeRing ring(10s, 10);
  ring.begin(kStart);
  (void)recorded(ring, word, 1, {.failed = true}, kStart + 15s);
  (void)recorded(ring, word, 1, {.failed = true}, kStart + 5s);  // the same bucket, 10 s before
  EXPECT_EQ(ring.tally(kStart + 15s), (Tally{.calls = 1, .failures = 1}));
  const auto seen = recorded(ring, word, 1, {}, kStart + 16s);
  ASSERT_TRUE(seen);
  EXPECT_EQ(*seen, (Tally{.calls = 2, .failures = 1})) << "the mark of the later one stands";
}

TEST(TimeRing, ManyThreadsLoseNothing) {
  std::atomic<std::uint64_t> word{1};
  TimeRing ring(10s, 10);
  ring.begin(kStart);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 10'000; ++i)
        (void)recorded(ring, word, 1, {.failed = i % 2 == 0},
                       kStart + std::chrono::microseconds(i));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ring.tally(kStart), (Tally{.calls = 40'000, .failures = 20'000}));
}

}  // namespace
}  // namespace weir::breaker
