#include "drill/run/log_time.h"

#include <gtest/gtest.h>

namespace weir::drill {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kLog =
    "weir 0.1.0 is ready\n"
    "time=1970-01-02T00:00:00.500Z level=error event=store_away_at_start why=\"event=store_away "
    "\"\n"
    "time=1970-01-02T00:00:01.250Z level=error event=store_away why=late next_probe_ms=500\n"
    "time=1970-01-02T00:00:09.001Z level=error event=store_away\n";

TEST(LogTime, IsThatOfTheFirstLineOfTheEventFromThenOn) {
  const Instant day{24h};
  EXPECT_EQ(time_of_event(kLog, "store_away_at_start", Instant{}), day + 500ms);
  EXPECT_EQ(time_of_event(kLog, "store_away", day + 1250ms + 900us), day + 1250ms);
  EXPECT_EQ(time_of_event(kLog, "store_away", day + 1251ms), day + 9001ms);
}

TEST(LogTime, IsAbsentWhereNothingSaysSo) {
  const Instant day{24h};
  EXPECT_EQ(time_of_event(kLog, "store_away", day + 10s), std::nullopt);
  EXPECT_EQ(time_of_event(kLog, "store_back", Instant{}), std::nullopt);
  EXPECT_EQ(time_of_event("", "x", Instant{}), std::nullopt);
  EXPECT_EQ(time_of_event("time=1970-13-02T00:00:00.500Z event=x\n", "x", Instant{}), std::nullopt);
  EXPECT_EQ(time_of_event("time=yesterday event=x", "x", Instant{}), std::nullopt);
}

}  // namespace
}  // namespace weir::drill
