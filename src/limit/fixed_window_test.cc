#include "limit/fixed_window.h"

#include <gtest/gtest.h>

#include "testing/step_story.h"

namespace weir::limit {
namespace {

using namespace std::chrono_literals;
using testing::Story;

Request fixed(std::uint64_t limit, Nanos period) {
  return {.algorithm = Algorithm::fixed_window, .limit = limit, .period = {period}};
}

TEST(FixedWindow, CountsUpToTheLimitAndStartsAfreshAtItsEnd) {
  Story story(fixed(3, 10s));
  story.at(4s).take(2).allowed(1).resets_after(6s);
  story.at(7s).take(2).limited(1, 3s);
  story.at(10s - 1ns).take(2).limited(1, 1ns);
  story.at(10s).take(2).allowed(1).resets_after(10s);
  story.at(35s).take(0).allowed(3).resets_after(0s);
}

TEST(FixedWindow, WindowsAreAlignedToTheEpoch) {
  const Numbers week = Numbers::make(fixed(1, 7 * 24h)).value();
  // 1970-01-01 was a Thursday, and so every such week begins on one.
  const Window window = window_at(week, Instant{1'700'000'000s});
  EXPECT_EQ(window.start_ns, Nanos(1'699'488'000s).count());  // Thursday 2023-11-09
  EXPECT_EQ(window.end_ns, Nanos(1'700'092'800s).count());
}

TEST(FixedWindow, WorstMinuteHoldsTwiceTheLimit) {
  Story story(fixed(5, 60s), 60s * 28'333'333);
  story.at(59s).take(5).allowed(0);
  story.at(60s).take(5).allowed(0);
  story.at(61s).take(1).limited(0, 59s);
}

TEST(FixedWindow, RefundEndsWithItsWindow) {
  Story story(fixed(5, 10s));
  story.at(9s).take(5).allowed(0);
  const Instant receipt = story.receipt();
  story.at(9s).refund(2, receipt).allowed(2);
  story.at(10s).take(1).allowed(4);
  story.at(10s).refund(3, receipt).allowed(4);
}

TEST(FixedWindow, EarlierNowCountsInTheWindowAlreadyBegun) {
  Story story(fixed(2, 10s));
  story.at(9s).take(1).allowed(1);
  story.at(10s).take(1).allowed(1);
  story.at(9'900ms).take(1).allowed(0).resets_after(10'100ms);  // a thread that lags behind
  story.at(10s).take(1).limited(0, 10s);
}

TEST(FixedWindow, ClockSetBackCarriesTheCountAlong) {
  Story story(fixed(2, 10s));
  story.at(1h).take(2).allowed(0);
  story.at(3s).take(1).limited(0, 7s);
  story.at(10s).take(1).allowed(1);
}

TEST(FixedWindow, LoweredLimitLastsOnlyUntilTheWindowEnds) {
  Story story(fixed(10, 10s));
  story.at(0s).take(8).allowed(2);
  story.becomes(fixed(5, 10s)).at(1s).take(1).limited(0, 9s);
  story.becomes(fixed(12, 10s)).at(2s).take(1).allowed(3);
  story.becomes(fixed(5, 10s)).at(10s).take(1).allowed(4);
}

}  // namespace
}  // namespace weir::limit
