// A failover that takes eleven seconds, by real sentinels that wait ten to be sure, and that loses
// the last writes. Settings of the breaker and of recovery are what they are where nobody sets any.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "ladder/bound.h"
#include "limit/numbers.h"
#include "sentinel_rig.h"

namespace weir::fault {
namespace {

using testing::RedisServer;
using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr std::uint32_t kLimit = 100;

class GuardUnderPatientSentinels : public GuardUnderSentinels {
 protected:
  int down_after_ms() const override { return 10'000; }
  Guard worker(int index, Heard& heard) {
    return Guard::open(Policy::parse("store: {url: '" + url() +
                                     "', deadline: 1s, workers: {of: 2, index: " +
                                     std::to_string(index) + "}}\n" + R"(
inputs: [user]
routes:
  search:
    limits: [{requests: )" + std::to_string(kLimit) +
                                     R"(, per: day, by: [user], algorithm: fixed_window}]
    protects: capacity
  login:
    limits: [{requests: 5, per: day, by: [user], algorithm: fixed_window}]
    protects: security
)")
                           .value(),
                       {.observer = &heard})
        .value();
  }
};

TEST_F(GuardUnderPatientSentinels, AdmitsNoMoreThanTheBoundAndIsBackAtOnce) {
  know_each_other();
  Heard heard[2];
  Guard guards[2] = {worker(0, heard[0]), worker(1, heard[1])};
  std::uint32_t before = 0;
  const auto spend = [&](std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      for (Guard& guard : guards) {
        const Decision decision = guard.check("search", {{"user", "u"}});
        EXPECT_EQ(decision.rung, Rung::store);
        before += decision.allowed() ? 1 : 0;
      }
    }
  };
  spend(15);
  for (int i = 0; i < 5; ++i) (void)guards[0].check("login", {{"user", "known"}});
  ASSERT_EQ(master_->text({"WAIT", "1", "5000"}), "1");
  // From here on the replica hears nothing more: its link is cut, and it is not let in again.
  ASSERT_EQ(master_->execute({"CONFIG", "SET", "requirepass", "nobody-knows"}), "+OK\r\n");
  master_->execute({"CLIENT", "KILL", "TYPE", "replica"});
  constexpr std::uint32_t kLost = 20;
  spend(kLost / 2);
  ASSERT_EQ(before, 30 + kLost);
  master_->kill();
  const auto killed = Steady::now();

  // All the while each worker is offered more than its part.
  std::atomic<bool> stop{false};
  std::atomic<std::uint32_t> away{0};
  std::atomic<std::uint32_t> after{0};
  Tally tallies[2];
  std::thread threads[2];
  for (int i = 0; i < 2; ++i) {
    threads[i] = std::thread([&, i] {
      while (!stop) {
        const auto begun = Steady::now();
        const Decision decision = guards[i].check("search", {{"user", "u"}});
        tallies[i].add(decision, Steady::now() - begun, 1s);
        if (decision.allowed()) ++(decision.rung == Rung::store ? after : away);
        std::this_thread::sleep_for(5ms);
      }
    });
  }
  // What the store had denied is denied; what it cannot check, a closed route refuses.
  EXPECT_TRUE(eventually([&] {
    return guards[0].check("login", {{"user", "other"}}).verdict == Verdict::refused;
  }));
  EXPECT_EQ(guards[0].check("login", {{"user", "known"}}).verdict, Verdict::limited);
  ASSERT_TRUE(eventually([&] { return is_master(*replica_); }, 60s)) << heard[0].all();
  const auto promoted = Steady::now();
  EXPECT_GE(promoted - killed, 9s);
  for (Guard& guard : guards) EXPECT_TRUE(until_store(guard, "search", "u")) << heard[0].all();
  const auto back = Steady::now();
  RecordProperty("promoted_after_ms", static_cast<int>((promoted - killed) / 1ms));
  RecordProperty("back_after_ms", static_cast<int>((back - promoted) / 1ms));
  // Until the store has heard of all that was admitted, and says no.
  EXPECT_TRUE(eventually([&] {
    bool denied = true;
    for (Guard& guard : guards) {
      const Decision decision = guard.check("search", {{"user", "u"}});
      if (decision.allowed()) ++after;
      denied &= decision.verdict == Verdict::limited;
    }
    return denied;
  }));
  stop = true;
  for (std::thread& thread : threads) thread.join();

  const auto numbers =
      limit::Numbers::make(
          {.algorithm = Algorithm::fixed_window, .limit = kLimit, .period = {.length = 24h}})
          .value();
  const auto most =
      ladder::most_admitted(numbers, FailurePolicy::bounded,
                            {.workers = 2, .cut_off = 2, .store_answered = true, .losses = 1});
  ASSERT_TRUE(most);
  const std::uint32_t total = before + away + after;
  EXPECT_LE(total, *most);
  // Each brings back what it knew, so that only what neither knew is lost; and until both have, the
  // store may take what one of them admitted for what is left.
  EXPECT_LE(total, kLimit + kLost + (kLimit - before) / 2);
  // Half of the limit was known to remain, half of that to each.
  EXPECT_GE(away, (kLimit - before) * 95 / 100);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(tallies[i].broken, 0u) << tallies[i].example;
    EXPECT_TRUE(tallies[i].in_time()) << tallies[i].times();
    EXPECT_EQ(heard[i].count(StoreEvent::Kind::away), 1) << heard[i].all();
    EXPECT_LE(heard[i].count(StoreEvent::Kind::away) +
                  heard[i].count(StoreEvent::Kind::answers_again) +
                  heard[i].count(StoreEvent::Kind::back) + heard[i].count(StoreEvent::Kind::fault),
              4)
        << heard[i].all();
  }
}

}  // namespace
}  // namespace weir::fault
