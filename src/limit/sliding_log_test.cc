#include "limit/sliding_log.h"

#include <gtest/gtest.h>

#include "testing/step_story.h"

namespace weir::limit {
namespace {

using namespace std::chrono_literals;
using testing::Story;

Request log_of(std::uint64_t limit, Nanos period) {
  return {.algorithm = Algorithm::sliding_log, .limit = limit, .period = {period}};
}

Instant at(Nanos since_epoch) {
  return Instant{since_epoch};
}

// Clients waited nearly two windows where a rejection began a new one.
TEST(SlidingLog, RejectionsDoNotProlongTheWait) {
  Story story(log_of(10, 10s));
  for (int second = 0; second < 10; ++second) story.at(second * 1s).take(1);
  story.allowed(0).resets_after(10s);
  for (int i = 0; i < 50; ++i) story.at(9'500ms).take(1).limited(0, 500ms);
  story.at(10s - 1ns).take(1).limited(0, 1ns);
  story.at(10'100ms).take(1).allowed(0);
}

// A log that looked at one entry's place, not at the sum of costs, let small costs pass after a
// large one.
TEST(SlidingLog, AddsUpCostsNotEntries) {
  Story story(log_of(10, 60s));
  story.at(0s).take(8).allowed(2);
  story.at(1s).take(1).allowed(1);
  story.at(2s).take(1).allowed(0);
  story.at(3s).take(1).limited(0, 57s);
  story.at(3s).take(9).limited(0, 58s);
  story.at(3s).take(10).limited(0, 59s);
  story.at(60s).take(8).allowed(0);
}

TEST(SlidingLog, ChargesOfOneInstantAreOneEntry) {
  const Numbers numbers = Numbers::make(log_of(1'000, 60s)).value();
  LogState log;
  for (int i = 0; i < 1'000; ++i) log_take(numbers, log, at(5s), 1);
  EXPECT_EQ(log.entries.size(), 1U);
  EXPECT_EQ(log.used, 1'000U);
}

TEST(SlidingLog, MemoryIsBoundedByTheLimit) {
  const Numbers numbers = Numbers::make(log_of(100, 1s)).value();
  LogState log;
  std::size_t most = 0;
  for (int i = 0; i < 20'000; ++i) {
    log_take(numbers, log, at(i * 1ms), 1);
    most = std::max(most, log.entries.size());
  }
  EXPECT_LE(most, 200U);
}

TEST(SlidingLog, DenialAndProbeChangeNothing) {
  const Numbers numbers = Numbers::make(log_of(2, 10s)).value();
  LogState log;
  log_take(numbers, log, at(1s), 1);
  log_take(numbers, log, at(5s), 1);
  const LogState before = log;
  for (const Nanos now : {Nanos(6s), Nanos(4'500ms), Nanos(12s)}) {
    log_take(numbers, log, at(now), 0);
    log_take(numbers, log, at(now), 2);
    log_take(numbers, log, at(now), 3);
    EXPECT_EQ(log.entries, before.entries);
    EXPECT_EQ(log.last_seen_ns, before.last_seen_ns);
  }
}

TEST(SlidingLog, RefundReachesOnlyItsOwnCharge) {
  Story story(log_of(5, 10s));
  story.at(0s).take(2).allowed(3);
  const Instant first = story.receipt();
  story.at(1s).take(3).allowed(0);
  const Instant second = story.receipt();
  story.at(2s).refund(1'000, first).allowed(2);
  story.at(2s).refund(2, first).allowed(2);  // there is nothing of it any more
  story.at(3s).refund(1, second).allowed(3);
  story.at(11s).refund(2, second).allowed(5);  // over
}

TEST(SlidingLog, EarlierNowCountsAsTheLastSeen) {
  Story story(log_of(2, 10s));
  story.at(5s).take(1).allowed(1);
  story.at(4'500ms).take(1).allowed(0);
  story.at(4'500ms).take(1).limited(0, 10'500ms);
  story.at(15s).take(2).allowed(0);
}

TEST(SlidingLog, ClockSetBackBringsTheFutureToNow) {
  Story story(log_of(3, 10s));
  story.at(1s).take(1).allowed(2);
  story.at(1h).take(1).allowed(2);
  story.at(2h).take(1).allowed(2);
  story.at(5s).take(3).limited(2, 10s);
  story.at(5s).take(2).allowed(0);
  story.at(15s).take(3).allowed(0);
}

TEST(SlidingLog, ExpiresWithItsLastCharge) {
  const Numbers numbers = Numbers::make(log_of(3, 10s)).value();
  LogState log;
  log_take(numbers, log, at(1s), 1);
  log_take(numbers, log, at(4s), 1);
  EXPECT_EQ(log_expires_at_ns(numbers, log), Nanos(14s).count());
}

}  // namespace
}  // namespace weir::limit
