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
    const Counter asked = counter(key, cost);
    const std::array share{KnownTable::Share{&asked, place_, part_}};
    std::array<store::Finding, 1> findings;
    return table_.spend(share, at(when), findings);
  }
  // Fills the table with counters that have spent; returns how many.
  std::uint64_t fill(std::size_t capacity, Nanos when) {
    std::uint64_t key = 0;
    while (table_.size() < capacity) (void)spend(when, key++);
    return key;
  }
  int admitted(int tries, Nanos when, std::uint64_t key = 1) {
    int n = 0;
    for (int i = 0; i < tries; ++i) n += spend(when, key) == Spent::admitted ? 1 : 0;
    return n;
  }
  void learn_used(std::uint32_t used, Nanos when, std::uint64_t key = 1) {
    limit::State state;
    if (whole_.algorithm == Algorithm::sliding_log) {
      state.current = used;
    } else if (used > 0) {
      state = limit::take(whole_, state, at(when), used).next;
    }
    table_.learn(counter(key), state, at(when), mono(when));
  }
  // Under other numbers of the rule from now on.
  void reload(const Numbers& whole) {
    whole_ = whole;
    part_ = limit::part_numbers(whole, place_);
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
    together += table.spend(both, at({}), findings) == Spent::admitted ? 1 : 0;
  for (int i = 0; i < 20; ++i)
    alone += table.spend(only_b, at({}), findings) == Spent::admitted ? 1 : 0;
  EXPECT_EQ(together, 2);
  EXPECT_EQ(alone, 8) << "a denied request charged a rule that would have let it through";
}

// What was used is used: as much of it as the part has left, and it is owed.
TEST(KnownTable, WorkThatIsDoneUsesUpThePart) {
  for (const Algorithm algorithm : {Algorithm::gcra, Algorithm::fixed_window,
                                    Algorithm::sliding_window, Algorithm::sliding_log}) {
    SCOPED_TRACE(to_string(algorithm));
    Worker worker(numbers(algorithm, 100), 0, 2);
    ASSERT_EQ(worker.spend(seconds(1), 1, 20), Spent::admitted);
    Counter done = worker.counter(1, 70);
    done.op = store::Op::drain;
    const std::array share{KnownTable::Share{&done, worker.place(), worker.part()}};
    std::array<store::Finding, 1> findings;
    worker.table().use_up(share, at(seconds(1)), findings);
    EXPECT_TRUE(findings[0].charged);
    EXPECT_EQ(findings[0].units, 30U);
    EXPECT_EQ(findings[0].step.remaining, 0U);
    EXPECT_EQ(worker.spend(seconds(1)), Spent::exhausted);
    EXPECT_EQ(worker.table().owed(worker.counter(1), at(seconds(1)))->units, 50U);
    worker.table().use_up(share, at(seconds(1)), findings);
    EXPECT_FALSE(findings[0].charged) << "nothing was left";
    EXPECT_EQ(worker.table().owed(worker.counter(1), at(seconds(1)))->units, 50U);
  }
}

TEST(KnownTable, WorkThatIsDoneTakesNoMoreThanItUsed) {
  Worker worker(numbers(Algorithm::fixed_window, 100), 0, 2);
  Counter done = worker.counter(1, 20);
  done.op = store::Op::drain;
  const std::array share{KnownTable::Share{&done, worker.place(), worker.part()}};
  std::array<store::Finding, 1> findings;
  worker.table().use_up(share, at(seconds(1)), findings);
  EXPECT_EQ(findings[0].units, 20U);
  EXPECT_EQ(worker.admitted(60, seconds(1)), 30);
}

TEST(KnownTable, UnspendGivesBackWhatWasJustSpent) {
  Worker worker(numbers(Algorithm::fixed_window, 4), 0, 1);
  const Counter asked = worker.counter(1, 3);
  const std::array share{KnownTable::Share{&asked, worker.place(), worker.part()}};
  std::array<store::Finding, 1> findings;
  ASSERT_EQ(worker.table().spend(share, at(seconds(1)), findings), Spent::admitted);
  worker.table().unspend(share, at(seconds(1)), findings, 0);
  EXPECT_EQ(worker.admitted(9, seconds(1)), 4);
  EXPECT_EQ(worker.table().owed(worker.counter(1), at(seconds(1)))->units, 4U);
}

TEST(KnownTable, UnspendInTheNextWindowLeavesWhatIsOwedOfThat) {
  Worker worker(numbers(Algorithm::fixed_window, 4), 0, 1);
  const Counter asked = worker.counter(1, 3);
  const std::array share{KnownTable::Share{&asked, worker.place(), worker.part()}};
  std::array<store::Finding, 1> findings;
  ASSERT_EQ(worker.table().spend(share, at(seconds(1)), findings), Spent::admitted);
  const auto next_window = std::chrono::hours(2);
  ASSERT_EQ(worker.admitted(2, next_window), 2);
  worker.table().unspend(share, at(next_window), findings, 0);
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

// Nobody walks a table of a million for a gauge, nor while keys return to the store.
TEST(KnownTable, TheTotalOfWhatIsOwedGoesWithEveryChange) {
  for (const Algorithm algorithm : {Algorithm::gcra, Algorithm::fixed_window,
                                    Algorithm::sliding_window, Algorithm::sliding_log}) {
    SCOPED_TRACE(to_string(algorithm));
    Worker worker(numbers(algorithm, 100), 0, 2);
    KnownTable& table = worker.table();
    for (std::uint64_t key = 1; key <= 20; ++key) EXPECT_EQ(worker.admitted(7, seconds(1), key), 7);
    EXPECT_EQ(table.owed_units(at(seconds(1))), 140U);
    // One is told, another forgiven in part.
    const auto told = table.tell(worker.counter(1), at(seconds(1)));
    ASSERT_TRUE(told);
    table.settled({1, 1}, *told);
    EXPECT_EQ(table.owed_units(at(seconds(1))), 133U);
    const Counter two = worker.counter(2);
    const Instant receipt =
        algorithm == Algorithm::fixed_window || algorithm == Algorithm::sliding_window
            ? at(seconds(0))
            : at(seconds(1));
    EXPECT_EQ(table.forgive(two, table.outage_of(two.digest), receipt, 3, at(seconds(1))), 0U);
    EXPECT_EQ(table.owed_units(at(seconds(1))), 130U);
    EXPECT_EQ(worker.admitted(2, seconds(2), 3), 2);
    EXPECT_EQ(table.owed_units(at(seconds(2))), 132U);
    EXPECT_EQ(table.owed_units(at(minutes(5))), 0U);
    // In a later window from the start.
    EXPECT_EQ(worker.admitted(4, minutes(5), 3), 4);
    EXPECT_EQ(
        table.owed_units(at(minutes(5))),
        algorithm == Algorithm::fixed_window || algorithm == Algorithm::sliding_window ? 4U : 13U);
  }
}

TEST(KnownTable, ForgivesWhatTheStoreChargedButNotWhatItWasTold) {
  const Numbers whole = numbers(Algorithm::fixed_window, 20);
  Worker worker(whole, 0, 2);
  EXPECT_EQ(worker.admitted(5, seconds(1)), 5);
  KnownTable& table = worker.table();
  const Counter counter = worker.counter(1);
  const std::uint64_t outage = table.outage_of(counter.digest);
  // Of the minute's five the store has charged two: three are owed.
  EXPECT_EQ(table.forgive(counter, outage, at(seconds(0)), 2, at(seconds(2))), 0U);
  EXPECT_EQ(table.owed(counter, at(seconds(2)))->units, 3U);
  // Those are on their way; of two more that it charged, one was admitted since.
  EXPECT_EQ(table.tell(counter, at(seconds(3)))->units, 3U);
  EXPECT_EQ(worker.admitted(1, seconds(4)), 1);
  EXPECT_EQ(table.forgive(counter, outage, at(seconds(0)), 2, at(seconds(4))), 1U);
  EXPECT_EQ(table.owed(counter, at(seconds(5)))->units, 3U);
  // A charge in a later window is that window's, and what is owed of an earlier one never told.
  EXPECT_EQ(table.forgive(counter, outage, at(minutes(1)), 1, at(seconds(5))), 0U);
  EXPECT_EQ(table.forgive(counter, outage, at(-minutes(1)), 1, at(seconds(5))), 1U);
  EXPECT_EQ(table.forgive(counter, outage + 1, at(seconds(0)), 1, at(seconds(5))), 0U);
}

// A gcra charge arrives, by its own reckoning, when all that stands before it has run off.
TEST(KnownTable, WhatIsStillOwedCountsThoughAChargeThatIsForgivenLiesAhead) {
  Worker worker(numbers(Algorithm::gcra, 60), 0, 2);
  EXPECT_EQ(worker.admitted(5, seconds(0)), 5);
  KnownTable& table = worker.table();
  const Counter counter = worker.counter(1);
  // Others had used the limit up to the minute's end.
  const Instant receipt = at(minutes(1));
  EXPECT_EQ(table.forgive(counter, table.outage_of(counter.digest), receipt, 2, at(seconds(1))),
            0U);
  EXPECT_EQ(table.owed(counter, at(seconds(1)))->units, 3U);
  EXPECT_EQ(table.owed_units(at(seconds(1))), 3U);
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

// Which charges of a log are over the store alone knows; until when it denies a cost it has said.
TEST(KnownTable, ALogIsDeniedUntilTheTimeThatTheStoreNamed) {
  const Numbers log = numbers(Algorithm::sliding_log, 10);
  KnownTable table(100, 1);
  const auto counter = [&](std::uint64_t cost) {
    return Counter{.numbers = &log, .identity = 1, .digest = {1, 1}, .cost = cost};
  };
  limit::Step denied{.outcome = limit::Outcome::limited, .remaining = 2};
  denied.retry_after_ns = Nanos(seconds(30)).count();
  denied.reset_after_ns = Nanos(seconds(50)).count();
  table.learn(counter(3), {.current = 8}, at(seconds(1)), mono(seconds(1)), &denied);
  const auto asked = [&](std::uint64_t cost, Nanos when) {
    return table.denial(counter(cost), at(when), mono(when), std::nullopt);
  };
  ASSERT_TRUE(asked(3, seconds(11)));
  EXPECT_EQ(asked(3, seconds(11))->outcome, limit::Outcome::limited);
  EXPECT_EQ(Nanos(asked(3, seconds(11))->retry_after_ns), Nanos(seconds(20)));
  EXPECT_EQ(Nanos(asked(3, seconds(11))->reset_after_ns), Nanos(seconds(40)));
  EXPECT_TRUE(asked(4, seconds(11)));
  EXPECT_FALSE(asked(2, seconds(11))) << "less may fit";
  EXPECT_FALSE(asked(3, seconds(31))) << "its time has come";
  ASSERT_TRUE(asked(11, seconds(11)));
  EXPECT_EQ(asked(11, seconds(11))->outcome, limit::Outcome::never_fits);
  const Numbers raised = numbers(Algorithm::sliding_log, 20);
  Counter under_raised = counter(3);
  under_raised.numbers = &raised;
  EXPECT_FALSE(table.denial(under_raised, at(seconds(11)), mono(seconds(11)), std::nullopt));
  // Whatever it says next, a refund or another's answer, is what is known.
  table.learn(counter(0), {.current = 8}, at(seconds(12)), mono(seconds(12)));
  EXPECT_FALSE(asked(3, seconds(13)));
}

TEST(KnownTable, AKnownDenialGivesWayToARaisedLimitAtOnce) {
  Worker worker(numbers(Algorithm::fixed_window, 10), 0, 1);
  worker.learn_used(10, seconds(1));
  const Numbers raised = numbers(Algorithm::fixed_window, 20);
  Counter asked = worker.counter(1);
  asked.numbers = &raised;
  EXPECT_FALSE(worker.table().denial(asked, at(seconds(1)), mono(seconds(1)), seconds(1)));
}

// The store goes by the newest numbers that it was told, which are not this worker's.
TEST(KnownTable, WhatIsKnownUnderOtherNumbersDeniesOnlyWhileTheStoreIsAway) {
  Worker worker(numbers(Algorithm::fixed_window, 20), 0, 1);
  worker.learn_used(15, seconds(1));
  const Numbers own = numbers(Algorithm::fixed_window, 10);
  Counter asked = worker.counter(1);
  asked.numbers = &own;
  EXPECT_FALSE(worker.table().denial(asked, at(seconds(1)), mono(seconds(1)), seconds(1)));
  EXPECT_TRUE(worker.table().denial(asked, at(seconds(1)), mono(seconds(1)), std::nullopt));
}

// As where the store itself converts: what runs off from then on does so under the new numbers.
TEST(KnownTable, WhoWaitsAsADenialUnderNewNumbersSaidIsNotToldToWaitAgain) {
  Worker worker(numbers(Algorithm::gcra, 60), 0, 1);
  worker.learn_used(60, seconds(1));
  const auto denied = [&](const Numbers& under, Nanos when, std::uint64_t cost) {
    Counter asked = worker.counter(1, cost);
    asked.numbers = &under;
    return worker.table().denial(asked, at(when), mono(when), std::nullopt);
  };
  const Numbers lowered = numbers(Algorithm::gcra, 6);
  const auto first = denied(lowered, seconds(1), 1);
  ASSERT_TRUE(first);
  const Nanos waited = seconds(1) + Nanos(first->retry_after_ns);
  EXPECT_TRUE(denied(lowered, waited - Nanos(1), 1));
  EXPECT_FALSE(denied(lowered, waited, 1));
  // A caller with the numbers before goes by what was learnt, and leaves that as it is.
  const Numbers before = numbers(Algorithm::gcra, 60);
  EXPECT_TRUE(denied(before, seconds(11), 11));
  EXPECT_FALSE(denied(before, seconds(11), 10));
  EXPECT_FALSE(denied(lowered, waited, 1));
  // The store's next word is not converted from an older one.
  worker.learn_used(60, seconds(12));
  EXPECT_TRUE(denied(lowered, seconds(12), 1));
}

constexpr Algorithm kAllAlgorithms[] = {Algorithm::gcra, Algorithm::fixed_window,
                                        Algorithm::sliding_window, Algorithm::sliding_log};

// Used stays used, whichever limit it was learnt under: a log was held to what was left of that.
TEST(KnownTable, WhatIsKnownToBeUsedStaysUsedUnderALimitThatAReloadBrings) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    struct Reload {
      std::uint32_t used;
      std::uint32_t to;
      int left;
    };
    for (const auto& [used, to, left] :
         {Reload{15, 100, 85}, Reload{20, 100, 80}, Reload{15, 16, 1}, Reload{15, 10, 0}}) {
      Worker worker(numbers(algorithm, 20, minutes(60)), 0, 1);
      worker.learn_used(used, seconds(1));
      worker.reload(numbers(algorithm, to, minutes(60)));
      EXPECT_EQ(worker.admitted(101, seconds(1)), left)
          << to_string(algorithm) << ": " << used << " of 20 used, then a limit of " << to;
    }
  }
}

// What a store that lost it is brought, too.
TEST(KnownTable, WhatIsBroughtBackIsAsMuchAsWasUsedWhateverTheLimitIsNow) {
  for (const std::uint32_t to : {100U, 16U, 10U}) {
    Worker worker(numbers(Algorithm::sliding_log, 20), 0, 1);
    worker.learn_used(15, seconds(1));
    worker.table().set_origin(2);
    worker.reload(numbers(Algorithm::sliding_log, to));
    const auto brought = worker.table().before_loss(worker.counter(1), at(seconds(2)));
    ASSERT_TRUE(brought) << to;
    EXPECT_EQ(brought->current, 15U) << to;
    EXPECT_EQ(brought->time_ns, at(seconds(1)).time_since_epoch().count()) << to;
  }
}

// What was admitted within the parts of one limit is not above the parts of a lowered one.
TEST(KnownTable, WhatIsOwedIsHeldAgainstThePartsItWasAdmittedBy) {
  for (const Algorithm algorithm : kAllAlgorithms) {
    const Numbers before = numbers(algorithm, 20, minutes(60));
    const Numbers after = numbers(algorithm, 30, minutes(60));
    Worker worker(before, 0, 1);
    EXPECT_EQ(worker.admitted(20, seconds(1)), 20);
    worker.reload(numbers(algorithm, 5, minutes(60)));
    auto owed = worker.table().owed(worker.counter(1), at(seconds(2)));
    ASSERT_TRUE(owed) << to_string(algorithm);
    EXPECT_EQ(owed->bound, limit::most_of_parts(before)) << to_string(algorithm);
    worker.reload(after);
    EXPECT_EQ(worker.spend(seconds(2)), Spent::admitted) << to_string(algorithm);
    owed = worker.table().owed(worker.counter(1), at(seconds(2)));
    EXPECT_EQ(owed->bound, limit::most_of_parts(after)) << to_string(algorithm);
  }
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

// Those that stay, and are asked about no more, must not hide the many that may go.
TEST(KnownTable, SpentCountersAtTheOldEndDoNotFreezeTheTable) {
  constexpr std::size_t kCapacity = 640;  // forty a slot
  Worker worker(numbers(Algorithm::fixed_window, 5, std::chrono::hours(24)), 0, 1, kCapacity);
  for (std::uint64_t key = 0; key < kCapacity / 2; ++key)
    ASSERT_EQ(worker.spend(seconds(1), key), Spent::admitted);
  for (std::uint64_t key = 1'000; key < 5'000; ++key) worker.learn_used(1, seconds(2), key);
  for (std::uint64_t key = 10'000; key < 11'000; ++key) {
    worker.learn_used(5, seconds(3), key);
    EXPECT_TRUE(
        worker.table().denial(worker.counter(key), at(seconds(3)), mono(seconds(3)), seconds(1)))
        << key << " was not learnt";
  }
  EXPECT_EQ(worker.admitted(9, seconds(4), 20'000), 5) << "a newcomer's own part";
  EXPECT_EQ(worker.admitted(9, seconds(4), 0), 4) << "a spent part was renewed";
}

// The counters of one call must not push each other out before they are charged.
TEST(KnownTable, ACrowdedTableKeepsTheCountersOfTheCallUnderWay) {
  const Numbers five = numbers(Algorithm::fixed_window, 5);
  int admitted_of_some = 0;
  for (std::uint64_t random = 1; random <= 100; ++random) {
    KnownTable table(16, random);  // one entry a slot
    std::array<Counter, 8> counters;
    std::array<KnownTable::Share, 8> shares;
    for (std::uint64_t i = 0; i < 8; ++i) {
      counters[i] = {.numbers = &five, .identity = i, .digest = {i, i}};
      shares[i] = {&counters[i], {}, five};
    }
    std::array<store::Finding, 8> findings;
    int admitted = 0;
    for (int i = 0; i < 9; ++i) {
      const Spent spent = table.spend(shares, at(seconds(1)), findings);
      admitted += spent == Spent::admitted ? 1 : 0;
    }
    // Where two of them lie together one has no room, and nobody could count the call.
    EXPECT_TRUE(admitted == 5 || admitted == 0) << admitted;
    admitted_of_some += admitted;
    EXPECT_LE(table.size(), 8U);
  }
  EXPECT_GT(admitted_of_some, 0);
}

// A fleet's digests can be computed by whoever knows its prefix, and so be chosen.
TEST(KnownTable, DigestsThatAreChosenDoNotLieTogether) {
  constexpr std::size_t kCapacity = 160;
  std::size_t alike = 0;
  for (std::uint64_t random = 1; random <= 4; ++random) {
    KnownTable table(kCapacity, random);
    const Numbers five = numbers(Algorithm::fixed_window, 5);
    for (std::uint64_t i = 0; i < 1'000; ++i) {
      const Counter counter{.numbers = &five, .identity = 1, .digest = {i << 8, i << 32}};
      table.learn(counter, {}, at({}), mono({}));
    }
    EXPECT_GT(table.size(), kCapacity * 9 / 10);
    const SecretHash hash(random);
    const SecretHash other(random + 1);
    for (std::uint64_t i = 0; i < 1'000; ++i) {
      const KeyDigest digest{i << 8, i << 32};
      alike += hash(digest) % 16 == other(digest) % 16 ? 1U : 0U;
    }
  }
  EXPECT_LT(alike, 500U) << "another process's places are these: 250 of 4,000 are by chance";
}

// Nobody could say what such a key has used already: not one counter for all of them, which is as
// large as something else.
TEST(KnownTable, ANewcomerThatNobodyCouldCountIsNotAdmitted) {
  Worker worker(numbers(Algorithm::fixed_window, 5), 0, 1, 16);  // one entry a slot
  const std::uint64_t first = worker.fill(16, seconds(1));
  for (std::uint64_t key = first; key < first + 300; ++key)
    ASSERT_EQ(worker.spend(seconds(1), key), Spent::crowded) << key;
  EXPECT_EQ(worker.table().size(), 16U);
  EXPECT_EQ(worker.admitted(9, seconds(61), first), 5) << "the others' window is over";
}

TEST(KnownTable, WhereOneRuleCannotCountANewcomerTheOthersAreNotCharged) {
  const Numbers wide = numbers(Algorithm::fixed_window, 100'000);
  Worker worker(numbers(Algorithm::fixed_window, 2), 0, 1, 16);
  const std::uint64_t first = worker.fill(16, seconds(1));
  // One that stands in the table for long, under a rule of its own.
  const Counter known{.numbers = &wide, .identity = 2, .digest = worker.counter(0).digest};
  std::array<store::Finding, 2> findings;
  const auto ask = [&](bool shadow, std::uint64_t cost) {
    Counter asked = worker.counter(first, cost);
    Counter other = known;
    asked.shadow = shadow;
    other.cost = cost;
    const std::array shares{KnownTable::Share{&other, {}, wide},
                            KnownTable::Share{&asked, {}, worker.part()}};
    return worker.table().spend(shares, at(seconds(2)), findings);
  };
  const std::uint64_t owed = worker.table().owed_units(at(seconds(2)));
  for (int i = 0; i < 300; ++i) ASSERT_EQ(ask(false, 1), Spent::crowded) << i;
  EXPECT_EQ(worker.table().owed_units(at(seconds(2))), owed);
  EXPECT_EQ(ask(false, 0), Spent::admitted) << "a probe needs no room";
  EXPECT_EQ(findings[1].step.remaining, 2U);
  EXPECT_EQ(ask(true, 1), Spent::admitted) << "a rule in shadow refuses nobody";
  EXPECT_TRUE(findings[0].charged);
  EXPECT_FALSE(findings[1].charged);
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
