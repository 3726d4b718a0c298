#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "guard/impl.h"
#include "testing/redis_server.h"
#include "testing/until.h"
#include "weir/guard.h"

// Guards, as workers of a fleet, whose concurrency limit stands on one real server.

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::kPatience;
using testing::RedisServer;

constexpr std::string_view kA = "aaaaaaaaaaaaaaaa";
constexpr std::string_view kB = "bbbbbbbbbbbbbbbb";
const Descriptor kAda[] = {{"account", "ada"}};
// Of a store that is to hang: it is found out after ten times that.
const std::string kHangs = "500ms";

class SharedLease : public ::testing::Test {
 protected:
  // One of three workers, whose parts of nine are three each. By default no answer is late, and no
  // lease over, on a machine that is busy with something else.
  Guard open(int index, const std::string& numbers = "limit: 9, lease: 60s, max_hold: 120s",
             const std::string& deadline = "5s") {
    Guard guard = Guard::open(Policy::parse(text(index, numbers, deadline)).value()).value();
    EXPECT_TRUE(until([&] { return answers(guard); }));
    return guard;
  }
  std::string text(int index, const std::string& numbers, const std::string& deadline = "5s") {
    return "store: {url: 'redis://127.0.0.1:" + std::to_string(server_.port()) +
           "', deadline: " + deadline + ", workers: {of: 3, index: " + std::to_string(index) +
           "}}\ninputs: [account]\nconcurrency:\n  reports: {" + numbers +
           ", by: account, shared: true}\n";
  }
  static bool answers(Guard& guard) {
    return guard.impl().safeguards().limits().at(0).store_answers;
  }
  static ConcurrencySnapshot shot(Guard& guard) { return guard.impl().safeguards().limits().at(0); }
  // A store that hangs is found out after ten seconds.
  static bool until(const std::function<bool()>& done) {
    return testing::until(done, 3 * kPatience);
  }
  static LeaseAnswer lease(Guard& guard, LeaseRequest request = {}) {
    return guard.lease("reports", kAda, request).value();
  }
  static int leases(Guard& guard, int times) {
    int given = 0;
    for (int i = 0; i < times; ++i) given += lease(guard) ? 1 : 0;
    return given;
  }
  // The server knows the script: the first of all asks is sent twice.
  static void warm_up(Guard& guard) {
    ASSERT_TRUE(lease(guard, {.id = kB}));
    ASSERT_TRUE(guard.release_lease("reports", kAda, kB).value());
  }
  // Units that stand in the store.
  int stored() {
    int sum = 0;
    for (const std::string& key : server_.keys("*!ends"))
      sum += std::stoi(server_.text({"ZCARD", key}));
    return sum;
  }

  RedisServer server_;
};

TEST_F(SharedLease, IsOneLimitForAllWorkers) {
  Guard a = open(0);
  Guard b = open(1);
  int given = 0;
  for (int i = 0; i < 10; ++i) given += leases(a, 1) + leases(b, 1);
  EXPECT_EQ(given, 9);
  EXPECT_EQ(lease(a).refusal, LeaseRefusal::full);
  EXPECT_TRUE(b.lease("reports", std::vector<Descriptor>{{"account", "bob"}}, {}).value())
      << "another account's";
  for (const std::string& key : server_.keys()) EXPECT_NE(server_.text({"PTTL", key}), "-1") << key;
}

TEST_F(SharedLease, WhatOneGaveAnotherRenewsAndReleases) {
  Guard a = open(0);
  Guard b = open(1);
  const LeaseAnswer first = lease(a, {.id = kA, .weight = 2});
  ASSERT_TRUE(first);
  const LeaseAnswer again = lease(b, {.id = kA, .weight = 2});
  ASSERT_TRUE(again);
  EXPECT_TRUE(again.lease->repeated);
  EXPECT_EQ(again.lease->fence, first.lease->fence);
  EXPECT_EQ(lease(b, {.id = kA}).refusal, LeaseRefusal::held_otherwise);
  EXPECT_TRUE(b.renew_lease("reports", kAda, kA).value());
  EXPECT_TRUE(b.release_lease("reports", kAda, kA).value());
  EXPECT_FALSE(a.renew_lease("reports", kAda, kA).value());
  EXPECT_EQ(stored(), 0);
}

TEST_F(SharedLease, AHolderThatDiesFreesItsUnitsWithinTheLease) {
  Guard a = open(0, "limit: 3, lease: 5s, max_hold: 10s");
  EXPECT_EQ(leases(a, 3), 3);
  EXPECT_FALSE(lease(a));
  EXPECT_TRUE(until([&] { return static_cast<bool>(lease(a)); }));
}

TEST_F(SharedLease, FencesOfTheWholeFleetGoUp) {
  Guard a = open(0);
  Guard b = open(1);
  std::uint64_t last = 0;
  for (int i = 0; i < 4; ++i) {
    for (Guard* guard : {&a, &b}) {
      const LeaseAnswer answer = lease(*guard);
      ASSERT_TRUE(answer);
      EXPECT_GT(answer.lease->fence, last);
      last = answer.lease->fence;
    }
  }
}

TEST_F(SharedLease, WithoutTheStoreEachGivesItsPartAndAfterwardsNoneIsCountedTwice) {
  // Three workers, limit nine: in the outage each at most three; healed, at most nine in all.
  Guard a = open(0);
  Guard b = open(1);
  Guard c = open(2);
  Guard* const all[] = {&a, &b, &c};
  server_.kill();
  ASSERT_TRUE(until([&] {
    return std::none_of(std::begin(all), std::end(all), [](Guard* g) { return answers(*g); });
  }));
  for (Guard* guard : all) {
    EXPECT_EQ(leases(*guard, 10), 3);
    EXPECT_EQ(lease(*guard).refusal, LeaseRefusal::full);
    EXPECT_EQ(lease(*guard, {.weight = 4}).refusal, LeaseRefusal::store_away)
        << "more than the part: nobody here can say";
    EXPECT_EQ(shot(*guard).untold, 3U);
  }
  server_.start();
  ASSERT_TRUE(until([&] {
    return std::all_of(std::begin(all), std::end(all), [](Guard* g) { return answers(*g); });
  }));
  ASSERT_TRUE(until([&] { return stored() == 9; })) << stored();
  EXPECT_FALSE(lease(a));
  for (Guard* guard : all) EXPECT_TRUE(until([&] { return shot(*guard).untold == 0; }));
  EXPECT_EQ(stored(), 9) << "told once";
}

TEST_F(SharedLease, WhatItHeldBeforeCountsAgainstItsPart) {
  Guard a = open(0);
  EXPECT_EQ(leases(a, 2), 2);
  server_.kill();
  ASSERT_TRUE(until([&] { return !answers(a); }));
  EXPECT_EQ(leases(a, 5), 1);
}

TEST_F(SharedLease, ALeaseGivenBeforeIsRenewedAndReleasedWithoutTheStore) {
  // Nobody asks: that it hangs is noticed by the next beat.
  Guard a = open(0, "limit: 9, lease: 60s, max_hold: 60s", kHangs);
  Guard b = open(1, "limit: 9, lease: 60s, max_hold: 60s", kHangs);
  ASSERT_TRUE(lease(a, {.id = kA}));
  ASSERT_TRUE(lease(a, {.id = kB}));
  server_.pause();
  ASSERT_TRUE(until([&] { return !answers(a) && !answers(b); }));
  const LeaseAnswer renewed = a.renew_lease("reports", kAda, kA).value();
  ASSERT_TRUE(renewed);
  EXPECT_TRUE(renewed.lease->without_store);
  EXPECT_EQ(b.renew_lease("reports", kAda, kA).value().refusal, LeaseRefusal::store_away)
      << "b does not know it, and says neither yes nor no";
  EXPECT_EQ(b.release_lease("reports", kAda, kA).error().code, ErrorCode::unavailable);
  EXPECT_TRUE(a.release_lease("reports", kAda, kB).value());
  server_.resume();
  ASSERT_TRUE(until([&] { return answers(a) && answers(b); }));
  EXPECT_TRUE(until([&] { return stored() == 1; })) << "the release was told";
  EXPECT_TRUE(b.renew_lease("reports", kAda, kA).value()) << "the renewal, too";
}

TEST_F(SharedLease, WhatTheStoreGaveTooLateIsGivenBack) {
  Guard a = open(0, "limit: 2, lease: 10s, max_hold: 20s", kHangs);
  warm_up(a);
  // The part of two over three is one, or none: a weight of two has to be refused without the
  // store.
  server_.pause();
  EXPECT_EQ(lease(a, {.id = kA, .weight = 2}).refusal, LeaseRefusal::store_away);
  server_.resume();
  EXPECT_TRUE(until([&] { return answers(a) && lease(a, {.id = kB, .weight = 2}); }))
      << "the late grant is in nobody's way";
}

TEST_F(SharedLease, AskedAgainWhileTheFirstAnswerIsLateItIsHeldOnceAndStands) {
  // acquire timed out but was granted: asking again with the same id leaves one in flight
  const std::string numbers = "limit: 2, lease: 30s, max_hold: 60s";
  Guard a = open(0, numbers, "1s");
  Guard b = open(1, numbers, "1s");
  warm_up(a);
  server_.pause();
  EXPECT_EQ(lease(a, {.id = kA, .weight = 2}).refusal, LeaseRefusal::store_away);
  // The first is still on its way when this is asked.
  std::promise<LeaseAnswer> second;
  a.lease_async("reports", kAda, {.id = kA, .weight = 2},
                [&](const Result<LeaseAnswer>& answer) { second.set_value(answer.value()); });
  server_.resume();
  const LeaseAnswer again = second.get_future().get();
  ASSERT_TRUE(again) << to_string(again.refusal);
  ASSERT_TRUE(until([&] { return shot(a).untold == 0; })) << "whatever was to be told went out";
  EXPECT_TRUE(a.renew_lease("reports", kAda, kA).value()) << "nobody gave it back";
  EXPECT_EQ(lease(b, {.id = kB, .weight = 2}).refusal, LeaseRefusal::full);
  EXPECT_EQ(stored(), 1);
  EXPECT_TRUE(a.release_lease("reports", kAda, kA).value());
  EXPECT_TRUE(lease(b, {.id = kB, .weight = 2}));
}

TEST_F(SharedLease, AnIdThatWasReleasedAndGivenAgainWithoutTheStoreIsTheNewLeaseThere) {
  Guard a = open(0, "limit: 9, lease: 60s, max_hold: 120s", kHangs);
  const LeaseAnswer first = lease(a, {.id = kA});
  ASSERT_TRUE(first);
  server_.pause();
  ASSERT_TRUE(until([&] { return !answers(a); }));
  ASSERT_TRUE(a.release_lease("reports", kAda, kA).value());
  EXPECT_FALSE(a.release_lease("reports", kAda, kA).value()) << "it is over, and known to be";
  EXPECT_EQ(a.renew_lease("reports", kAda, kA).value().refusal, LeaseRefusal::gone);
  const LeaseAnswer second = lease(a, {.id = kA, .weight = 2});
  ASSERT_TRUE(second);
  EXPECT_FALSE(second.lease->repeated);
  EXPECT_GT(second.lease->fence, first.lease->fence);
  server_.resume();
  ASSERT_TRUE(until([&] { return answers(a) && shot(a).untold == 0; }));
  const LeaseAnswer renewed = a.renew_lease("reports", kAda, kA).value();
  ASSERT_TRUE(renewed) << "its end, told late, was the first one's";
  EXPECT_EQ(renewed.lease->fence, second.lease->fence);
  EXPECT_EQ(renewed.lease->weight, 2U);
  EXPECT_EQ(stored(), 1);
}

TEST_F(SharedLease, WaitingIsBoundedInNumberAndInOrder) {
  Guard a = open(0, "limit: 1, lease: 30s, max_hold: 60s, max_waiting: 2");
  Slot held = a.acquire("reports", kAda).value();
  ASSERT_TRUE(held);
  std::vector<std::future<Slot>> waiting;
  for (std::size_t i = 0; i < 2; ++i) {
    waiting.push_back(std::async(
        std::launch::async, [&] { return a.acquire("reports", kAda, {.patience = 60s}).value(); }));
    ASSERT_TRUE(until([&] { return shot(a).waiting == i + 1; }));
  }
  EXPECT_EQ(a.acquire("reports", kAda, {.patience = 60s}).value().refusal(),
            LeaseRefusal::queue_full);
  EXPECT_EQ(a.acquire("reports", kAda).value().refusal(), LeaseRefusal::full) << "it does not wait";
  EXPECT_EQ(shot(a).refused, 2U) << "one of each caller, however often the first asks";
  EXPECT_TRUE(
      a.acquire("reports", std::vector<Descriptor>{{"account", "bob"}}, {.patience = 60s}).value())
      << "another account's queue";
  held.release();
  {
    const Slot first = waiting[0].get();
    EXPECT_TRUE(first.stands());
    EXPECT_EQ(shot(a).waiting, 1U) << "the second, behind it";
  }
  EXPECT_TRUE(waiting[1].get().stands());
  EXPECT_EQ(shot(a).waiting, 0U);
}

TEST_F(SharedLease, AWaitOutlivesAStoreThatIsAwayForAWhile) {
  // Both units at once are more than any worker's part: nobody can give them without the store.
  Guard a = open(0, "limit: 2, lease: 60s, max_hold: 120s", kHangs);
  Guard b = open(1, "limit: 2, lease: 60s, max_hold: 120s", kHangs);
  Slot held = a.acquire("reports", kAda, {.weight = 2}).value();
  ASSERT_TRUE(held);
  auto waiting = std::async(std::launch::async, [&] {
    return b.acquire("reports", kAda, {.weight = 2, .patience = 60s}).value();
  });
  ASSERT_TRUE(until([&] { return shot(b).waiting == 1; }));
  server_.pause();
  ASSERT_TRUE(until([&] { return !answers(a) && !answers(b); }));
  EXPECT_EQ(b.acquire("reports", kAda, {.weight = 2}).value().refusal(), LeaseRefusal::store_away);
  EXPECT_EQ(shot(b).waiting, 1U);
  held.release();
  server_.resume();
  EXPECT_TRUE(waiting.get().stands());
}

TEST_F(SharedLease, AWaitThatEndsWithoutTheStoreSaysSo) {
  Guard a = open(0, "limit: 2, lease: 60s, max_hold: 120s");
  server_.kill();
  ASSERT_TRUE(until([&] { return !answers(a); }));
  EXPECT_EQ(a.acquire("reports", kAda, {.weight = 2, .patience = 20ms}).value().refusal(),
            LeaseRefusal::store_away);
  EXPECT_EQ(shot(a).waiting, 0U);
}

TEST_F(SharedLease, APolicyWithoutTheLimitEndsTheWaitForIt) {
  Guard a = open(0, "limit: 1, lease: 60s, max_hold: 120s");
  const Slot held = a.acquire("reports", kAda).value();
  auto waiting = std::async(std::launch::async,
                            [&] { return a.acquire("reports", kAda, {.patience = 60s}).value(); });
  ASSERT_TRUE(until([&] { return shot(a).waiting == 1; }));
  std::string other = text(0, "limit: 1");
  other.replace(other.find("reports"), 7, "exports");
  ASSERT_TRUE(a.reload(Policy::parse(other).value()));
  EXPECT_EQ(waiting.get().refusal(), LeaseRefusal::store_away);
}

TEST_F(SharedLease, ASlotWhoseLeaseIsOverBeforeItIsMadeDoesNotStand) {
  Guard a = open(0);
  const auto limit = a.impl().safeguards().limit("reports").value()->shared;
  const Slot slot = limit->slot({.key = "k", .digest = {}}, {.id = std::string(kA)});
  EXPECT_FALSE(slot.stands());
}

TEST_F(SharedLease, ASlotIsRenewedWhileItStandsAndGivenBackAfterwards) {
  // Longer than its lease, which is long beside what a busy machine is late by.
  Guard a = open(0, "limit: 1, lease: 6s, max_hold: 120s", "10s");
  Guard b = open(1, "limit: 1, lease: 6s, max_hold: 120s", "10s");
  {
    Slot slot = a.acquire("reports", kAda).value();
    ASSERT_TRUE(slot);
    const auto end = std::chrono::steady_clock::now() + 8s;
    while (std::chrono::steady_clock::now() < end) {
      EXPECT_EQ(b.acquire("reports", kAda).value().refusal(), LeaseRefusal::full);
      std::this_thread::sleep_for(50ms);
    }
    EXPECT_TRUE(slot.stands());
  }
  Slot waited = b.acquire("reports", kAda, {.patience = kPatience}).value();
  EXPECT_TRUE(waited);
  EXPECT_EQ(a.acquire("reports", kAda, {.patience = 50ms}).value().refusal(),
            LeaseRefusal::timed_out);
}

TEST_F(SharedLease, ASlotThatOutlivesItsHoldSaysSo) {
  Guard a = open(0, "limit: 1, lease: 3s, max_hold: 3s");
  Slot slot = a.acquire("reports", kAda).value();
  ASSERT_TRUE(slot.stands());
  EXPECT_TRUE(until([&] { return !slot.stands(); }));
  EXPECT_TRUE(a.acquire("reports", kAda, {.patience = kPatience}).value())
      << "and another has its place";
}

TEST_F(SharedLease, ALostStoreIsToldOfWhatStands) {
  Guard a = open(0);
  ASSERT_TRUE(lease(a, {.id = kA}));
  server_.execute({"FLUSHALL"});
  EXPECT_FALSE(a.renew_lease("reports", kAda, kA).value()) << "gone is gone: the holder hears it";
}

TEST_F(SharedLease, IdsAndWeightsAreCheckedBeforeAnybodyIsAsked) {
  Guard a = open(0);
  EXPECT_EQ(lease(a, {.id = "short"}).refusal, LeaseRefusal::invalid_id);
  EXPECT_EQ(lease(a, {.id = ""}).refusal, LeaseRefusal::invalid_id);
  EXPECT_EQ(lease(a, {.weight = 0}).refusal, LeaseRefusal::never_fits);
  EXPECT_EQ(lease(a, {.weight = 10}).refusal, LeaseRefusal::never_fits);
  EXPECT_FALSE(a.lease("reports", std::vector<Descriptor>{{"acount", "ada"}}, {}).has_value());
  std::set<std::string> ids;
  for (int i = 0; i < 9; ++i) ids.insert(lease(a).lease->id);
  EXPECT_EQ(ids.size(), 9U);
}

TEST_F(SharedLease, MetricsAndTheStorePageSaySo) {
  Guard a = open(0);
  ASSERT_TRUE(lease(a));
  std::string text;
  a.impl().metrics().write(text);
  EXPECT_NE(text.find("weir_lease_held{name=\"reports\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("weir_lease_store_answers{name=\"reports\"} 1\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace weir
