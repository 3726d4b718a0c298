#include "store/memory/memory_store.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace weir::store {
namespace {

using limit::Outcome;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Instant kStart{seconds(1'700'000'000)};

limit::Numbers numbers_of(Algorithm algorithm, std::uint64_t limit, Nanos period) {
  return limit::Numbers::make(
             {.algorithm = algorithm, .limit = limit, .period = {.length = period}})
      .value();
}

constexpr std::array kAllAlgorithms{Algorithm::gcra, Algorithm::fixed_window,
                                    Algorithm::sliding_window, Algorithm::sliding_log};

// A digest as a keyed hash would make it.
KeyDigest digest_of(std::uint64_t key) {
  const auto mixed = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  };
  return {mixed(key + 0x9E3779B97F4A7C15U), mixed(key + 0x3C6EF372FE94F82AU)};
}

Counter counter_of(const limit::Numbers& numbers, std::uint64_t key, std::uint64_t cost = 1,
                   Op op = Op::take) {
  return {.numbers = &numbers, .digest = digest_of(key), .cost = cost, .op = op};
}

// One counter asked at a time.
class Asked {
 public:
  explicit Asked(std::uint64_t max_keys) : store_(MemoryStore::open({max_keys}).value()) {}

  LocalAnswer ask(const Counter& counter) {
    return store_->decide({&counter, 1}, now, {&finding, 1});
  }
  bool allows(const Counter& counter) { return ask(counter).allowed; }
  std::uint32_t remaining(Counter counter) {
    counter.cost = 0;
    counter.op = Op::take;
    ask(counter);
    return finding.step.remaining;
  }
  MemoryStore& store() { return *store_; }

  Instant now = kStart;
  Finding finding;

 private:
  std::unique_ptr<MemoryStore> store_;
};

TEST(MemoryStore, ExpectingACounterChangesNothing) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const limit::Numbers numbers = numbers_of(algorithm, 5, seconds(60));
    Asked asked(100);
    EXPECT_TRUE(asked.allows(counter_of(numbers, 1, 2)));
    for (std::uint64_t key = 0; key < 1'000; ++key) {
      const Counter counter = counter_of(numbers, key, 5);
      asked.store().expect({&counter, 1});
    }
    asked.store().expect({});
    EXPECT_EQ(asked.store().keys(), 1U);
    EXPECT_EQ(asked.remaining(counter_of(numbers, 1)), 3U);
    EXPECT_EQ(asked.remaining(counter_of(numbers, 2)), 5U);
  }
}

TEST(MemoryStore, RefusesACapThatIsNone) {
  for (const std::uint64_t cap : {std::uint64_t{0}, MemoryStore::kMostKeys + 1}) {
    const auto store = MemoryStore::open({cap});
    ASSERT_FALSE(store.has_value());
    EXPECT_EQ(store.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(store.error().message.find(std::to_string(cap)), std::string::npos);
  }
  EXPECT_TRUE(MemoryStore::open({1}).has_value());
}

TEST(MemoryStore, ADeniedAskChargesNoneOfItsCounters) {
  const limit::Numbers wide = numbers_of(Algorithm::fixed_window, 10, hours(1));
  const limit::Numbers narrow = numbers_of(Algorithm::fixed_window, 3, hours(1));
  Asked asked(100);
  const std::array both{counter_of(wide, 1), counter_of(narrow, 2)};
  std::array<Finding, 2> findings;
  int admitted = 0;
  for (int i = 0; i < 5; ++i) {
    admitted += asked.store().decide(both, asked.now, findings).allowed ? 1 : 0;
  }
  EXPECT_EQ(admitted, 3);
  // Of each it is said truly whether it alone would have fitted, and what there is.
  EXPECT_EQ(findings[0].step.outcome, Outcome::allowed);
  EXPECT_EQ(findings[0].step.remaining, 7U);
  EXPECT_FALSE(findings[0].charged);
  EXPECT_EQ(findings[1].step.outcome, Outcome::limited);
  EXPECT_EQ(findings[1].step.remaining, 0U);
  int alone = 0;
  for (int i = 0; i < 20; ++i) alone += asked.allows(counter_of(wide, 1)) ? 1 : 0;
  EXPECT_EQ(alone, 7);
}

TEST(MemoryStore, ADenialBurnsNothingAndARaisedLimitHoldsAtOnce) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const limit::Numbers ten = numbers_of(algorithm, 10, hours(1));
    const limit::Numbers twenty = numbers_of(algorithm, 20, hours(1));
    Asked asked(100);
    EXPECT_TRUE(asked.allows(counter_of(ten, 1, 8)));
    EXPECT_FALSE(asked.allows(counter_of(ten, 1, 5)));
    EXPECT_EQ(asked.finding.step.remaining, 2U);
    EXPECT_TRUE(asked.allows(counter_of(ten, 1, 2)));
    for (int i = 0; i < 40; ++i) EXPECT_FALSE(asked.allows(counter_of(ten, 1)));
    int more = 0;
    for (int i = 0; i < 40; ++i) {
      Counter counter = counter_of(twenty, 1);
      counter.generation = 2;
      more += asked.allows(counter) ? 1 : 0;
    }
    EXPECT_EQ(more, 10) << to_string(algorithm);
  }
}

TEST(MemoryStore, AnAskOfAnOlderLoadIsAnsweredUnderTheNewerNumbers) {
  const limit::Numbers ten = numbers_of(Algorithm::gcra, 10, hours(1));
  const limit::Numbers five = numbers_of(Algorithm::gcra, 5, hours(1));
  Asked asked(100);
  Counter older = counter_of(ten, 1);
  older.generation = 1;
  Counter newer = counter_of(five, 1);
  newer.generation = 2;
  EXPECT_TRUE(asked.allows(older));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(asked.allows(newer));
    EXPECT_EQ(asked.finding.step.remaining, 3U - i);
    if (i < 2) continue;
    EXPECT_TRUE(asked.allows(older));
    EXPECT_EQ(asked.finding.step.remaining, 0U);
  }
  EXPECT_FALSE(asked.allows(older));
}

TEST(MemoryStore, ALimitThatComesBackInALaterLoadHolds) {
  const limit::Numbers ten = numbers_of(Algorithm::gcra, 10, hours(1));
  const limit::Numbers five = numbers_of(Algorithm::gcra, 5, hours(1));
  Asked asked(100);
  std::uint32_t load = 0;
  for (const limit::Numbers* numbers : {&ten, &five, &ten}) {
    Counter counter = counter_of(*numbers, 1);
    counter.generation = ++load;
    EXPECT_TRUE(asked.allows(counter));
    EXPECT_EQ(asked.finding.step.remaining, numbers->limit - load);
  }
}

TEST(MemoryStore, AProbeNeverWrites) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const limit::Numbers three = numbers_of(algorithm, 3, hours(1));
    Asked asked(100);
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(asked.allows(counter_of(three, 1, 0)));
    EXPECT_EQ(asked.store().keys(), 0U);
    EXPECT_TRUE(asked.allows(counter_of(three, 1, 3)));
    EXPECT_FALSE(asked.allows(counter_of(three, 1, 0)));
    EXPECT_FALSE(asked.finding.charged);
  }
}

TEST(MemoryStore, DrainTakesWhatIsLeftAndDeniesNothing) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const limit::Numbers ten = numbers_of(algorithm, 10, hours(1));
    Asked asked(100);
    EXPECT_TRUE(asked.allows(counter_of(ten, 1, 7)));
    EXPECT_TRUE(asked.allows(counter_of(ten, 1, 5, Op::drain)));
    EXPECT_EQ(asked.finding.units, 3U) << to_string(algorithm);
    EXPECT_EQ(asked.finding.step.outcome, Outcome::limited);
    EXPECT_TRUE(asked.allows(counter_of(ten, 1, 5, Op::drain)));
    EXPECT_FALSE(asked.finding.charged);
    EXPECT_FALSE(asked.allows(counter_of(ten, 1)));
  }
}

TEST(MemoryStore, RefundGivesBackWhatWasChargedAndNoMore) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const limit::Numbers ten = numbers_of(algorithm, 10, hours(1));
    Asked asked(100);
    Counter refund = counter_of(ten, 1, 1'000, Op::refund);
    refund.receipt = asked.now;
    EXPECT_TRUE(asked.allows(refund));  // of nothing: no key is made, nothing is minted
    EXPECT_EQ(asked.store().keys(), 0U);
    EXPECT_TRUE(asked.allows(counter_of(ten, 1, 10)));
    refund.receipt = asked.finding.step.receipt();
    refund.cost = 1;
    EXPECT_FALSE(asked.allows(counter_of(ten, 1)));
    EXPECT_TRUE(asked.allows(refund));  // at 0 remaining, when it is needed
    EXPECT_EQ(asked.finding.step.remaining, 1U) << to_string(algorithm);
    EXPECT_TRUE(asked.allows(counter_of(ten, 1)));
    EXPECT_FALSE(asked.allows(counter_of(ten, 1)));
  }
}

TEST(MemoryStore, ResetForgetsTheCounterAndItsKey) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const limit::Numbers two = numbers_of(algorithm, 2, hours(1));
    Asked asked(100);
    EXPECT_TRUE(asked.allows(counter_of(two, 1, 2)));
    EXPECT_EQ(asked.store().keys(), 1U);
    EXPECT_TRUE(asked.allows(counter_of(two, 1, 1, Op::reset)));
    EXPECT_EQ(asked.finding.step.remaining, 2U);
    EXPECT_EQ(asked.store().keys(), 0U) << to_string(algorithm);
    EXPECT_TRUE(asked.allows(counter_of(two, 1, 2)));
  }
}

TEST(MemoryStore, AShadowRuleIsChargedAndNeverDenies) {
  const limit::Numbers two = numbers_of(Algorithm::gcra, 2, hours(1));
  const limit::Numbers ten = numbers_of(Algorithm::sliding_log, 10, hours(1));
  Asked asked(100);
  std::array both{counter_of(two, 1), counter_of(ten, 2)};
  both[0].shadow = true;
  std::array<Finding, 2> findings;
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(asked.store().decide(both, asked.now, findings).allowed);
    EXPECT_EQ(findings[0].charged, i < 2);
  }
  EXPECT_EQ(findings[0].step.outcome, Outcome::limited);
  EXPECT_FALSE(asked.store().decide(both, asked.now, findings).allowed);
}

TEST(MemoryStore, ADeniedAskNeitherRefundsNorResets) {
  const limit::Numbers one = numbers_of(Algorithm::gcra, 1, hours(1));
  const limit::Numbers five = numbers_of(Algorithm::fixed_window, 5, hours(1));
  Asked asked(100);
  EXPECT_TRUE(asked.allows(counter_of(one, 1)));
  EXPECT_TRUE(asked.allows(counter_of(five, 2, 5)));
  const std::array asks{counter_of(one, 1), counter_of(five, 2, 1, Op::reset)};
  std::array<Finding, 2> findings;
  EXPECT_FALSE(asked.store().decide(asks, asked.now, findings).allowed);
  EXPECT_EQ(asked.remaining(counter_of(five, 2)), 0U);
}

TEST(MemoryStore, SixtyFourCountersOfAnAskAreOneStep) {
  const limit::Numbers two = numbers_of(Algorithm::gcra, 2, hours(1));
  Asked asked(64);
  std::vector<Counter> counters;
  for (std::uint64_t key = 0; key < kMaxCounters; ++key) counters.push_back(counter_of(two, key));
  std::vector<Finding> findings(kMaxCounters);
  EXPECT_TRUE(asked.store().decide(counters, asked.now, findings).allowed);
  EXPECT_EQ(asked.store().keys(), 64U);
  EXPECT_TRUE(asked.allows(counter_of(two, 63)));
  EXPECT_FALSE(asked.store().decide(counters, asked.now, findings).allowed);
  for (std::uint64_t key = 0; key < 63; ++key) {
    EXPECT_EQ(asked.remaining(counter_of(two, key)), 1U) << key;
  }
}

// ---- The cap
// ----------------------------------------------------------------------------------------

TEST(MemoryStore, ANewcomerAtTheCapIsToldSoAndALiveKeyStays) {
  const limit::Numbers three = numbers_of(Algorithm::gcra, 3, hours(1));
  Asked asked(10);
  for (std::uint64_t key = 0; key < 10; ++key) EXPECT_TRUE(asked.allows(counter_of(three, key)));
  for (std::uint64_t key = 10; key < 200; ++key) {
    EXPECT_EQ(asked.ask(counter_of(three, key)).outcome, LocalOutcome::exhausted);
  }
  EXPECT_EQ(asked.store().keys(), 10U);
  for (std::uint64_t key = 0; key < 10; ++key) {
    EXPECT_EQ(asked.remaining(counter_of(three, key)), 2U);
  }
}

TEST(MemoryStore, WhatChargesNothingNeedsNoRoom) {
  const limit::Numbers three = numbers_of(Algorithm::gcra, 3, hours(1));
  const limit::Numbers none = numbers_of(Algorithm::gcra, 0, hours(1));
  Asked asked(1);
  EXPECT_TRUE(asked.allows(counter_of(three, 1)));
  // A block holds, a probe answers, a cost that never fits is said to be one.
  EXPECT_EQ(asked.ask(counter_of(none, 2)).outcome, LocalOutcome::decided);
  EXPECT_EQ(asked.finding.step.outcome, Outcome::never_fits);
  EXPECT_TRUE(asked.allows(counter_of(three, 3, 0)));
  EXPECT_EQ(asked.ask(counter_of(three, 4, 9)).outcome, LocalOutcome::decided);
  EXPECT_EQ(asked.store().keys(), 1U);
}

TEST(MemoryStore, AnAskThatFindsRoomForSomeOfItsKeysChargesNone) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const limit::Numbers three = numbers_of(algorithm, 3, hours(1));
    const limit::Numbers log = numbers_of(Algorithm::sliding_log, 3, hours(1));
    Asked asked(2);
    EXPECT_TRUE(asked.allows(counter_of(three, 1)));
    const std::array asks{counter_of(three, 1), counter_of(three, 2), counter_of(log, 3)};
    std::array<Finding, 3> findings;
    EXPECT_EQ(asked.store().decide(asks, asked.now, findings).outcome, LocalOutcome::exhausted);
    EXPECT_EQ(asked.store().keys(), 1U) << to_string(algorithm);
    EXPECT_EQ(asked.remaining(counter_of(three, 1)), 2U);
    EXPECT_TRUE(asked.allows(counter_of(three, 2)));
  }
}

TEST(MemoryStore, AShadowRuleWithoutRoomDoesNotRefuse) {
  const limit::Numbers three = numbers_of(Algorithm::gcra, 3, hours(1));
  Asked asked(1);
  EXPECT_TRUE(asked.allows(counter_of(three, 1)));
  std::array both{counter_of(three, 1), counter_of(three, 2)};
  both[1].shadow = true;
  std::array<Finding, 2> findings;
  EXPECT_TRUE(asked.store().decide(both, asked.now, findings).allowed);
  EXPECT_FALSE(findings[1].charged);
  EXPECT_EQ(findings[1].step.remaining, 3U);
}

TEST(MemoryStore, RoomComesBackWhenCountersExpire) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const limit::Numbers three = numbers_of(algorithm, 3, seconds(10));
    Asked asked(50);
    for (std::uint64_t key = 0; key < 50; ++key) EXPECT_TRUE(asked.allows(counter_of(three, key)));
    EXPECT_EQ(asked.ask(counter_of(three, 99)).outcome, LocalOutcome::exhausted);
    asked.now += seconds(30);
    for (std::uint64_t key = 100; key < 150; ++key) {
      EXPECT_TRUE(asked.allows(counter_of(three, key))) << to_string(algorithm) << key;
    }
  }
}

TEST(MemoryStore, ExpiredCountersGoThoughNobodyAsksForThem) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const limit::Numbers three = numbers_of(algorithm, 3, seconds(10));
    Asked asked(2'000);
    for (std::uint64_t key = 0; key < 2'000; ++key) asked.allows(counter_of(three, key));
    EXPECT_EQ(asked.store().keys(), 2'000U);
    asked.now += seconds(30);
    for (int i = 0; i < 200'000 && asked.store().keys() > 1; ++i) {
      asked.allows(counter_of(three, 1));
    }
    EXPECT_EQ(asked.store().keys(), 1U) << to_string(algorithm);
  }
}

TEST(MemoryStore, CountersOfAClockThatWasSetBackDoNotHoldTheirRoomForever) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const limit::Numbers three = numbers_of(algorithm, 3, seconds(10));
    Asked asked(20);
    asked.now += hours(24 * 365);
    for (std::uint64_t key = 0; key < 20; ++key) asked.allows(counter_of(three, key));
    asked.now -= hours(24 * 365);
    for (std::uint64_t key = 100; key < 120; ++key) {
      EXPECT_EQ(asked.ask(counter_of(three, key)).outcome, LocalOutcome::exhausted);
    }
    asked.now += seconds(30);
    for (std::uint64_t key = 100; key < 120; ++key) {
      EXPECT_TRUE(asked.allows(counter_of(three, key))) << to_string(algorithm);
    }
  }
}

// A flood of names: memory stays within the cap, and who was exhausted before it stays so.
TEST(MemoryStore, AFloodOfKeysNeitherGrowsMemoryNorForgives) {
  const limit::Numbers three = numbers_of(Algorithm::gcra, 3, hours(1));
  Asked asked(20'000);
  EXPECT_TRUE(asked.allows(counter_of(three, 0, 3)));
  for (std::uint64_t key = 1; key <= 500'000; ++key) (void)asked.ask(counter_of(three, key));
  EXPECT_LE(asked.store().keys(), 20'000U);
  EXPECT_LE(asked.store().resident_bytes(), 20'000U * 40U);
  EXPECT_FALSE(asked.allows(counter_of(three, 0)));
}

TEST(MemoryStore, AFloodOfLogsNeitherGrowsMemoryNorForgives) {
  const limit::Numbers three = numbers_of(Algorithm::sliding_log, 3, hours(1));
  Asked asked(20'000);
  EXPECT_TRUE(asked.allows(counter_of(three, 0, 3)));
  for (std::uint64_t key = 1; key <= 200'000; ++key) (void)asked.ask(counter_of(three, key));
  EXPECT_LE(asked.store().keys(), 20'000U);
  EXPECT_LE(asked.store().resident_bytes(), (1U << 16) * 64U + 200'000U);
  EXPECT_FALSE(asked.allows(counter_of(three, 0)));
}

TEST(MemoryStore, LogsTogetherKeepNoMoreEntriesThanTheirCells) {
  const limit::Numbers many = numbers_of(Algorithm::sliding_log, 1'000'000, hours(1));
  Asked asked(10);
  std::uint64_t charged = 0;
  LocalAnswer answer{.outcome = LocalOutcome::decided, .allowed = true};
  for (; answer.outcome == LocalOutcome::decided; ++charged) {
    asked.now += Nanos(1);
    answer = asked.ask(counter_of(many, charged % 10));
    ASSERT_LT(charged, 1'000'000U);
  }
  EXPECT_LE(asked.store().resident_bytes(), (1U << 16) * 64U + 100'000U);
  EXPECT_GT(charged, 300'000U);
  // Once they are over there is room again.
  asked.now += hours(1) + seconds(2);
  EXPECT_TRUE(asked.allows(counter_of(many, 3)));
}

TEST(MemoryStore, MemoryAKeyDoesNotDependOnTheLimit) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const limit::Numbers huge = numbers_of(algorithm, 1'000'000'000, hours(1));
    Asked asked(1'000'000);
    for (std::uint64_t key = 0; key < 10'000; ++key) {
      ASSERT_TRUE(asked.allows(counter_of(huge, key)))
          << to_string(algorithm) << key << " " << int(asked.finding.step.outcome) << " "
          << asked.store().keys();
    }
    // Pages are touched whole, so what ten thousand keys take is looked at, not one.
    const std::size_t buckets = algorithm == Algorithm::sliding_log ? 4U << 20 : 0;
    EXPECT_LT(asked.store().resident_bytes() - buckets, 200U * 10'000U) << to_string(algorithm);
  }
}

}  // namespace
}  // namespace weir::store
