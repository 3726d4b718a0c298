#include "ladder/overspend_table.h"

#include <gtest/gtest.h>

namespace weir::ladder {
namespace {

using limit::Numbers;
using limit::Place;

constexpr Instant kNow{std::chrono::seconds(1'700'000'000)};
constexpr Nanos kDay = std::chrono::hours(24);
constexpr Place kAlone{.rank = 0, .members = 1};

Numbers per_day(std::uint64_t limit, Algorithm algorithm = Algorithm::gcra) {
  return Numbers::make({.algorithm = algorithm, .limit = limit, .period = {.length = kDay}})
      .value();
}

store::Counter counter(const Numbers& numbers, std::uint64_t key = 1, std::uint64_t cost = 1) {
  return {.numbers = &numbers, .digest = {key, key}, .cost = cost};
}

std::uint64_t taken(OverspendTable& table, const store::Counter& counter, std::uint64_t cap,
                    Place place, Instant now) {
  std::uint64_t units = 0;
  while (units < 1'000 && table.take(counter, cap, place, now)) units += counter.cost;
  return units;
}

TEST(OverspendTable, GivesTheCapOnceAWindow) {
  const Numbers rule = per_day(10);
  OverspendTable table(100, 1);
  EXPECT_EQ(taken(table, counter(rule), 5, kAlone, kNow), 5u);
  EXPECT_EQ(taken(table, counter(rule), 5, kAlone, kNow + std::chrono::hours(1)), 0u)
      << "another outage of the same window renews nothing";
  EXPECT_EQ(taken(table, counter(rule), 5, kAlone, kNow + kDay), 5u);
  EXPECT_EQ(taken(table, counter(rule, 2), 5, kAlone, kNow), 5u) << "each key has its own";
}

TEST(OverspendTable, DividesTheCapOverTheFleet) {
  for (const Algorithm algorithm : {Algorithm::gcra, Algorithm::fixed_window,
                                    Algorithm::sliding_window, Algorithm::sliding_log}) {
    const Numbers rule = per_day(10, algorithm);
    for (const std::uint64_t cap : {1u, 5u, 7u, 50u}) {
      std::uint64_t sum = 0;
      for (std::uint64_t rank = 0; rank < 3; ++rank) {
        OverspendTable table(100, 1);
        sum += taken(table, counter(rule), cap, {.rank = rank, .members = 3}, kNow);
      }
      EXPECT_EQ(sum, cap);
    }
  }
}

TEST(OverspendTable, KeepsWhatIsUsedWhenItsPartGrows) {
  const Numbers rule = per_day(10);
  OverspendTable table(100, 1);
  EXPECT_EQ(taken(table, counter(rule), 6, {.rank = 0, .members = 3}, kNow), 2u);
  EXPECT_EQ(taken(table, counter(rule), 6, kAlone, kNow), 4u);
}

TEST(OverspendTable, TakesAllOfACostOrNothing) {
  const Numbers rule = per_day(10);
  OverspendTable table(100, 1);
  EXPECT_TRUE(table.take(counter(rule, 1, 4), 5, kAlone, kNow));
  EXPECT_FALSE(table.take(counter(rule, 1, 2), 5, kAlone, kNow));
  table.give_back(counter(rule, 1, 4), 5, kAlone, kNow);
  EXPECT_TRUE(table.take(counter(rule, 1, 5), 5, kAlone, kNow));
}

// What a journal says after it was away at the start: of a counter that was asked about meanwhile,
// too.
TEST(OverspendTable, RenewsNothingOfWhatItHearsOfLate) {
  const Numbers rule = per_day(10, Algorithm::fixed_window);
  const Instant today{Nanos(limit::window_at(rule, kNow).start_ns)};
  OverspendTable table(100, 1);
  ASSERT_TRUE(table.take(counter(rule), 5, kAlone, kNow));
  table.restore({1, 1}, today, 3);
  EXPECT_EQ(taken(table, counter(rule), 5, kAlone, kNow), 1u);
  table.restore({1, 1}, today - kDay, 3);
  EXPECT_EQ(taken(table, counter(rule), 5, kAlone, kNow + kDay), 5u) << "yesterday's is over";
}

// A process that starts without the store goes by its machine's clock, which may be behind the
// store's, by which the one before went.
TEST(OverspendTable, GoesOnWithALaterWindowThanItsClockSays) {
  const Numbers rule = per_day(10, Algorithm::fixed_window);
  const Instant today{Nanos(limit::window_at(rule, kNow).start_ns)};
  OverspendTable table(100, 1);
  table.restore({1, 1}, today - kDay, 5);
  table.restore({1, 1}, today, 4);
  const Instant just_before = today - std::chrono::milliseconds(300);
  EXPECT_EQ(taken(table, counter(rule), 5, kAlone, just_before), 1u);
  EXPECT_EQ(taken(table, counter(rule), 5, kAlone, today), 0u);
  EXPECT_EQ(taken(table, counter(rule), 5, kAlone, today + kDay), 5u);
}

TEST(OverspendTable, GivesNothingToAKeyThatItHasNoRoomFor) {
  const Numbers rule = per_day(10);
  OverspendTable table(2, 1);
  EXPECT_TRUE(table.take(counter(rule, 1), 5, kAlone, kNow));
  EXPECT_TRUE(table.take(counter(rule, 2), 5, kAlone, kNow));
  EXPECT_FALSE(table.take(counter(rule, 3), 5, kAlone, kNow));
  EXPECT_TRUE(table.take(counter(rule, 3), 5, kAlone, kNow + kDay)) << "yesterday's leave";
  EXPECT_EQ(table.size(), 1u);
}

}  // namespace
}  // namespace weir::ladder
