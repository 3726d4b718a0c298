#include "limit/calendar.h"

#include <gtest/gtest.h>

#include <chrono>

#include "testing/model_counter.h"
#include "testing/step_story.h"

namespace weir::limit {
namespace {

using namespace std::chrono_literals;
using std::chrono::sys_days;
using testing::Story;

Request monthly(std::uint64_t limit, std::uint32_t count = 1) {
  return {.algorithm = Algorithm::fixed_window,
          .limit = limit,
          .period = {.calendar = Calendar::month, .count = count}};
}

Numbers every(std::uint32_t count, Calendar calendar) {
  return Numbers::make({.algorithm = Algorithm::fixed_window,
                        .limit = 1,
                        .period = {.calendar = calendar, .count = count}})
      .value();
}

Nanos day(int year, unsigned month, unsigned day) {
  return sys_days{std::chrono::year{year} / month / day}.time_since_epoch();
}

void expect_window(const Numbers& numbers, Nanos now, Nanos start, Nanos end) {
  const Window window = window_at(numbers, Instant{now});
  EXPECT_EQ(window.start_ns, start.count());
  EXPECT_EQ(window.end_ns, end.count());
}

// Months were counted as thirty days: a monthly quota was gone, or came back, on day 31.
TEST(Calendar, MonthlyQuotaHoldsToTheLastSecondOfTheMonth) {
  Story story(monthly(5), day(2025, 1, 1));
  story.at(3h).take(5).allowed(0);
  story.at(31 * 24h - 60s).take(1).limited(0, 60s);
  story.at(31 * 24h - 1ns).take(1).limited(0, 1ns);
  story.at(31 * 24h).take(1).allowed(4).resets_after(28 * 24h);
}

TEST(Calendar, FebruaryHasItsLeapDay) {
  const Numbers month = every(1, Calendar::month);
  expect_window(month, day(2024, 2, 29), day(2024, 2, 1), day(2024, 3, 1));
  EXPECT_EQ(day(2024, 3, 1) - day(2024, 2, 1), 29 * 24h);
  expect_window(month, day(2023, 2, 28) + 23h, day(2023, 2, 1), day(2023, 3, 1));
  expect_window(month, day(2000, 2, 29), day(2000, 2, 1), day(2000, 3, 1));
  EXPECT_EQ(day(2100, 3, 1) - day(2100, 2, 1), 28 * 24h);
  expect_window(month, day(2100, 2, 28), day(2100, 2, 1), day(2100, 3, 1));
}

TEST(Calendar, YearEndsOnTheLastOfDecember) {
  const Numbers year = every(1, Calendar::year);
  expect_window(year, day(2024, 12, 31) + 24h - 1ns, day(2024, 1, 1), day(2025, 1, 1));
  expect_window(year, day(2025, 1, 1), day(2025, 1, 1), day(2026, 1, 1));
}

TEST(Calendar, WeeksBeginOnMonday) {
  const Numbers week = every(1, Calendar::week);
  expect_window(week, day(2025, 1, 1), day(2024, 12, 30), day(2025, 1, 6));
  expect_window(week, day(2025, 1, 6), day(2025, 1, 6), day(2025, 1, 13));
  expect_window(week, day(2025, 1, 6) - 1ns, day(2024, 12, 30), day(2025, 1, 6));
  expect_window(week, day(1970, 1, 1), day(1969, 12, 29), day(1970, 1, 5));
}

TEST(Calendar, QuartersBeginInJanuaryAprilJulyOctober) {
  const Numbers quarter = every(3, Calendar::month);
  expect_window(quarter, day(2024, 5, 17), day(2024, 4, 1), day(2024, 7, 1));
  expect_window(quarter, day(2024, 12, 31), day(2024, 10, 1), day(2025, 1, 1));
  expect_window(every(10, Calendar::year), day(2025, 6, 1), day(2020, 1, 1), day(2030, 1, 1));
  expect_window(every(2, Calendar::day), day(1970, 1, 4), day(1970, 1, 3), day(1970, 1, 5));
}

TEST(Calendar, QuotaIsHeldOverALeapDayAndTheYearsEnd) {
  Story leap(monthly(2), day(2024, 2, 1));
  leap.at(28 * 24h + 23h).take(2).allowed(0);
  leap.at(29 * 24h - 1s).take(1).limited(0, 1s);
  leap.at(29 * 24h).take(1).allowed(1);
  Story december(monthly(2), day(2024, 12, 1));
  december.at(31 * 24h - 1s).take(2).allowed(0);
  december.at(31 * 24h).take(2).allowed(0);
}

// Every window from 1970 to 2116 as a walk through the calendar finds it: at its first and last
// nanosecond and somewhere inside.
TEST(Calendar, AgreesWithAWalkThroughEveryMonth) {
  for (const auto& [calendar, count] : {std::pair{Calendar::month, 1U},
                                        {Calendar::month, 3U},
                                        {Calendar::year, 1U},
                                        {Calendar::month, 5U},
                                        {Calendar::week, 1U},
                                        {Calendar::week, 2U},
                                        {Calendar::day, 11U}}) {
    const Numbers numbers = every(count, calendar);
    std::int64_t now = 0;
    const std::int64_t last = std::int64_t{1} << 62;
    while (now < last) {
      const Window walked = testing::model_window(numbers, now);
      ASSERT_LE(walked.start_ns, now);
      for (const std::int64_t inside : {now, now + (walked.end_ns - now) / 2, walked.end_ns - 1}) {
        if (inside >= last) break;
        const Window window = window_at(numbers, Instant{Nanos(inside)});
        ASSERT_EQ(window.start_ns, walked.start_ns) << inside;
        ASSERT_EQ(window.end_ns, walked.end_ns) << inside;
      }
      now = walked.end_ns;
    }
  }
}

}  // namespace
}  // namespace weir::limit
