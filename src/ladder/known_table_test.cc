#include "ladder/known_table.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace weir::ladder {
namespace {

using limit::Numbers;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using store::Counter;
using Spent = KnownTable::Spent;

constexpr Instant kStart{seconds(1'700'000'040)};  // the start of a minute
constexpr Instant at(Nanos after) {
  return kStart + after;
}
constexpr MonoTime mono(Nanos after) {
  return MonoTime{seconds(5'000)} + after;
}

Numbers numbers(Algorithm algorithm, std::uint64_t limit, Nanos period = minutes(1)) {
  return Numbers::make({.algorithm = algorithm, .limit = limit, .period = {.length = period}})
      .value();
}

// One worker of several, spending its part of counters of one rule.
class Worker {
 public:
  Worker(const Numbers& whole, std::uint64_t rank, std::uint64_t members,
         std::size_t capacity = 1'000)
      : whole_(whole),
        place_{rank, members},
        part_(limit::part_numbers(whole, place_)),
        table_(capacity, 1) {}

  Counter counter(std::uint64_t key, std::uint64_t cost = 1) const {
    return {.numbers = &whole_, .identity = 1, .digest = {key, key}, .cost = cost};
  }
  Spent spend(Nanos when, std::uint64_t key = 1, std::uint64_t cost = 1) {
    return spend_under(numbers(Algorithm::fixed_window, 3), when, key, cost);
  }
  // `overflow`: what newcomers to a crowded table are held to.
  Spent spend_under(const Numbers& overflow, Nanos when, std::uint64_t key,
                    std::uint64_t cost = 1) {
    const Counter asked = counter(key, cost);
    const std::array share{KnownTable::Share{&asked, place_, part_}};
    std::array<store::Finding, 1> findings;
    return table_.spend(share, at(when), overflow, findings);
  }
  int admitted(int tries, Nanos when, std::uint64_t key = 1) {
    int n = 0;
    for (int i = 0; i < tries; ++i) n += spend(when, key) == Spent::admitted ? 1 : 0;
    return n;
  }
  void learn_used(std::uint32_t used, Nanos when, std::uint64_t key = 1) {
    limit::State state;
    if (used > 0) state = limit::take(whole_, state, at(when), used).next;
    table_.learn(counter(key), state, whole_.limit - used, at(when), mono(when));
  }
  KnownTable& table() { return table_; }
  limit::Place place() const { return place_; }
  const std::optional<Numbers>& part() const { return part_; }

 private:
  Numbers whole_;
  limit::Place place_;
  std::optional<Numbers> part_;
  KnownTable table_;
};

TEST(KnownTable, PartsOfAllWorkersSumToTheLimit) {
  for (const Algorithm algorithm : {Algorithm::gcra, Algorithm::fixed_window,
                                    Algorithm::sliding_window, Algorithm::sliding_log}) {
    int sum = 0;
    for (std::uint64_t rank = 0; rank < 3; ++rank) {
      Worker worker(numbers(algorithm, 100), rank, 3);
      sum += worker.admitted(60, seconds(1));
    }
    EXPECT_EQ(sum, 100) << to_string(algorithm);
  }
}

TEST(KnownTable, ALimitOfOneOverThreeWorkersAdmitsOne) {
  int sum = 0;
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    Worker worker(numbers(Algorithm::fixed_window, 1), rank, 3);
    sum += worker.admitted(5, seconds(1));
    EXPECT_EQ(worker.spend(seconds(2)), rank == 0 ? Spent::exhausted : Spent::no_part);
  }
  EXPECT_EQ(sum, 1);
}

TEST(KnownTable, ACostAboveThePartIsNoPartAndAnExhaustedPartIsExhausted) {
  Worker worker(numbers(Algorithm::fixed_window, 10), 0, 2);
  EXPECT_EQ(worker.spend(seconds(1), 1, 6), Spent::no_part);
  EXPECT_EQ(worker.spend(seconds(1), 1, 5), Spent::admitted);
  EXPECT_EQ(worker.spend(seconds(1)), Spent::exhausted);
}

TEST(KnownTable, WhatWasKnownToRemainIsDividedToo) {
  Worker worker(numbers(Algorithm::fixed_window, 100), 0, 2);
  worker.learn_used(90, seconds(1));
  EXPECT_EQ(worker.admitted(50, seconds(2)), 5);
  // The next window begins full.
  EXPECT_EQ(worker.admitted(80, minutes(1)), 50);
}

TEST(KnownTable, FlappingNeverRenewsAPart) {
  for (const Algorithm algorithm : {Algorithm::fixed_window, Algorithm::sliding_log}) {
    Worker worker(numbers(algorithm, 100), 0, 2);
    int sum = 0;
    for (std::int64_t flap = 1; flap <= 20; ++flap) {
      const Nanos now = seconds(flap);
      sum += worker.admitted(10, now);
      worker.learn_used(0, now + milliseconds(500));  // the store is back, and knows of nothing
    }
    EXPECT_EQ(sum, 50) << to_string(algorithm);
  }
}

TEST(KnownTable, AGcraPartFillsAtItsPartOfTheRate) {
  Worker worker(numbers(Algorithm::gcra, 60), 0,
                2);  // one a second; this part: 30 at once, one in two seconds
  EXPECT_EQ(worker.admitted(60, seconds(0)), 30);
  EXPECT_EQ(worker.admitted(60, seconds(20)), 10);
}

TEST(KnownTable, AllCountersOfARequestOrNone) {
  const Numbers narrow = numbers(Algorithm::fixed_window, 2);
  const Numbers wide = numbers(Algorithm::fixed_window, 10);
  KnownTable table(100, 1);
  const Counter a{.numbers = &narrow, .identity = 1, .digest = {1, 1}};
  const Counter b{.numbers = &wide, .identity = 2, .digest = {2, 2}};
  const std::array both{KnownTable::Share{&a, {}, narrow}, KnownTable::Share{&b, {}, wide}};
  const std::array only_b{KnownTable::Share{&b, {}, wide}};
  std::array<store::Finding, 2> findings;
  int together = 0, alone = 0;
  for (int i = 0; i < 5; ++i)
    together += table.spend(both, at({}), wide, findings) == Spent::admitted ? 1 : 0;
  for (int i = 0; i < 20; ++i)
    alone += table.spend(only_b, at({}), wide, findings) == Spent::admitted ? 1 : 0;
  EXPECT_EQ(together, 2);
  EXPECT_EQ(alone, 8) << "a denied request charged a rule that would have let it through";
}

TEST(KnownTable, UnspendGivesBackWhatWasJustSpent) {
  Worker worker(numbers(Algorithm::fixed_window, 4), 0, 1);
  const Counter asked = worker.counter(1, 3);
  const std::array share{KnownTable::Share{&asked, worker.place(), worker.part()}};
  std::array<store::Finding, 1> findings;
  ASSERT_EQ(worker.table().spend(share, at(seconds(1)), *worker.part(), findings), Spent::admitted);
  worker.table().unspend(share, at(seconds(1)), findings);
  EXPECT_EQ(worker.admitted(9, seconds(1)), 4);
  EXPECT_EQ(worker.table().owed(worker.counter(1), at(seconds(1)))->units, 4U);
}

TEST(KnownTable, UnspendInTheNextWindowLeavesWhatIsOwedOfThat) {
  Worker worker(numbers(Algorithm::fixed_window, 4), 0, 1);
  const Counter asked = worker.counter(1, 3);
  const std::array share{KnownTable::Share{&asked, worker.place(), worker.part()}};
  std::array<store::Finding, 1> findings;
  ASSERT_EQ(worker.table().spend(share, at(seconds(1)), *worker.part(), findings), Spent::admitted);
  const auto next_window = std::chrono::hours(2);
  ASSERT_EQ(worker.admitted(2, next_window), 2);
  worker.table().unspend(share, at(next_window), findings);
  EXPECT_EQ(worker.table().owed(worker.counter(1), at(next_window))->units, 2U);
}

TEST(KnownTable, OwesARunningTotalUntilTheStoreWasTold) {
  Worker worker(numbers(Algorithm::fixed_window, 100), 0, 2);
  EXPECT_FALSE(worker.table().owed(worker.counter(1), at({})));
  (void)worker.admitted(7, seconds(1));
  const auto first = worker.table().owed(worker.counter(1), at(seconds(2)));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->units, 7U);
  (void)worker.admitted(3, seconds(2));
  worker.table().settled({1, 1}, *first);
  const auto second = worker.table().owed(worker.counter(1), at(seconds(3)));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->units, 10U) << "the total goes on; the store applies what exceeds its record";
  worker.table().settled({1, 1}, *second);
  EXPECT_FALSE(worker.table().owed(worker.counter(1), at(seconds(3))));
  EXPECT_EQ(worker.table().owed_units(at(seconds(3))), 0U);
}

TEST(KnownTable, OwesNothingOfAWindowThatIsOver) {
  Worker worker(numbers(Algorithm::fixed_window, 100), 0, 2);
  (void)worker.admitted(7, seconds(59));
  EXPECT_TRUE(worker.table().owed(worker.counter(1), at(milliseconds(59'999))));
  EXPECT_EQ(worker.table().owed_units(at(milliseconds(59'999))), 7U);
  EXPECT_FALSE(worker.table().owed(worker.counter(1), at(minutes(1))));
  EXPECT_EQ(worker.table().owed_units(at(minutes(1))), 0U);
}

TEST(KnownTable, ForgivesWhatTheStoreChargedButNotWhatItWasTold) {
  const Numbers whole = numbers(Algorithm::fixed_window, 20);
  Worker worker(whole, 0, 2);
  EXPECT_EQ(worker.admitted(5, seconds(1)), 5);
  KnownTable& table = worker.table();
  const Counter counter = worker.counter(1);
  const std::uint64_t outage = table.outage_of(counter.digest);
  // Of the minute's five the store has charged two: three are owed.
  EXPECT_EQ(table.forgive(counter, outage, at(seconds(0)), 2), 0U);
  EXPECT_EQ(table.owed(counter, at(seconds(2)))->units, 3U);
  // Those are on their way; of two more that it charged, one was admitted since.
  EXPECT_EQ(table.tell(counter, at(seconds(3)))->units, 3U);
  EXPECT_EQ(worker.admitted(1, seconds(4)), 1);
  EXPECT_EQ(table.forgive(counter, outage, at(seconds(0)), 2), 1U);
  EXPECT_EQ(table.owed(counter, at(seconds(5)))->units, 3U);
  // A charge in a later window is that window's, and what is owed of an earlier one never told.
  EXPECT_EQ(table.forgive(counter, outage, at(minutes(1)), 1), 0U);
  EXPECT_EQ(table.forgive(counter, outage, at(-minutes(1)), 1), 1U);
  EXPECT_EQ(table.forgive(counter, outage + 1, at(seconds(0)), 1), 0U);
}

TEST(KnownTable, AGcraOwesOnlyDebtStillStanding) {
  Worker worker(numbers(Algorithm::gcra, 60), 0, 2);  // the whole emits one a second
  (void)worker.admitted(10, seconds(0));
  const auto owed = worker.table().owed(worker.counter(1), at(seconds(4)));
  ASSERT_TRUE(owed);
  EXPECT_EQ(owed->units, 10U);
  EXPECT_EQ(owed->standing, 6U);
  EXPECT_FALSE(worker.table().owed(worker.counter(1), at(seconds(10))));
}

TEST(KnownTable, AKnownDenialHoldsAsLongAsItsAgeMayBe) {
  Worker worker(numbers(Algorithm::fixed_window, 10), 0, 1);
  worker.learn_used(10, seconds(1));
  const Counter asked = worker.counter(1);
  const auto denied = worker.table().denial(asked, at(seconds(2)), mono(seconds(2)), seconds(1));
  ASSERT_TRUE(denied);
  EXPECT_EQ(denied->outcome, limit::Outcome::limited);
  EXPECT_EQ(Nanos(denied->retry_after_ns), Nanos(seconds(58)));
  EXPECT_FALSE(
      worker.table().denial(asked, at(milliseconds(2'001)), mono(milliseconds(2'001)), seconds(1)));
  EXPECT_TRUE(worker.table().denial(asked, at(seconds(30)), mono(seconds(30)), std::nullopt));
  EXPECT_FALSE(worker.table().denial(asked, at(minutes(1)), mono(minutes(1)), std::nullopt));
}

TEST(KnownTable, AKnownDenialGivesWayToARaisedLimitAtOnce) {
  Worker worker(numbers(Algorithm::fixed_window, 10), 0, 1);
  worker.learn_used(10, seconds(1));
  const Numbers raised = numbers(Algorithm::fixed_window, 20);
  Counter asked = worker.counter(1);
  asked.numbers = &raised;
  EXPECT_FALSE(worker.table().denial(asked, at(seconds(1)), mono(seconds(1)), seconds(1)));
}

TEST(KnownTable, AnOlderAnswerThatArrivesLaterTeachesNothing) {
  Worker worker(numbers(Algorithm::fixed_window, 10), 0, 1);
  worker.learn_used(10, seconds(2));
  worker.learn_used(1, seconds(1));
  EXPECT_TRUE(
      worker.table().denial(worker.counter(1), at(seconds(2)), mono(seconds(2)), seconds(1)));
}

TEST(KnownTable, IsBoundedAndForgetsTheUnspentFirst) {
  Worker worker(numbers(Algorithm::fixed_window, 5), 0, 1, 160);
  ASSERT_EQ(worker.admitted(5, seconds(1), 7), 5);
  for (std::uint64_t key = 1'000; key < 30'000; ++key) worker.learn_used(1, seconds(2), key);
  EXPECT_LE(worker.table().size(), 160U);
  EXPECT_EQ(worker.spend(seconds(3), 7), Spent::exhausted)
      << "a flood of names renewed a spent part";
}

TEST(KnownTable, CrowdedNewcomersShareOneCounter) {
  Worker worker(numbers(Algorithm::fixed_window, 5), 0, 1, 16);  // one entry a slot
  for (std::uint64_t key = 0; key < 16; ++key)
    ASSERT_EQ(worker.spend(seconds(1), key), Spent::admitted);
  int admitted = 0;
  for (std::uint64_t key = 16; key < 1'000; ++key) admitted += worker.admitted(1, seconds(1), key);
  EXPECT_EQ(admitted, 3) << "the overflow numbers";
  EXPECT_EQ(worker.spend(seconds(1), 32), Spent::crowded);
}

TEST(KnownTable, CrowdedNewcomersOfOneRouteDoNotRenewThoseOfAnother) {
  Worker worker(numbers(Algorithm::fixed_window, 5), 0, 1, 16);
  for (std::uint64_t key = 0; key < 16; ++key)
    ASSERT_EQ(worker.spend(seconds(1), key), Spent::admitted);
  const std::array<Numbers, 3> ceilings = {numbers(Algorithm::fixed_window, 2, seconds(1)),
                                           numbers(Algorithm::fixed_window, 4, minutes(60)),
                                           numbers(Algorithm::gcra, 3, minutes(60))};
  std::array<int, 3> admitted{};
  for (std::uint64_t key = 16; key < 316; ++key) {
    const std::size_t route = key % 3;
    const Spent spent = worker.spend_under(ceilings[route], seconds(1), key);
    admitted[route] += spent == Spent::admitted ? 1 : 0;
  }
  EXPECT_EQ(admitted, (std::array<int, 3>{2, 4, 3}));
}

// ---- A store that may have lost what it held

TEST(KnownTable, BringsTheLastKnownStateOnlyToOtherDataThanItCameFrom) {
  for (const Algorithm algorithm : {Algorithm::gcra, Algorithm::fixed_window,
                                    Algorithm::sliding_window, Algorithm::sliding_log}) {
    Worker w(numbers(algorithm, 10), 0, 1);
    w.table().set_origin(1);
    w.learn_used(4, seconds(1));
    EXPECT_FALSE(w.table().before_loss(w.counter(1), at(seconds(2))));
    w.table().set_origin(2);
    EXPECT_TRUE(w.table().before_loss(w.counter(1), at(seconds(2))));
    EXPECT_FALSE(w.table().before_loss(w.counter(2), at(seconds(2)))) << "nothing known";
    EXPECT_FALSE(w.table().before_loss(w.counter(1), at(minutes(5)))) << "all of it is over";
    // Once the store has answered, what is known is of its new data.
    w.learn_used(4, seconds(3));
    EXPECT_FALSE(w.table().before_loss(w.counter(1), at(seconds(4))));
  }
}

TEST(KnownTable, BringsNothingOfACounterThatWasFresh) {
  Worker w(numbers(Algorithm::fixed_window, 10), 0, 1);
  w.table().set_origin(1);
  w.learn_used(0, seconds(1));
  w.table().set_origin(2);
  EXPECT_FALSE(w.table().before_loss(w.counter(1), at(seconds(2))));
}

TEST(KnownTable, TellsHowMuchOfWhatIsOwedWasConfirmed) {
  Worker w(numbers(Algorithm::fixed_window, 10), 0, 1);
  ASSERT_EQ(w.admitted(3, seconds(1)), 3);
  const auto first = w.table().tell(w.counter(1), at(seconds(2)));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->units, 3U);
  EXPECT_EQ(first->confirmed, 0U);
  w.table().settled({1, 1}, *first);
  ASSERT_EQ(w.admitted(2, seconds(3)), 2);
  const auto second = w.table().tell(w.counter(1), at(seconds(4)));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->units, 5U);
  EXPECT_EQ(second->confirmed, 3U);
}

}  // namespace
}  // namespace weir::ladder
