#include "guard/disk_waits.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <vector>

namespace weir::guard {
namespace {

using namespace std::chrono_literals;

MonoTime now() {
  return std::chrono::steady_clock::now();
}

TEST(DiskWaits, LetsEachLeaveAtItsTimeAndNotBefore) {
  std::promise<MonoTime> late, early;
  DiskWaits waits;  // last, in all of these: its thread looks at the rest
  const MonoTime begun = now();
  waits.begin(60ms, [&] { late.set_value(now()); });
  waits.begin(20ms, [&] { early.set_value(now()); });  // before the one that is waited for
  EXPECT_GE(early.get_future().get(), begun + 20ms);
  EXPECT_GE(late.get_future().get(), begun + 60ms);
  EXPECT_EQ(waits.size(), 0u);
}

TEST(DiskWaits, ForgetsWhoWaitsNoMore) {
  std::atomic<int> left{0};
  std::promise<void> after;
  DiskWaits waits;
  std::vector<DiskWaits::Place> places;
  for (int i = 0; i < 100; ++i) places.push_back(waits.begin(20ms, [&] { ++left; }));
  for (const DiskWaits::Place& place : places) EXPECT_TRUE(waits.end(place));
  EXPECT_FALSE(waits.end(places[0])) << "once";
  EXPECT_EQ(waits.size(), 0u);
  waits.begin(30ms, [&] { after.set_value(); });
  after.get_future().get();
  EXPECT_EQ(left, 0);
}

TEST(DiskWaits, SaysWhoHasLeft) {
  std::promise<void> leaving, ended;
  DiskWaits waits;
  const auto place = waits.begin(0ns, [&] {
    leaving.set_value();
    ended.get_future().get();
  });
  leaving.get_future().get();
  EXPECT_FALSE(waits.end(place)) << "it is leaving this moment";
  ended.set_value();
}

TEST(DiskWaits, KnowsItsThreadAndMayBeAskedFromIt) {
  std::promise<bool> inner;
  DiskWaits waits;
  waits.begin(0ns, [&] { waits.begin(0ns, [&] { inner.set_value(waits.in_its_thread()); }); });
  EXPECT_TRUE(inner.get_future().get());
  EXPECT_FALSE(waits.in_its_thread());
}

TEST(DiskWaits, LetsNobodyLeaveOnceItIsStopped) {
  std::atomic<int> left{0};
  DiskWaits waits;
  const auto before = waits.begin(20ms, [&] { ++left; });
  waits.stop();
  const auto after = waits.begin(0ns, [&] { ++left; });
  EXPECT_TRUE(waits.end(before)) << "it is still there to hear what comes";
  EXPECT_TRUE(waits.end(after));
  EXPECT_EQ(left, 0);
}

}  // namespace
}  // namespace weir::guard
