#include "store/memory/packed_state.h"

#include <gtest/gtest.h>

#include <random>

namespace weir::store {
namespace {

using std::chrono::seconds;

limit::Numbers numbers_of(limit::Request request) {
  return limit::Numbers::make(request).value();
}

void expect_round_trip(const limit::Numbers& numbers, const limit::State& state, Instant now) {
  EXPECT_EQ(unpack(numbers, pack(numbers, state), now), state)
      << to_string(numbers.algorithm) << " at " << now.time_since_epoch().count();
}

TEST(PackedState, HoldsWhateverAStepLeaves) {
  std::mt19937_64 random(7);
  const limit::Request requests[] = {
      {.algorithm = Algorithm::gcra, .limit = 0xffff'ffff, .period = {.length = seconds(86'400)}},
      {.algorithm = Algorithm::gcra, .limit = 1, .period = {.length = seconds(86'400 * 365)}},
      {.algorithm = Algorithm::fixed_window, .limit = 5, .period = {.length = Nanos(1)}},
      {.algorithm = Algorithm::fixed_window,
       .limit = 0xffff'ffff,
       .period = {.calendar = limit::Calendar::year, .count = 10}},
      {.algorithm = Algorithm::sliding_window,
       .limit = 0xffff'ffff,
       .period = {.length = seconds(1)}},
      {.algorithm = Algorithm::sliding_window,
       .limit = 9,
       .period = {.length = seconds(86'400 * 3'660)}},
  };
  for (const limit::Request& request : requests) {
    const limit::Numbers numbers = numbers_of(request);
    ASSERT_TRUE(fits_slot(numbers));
    limit::State state;
    Instant now{seconds(1'000'000'000)};
    for (int i = 0; i < 2'000; ++i) {
      now += Nanos(random() % 100'000'000'000);
      state = limit::take(numbers, state, now, 1 + random() % 3).next;
      expect_round_trip(numbers, state, now);
      state = limit::drain(numbers, state, now, random() % 5 == 0 ? UINT64_MAX : 1).next;
      expect_round_trip(numbers, state, now);
    }
  }
}

TEST(PackedState, HoldsASlidingWindowOverDecadesAndBothSidesOf2106) {
  const limit::Numbers numbers = numbers_of(
      {.algorithm = Algorithm::sliding_window, .limit = 9, .period = {.length = seconds(1)}});
  for (const std::int64_t year : {2, 30, 60, 100, 135, 136, 137, 145}) {
    const Instant now{seconds(year * 31'556'952)};
    const limit::State state = limit::take(numbers, {}, now, 3).next;
    for (const std::int64_t later : {-60, -1, 0, 1, 10, 60}) {
      const Instant then = now + seconds(later * 31'556'952);
      if (then < Instant{} || then > Instant{seconds(4'600'000'000)}) continue;
      expect_round_trip(numbers, state, then);
    }
  }
}

TEST(PackedState, LeavesOutWhatWouldNotFit) {
  EXPECT_FALSE(fits_slot(numbers_of(
      {.algorithm = Algorithm::sliding_log, .limit = 9, .period = {.length = seconds(60)}})));
  EXPECT_FALSE(fits_slot(numbers_of({.algorithm = Algorithm::sliding_window,
                                     .limit = 9,
                                     .period = {.length = Nanos(999'999'999)}})));
}

}  // namespace
}  // namespace weir::store
