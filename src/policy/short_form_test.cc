#include "policy/short_form.h"

#include <gtest/gtest.h>

#include "policy/duration.h"

namespace weir::policy {
namespace {

using namespace std::chrono_literals;

std::string said(std::string_view text) {
  Problem problem;
  const auto limit = parse_short_limit(text, problem);
  if (!limit) return "no: " + problem.what;
  std::string out = std::to_string(limit->requests) + " per " + to_text(limit->per);
  for (const std::string& by : limit->by) out += " [" + by + "]";
  return out;
}

TEST(ShortLimit, ReadsEveryForm) {
  EXPECT_EQ(said("5 per minute by ip"), "5 per minute [ip]");
  EXPECT_EQ(said("10 per 30 seconds by header:X-API-Key, user"),
            "10 per 30 seconds [header:X-API-Key] [user]");
  EXPECT_EQ(said("0 per hour"), "0 per hour");
  EXPECT_EQ(said("  7  per  2  weeks  by  a ,b "), "7 per 2 weeks [a] [b]");
  EXPECT_EQ(said("1 per 1 year"), "1 per year");
  EXPECT_EQ(said("4294967295 per 3 months"), "4294967295 per 3 months");
}

TEST(ShortLimit, SaysWhatItDoesNotUnderstand) {
  EXPECT_EQ(said(""), "no: begins with '', which is no whole number");
  EXPECT_EQ(said("1e3 per minute"), "no: begins with '1e3', which is no whole number");
  EXPECT_EQ(said("-1 per minute"), "no: begins with '-1', which is no whole number");
  EXPECT_EQ(said("010 per minute"), "no: begins with '010', which is no whole number");
  EXPECT_EQ(said("4294967296 per minute"), "no: asks for '4294967296', more than 4294967295");
  EXPECT_EQ(said("5 minute"), "no: has 'minute' where 'per' belongs");
  EXPECT_EQ(said("5"), "no: ends before its period");
  EXPECT_EQ(said("5 per"), "no: has '', which is no period");
  EXPECT_EQ(said("5 per min"), "no: has 'min', which is no period");
  EXPECT_EQ(said("5 per MINUTE"), "no: has 'MINUTE', which is no period");
  EXPECT_EQ(said("5 per minutes"), "no: has 'minutes', which is no period");
  EXPECT_EQ(said("5 per 10"), "no: has '10 ', which is no period");
  EXPECT_EQ(said("5 per 0 minutes"), "no: has '0 minutes', which is no period");
  EXPECT_EQ(said("5 per 10s"), "no: has '10s', which is no period");
  EXPECT_EQ(said("5 per minute per ip"), "no: goes on with 'per' where only 'by' may follow");
  EXPECT_EQ(said("5 per minute by"), "no: names no source after 'by' or ','");
  EXPECT_EQ(said("5 per minute by ip,"), "no: names no source after 'by' or ','");
  EXPECT_EQ(said("5 per minute by ip user"), "no: has two sources without a ',' between them");
}

TEST(Duration, NeedsAUnit) {
  EXPECT_EQ(parse_duration("250ms"), Nanos(250ms));
  EXPECT_EQ(parse_duration("1h"), Nanos(1h));
  EXPECT_EQ(parse_duration("0s"), Nanos(0));
  EXPECT_EQ(parse_duration("106751d"), Nanos(24h * 106'751));
  for (const std::string_view text :
       {"", "10", "s", "10 s", "1.5s", "-1s", "01s", "1m30s", "10S", "106752d",
        "9223372036854775808ns", "99999999999999999999s", "1w"})
    EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(Duration, IsSaidInTheLargestUnitThatHoldsIt) {
  EXPECT_EQ(to_text(Nanos(1'500ms)), "1500ms");
  EXPECT_EQ(to_text(Nanos(60s)), "1m");
  EXPECT_EQ(to_text(Nanos(48h)), "2d");
  EXPECT_EQ(to_text(Nanos(0)), "0ns");
}

TEST(Period, FollowsTheCalendarForFixedWindowsAlone) {
  const PeriodSpec months{.unit = PeriodUnit::month, .count = 3};
  const auto fixed = period_of(months, Algorithm::fixed_window).value();
  EXPECT_EQ(fixed.calendar, limit::Calendar::month);
  EXPECT_EQ(fixed.count, 3u);
  EXPECT_EQ(fixed.length, Nanos(24h * 90));
  const auto even = period_of(months, Algorithm::gcra).value();
  EXPECT_EQ(even.calendar, limit::Calendar::none);
  EXPECT_EQ(even.length, Nanos(24h * 90));
  const auto hours =
      period_of({.unit = PeriodUnit::hour, .count = 2}, Algorithm::fixed_window).value();
  EXPECT_EQ(hours.calendar, limit::Calendar::none);
  EXPECT_EQ(hours.length, Nanos(2h));
  EXPECT_FALSE(period_of({.unit = PeriodUnit::year, .count = 300}, Algorithm::gcra));
}

}  // namespace
}  // namespace weir::policy
