// The traps of a table that many threads write, with threads held at the points where each would
// spring: docs/internals/memory-store.md names them.

#include <gtest/gtest.h>

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "store/memory/basic_memory_store.h"

namespace weir::store {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

// Stops the thread that carries it at a point, once, until it is let go.
class Gate {
 public:
  explicit Gate(Point point) : point_(point) {}
  void pass(Point point) {
    if (point != point_) return;
    std::unique_lock lock(mutex_);
    if (std::exchange(held_, true)) return;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void wait_until_held() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_; });
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  const Point point_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  bool open_ = false;
};

thread_local Gate* gate_of_thread = nullptr;

struct TestHooks {
  static void at(Point point) noexcept {
    if (gate_of_thread != nullptr) gate_of_thread->pass(point);
  }
};

// A thread that does `work` and stands at a point until it is let go.
class HeldThread {
 public:
  HeldThread(Point point, std::function<void()> work)
      : gate_(point), thread_([this, work = std::move(work)] {
          gate_of_thread = &gate_;
          work();
        }) {
    gate_.wait_until_held();
  }
  void finish() {
    gate_.open();
    thread_.join();
  }

 private:
  Gate gate_;
  std::thread thread_;
};

using TestStore = BasicMemoryStore<TestHooks>;

limit::Numbers five_an_hour() {
  return limit::Numbers::make(
             {.algorithm = Algorithm::fixed_window, .limit = 5, .period = {.length = hours(1)}})
      .value();
}
limit::Numbers five_a_second() {
  return limit::Numbers::make(
             {.algorithm = Algorithm::gcra, .limit = 5, .period = {.length = seconds(1)}})
      .value();
}

class MemoryProtocol : public ::testing::Test {
 protected:
  // Keys of one line: the same place, different fingerprints. In a table so small, the line is all
  // that digest.hi says.
  static KeyDigest in_line(unsigned line, std::uint64_t key) {
    constexpr std::uint64_t kLines = 56;
    return {(UINT64_MAX / kLines) * line + (UINT64_MAX / kLines) / 2, (key + 1) << 20};
  }
  Counter counter(const KeyDigest& digest, std::uint64_t cost = 1, Op op = Op::take) const {
    return {.numbers = &numbers_, .digest = digest, .cost = cost, .op = op};
  }
  bool allows(const Counter& counter) {
    Finding finding;
    return store_->decide({&counter, 1}, now_, {&finding, 1}).allowed;
  }
  std::uint32_t remaining(Counter counter) {
    counter.cost = 0;
    Finding finding;
    (void)store_->decide({&counter, 1}, now_, {&finding, 1});
    return finding.step.remaining;
  }

  limit::Numbers numbers_ = five_an_hour();
  Instant now_{seconds(1'700'000'000)};
  std::unique_ptr<TestStore> store_ = TestStore::open(100).value();
};

TEST_F(MemoryProtocol, AKeyBesideADeletedOneStaysOneCounter) {
  for (std::uint64_t key = 0; key < 3; ++key) EXPECT_TRUE(allows(counter(in_line(9, key))));
  EXPECT_TRUE(allows(counter(in_line(9, 3), 2)));  // stands in the next line
  EXPECT_TRUE(allows(counter(in_line(9, 0), 1, Op::reset)));
  EXPECT_TRUE(allows(counter(in_line(9, 3), 2)));  // its home line has an empty slot now
  EXPECT_EQ(remaining(counter(in_line(9, 3))), 1U);
  EXPECT_EQ(store_->keys(), 3U);
}

TEST_F(MemoryProtocol, AKeySweptWhileItIsLookedForComesBackOnce) {
  numbers_ = five_a_second();
  for (std::uint64_t key = 0; key < 4; ++key) EXPECT_TRUE(allows(counter(in_line(9, key), 5)));
  now_ += seconds(10);  // all of them have expired
  HeldThread looking(Point::candidate_seen,
                     [&] { EXPECT_TRUE(allows(counter(in_line(9, 3), 2))); });
  (void)store_->sweep(now_, 100, 0);  // takes the key away from the line that was not locked yet
  looking.finish();
  EXPECT_EQ(remaining(counter(in_line(9, 3))), 3U);
  (void)store_->sweep(now_, 100, 0);
  EXPECT_EQ(store_->keys(), 1U);
}

TEST_F(MemoryProtocol, AChargeOnItsWayNeverReachesTheSlotsNextKey) {
  EXPECT_TRUE(allows(counter(in_line(9, 1))));
  HeldThread charging(Point::home_chosen, [&] { EXPECT_TRUE(allows(counter(in_line(9, 1)))); });
  EXPECT_TRUE(allows(counter(in_line(9, 1), 1, Op::reset)));
  EXPECT_TRUE(allows(counter(in_line(9, 2))));  // takes the slot
  charging.finish();
  EXPECT_EQ(remaining(counter(in_line(9, 1))), 4U);
  EXPECT_EQ(remaining(counter(in_line(9, 2))), 4U);
}

TEST_F(MemoryProtocol, NobodySeesAnAskHalfWritten) {
  const std::array both{counter(in_line(3, 1), 5), counter(in_line(20, 2), 5)};
  for (const Point point : {Point::homes_locked, Point::reserved, Point::writing}) {
    store_ = TestStore::open(100).value();
    HeldThread writing(point, [&] {
      std::array<Finding, 2> findings;
      EXPECT_TRUE(store_->decide(both, now_, findings).allowed);
    });
    std::array<std::uint32_t, 2> left{99, 99};
    std::array<std::thread, 2> readers;
    for (std::size_t i = 0; i < 2; ++i) {
      readers[i] = std::thread([&, i] { left[i] = remaining(both[i]); });
    }
    writing.finish();
    for (auto& reader : readers) reader.join();
    EXPECT_EQ(left[0], 0U);
    EXPECT_EQ(left[1], 0U);
  }
}

// Another thread holds the second home line; whoever needs both in the other order waits for none
// out of order.
TEST_F(MemoryProtocol, AsksThatNameTheirRulesInAnyOrderDoNotStopEachOther) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      for (int i = 0; i < 3'000; ++i) {
        // Four keys of one line: one of them always stands elsewhere.
        std::array<std::uint64_t, 4> keys{0, 1, 2, 3};
        std::shuffle(keys.begin(), keys.end(), random);
        const unsigned line = 20 + static_cast<unsigned>(random() % 3);
        std::array asks{counter(in_line(line, keys[0])), counter(in_line(line, keys[1])),
                        counter(in_line(41 - line, keys[2])),
                        counter(in_line(line, keys[3]), 1, Op::reset)};
        std::array<Finding, 4> findings;
        (void)store_->decide(asks, now_, findings);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(store_->keys(), 16U);
}

TEST_F(MemoryProtocol, AnAskThatFindsNoRoomLeavesNoTrace) {
  store_ = TestStore::open(3).value();
  EXPECT_TRUE(allows(counter(in_line(0, 1))));
  EXPECT_TRUE(allows(counter(in_line(0, 2))));
  const std::array asks{counter(in_line(0, 1)), counter(in_line(0, 3)), counter(in_line(0, 4))};
  std::array<Finding, 3> findings;
  EXPECT_EQ(store_->decide(asks, now_, findings).outcome, LocalOutcome::exhausted);
  EXPECT_EQ(store_->keys(), 2U);
  EXPECT_EQ(remaining(counter(in_line(0, 1))), 4U);
  EXPECT_EQ(remaining(counter(in_line(0, 3))), 5U);
  EXPECT_TRUE(allows(counter(in_line(0, 3))));
}

TEST_F(MemoryProtocol, AKeyWhoseFingerprintIsZeroIsAKey) {
  const KeyDigest zero{in_line(9, 0).hi, 0};
  EXPECT_TRUE(allows(counter(in_line(9, 1))));
  EXPECT_TRUE(allows(counter(zero, 2)));
  EXPECT_TRUE(allows(counter(in_line(9, 1), 1, Op::reset)));  // an empty slot before it
  EXPECT_EQ(remaining(counter(zero)), 3U);
  EXPECT_TRUE(allows(counter(zero, 3)));
  EXPECT_FALSE(allows(counter(zero)));
}

// ---- Growth
// -----------------------------------------------------------------------------------------

class MemoryGrowth : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kKeys = 20'000;

  static KeyDigest digest_of(std::uint64_t key, std::uint64_t seed = 0) {
    const auto mixed = [](std::uint64_t x) {
      x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
      x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
      return x ^ (x >> 31);
    };
    const std::uint64_t name = key * 1'000'003 + seed;
    return {mixed(name + 0x9E3779B97F4A7C15U), mixed(name + 0x3C6EF372FE94F82AU)};
  }
  LocalAnswer take(std::uint64_t key, std::uint64_t cost = 1, std::uint64_t seed = 0) {
    const Counter counter{.numbers = &numbers_, .digest = digest_of(key, seed), .cost = cost};
    Finding finding;
    const LocalAnswer answer = store_->decide({&counter, 1}, now_, {&finding, 1});
    left_ = finding.step.remaining;
    return answer;
  }
  std::uint32_t remaining(std::uint64_t key) {
    take(key, 0);
    return left_;
  }

  const limit::Numbers numbers_ = five_an_hour();
  const Instant now_{seconds(1'700'000'000)};
  std::unique_ptr<TestStore> store_ = TestStore::open(kKeys).value();
  static thread_local std::uint32_t left_;
};
thread_local std::uint32_t MemoryGrowth::left_ = 0;

TEST_F(MemoryGrowth, KeepsEveryCounterWhileLinesAreAdded) {
  const std::uint64_t lines = store_->table().lines_in_use();
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    ASSERT_TRUE(take(key, 1 + key % 3).allowed) << key;
    ASSERT_EQ(remaining(key / 2), 4 - key / 2 % 3) << key;
  }
  EXPECT_GT(store_->table().lines_in_use(), 100 * lines);
  EXPECT_EQ(store_->keys(), kKeys);
  for (std::uint64_t key = 0; key < kKeys; ++key) ASSERT_EQ(remaining(key), 4 - key % 3) << key;
}

TEST_F(MemoryGrowth, HasRoomForEveryKeyUpToTheCap) {
  for (const std::uint64_t cap : {1, 2, 7, 30, 100, 333, 1'000, 5'000, 70'000}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      store_ = TestStore::open(cap).value();
      for (std::uint64_t key = 0; key < cap; ++key) {
        ASSERT_EQ(take(key, 1, seed).outcome, LocalOutcome::decided) << key << " of " << cap;
      }
      EXPECT_EQ(take(cap, 1, seed).outcome, LocalOutcome::exhausted) << cap;
      EXPECT_EQ(store_->keys(), cap);
    }
  }
}

// Most keys of one neighbourhood: room is made by moving others on.
TEST_F(MemoryGrowth, MakesRoomInACrowdedNeighbourhood) {
  store_ = TestStore::open(1'000).value();
  const std::uint64_t lines = store_->table().lines_in_use();
  for (std::uint64_t key = 0; key < 96; ++key) {
    const KeyDigest digest{(UINT64_MAX / lines) * (5 + key % 30), (key + 1) << 32};
    const Counter counter{.numbers = &numbers_, .digest = digest};
    Finding finding;
    ASSERT_EQ(store_->decide({&counter, 1}, now_, {&finding, 1}).outcome, LocalOutcome::decided)
        << key;
    ASSERT_EQ(store_->decide({&counter, 1}, now_, {&finding, 1}).outcome, LocalOutcome::decided);
    ASSERT_EQ(finding.step.remaining, 3U) << key;
  }
  for (std::uint64_t key = 0; key < 96; ++key) {
    const KeyDigest digest{(UINT64_MAX / lines) * (5 + key % 30), (key + 1) << 32};
    const Counter probe{.numbers = &numbers_, .digest = digest, .cost = 0};
    Finding finding;
    (void)store_->decide({&probe, 1}, now_, {&finding, 1});
    ASSERT_EQ(finding.step.remaining, 3U) << key;
  }
}

TEST_F(MemoryGrowth, AnAskThatChoseItsLineBeforeASplitFindsItsCounter) {
  for (std::uint64_t key = 0; key < 40; ++key) ASSERT_TRUE(take(key, 2).allowed);
  std::vector<std::unique_ptr<HeldThread>> asking;
  for (std::uint64_t key = 0; key < 40; ++key) {
    asking.push_back(std::make_unique<HeldThread>(
        Point::home_chosen, [this, key] { EXPECT_TRUE(take(key, 2).allowed); }));
  }
  for (std::uint64_t key = 40; key < kKeys; ++key) ASSERT_TRUE(take(key).allowed);
  for (auto& thread : asking) thread->finish();
  for (std::uint64_t key = 0; key < 40; ++key) EXPECT_EQ(remaining(key), 1U) << key;
  EXPECT_EQ(store_->keys(), kKeys);
}

TEST_F(MemoryGrowth, AnAskDuringASplitWaitsAndFindsItsCounter) {
  std::uint64_t next = 0;
  const std::uint64_t lines = store_->table().lines_in_use();
  while (next < lines * 3 / 2 - 20) ASSERT_TRUE(take(next++, 2).allowed);
  const std::uint64_t before = next;
  HeldThread splitting(Point::splitting, [&] {
    while (next < before + 200) EXPECT_TRUE(take(next++, 2).allowed);
  });
  std::vector<std::thread> asking;
  std::atomic<std::uint64_t> allowed{0};
  for (unsigned t = 0; t < 4; ++t) {
    asking.emplace_back([&, t] {
      for (std::uint64_t key = t; key < before; key += 4) allowed += take(key, 2).allowed ? 1 : 0;
    });
  }
  splitting.finish();
  for (auto& thread : asking) thread.join();
  EXPECT_EQ(allowed.load(), before);
  for (std::uint64_t key = 0; key < before; ++key) ASSERT_EQ(remaining(key), 1U) << key;
}

TEST_F(MemoryGrowth, CountsExactlyWhileManyThreadsAddKeysAndSweep) {
  constexpr unsigned kThreads = 6;
  std::vector<std::thread> threads;
  std::atomic<std::uint64_t> admitted{0};
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      // Every thread asks for every key once more than all may have together, in its own order.
      for (std::uint64_t i = 0; i < kKeys; ++i) {
        const std::uint64_t key = (i * 7'919 + t * 3'333) % kKeys;
        const LocalAnswer answer = take(key);
        EXPECT_EQ(answer.outcome, LocalOutcome::decided);
        admitted += answer.allowed ? 1 : 0;
        if (i % 64 == 0) (void)store_->sweep(now_, 16, 4);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(admitted.load(), 5 * kKeys);
  EXPECT_EQ(store_->keys(), kKeys);
}

}  // namespace
}  // namespace weir::store
