#include "ladder/bound.h"

#include <gtest/gtest.h>

#include <chrono>

#include "limit/parts.h"
#include "limit/step.h"

namespace weir::ladder {
namespace {

using namespace std::chrono_literals;

limit::Numbers numbers(Algorithm algorithm, std::uint64_t limit, Nanos period,
                       std::optional<std::uint64_t> burst = {}) {
  return limit::Numbers::make(
             {.algorithm = algorithm, .limit = limit, .period = {.length = period}, .burst = burst})
      .value();
}

TEST(Bound, OfAnIntervalFollowsTheAlgorithm) {
  const auto gcra = numbers(Algorithm::gcra, 60, 1min, 10);
  EXPECT_EQ(most_in(gcra, 1min), 70u);
  EXPECT_EQ(most_in(gcra, 11s), 21u);
  EXPECT_EQ(most_in(gcra, 999ms), 10u);
  const auto log = numbers(Algorithm::sliding_log, 60, 1min);
  EXPECT_EQ(most_in(log, 1min), 60u);
  EXPECT_EQ(most_in(log, 1min + 1ns), 120u);
  const auto fixed = numbers(Algorithm::fixed_window, 60, 1min);
  EXPECT_EQ(most_in(fixed, 1min), 120u);
  EXPECT_EQ(most_in(fixed, 1ns), 60u);
  EXPECT_EQ(most_in(fixed, 1min + 1ns), 120u);
  EXPECT_EQ(most_in(fixed, 1min + 2ns), 180u);
  EXPECT_EQ(most_in(fixed, 0ns), 0u);
}

TEST(Bound, OfTheCalendarCountsWithTheShortestMonth) {
  const auto month = limit::Numbers::make({.algorithm = Algorithm::fixed_window,
                                           .limit = 10,
                                           .period = {.calendar = limit::Calendar::month}})
                         .value();
  EXPECT_EQ(most_in_window(month), 10u);
  // From the last day of January to the first of March: three windows within 30 days.
  EXPECT_EQ(most_in(month, 24h * 30), 30u);
  EXPECT_EQ(most_in(month, 24h * 28), 20u);
}

// The oracle is the step itself, asked as fast as it grants.
TEST(Bound, OfGcraIsReachedAndNeverExceeded) {
  for (const std::uint64_t burst : {1u, 3u, 7u}) {
    const auto rule = numbers(Algorithm::gcra, 7, 1min, burst);
    limit::State state;
    const Instant start{1'700'000'000s};
    std::uint64_t admitted = 0;
    for (Instant now = start; now <= start + 1min;) {
      const limit::Step step = limit::take(rule, state, now, 1);
      if (step.outcome == limit::Outcome::allowed) {
        state = step.next;
        ++admitted;
      } else {
        now += Nanos(step.retry_after_ns);
      }
    }
    EXPECT_EQ(admitted, most_in_window(rule)) << burst;
  }
}

TEST(Bound, OfAFleetFollowsWhatItWentThrough) {
  const auto rule = numbers(Algorithm::sliding_log, 100, 1min);
  const auto most = [&](FailurePolicy policy, const Exposure& exposure) {
    return most_admitted(rule, policy, exposure);
  };
  using enum FailurePolicy;
  EXPECT_EQ(most(bounded, {.workers = 3}), 100u);
  EXPECT_EQ(most(bounded, {.workers = 3, .cut_off = 3, .store_answered = false}), 100u);
  EXPECT_EQ(most(bounded, {.workers = 3, .cut_off = 3}), 200u);
  EXPECT_EQ(most(bounded, {.workers = 3, .cut_off = 1}), 134u);
  EXPECT_EQ(most(bounded, {.workers = 3, .cut_off = 2}), 167u);
  EXPECT_EQ(most(bounded, {.workers = 3, .cut_off = 3, .replaced = 1}), 234u);
  EXPECT_EQ(most(bounded, {.workers = 3, .cut_off = 3, .fallback_answered = true}), 300u);
  EXPECT_EQ(most(bounded, {.workers = 3, .losses = 2}), 300u);
  EXPECT_EQ(most(bounded, {.workers = 3, .regions = 2}), 200u);
  EXPECT_EQ(most(bounded, {.workers = 3, .cut_off = 3, .store_answered = false, .regions = 2}),
            200u);
  EXPECT_EQ(most(bounded, {.workers = 3, .cut_off = 1, .regions = 2}), 268u);
  EXPECT_EQ(most(bounded, {.workers = 3, .losses = 2, .regions = 2}), 600u);
  EXPECT_EQ(most(closed, {.workers = 3, .cut_off = 3, .store_answered = false, .regions = 2}), 0u);
  EXPECT_EQ(most(closed, {.workers = 3, .cut_off = 3}), 100u);
  EXPECT_EQ(most(closed, {.workers = 3, .cut_off = 3, .store_answered = false}), 0u);
  EXPECT_EQ(most(settle, {.workers = 3, .cut_off = 3, .overspend = 50}), 250u);
  EXPECT_EQ(most(settle, {.workers = 3, .overspend = 50}), 100u);
  EXPECT_EQ(most(bounded, {.workers = 3, .cut_off = 3, .overspend = 50}), 200u);
  EXPECT_EQ(most(settle, {.workers = 3, .cut_off = 3, .overspend = std::nullopt}), std::nullopt);
  EXPECT_EQ(most(open, {.workers = 3, .cut_off = 1}), std::nullopt);
  EXPECT_EQ(most(open, {.workers = 3}), 100u);
}

TEST(Bound, HoldsUnderACeiling) {
  const auto rule = numbers(Algorithm::sliding_log, 100, 1min);
  const auto ceiling = numbers(Algorithm::gcra, 1, 10s);  // 7 in any minute
  const Exposure gone{.workers = 3, .cut_off = 3, .store_answered = false, .ceiling = &ceiling};
  EXPECT_EQ(most_admitted(rule, FailurePolicy::open, gone), 21u);
  EXPECT_EQ(most_admitted(rule, FailurePolicy::bounded, gone), 21u);
  EXPECT_EQ(most_admitted(rule, FailurePolicy::closed, gone), 0u);
  const auto high = numbers(Algorithm::gcra, 1'000, 1s);
  EXPECT_EQ(most_admitted(rule, FailurePolicy::bounded,
                          {.workers = 3, .cut_off = 3, .store_answered = false, .ceiling = &high}),
            100u);
  EXPECT_EQ(
      most_admitted(rule, FailurePolicy::open, {.workers = 3, .cut_off = 1, .ceiling = &ceiling}),
      107u);
}

TEST(Bound, OfABlockIsZeroInEveryMode) {
  const auto block = numbers(Algorithm::gcra, 0, 1min);
  for (const auto policy :
       {FailurePolicy::closed, FailurePolicy::bounded, FailurePolicy::settle, FailurePolicy::open})
    EXPECT_EQ(most_admitted(block, policy, {.workers = 3, .cut_off = 3, .losses = 1}), 0u);
}

TEST(Bound, OfPartsNeverExceedsTheWhole) {
  for (const Algorithm algorithm : {Algorithm::gcra, Algorithm::fixed_window,
                                    Algorithm::sliding_window, Algorithm::sliding_log})
    for (std::uint64_t limit = 1; limit < 40; ++limit)
      for (std::uint32_t workers = 1; workers < 12; ++workers) {
        const auto rule = numbers(algorithm, limit, 1min);
        EXPECT_LE(most_of_parts(rule, workers, workers), most_in_window(rule))
            << limit << " over " << workers;
        EXPECT_EQ(most_of_parts(rule, workers, 0), 0u);
      }
}

TEST(Bound, OfPartsIsTheirSum) {
  for (std::uint64_t limit = 1; limit < 30; ++limit)
    for (std::uint64_t burst = 1; burst < 30; burst += 4)
      for (std::uint32_t workers = 1; workers < 9; ++workers)
        for (std::uint32_t cut_off = 0; cut_off <= workers; ++cut_off) {
          const auto rule = numbers(Algorithm::gcra, limit, 1min, burst);
          std::uint64_t sum = 0;
          for (std::uint64_t rank = 0; rank < cut_off; ++rank)
            if (const auto part = limit::part_numbers(rule, {.rank = rank, .members = workers}))
              sum += most_in_window(*part);
          ASSERT_EQ(most_of_parts(rule, workers, cut_off), sum)
              << limit << " burst " << burst << ", " << cut_off << " of " << workers;
        }
}

TEST(Bound, OfACeilingIsOneAProcess) {
  const auto ceiling = numbers(Algorithm::gcra, 50, 1s);
  EXPECT_EQ(most_under_ceiling(ceiling, 3, 1s), 300u);
  EXPECT_EQ(most_under_ceiling(ceiling, 3, 10s), 1'650u);
}

}  // namespace
}  // namespace weir::ladder
