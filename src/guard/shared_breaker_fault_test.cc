#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "guard/impl.h"
#include "testing/patience.h"
#include "testing/redis_server.h"
#include "testing/until.h"
#include "weir/guard.h"

// Two Guards, as two workers of a fleet, on one real server.

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::kPatience;
using testing::RedisServer;
using testing::until;

class SharedBreaker : public ::testing::Test {
 protected:
  // By default no answer is late on a machine that is busy with something else: whoever had none
  // would go by itself.
  Guard open(const std::string& deadline = "5s") {
    const std::string text = "store: {url: 'redis://127.0.0.1:" + std::to_string(server_.port()) +
                             "', deadline: " + deadline + ", startup: degrade}\n" + R"(
breakers:
  payments: {consecutive_failures: 3, failure_rate: off, window: {calls: 10}, minimum_calls: 4,
             open_wait: 700ms, jitter: 0%, probes: 2, probe_deadline: 3s, ramp: off, shared: true}
)";
    return Guard::open(Policy::parse(text).value()).value();
  }
  static Breaker breaker(Guard& guard) { return guard.breaker("payments").value(); }
  static void fail(Breaker& breaker, int times) {
    for (int i = 0; i < times; ++i) {
      Admission admission = breaker.admit();
      if (admission) admission.permit().failure();
    }
  }
  static bool reached(Breaker& breaker, BreakerState state) {
    return until([&] { return breaker.state() == state; });
  }
  static bool tied(Breaker& breaker, FleetTie tie) {
    return until([&] { return breaker.snapshot().tie == tie; });
  }
  // Calls that succeed, as often as it lets them, until it is closed.
  static bool closes(Breaker& breaker) {
    return until([&] {
      Admission admission = breaker.admit();
      if (admission) admission.permit().ok();
      return breaker.state() == BreakerState::closed;
    });
  }
  // As the key space escapes it; empty: none stands.
  std::string record() {
    const std::vector<std::string> found = server_.keys("weir:1:{!}circuit*payments");
    return found.empty() ? std::string("none") : found.front();
  }

  RedisServer server_;
};

TEST_F(SharedBreaker, OpensProbesAndClosesForBoth) {
  Guard a = open();
  Guard b = open();
  Breaker one = breaker(a);
  Breaker two = breaker(b);
  ASSERT_TRUE(tied(one, FleetTie::follows) && tied(two, FleetTie::follows));
  const auto begun = std::chrono::steady_clock::now();
  fail(one, 3);
  EXPECT_EQ(one.state(), BreakerState::open);
  ASSERT_TRUE(reached(two, BreakerState::open));
  RecordProperty("seen_after_ms", std::to_string((std::chrono::steady_clock::now() - begun) / 1ms));
  EXPECT_FALSE(two.admit());
  EXPECT_TRUE(closes(two));
  EXPECT_TRUE(reached(one, BreakerState::closed));
  EXPECT_GT(std::stoll(server_.text({"PTTL", record()})), 0);
}

// How long after one worker opened it for all the others are open, by the wall clock: printed, for
// the machine does other things meanwhile. `./dev bench breaker_fleet` measures it.
TEST_F(SharedBreaker, TheOthersSeeThatItIsOpenWithinALookAndARoundTrip) {
  constexpr int kWorkers = 4;
  constexpr int kRounds = 25;
  std::vector<Guard> guards;
  std::vector<Breaker> all;
  for (int i = 0; i < kWorkers; ++i) {
    guards.push_back(open());
    all.push_back(breaker(guards.back()));
  }
  for (Breaker& each : all) ASSERT_TRUE(tied(each, FleetTie::follows));
  std::vector<double> after;
  for (int round = 0; round < kRounds; ++round) {
    std::this_thread::sleep_for(round * 13 % 100 * 1ms);  // at any time between two looks
    const auto begun = std::chrono::steady_clock::now();
    all[0].trip(60s);
    std::vector<bool> seen(kWorkers);
    ASSERT_TRUE(until([&] {
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - begun;
      int open = 1;
      for (int i = 1; i < kWorkers; ++i) {
        if (all[i].state() != BreakerState::open) continue;
        ++open;
        if (!seen[i]) after.push_back(took.count());
        seen[i] = true;
      }
      return open == kWorkers;
    }));
    all[0].close();
    for (Breaker& each : all) ASSERT_TRUE(reached(each, BreakerState::closed));
  }
  std::sort(after.begin(), after.end());
  const auto at = [&](double part) {
    return after[static_cast<std::size_t>(part * static_cast<double>(after.size() - 1))];
  };
  std::printf(
      "open is seen by %d others after: least %.0f, half %.0f, 99 %% %.0f, most %.0f ms (%zu)\n",
      kWorkers - 1, at(0), at(0.5), at(0.99), at(1), after.size());
}

TEST_F(SharedBreaker, ManyThreadsOfTwoWorkersSendNoMoreProbesThanTheFleetMay) {
  Guard a = open();
  Guard b = open();
  Breaker one = breaker(a);
  Breaker two = breaker(b);
  ASSERT_TRUE(tied(one, FleetTie::follows) && tied(two, FleetTie::follows));
  fail(one, 3);
  ASSERT_TRUE(reached(two, BreakerState::open));
  std::atomic<int> under_way{0};
  std::atomic<int> most{0};
  std::atomic<int> probes{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, mine = t % 2 == 0 ? one : two]() mutable {
      const auto end = std::chrono::steady_clock::now() + kPatience;
      while (std::chrono::steady_clock::now() < end && probes < 2) {
        Admission admission = mine.admit();
        if (!admission) {
          std::this_thread::sleep_for(1ms);
          continue;
        }
        if (!admission.permit().is_probe()) break;
        const int now = ++under_way;
        ++probes;
        int seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        std::this_thread::sleep_for(20ms);
        --under_way;
        admission.permit().ok();
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(most, 1) << "one at a time, in the whole fleet";
  EXPECT_EQ(probes, 2);
}

TEST_F(SharedBreaker, ClosedItCostsTheStoreALookNowAndThenHoweverManyCalls) {
  Guard a = open();
  Breaker one = breaker(a);
  ASSERT_TRUE(tied(one, FleetTie::follows));
  for (int i = 0; i < 10; ++i) one.admit().permit().ok();
  ASSERT_TRUE(until([&] { return one.snapshot().fleet.has_value(); })) << "its vote";
  const auto scripts = [&] {
    const std::string stats = server_.execute({"INFO", "commandstats"});
    const std::string name = "cmdstat_evalsha:calls=";
    const std::size_t at = stats.find(name);
    return at == std::string::npos ? 0 : std::stoi(stats.substr(at + name.size()));
  };
  const auto commands = [&] {
    const std::string stats = server_.execute({"INFO", "stats"});
    const std::string name = "total_commands_processed:";
    return std::stoll(stats.substr(stats.find(name) + name.size()));
  };
  const long long idle_from = commands();
  std::this_thread::sleep_for(2s);
  const long long idle = commands() - idle_from;
  const int before = scripts();
  const long long busy_from = commands();
  const auto begun = std::chrono::steady_clock::now();
  int calls = 0;
  // 10,000 calls a second, or what this machine gives.
  for (auto next = begun; next < begun + 2s; next += 1ms) {
    std::this_thread::sleep_until(next);
    for (int i = 0; i < 10; ++i, ++calls) one.admit().permit().ok();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
  const long long busy = commands() - busy_from;
  std::printf("the store saw %lld commands in 2 s without a call, and %lld in %.1f s with %d\n",
              idle, busy, took.count(), calls);
  EXPECT_EQ(calls, 20'000);
  // A reading of everything in 2 s, a vote in 18, a heartbeat, and what a new connection takes.
  EXPECT_LE(scripts() - before, 50 + 5 * took.count());
  EXPECT_LE(busy, 100 + 100 * took.count()) << "looks, readings and heartbeats";
}

TEST_F(SharedBreaker, TheStoreKilledInTheMiddleLeavesEachItsOwn) {
  Guard a = open();
  Guard b = open();
  Breaker one = breaker(a);
  Breaker two = breaker(b);
  ASSERT_TRUE(tied(one, FleetTie::follows) && tied(two, FleetTie::follows));
  fail(one, 3);
  ASSERT_TRUE(reached(two, BreakerState::open));
  server_.kill();
  ASSERT_TRUE(tied(one, FleetTie::alone) && tied(two, FleetTie::alone));
  EXPECT_NE(a.impl().shared()->state_json().find("\"connected\":false"), std::string::npos);
  // Each probes by itself, and closes by itself.
  EXPECT_TRUE(closes(one));
  EXPECT_TRUE(closes(two));
  // And opens by itself.
  fail(two, 3);
  EXPECT_EQ(two.state(), BreakerState::open);
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(one.state(), BreakerState::closed);
  EXPECT_TRUE(closes(two));
  // It is back, with nothing in it: they go together again. Both have calls to speak of, so that
  // one alone opens it for the other only where the dependency itself said so.
  server_.start();
  ASSERT_TRUE(tied(one, FleetTie::follows) && tied(two, FleetTie::follows));
  one.admit().permit().report(CallVerdict::open_for(1s));
  EXPECT_TRUE(reached(two, BreakerState::open));
}

// Whose answer is then lost, or comes when there is nothing left to answer.
TEST_F(SharedBreaker, TheStoreKilledWhileAProbeIsOutWedgesNobodyAndCountsItOnce) {
  Guard a = open();
  Guard b = open();
  Breaker one = breaker(a);
  Breaker two = breaker(b);
  for (const std::optional<Outcome> end :
       {std::optional(Outcome::ok), std::optional(Outcome::failure), std::optional<Outcome>()}) {
    SCOPED_TRACE(end ? to_string(*end) : "dropped");
    ASSERT_TRUE(tied(one, FleetTie::follows) && tied(two, FleetTie::follows));
    one.admit().permit().report(CallVerdict::open_for(700ms));
    ASSERT_TRUE(reached(two, BreakerState::open));
    Permit probe;
    ASSERT_TRUE(until([&] {
      if (Admission admission = one.admit()) probe = std::move(admission.permit());
      return probe.is_probe();
    }));
    server_.kill();
    ASSERT_TRUE(tied(one, FleetTie::alone) && tied(two, FleetTie::alone));
    const auto counted = [&] {
      const BreakerSnapshot shot = one.snapshot();
      return shot.ok + shot.failed + shot.late;
    };
    // It is heard of once the store says whether it counted, which this one never will.
    const std::uint64_t before = counted();
    if (end) probe.report(*end);
    probe = Permit();
    EXPECT_TRUE(closes(two)) << "nobody's probe is in its way";
    EXPECT_TRUE(until([&] { return one.admit().admitted(); })) << "nor in its own worker's";
    server_.start();
    ASSERT_TRUE(tied(one, FleetTie::follows) && tied(two, FleetTie::follows));
    EXPECT_TRUE(until([&] { return counted() == before + (end ? 1 : 0); })) << counted() - before;
    EXPECT_TRUE(closes(one));
    EXPECT_TRUE(closes(two));
  }
}

TEST_F(SharedBreaker, AHungStoreHoldsACallNoLongerThanItsDeadline) {
  Guard a = open("200ms");
  Breaker one = breaker(a);
  ASSERT_TRUE(tied(one, FleetTie::follows));
  fail(one, 3);
  ASSERT_TRUE(until([&] { return one.snapshot().fleet.has_value(); }));
  std::this_thread::sleep_for(750ms);
  server_.pause();
  const auto begun = std::chrono::steady_clock::now();
  (void)one.admit();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, kPatience);
  ASSERT_TRUE(tied(one, FleetTie::alone));
  EXPECT_TRUE(closes(one)) << "by its own probes";
  server_.resume();
  EXPECT_TRUE(tied(one, FleetTie::follows));
}

TEST_F(SharedBreaker, StaysOpenByItsOwnClockWhereTheRecordIsDeleted) {
  Guard a = open();
  Guard b = open();
  Breaker one = breaker(a);
  Breaker two = breaker(b);
  ASSERT_TRUE(tied(one, FleetTie::follows) && tied(two, FleetTie::follows));
  one.trip(200s);
  ASSERT_TRUE(reached(two, BreakerState::open));
  // The other one may hear of it before the answer is here.
  const auto epoch = [](const Breaker& each) {
    const auto fleet = each.snapshot().fleet;
    return fleet ? fleet->epoch : 0;
  };
  ASSERT_TRUE(until([&] { return epoch(one) != 0 && epoch(one) == epoch(two); }));
  const std::uint64_t before = epoch(one);
  server_.execute({"DEL", record()});
  // Whoever opened by itself says so anew, which makes another record.
  const auto noticed = [before](const Breaker& each) {
    const auto fleet = each.snapshot().fleet;
    return !fleet || fleet->epoch != before;
  };
  ASSERT_TRUE(until([&] { return noticed(one) && noticed(two); }));
  for (Breaker* each : {&one, &two}) {
    EXPECT_EQ(each->state(), BreakerState::open);
    EXPECT_GT(each->snapshot().until_probe, 3s);
  }
}

TEST_F(SharedBreaker, WhatAnOperatorSetsIsSetForBothAndForWhoComesLater) {
  Guard a = open();
  Guard b = open();
  Breaker one = breaker(a);
  Breaker two = breaker(b);
  ASSERT_TRUE(tied(one, FleetTie::follows) && tied(two, FleetTie::follows));
  one.set_mode(BreakerMode::forced_open);
  ASSERT_TRUE(until([&] { return two.mode() == BreakerMode::forced_open; }));
  Guard c = open();
  Breaker three = breaker(c);
  ASSERT_TRUE(until([&] { return three.mode() == BreakerMode::forced_open; }));
  ASSERT_TRUE(a.reload(a.policy()).has_value());
  EXPECT_EQ(one.mode(), BreakerMode::forced_open);
  server_.execute({"DEL", record()});
  ASSERT_TRUE(until([&] { return server_.text({"EXISTS", record()}) == "1"; })) << "put back";
  three.set_mode(BreakerMode::automatic);
  EXPECT_TRUE(until([&] {
    return one.mode() == BreakerMode::automatic && two.mode() == BreakerMode::automatic;
  }));
  EXPECT_TRUE(one.admit());
}

TEST_F(SharedBreaker, AReloadThatSharesItNoMoreLeavesItItsOwn) {
  Guard a = open();
  Breaker one = breaker(a);
  ASSERT_TRUE(tied(one, FleetTie::follows));
  const std::string url = "redis://127.0.0.1:" + std::to_string(server_.port());
  ASSERT_TRUE(a.reload(Policy::parse("store: {url: '" + url +
                                     "', deadline: 5s}\n"
                                     "breakers: {payments: {consecutive_failures: 3, failure_rate: "
                                     "off, window: {calls: 10}, minimum_calls: 4}}\n")
                           .value())
                  .has_value());
  EXPECT_EQ(one.snapshot().tie, FleetTie::none);
}

TEST_F(SharedBreaker, HandlesOutliveTheirGuard) {
  std::optional<Breaker> kept;
  {
    Guard a = open();
    kept = breaker(a);
    ASSERT_TRUE(tied(*kept, FleetTie::follows));
    fail(*kept, 3);
  }
  EXPECT_EQ(kept->snapshot().tie, FleetTie::none);
  EXPECT_TRUE(closes(*kept));
}

TEST(SharedBreakerOnMemory, IsOfOneProcessAndNothingElse) {
  Guard guard =
      Guard::open(Policy::parse("breakers: {payments: {shared: true}}\n").value()).value();
  EXPECT_EQ(guard.breaker("payments").value().snapshot().tie, FleetTie::none);
}

}  // namespace
}  // namespace weir
