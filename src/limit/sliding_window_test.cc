#include "limit/sliding_window.h"

#include <gtest/gtest.h>

#include "testing/step_story.h"

namespace weir::limit {
namespace {

using namespace std::chrono_literals;
using testing::Story;

Request sliding(std::uint64_t limit, Nanos period) {
  return {.algorithm = Algorithm::sliding_window, .limit = limit, .period = {period}};
}

TEST(SlidingWindow, WeighsTheWindowBeforeByWhatIsStillCovered) {
  Story story(sliding(10, 10s));
  story.at(0s).take(10).allowed(0).resets_after(20s);
  story.at(0s).take(1).limited(0, 11s);  // at 11 s a tenth of the ten is no longer covered
  story.at(11s).take(1).allowed(0);
  story.at(11s).take(1).limited(0, 1s);
  story.at(15s).take(0).allowed(4);  // 10 * 5/10 + 1
  story.at(15s).take(10).limited(4, 15s);
  story.at(20s).take(0).allowed(9);
  story.at(30s).take(0).allowed(10).resets_after(0s);
}

TEST(SlidingWindow, WaitIsExactWhereTheWeightIsAFraction) {
  Story story(sliding(10, 10s));
  story.at(9s).take(7).allowed(3);
  story.at(10s).take(5).limited(3, 2'857'142'858ns);  // 7 * (10 s - wait) <= 5 * 10 s
  story.at(12'857'142'857ns).take(5).limited(4, 1ns);
  story.at(12'857'142'858ns).take(5).allowed(0);
}

TEST(SlidingWindow, EstimateDoesNotJumpAtTheWindowsEnd) {
  Story story(sliding(10, 10s));
  story.at(9'999ms).take(9).allowed(1);
  story.at(10s - 1ns).take(0).allowed(1);
  story.at(10s).take(0).allowed(1);
  story.at(10s + 1ns).take(0).allowed(1);  // 8.999… are counted as 9
}

TEST(SlidingWindow, RefundReachesTheWindowBefore) {
  Story story(sliding(10, 10s));
  story.at(5s).take(10).allowed(0);
  const Instant receipt = story.receipt();
  story.at(15s).take(0).allowed(5);
  story.at(15s).refund(4, receipt).allowed(7);
  story.at(25s).refund(6, receipt).allowed(10);
}

TEST(SlidingWindow, ClockSetBackCarriesTheCountsAlong) {
  Story story(sliding(10, 10s));
  story.at(1h).take(10).allowed(0);
  story.at(3s).take(1).limited(0, 8s);
  story.at(11s).take(1).allowed(0);
}

TEST(SlidingWindow, LargestNumbersDoNotWrap) {
  Story story(sliding(kMaxUnits, 3'660 * 24h), 0s);
  story.at(0s).take(kMaxUnits).allowed(0);
  story.at(3'660 * 24h).take(1).limited(0, Nanos(73'626'638));  // length / (2^32 - 1), rounded up
  story.at(3'660 * 24h + 73'626'638ns).take(1).allowed(0);
}

}  // namespace
}  // namespace weir::limit
