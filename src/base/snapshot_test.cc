#include "base/snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
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

TEST(SnapshotCell, FreesWhatNobodyReads) {
  std::atomic<int> alive{0};
  {
    SnapshotCell<Tracked> cell(std::make_unique<Tracked>(1, alive));
    for (int i = 2; i < 10; ++i) cell.publish(std::make_unique<Tracked>(i, alive));
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(cell.read()->value, 9);
  }
  EXPECT_EQ(alive, 0);
}

TEST(SnapshotCell, AReaderKeepsItsValueThroughReplacements) {
  std::atomic<int> alive{0};
  SnapshotCell<Tracked> cell(std::make_unique<Tracked>(1, alive));
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

TEST(SnapshotCell, ReadersNeverSeeAFreedValue) {
  std::atomic<int> alive{0};
  SnapshotCell<Tracked> cell(std::make_unique<Tracked>(1, alive));
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

}  // namespace
}  // namespace weir
