#include "weir/concurrency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "breaker/lease_table.h"
#include "testing/manual_clock.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::ManualClock;

constexpr std::string_view kA = "aaaaaaaaaaaaaaaa";
constexpr std::string_view kB = "bbbbbbbbbbbbbbbb";
constexpr std::string_view kC = "cccccccccccccccc";
constexpr std::string_view kD = "dddddddddddddddd";

struct LimitRig {
  explicit LimitRig(std::uint32_t limit, std::uint32_t max_waiting = 100)
      : all(Concurrency::make(
                "reports",
                {.limit = limit, .lease = 2s, .max_hold = 10s, .max_waiting = max_waiting}, &clock)
                .value()) {}
  std::uint64_t held() { return all.snapshot().held; }
  bool lease(std::string_view id, std::uint32_t weight = 1) {
    return static_cast<bool>(all.lease({.id = id, .weight = weight}));
  }

  ManualClock clock;
  Concurrency all;
};

TEST(Concurrency, GivesAsManySlotsAsItsLimit) {
  LimitRig rig(2);
  Slot a = rig.all.try_acquire();
  Slot b = rig.all.try_acquire();
  Slot c = rig.all.try_acquire();
  EXPECT_TRUE(a);
  EXPECT_TRUE(b);
  EXPECT_FALSE(c);
  EXPECT_EQ(c.refusal(), LeaseRefusal::full);
  a.release();
  EXPECT_TRUE(rig.all.try_acquire());
  EXPECT_EQ(rig.held(), 1U) << "what is not kept is given back";
}

TEST(Concurrency, ASlotThatMovesIsGivenBackOnce) {
  LimitRig rig(3);
  Slot a = rig.all.try_acquire(2);
  Slot b = std::move(a);
  a.release();  // NOLINT(bugprone-use-after-move): what is asserted
  EXPECT_EQ(rig.held(), 2U);
  b = rig.all.try_acquire();
  EXPECT_EQ(rig.held(), 1U);
  b.release();
  b.release();
  EXPECT_EQ(rig.held(), 0U);
}

TEST(Concurrency, WeightsCount) {
  LimitRig rig(5);
  Slot heavy = rig.all.try_acquire(3);
  EXPECT_FALSE(rig.all.try_acquire(3));
  EXPECT_TRUE(rig.all.try_acquire(2));
  EXPECT_EQ(rig.all.try_acquire(6).refusal(), LeaseRefusal::never_fits);
  EXPECT_EQ(rig.all.try_acquire(0).refusal(), LeaseRefusal::never_fits);
  EXPECT_EQ(rig.all.acquire(6, 1h).refusal(), LeaseRefusal::never_fits) << "at once";
}

TEST(Concurrency, ALimitThatIsLoweredIsReachedAsUnitsComeBack) {
  LimitRig rig(4);
  std::vector<Slot> slots;
  for (int i = 0; i < 4; ++i) slots.push_back(rig.all.try_acquire());
  ASSERT_TRUE(rig.all.configure({.limit = 2}).has_value()) << "does not wait for anybody";
  slots.pop_back();
  slots.pop_back();
  EXPECT_FALSE(rig.all.try_acquire());
  slots.pop_back();
  EXPECT_TRUE(rig.all.try_acquire());
}

TEST(Concurrency, NonsenseIsRefusedWithItsField) {
  const auto no = Concurrency::make("reports", {.limit = 0, .lease = 5s, .max_hold = 1s});
  ASSERT_FALSE(no.has_value());
  EXPECT_EQ(no.error().message,
            "concurrency reports: limit: 0 lets nothing through; allowed: 1 to 1000000\n"
            "concurrency reports: max_hold: 1s is less than lease of 5s; allowed: at least lease");
}

TEST(ConcurrencyLease, OfAHolderThatDiedIsFreeAfterItsTimeAndNotBefore) {
  // apisix 12823: a counter that a killed holder leaves behind never comes down
  LimitRig rig(3);
  ASSERT_TRUE(rig.lease(kA) && rig.lease(kB) && rig.lease(kC));
  rig.clock.advance(2s - 1ns);
  EXPECT_FALSE(rig.lease(kD));
  rig.clock.advance(1ns);
  EXPECT_TRUE(rig.lease(kD));
  EXPECT_EQ(rig.all.snapshot().leases_expired, 3U);
}

TEST(ConcurrencyLease, SaysWhenTheNextOneEnds) {
  LimitRig rig(1);
  ASSERT_TRUE(rig.lease(kA));
  rig.clock.advance(500ms);
  const LeaseAnswer no = rig.all.lease({.id = kB});
  EXPECT_EQ(no.refusal, LeaseRefusal::full);
  EXPECT_EQ(no.retry_after, Nanos(1500ms));
}

TEST(ConcurrencyLease, ReleasedTwiceFreesNobodyElses) {
  LimitRig rig(2);
  ASSERT_TRUE(rig.lease(kA) && rig.lease(kB));
  EXPECT_TRUE(rig.all.release(kA));
  EXPECT_FALSE(rig.all.release(kA));
  EXPECT_TRUE(rig.lease(kC));
  EXPECT_FALSE(rig.lease(kD));
}

TEST(ConcurrencyLease, ReleasedAfterItsTimeFreesNotWhoTookItsPlace) {
  LimitRig rig(1);
  ASSERT_TRUE(rig.lease(kA));
  rig.clock.advance(2s);
  ASSERT_TRUE(rig.lease(kC));
  EXPECT_FALSE(rig.all.release(kA));
  EXPECT_FALSE(rig.lease(kD));
}

TEST(ConcurrencyLease, AskedForTwiceWithOneIdIsTakenOnce) {
  // the reply to the first was lost
  LimitRig rig(2);
  const LeaseAnswer first = rig.all.lease({.id = kA});
  rig.clock.advance(500ms);
  const LeaseAnswer again = rig.all.lease({.id = kA});
  ASSERT_TRUE(first && again);
  EXPECT_FALSE(first.lease->repeated);
  EXPECT_TRUE(again.lease->repeated);
  EXPECT_EQ(again.lease->fence, first.lease->fence);
  EXPECT_EQ(again.lease->expires_in, Nanos(1500ms)) << "asking is not renewing";
  EXPECT_EQ(rig.held(), 1U);
  EXPECT_EQ(rig.all.lease({.id = kA, .weight = 2}).refusal, LeaseRefusal::held_otherwise);
}

TEST(ConcurrencyLease, ThatIsOverCannotBeRenewed) {
  // berater 28: one that was given to somebody else must not rise again
  LimitRig rig(1);
  ASSERT_TRUE(rig.lease(kA));
  rig.clock.advance(2s);
  EXPECT_EQ(rig.all.renew(kA).refusal, LeaseRefusal::gone);
  EXPECT_EQ(rig.held(), 0U);
  EXPECT_EQ(rig.all.renew(kB).refusal, LeaseRefusal::gone);
}

TEST(ConcurrencyLease, RenewedLastsUntilItsMaximumHold) {
  LimitRig rig(1);
  ASSERT_TRUE(rig.lease(kA));
  for (int i = 0; i < 9; ++i) {
    rig.clock.advance(1s);
    ASSERT_TRUE(rig.all.renew(kA));
  }
  EXPECT_EQ(rig.all.renew(kA).lease->expires_in, Nanos(1s)) << "10 s after it was given";
  rig.clock.advance(1s);
  EXPECT_EQ(rig.all.renew(kA).refusal, LeaseRefusal::gone);
}

TEST(ConcurrencyLease, FencesGrowAlsoPastARestart) {
  ManualClock clock;
  std::uint64_t last = 0;
  for (int process = 0; process < 3; ++process) {
    Concurrency all = Concurrency::make("reports", {.limit = 100}, &clock).value();
    for (int i = 0; i < 50; ++i) {
      const std::uint64_t fence = all.lease({}).lease->fence;
      EXPECT_GT(fence, last);
      last = fence;
    }
    clock.advance(1ms);
  }
}

TEST(ConcurrencyLease, IdsOfOurOwnAreLongAndNeverAlike) {
  LimitRig rig(1'000);
  std::set<std::string> ids;
  for (int i = 0; i < 1'000; ++i) ids.insert(rig.all.lease({}).lease->id);
  EXPECT_EQ(ids.size(), 1'000U);
  for (const std::string& id : ids) EXPECT_EQ(id.size(), 32U);
}

TEST(ConcurrencyLease, IdsThatCouldBeGuessedOrHarmAreRefused) {
  LimitRig rig(10);
  for (std::string_view id :
       {"short", "0123456789abcde", "0123456789abcdef\n", "0123456789 abcdef"})
    EXPECT_EQ(rig.all.lease({.id = id}).refusal, LeaseRefusal::invalid_id) << id;
  EXPECT_EQ(rig.all.lease({.id = std::string(65, 'x')}).refusal, LeaseRefusal::invalid_id);
  EXPECT_EQ(rig.held(), 0U);
}

TEST(Concurrency, AnEmptyIdIsNoId) {
  LimitRig rig(2);
  EXPECT_EQ(rig.all.lease({.id = ""}).refusal, LeaseRefusal::invalid_id);
}

TEST(Concurrency, AskingAgainGivesWhatIsHeldAlsoOnceTheLimitIsLower) {
  LimitRig rig(2);
  ASSERT_TRUE(rig.all.lease({.id = kA, .weight = 2}));
  ConcurrencyConfig lower = rig.all.config();
  lower.limit = 1;
  ASSERT_TRUE(rig.all.configure(lower));
  const LeaseAnswer again = rig.all.lease({.id = kA, .weight = 2});
  ASSERT_TRUE(again) << to_string(again.refusal);
  EXPECT_TRUE(again.lease->repeated);
  EXPECT_EQ(rig.all.lease({.id = kB, .weight = 2}).refusal, LeaseRefusal::never_fits);
}

TEST(Concurrency, ItsNumbersCountNothingThatIsOverWithoutAnybodyAsking) {
  LimitRig rig(2);
  ASSERT_TRUE(rig.all.lease({.id = kA}));
  rig.clock.advance(std::chrono::hours(1));
  const ConcurrencySnapshot shot = rig.all.snapshot();
  EXPECT_EQ(shot.held, 0U);
  EXPECT_EQ(shot.leases, 0U);
  EXPECT_EQ(shot.leases_expired, 1U);
}

TEST(ConcurrencyLease, AWallClockThatStepsChangesNothing) {
  LimitRig rig(1);
  ASSERT_TRUE(rig.lease(kA));
  rig.clock.step_wall(1h);
  EXPECT_FALSE(rig.lease(kB));
  rig.clock.step_wall(-2h);
  rig.clock.advance(2s);
  EXPECT_TRUE(rig.lease(kB));
}

TEST(LeaseTable, EndsNoMoreAtOnceThanItIsToldAndThoseThatEndedFirstFirst) {
  breaker::LeaseTable table;
  const MonoTime start{1h};
  for (std::uint32_t i = 0; i < 1'000; ++i)
    table.add("lease" + std::to_string(i), {.weight = 2, .ends = start + Nanos(i)});
  const auto first = table.sweep(start + 1s, 300);
  EXPECT_EQ(first.leases, 300U);
  EXPECT_EQ(first.units, 600U);
  EXPECT_EQ(table.find("lease299"), nullptr);
  ASSERT_NE(table.find("lease300"), nullptr);
  EXPECT_EQ(table.next_end(), start + Nanos(300));
  EXPECT_EQ(table.sweep(start + Nanos(400), 300).leases, 101U) << "and no more than are over";
  EXPECT_EQ(table.size(), 599U);
}

// However many leases end together, a call ends a few, or as many as it needs: a lane has other
// callers. What is over is nobody's all the same.
struct ManyThatAreOver {
  static constexpr std::uint32_t kLeases = 2'000;
  ManyThatAreOver() {
    for (std::uint32_t i = 0; i < kLeases; ++i) EXPECT_TRUE(rig.lease(id(i)));
    EXPECT_FALSE(rig.lease(kA));
    rig.clock.advance(2s);
  }
  static std::string id(std::uint32_t i) { return "holder-" + std::to_string(1'000'000'000 + i); }

  LimitRig rig{kLeases};
};

TEST(ConcurrencyLease, OfManyThatEndTogetherNoneCanBeRenewedOrReleased) {
  ManyThatAreOver many;
  for (const std::uint32_t i : {many.kLeases - 1, many.kLeases / 2, 0U}) {
    EXPECT_EQ(many.rig.all.renew(many.id(i)).refusal, LeaseRefusal::gone) << i;
    EXPECT_FALSE(many.rig.all.release(many.id(i))) << i;
  }
  EXPECT_EQ(many.rig.held(), 0U);
  EXPECT_EQ(many.rig.all.snapshot().leases_expired, many.kLeases) << "each once";
}

TEST(ConcurrencyLease, OfManyThatEndTogetherAnIdIsGivenAnew) {
  ManyThatAreOver many;
  for (const std::uint32_t i : {many.kLeases - 1, 0U}) {
    const LeaseAnswer again = many.rig.all.lease({.id = many.id(i), .weight = 2});
    ASSERT_TRUE(again) << "of another weight, for it is another lease";
    EXPECT_FALSE(again.lease->repeated);
    EXPECT_GT(again.lease->fence, many.kLeases);
  }
  EXPECT_EQ(many.rig.held(), 4U);
}

TEST(ConcurrencyLease, OfManyThatEndTogetherAsManyEndAsOneCallNeeds) {
  ManyThatAreOver slots;
  EXPECT_TRUE(slots.rig.all.try_acquire(slots.kLeases));
  ManyThatAreOver leases;
  EXPECT_TRUE(leases.rig.lease(kA, leases.kLeases));
  ManyThatAreOver waits;
  EXPECT_TRUE(waits.rig.all.acquire(waits.kLeases, 60s));
  ManyThatAreOver looks;
  EXPECT_EQ(looks.rig.held(), 0U);
  EXPECT_EQ(looks.rig.all.snapshot().leases_expired, looks.kLeases);
}

TEST(ConcurrencyWait, IsServedInOrder) {
  LimitRig rig(1);
  Slot first = rig.all.try_acquire();
  std::vector<int> order;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Slot mine = rig.all.acquire(1, 60s);
      EXPECT_TRUE(mine);
      order.push_back(i);  // one at a time: the limit is 1
    });
    while (rig.all.snapshot().waiting != static_cast<std::uint64_t>(i) + 1)
      std::this_thread::yield();
  }
  EXPECT_EQ(rig.all.try_acquire().refusal(), LeaseRefusal::full);
  first.release();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(rig.held(), 0U);
  EXPECT_TRUE(rig.all.try_acquire()) << "the queue is gone";
}

TEST(ConcurrencyWait, IsNotOvertakenBySomebodyWhoDoesNotWait) {
  LimitRig rig(3);
  Slot held = rig.all.try_acquire(2);
  std::thread heavy([&] { EXPECT_TRUE(rig.all.acquire(3, 60s)); });
  while (rig.all.snapshot().waiting != 1) std::this_thread::yield();
  EXPECT_FALSE(rig.all.try_acquire(1)) << "the one unit left is not enough for the first in line";
  held.release();
  heavy.join();
}

TEST(ConcurrencyWait, EndsWithTheCallersPatience) {
  LimitRig rig(1);
  Slot held = rig.all.try_acquire();
  EXPECT_EQ(rig.all.acquire(1, 5ms).refusal(), LeaseRefusal::timed_out);
  EXPECT_EQ(rig.all.acquire(1, 0ns).refusal(), LeaseRefusal::timed_out);
  EXPECT_EQ(rig.all.acquire(1, -1s).refusal(), LeaseRefusal::timed_out);
  EXPECT_EQ(rig.all.snapshot().waiting, 0U);
  held.release();
  EXPECT_TRUE(rig.all.try_acquire());
}

TEST(ConcurrencyWait, WhoGivesUpMakesRoomForThoseBehind) {
  LimitRig rig(3);
  Slot held = rig.all.try_acquire(2);
  std::thread heavy([&] { EXPECT_FALSE(rig.all.acquire(2, 50ms)); });
  while (rig.all.snapshot().waiting != 1) std::this_thread::yield();
  EXPECT_TRUE(rig.all.acquire(1, 60s)) << "fits as soon as the one before has given up";
  heavy.join();
}

TEST(ConcurrencyWait, IsBoundedInNumber) {
  LimitRig rig(1, 1);
  Slot held = rig.all.try_acquire();
  std::thread one([&] { EXPECT_TRUE(rig.all.acquire(1, 60s)); });
  while (rig.all.snapshot().waiting != 1) std::this_thread::yield();
  EXPECT_EQ(rig.all.acquire(1, 60s).refusal(), LeaseRefusal::queue_full);
  held.release();
  one.join();
}

TEST(ConcurrencyWait, GetsWhatALeaseThatEndsLeaves) {
  Concurrency all =
      Concurrency::make("reports", {.limit = 1, .lease = 100ms, .max_hold = 1s}).value();
  ASSERT_TRUE(all.lease({}));
  EXPECT_TRUE(all.acquire(1, 60s)) << "nobody released it";
}

TEST(ConcurrencyWait, RenewalsAreNotStarvedByThoseWhoWait) {
  // redis-semaphore 205: holders lost their leases to the polling of those who wanted them
  LimitRig rig(1);
  ASSERT_TRUE(rig.lease(kA));
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i) threads.emplace_back([&] { (void)rig.all.acquire(1, 200ms); });
  for (int i = 0; i < 8; ++i) {
    rig.clock.advance(1s);
    EXPECT_TRUE(rig.all.renew(kA));
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ConcurrencyThreads, NeverHoldMoreThanTheLimit) {
  LimitRig rig(5);
  std::atomic<std::int64_t> inside{0};
  std::atomic<std::int64_t> most{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (std::uint32_t i = 0; i < 5'000; ++i) {
        const std::uint32_t weight = 1 + (t + i) % 3;
        Slot slot = i % 5 == 0 ? rig.all.acquire(weight, 60s) : rig.all.try_acquire(weight);
        if (!slot) continue;
        const std::int64_t now = inside += weight;
        std::int64_t seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        inside -= weight;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 5);
  EXPECT_EQ(rig.held(), 0U);
  EXPECT_TRUE(rig.all.try_acquire(5)) << "nothing leaked, nobody waits";
}

TEST(KeyedConcurrency, CountsEachKeyByItself) {
  ManualClock clock;
  auto all = KeyedConcurrency::make("reports", {.limit = 1}, &clock).value();
  Slot a = all.try_acquire("a");
  EXPECT_TRUE(a);
  EXPECT_FALSE(all.try_acquire("a"));
  EXPECT_TRUE(all.try_acquire("b"));
  EXPECT_EQ(all.lease("a", {.id = kA}).refusal, LeaseRefusal::full);
  ASSERT_TRUE(all.lease("b", {.id = kA}));
  EXPECT_FALSE(all.release("a", kA)) << "another key's lease";
  EXPECT_TRUE(all.renew("b", kA));
  EXPECT_TRUE(all.release("b", kA));
  EXPECT_EQ(all.renew("nobody", kA).refusal, LeaseRefusal::gone);
}

TEST(KeyedConcurrency, KeysThatHoldNothingAreForgottenAndOthersNever) {
  ManualClock clock;
  auto all = KeyedConcurrency::make("reports", {.limit = 1}, &clock, 10).value();
  std::vector<Slot> held;
  for (int i = 0; i < 9; ++i) held.push_back(all.try_acquire("held" + std::to_string(i)));
  for (int i = 0; i < 1'000; ++i) ASSERT_TRUE(all.try_acquire("passing" + std::to_string(i)));
  ASSERT_TRUE(all.lease("leased", {.id = kA}));
  EXPECT_EQ(all.try_acquire("one more").refusal(), LeaseRefusal::too_many_keys);
  EXPECT_FALSE(all.try_acquire("held3")) << "what is held is still counted";
  EXPECT_LE(all.keys(), 10U);
  clock.advance(1h);
  EXPECT_TRUE(all.try_acquire("one more")) << "the lease is over";
}

TEST(KeyedConcurrency, AKeyWhoseLeasesAreAllOverMakesRoomHoweverManyTheyWere) {
  // Some hundreds were looked at, and the key was said to hold the others.
  constexpr std::uint32_t kLeases = 3'000;
  ManualClock clock;
  auto all =
      KeyedConcurrency::make("reports", {.limit = kLeases, .lease = 1min}, &clock, 1).value();
  for (std::uint32_t i = 0; i < kLeases; ++i) ASSERT_TRUE(all.lease("old", {}));
  EXPECT_EQ(all.try_acquire("new").refusal(), LeaseRefusal::too_many_keys);
  clock.advance(1min);
  Slot slot = all.try_acquire("new");
  ASSERT_TRUE(slot);
  EXPECT_EQ(all.try_acquire("old").refusal(), LeaseRefusal::too_many_keys);
  const ConcurrencySnapshot shot = all.snapshot();
  EXPECT_EQ(shot.held, 1U);
  EXPECT_EQ(shot.leases, 0U);
  EXPECT_EQ(shot.leases_given, kLeases);
  EXPECT_EQ(shot.leases_expired, kLeases);
}

TEST(KeyedConcurrency, AKeyWithASlotIsNotForgottenThoughItsLeasesAreOver) {
  ManualClock clock;
  auto all = KeyedConcurrency::make("reports", {.limit = 9, .lease = 1min}, &clock, 1).value();
  const Slot slot = all.try_acquire("held");
  ASSERT_TRUE(all.lease("held", {.weight = 3}));
  clock.advance(1min);
  EXPECT_EQ(all.try_acquire("new").refusal(), LeaseRefusal::too_many_keys);
}

// Somebody comes whenever anybody looks what time it is.
class InterruptedClock final : public Clock {
 public:
  Instant now() const noexcept override { return clock.now(); }
  MonoTime mono() const noexcept override {
    if (somebody) somebody();
    return clock.mono();
  }
  void sleep_until(MonoTime until) override { clock.sleep_until(until); }

  ManualClock clock;
  std::function<void()> somebody;
};

TEST(KeyedConcurrency, ItsNumbersKeepNobodyWaitingWhileTheyEndWhatIsOver) {
  InterruptedClock clock;
  auto all = KeyedConcurrency::make("reports", {.limit = 600, .lease = 1min}, &clock).value();
  for (int i = 0; i < 600; ++i) ASSERT_TRUE(all.lease("key", {}));
  clock.clock.advance(1min);
  std::vector<std::future<std::size_t>> others;
  bool served = true;
  clock.somebody = [&] {
    others.push_back(std::async(std::launch::async, [&] { return all.keys(); }));
    // Who has waited once waits in vain again.
    if (served) served = others.back().wait_for(10s) == std::future_status::ready;
  };
  const ConcurrencySnapshot shot = all.snapshot();
  clock.somebody = nullptr;
  EXPECT_EQ(shot.leases_expired, 600U);
  EXPECT_GT(others.size(), 0U);
  EXPECT_TRUE(served);
}

// What time it is, and how often that was asked.
class CountedClock final : public Clock {
 public:
  Instant now() const noexcept override { return clock.now(); }
  MonoTime mono() const noexcept override {
    ++looks;
    return clock.mono();
  }
  void sleep_until(MonoTime until) override { clock.sleep_until(until); }

  ManualClock clock;
  mutable std::atomic<std::uint64_t> looks{0};
};

TEST(KeyedConcurrency, ANewKeyWithoutRoomLooksAtAFewOthersAndNotAtAll) {
  // Keys are cheap to send: each of them must not cost a walk over all that there are.
  constexpr std::size_t kMost = 5'000;
  CountedClock clock;
  auto all = KeyedConcurrency::make("reports", {.limit = 1, .lease = 1min}, &clock, kMost).value();
  for (std::size_t i = 0; i < kMost; ++i)
    ASSERT_TRUE(all.lease("leased" + std::to_string(i), {.id = kA}));
  clock.looks = 0;
  constexpr std::size_t kAsks = 1'000;
  for (std::size_t i = 0; i < kAsks; ++i)
    ASSERT_EQ(all.try_acquire("new" + std::to_string(i)).refusal(), LeaseRefusal::too_many_keys);
  EXPECT_LE(clock.looks, kAsks * 300);
  EXPECT_EQ(all.snapshot().refused, kAsks);

  // And what came free is found, by one ask or by some more.
  ASSERT_TRUE(all.release("leased4321", kA));
  bool found = false;
  for (std::size_t i = 0; i < kMost && !found; ++i) found = bool(all.try_acquire("another"));
  EXPECT_TRUE(found);
  EXPECT_LE(all.keys(), kMost);
}

TEST(KeyedConcurrency, ASlotOutlivesItsTable) {
  Slot slot;
  {
    auto all = KeyedConcurrency::make("reports", {.limit = 1}).value();
    slot = all.try_acquire("a");
  }
  slot.release();
}

TEST(KeyedConcurrency, ManyThreadsOnFewKeysNeverExceedAnyLimit) {
  auto all = KeyedConcurrency::make("reports", {.limit = 2}, nullptr, 3).value();
  std::array<std::atomic<int>, 4> inside{};
  std::atomic<int> most{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 5'000; ++i) {
        const unsigned key = (i + t) % 4;
        Slot slot = all.try_acquire(std::to_string(key));
        if (!slot) continue;
        const int now = ++inside[key];
        int seen = most;
        while (now > seen && !most.compare_exchange_weak(seen, now)) {
        }
        --inside[key];
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 2);
  EXPECT_EQ(all.snapshot().held, 0U);
}

}  // namespace
}  // namespace weir
