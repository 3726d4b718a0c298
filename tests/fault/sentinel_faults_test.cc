// A Guard whose store is watched by real sentinels: they are asked where the master is, and
// followed when it changes.

#include <gtest/gtest.h>

#include "sentinel_rig.h"

namespace weir::fault {
namespace {

using testing::RedisServer;
using namespace std::chrono_literals;

TEST_F(GuardUnderSentinels, FollowsAFailoverUnderLoadAndCountsOnTheNewMaster) {
  know_each_other();
  Guard guard = open();
  ASSERT_TRUE(until_store(guard, "count", "u")) << heard_.all();
  Load load(guard, "count", "u", 2);
  ASSERT_TRUE(eventually([&] { return load.asked() >= 200; }));
  master_->kill();
  const auto killed = std::chrono::steady_clock::now();
  const std::uint64_t gone = load.asked();
  ASSERT_TRUE(eventually([&] { return load.asked() >= gone + 100; }));
  ASSERT_TRUE(until_store(guard, "count", "u")) << heard_.all();
  const auto took = std::chrono::steady_clock::now() - killed;
  RecordProperty("without_exact_answers_ms",
                 static_cast<int>(std::chrono::duration_cast<milliseconds>(took).count()));
  EXPECT_TRUE(eventually([&] { return is_master(*replica_); }));
  const Tally tally = load.stop();
  EXPECT_EQ(tally.broken, 0u) << tally.example;
  EXPECT_TRUE(tally.in_time()) << tally.times();
  EXPECT_EQ(tally.verdicts.count(Verdict::limited), 0u);
  // What the replica had not got is lost; what the new master answered was counted there.
  const std::uint64_t before = counted(guard, "u");
  Tally after;
  for (int i = 0; i < 10; ++i) (void)check(guard, "count", "u", after);
  EXPECT_EQ(after.allowed_by_store, 10u);
  EXPECT_EQ(counted(guard, "u"), before + 10);
  EXPECT_EQ(immortal_keys(*replica_), "");

  // The old master comes back and is made a replica: nobody asks it.
  master_->start();
  ASSERT_TRUE(eventually([&] { return !is_master(*master_); }));
  EXPECT_TRUE(until_store(guard, "count", "u"));
}

// Nobody dies. For some seconds the old master still takes itself for one, and would count.
TEST_F(GuardUnderSentinels, LeavesAMasterThatDoesNotKnowYetThatItIsNone) {
  know_each_other();
  Guard guard = open();
  ASSERT_TRUE(until_store(guard, "count", "u")) << heard_.all();
  Load load(guard, "count", "u", 2);
  ASSERT_TRUE(eventually([&] { return load.asked() >= 200; }));
  ASSERT_EQ(sentinels_[0]->text({"SENTINEL", "FAILOVER", "main"}), "OK");
  ASSERT_TRUE(eventually([&] { return is_master(*replica_); }));
  Tally tally;
  int user = 0;
  ASSERT_TRUE(eventually([&] {
    const std::string name = "after" + std::to_string(++user);
    (void)check(guard, "count", name, tally);
    return !replica_->keys("*" + name).empty() && master_->keys("*" + name).empty();
  })) << heard_.all();
  EXPECT_EQ(load.stop().broken, 0u);
  Tally after;
  for (int i = 0; i < 7; ++i) (void)check(guard, "count", "w", after);
  EXPECT_EQ(after.allowed_by_store, 7u);
  EXPECT_EQ(counted(guard, "w"), 7u);
  EXPECT_EQ(master_->keys("*/w").size(), 0u);
}

TEST_F(GuardUnderSentinels, NeedsOnlyOneOfThem) {
  sentinels_[0]->kill();
  sentinels_[1]->pause();
  Guard guard = open();
  EXPECT_TRUE(until_store(guard, "count", "u")) << heard_.all();
  // And none while the connection stands.
  sentinels_[2]->kill();
  Tally tally;
  for (int i = 0; i < 20; ++i) (void)check(guard, "count", "u", tally);
  EXPECT_EQ(tally.allowed_by_store, 20u);
  sentinels_[1]->resume();
}

TEST_F(GuardUnderSentinels, SaysWhichMasterNobodyKnows) {
  PolicyOptions unknown = options("mian");
  unknown.store = "  startup: require\n";
  const auto guard = Guard::open(policy_on(0, unknown), {.observer = &heard_});
  ASSERT_FALSE(guard);
  EXPECT_NE(guard.error().message.find("knows no master named 'mian'"), std::string::npos)
      << guard.error().message;
}

}  // namespace
}  // namespace weir::fault
