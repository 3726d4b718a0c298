#include "base/snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace weir {
namespace {

struct Tracked {
  explicit Tracked(int number, std::atomic<int>& counter) : value(number), alive(counter) {
    ++alive;
  }
  ~Tracked() {
    value = -1;
    --alive;
  }
  int value;
  std::atomic<int>& alive;
};

template <class Fence>
class SnapshotCellTest : public testing::Test {
 public:
  using Cell = SnapshotCell<Tracked, Fence>;
};
using Fences = testing::Types<AsymmetricFence, FullFence>;
struct FenceNames {
  template <class Fence>
  static std::string GetName(int) {
    return std::is_same_v<Fence, FullFence> ? "FullFence" : "AsymmetricFence";
  }
};
TYPED_TEST_SUITE(SnapshotCellTest, Fences, FenceNames);

TYPED_TEST(SnapshotCellTest, FreesWhatNobodyReads) {
  std::atomic<int> alive{0};
  {
    typename TestFixture::Cell cell(std::make_unique<Tracked>(1, alive));
    for (int i = 2; i < 10; ++i) cell.publish(std::make_unique<Tracked>(i, alive));
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(cell.read()->value, 9);
  }
  EXPECT_EQ(alive, 0);
}

TYPED_TEST(SnapshotCellTest, AReaderKeepsItsValueThroughReplacements) {
  std::atomic<int> alive{0};
  typename TestFixture::Cell cell(std::make_unique<Tracked>(1, alive));
  {
    auto held = cell.read();
    cell.publish(std::make_unique<Tracked>(2, alive));  // from inside a reader: late, not stuck
    EXPECT_EQ(held->value, 1);
    EXPECT_EQ(alive, 2);
    EXPECT_EQ(cell.read()->value, 2);
  }
  cell.publish(std::make_unique<Tracked>(3, alive));
  EXPECT_EQ(alive, 1);
}

TYPED_TEST(SnapshotCellTest, WithoutPatienceAReaderOfTheSameThreadIsNotWaitedFor) {
  std::atomic<int> alive{0};
  typename TestFixture::Cell cell(std::make_unique<Tracked>(1, alive));
  {
    auto held = cell.read();
    const auto began = std::chrono::steady_clock::now();
    for (int i = 2; i < 200; ++i)
      cell.publish(std::make_unique<Tracked>(i, alive), std::chrono::nanoseconds(0));
    EXPECT_LT(std::chrono::steady_clock::now() - began, 100 * TestFixture::Cell::kPatience);
    EXPECT_EQ(held->value, 1);
    EXPECT_EQ(alive, 199);
  }
  cell.publish(std::make_unique<Tracked>(200, alive), std::chrono::nanoseconds(0));
  EXPECT_EQ(alive, 1);
}

TYPED_TEST(SnapshotCellTest, ReadersNeverSeeAFreedValue) {
  std::atomic<int> alive{0};
  typename TestFixture::Cell cell(std::make_unique<Tracked>(1, alive));
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        auto ref = cell.read();
        if (ref->value <= 0) ++torn;
      }
    });
  }
  for (int i = 2; i < 300; ++i) cell.publish(std::make_unique<Tracked>(i, alive));
  stop = true;
  for (auto& t : readers) t.join();
  cell.publish(std::make_unique<Tracked>(1000, alive));
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(alive, 1);
}

TYPED_TEST(SnapshotCellTest, AReferenceMayEndInAnotherThread) {
  std::atomic<int> alive{0};
  typename TestFixture::Cell cell(std::make_unique<Tracked>(1, alive));
  std::optional<typename TestFixture::Cell::Ref> held;
  std::thread([&] { held.emplace(cell.read()); }).join();  // its thread is gone before it ends
  cell.publish(std::make_unique<Tracked>(2, alive));
  EXPECT_EQ((*held)->value, 1);
  EXPECT_EQ(alive, 2);
  std::thread([ref = std::move(*held)] { EXPECT_EQ(ref->value, 1); }).join();
  held.reset();
  cell.publish(std::make_unique<Tracked>(3, alive));
  EXPECT_EQ(alive, 1);
}

TYPED_TEST(SnapshotCellTest, HandsReferencesAroundWhileValuesAreReplaced) {
  std::atomic<int> alive{0};
  typename TestFixture::Cell cell(std::make_unique<Tracked>(1, alive));
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  // Each takes a reference, and drops the one that another thread took before it.
  std::mutex mutex;
  std::optional<typename TestFixture::Cell::Ref> shared;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        std::optional<typename TestFixture::Cell::Ref> mine(cell.read());
        {
          std::lock_guard lock(mutex);
          mine.swap(shared);
        }
        if (mine && (*mine)->value <= 0) ++torn;
      }
    });
  }
  for (int i = 2; i < 200; ++i) cell.publish(std::make_unique<Tracked>(i, alive));
  stop = true;
  for (auto& thread : threads) thread.join();
  shared.reset();
  cell.publish(std::make_unique<Tracked>(1000, alive));
  EXPECT_EQ(torn, 0);
  EXPECT_EQ(alive, 1);
}

TYPED_TEST(SnapshotCellTest, ServesMoreThreadsThanThereAreStripes) {
  std::atomic<int> alive{0};
  typename TestFixture::Cell cell(std::make_unique<Tracked>(1, alive));
  constexpr int kThreads = static_cast<int>(kOwnedStripes) + 8;
  std::atomic<int> inside{0};
  std::atomic<bool> leave{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < kThreads; ++i) {
    readers.emplace_back([&] {
      auto ref = cell.read();
      ++inside;
      leave.wait(false);
      EXPECT_EQ(ref->value, 1);
    });
  }
  while (inside < kThreads) std::this_thread::yield();
  cell.publish(std::make_unique<Tracked>(2, alive));
  EXPECT_EQ(alive, 2);
  leave = true;
  leave.notify_all();
  for (auto& thread : readers) thread.join();
  cell.publish(std::make_unique<Tracked>(3, alive));
  EXPECT_EQ(alive, 1);
}

// A fence that the system stops granting: nothing may be freed on the strength of it.
struct RefusedFence : FullFence {
  static inline bool granted = true;
  static bool heavy() noexcept { return granted; }
};

TEST(SnapshotCell, KeepsEveryValueWhileTheFenceIsRefused) {
  std::atomic<int> alive{0};
  SnapshotCell<Tracked, RefusedFence> cell(std::make_unique<Tracked>(1, alive));
  RefusedFence::granted = false;
  cell.publish(std::make_unique<Tracked>(2, alive));
  cell.publish(std::make_unique<Tracked>(3, alive));
  EXPECT_EQ(alive, 3);
  RefusedFence::granted = true;
  cell.publish(std::make_unique<Tracked>(4, alive));
  EXPECT_EQ(alive, 1);
}

}  // namespace
}  // namespace weir
