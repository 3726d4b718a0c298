#include "guard/split_ask.h"

#include <gtest/gtest.h>

namespace weir::guard {
namespace {

using namespace std::chrono_literals;
using ladder::LadderVerdict;

LadderVerdict joined(std::initializer_list<LadderVerdict> parts) {
  JoinedVerdict all;
  for (const LadderVerdict& part : parts) all.add(part);
  return all.verdict();
}

const LadderVerdict kCounted{.verdict = Verdict::allowed,
                             .rung = Rung::store,
                             .reason = Reason::within_limit,
                             .retry_after = {},
                             .numbers_known = true};
const LadderVerdict kShared{.verdict = Verdict::allowed,
                            .rung = Rung::share,
                            .reason = Reason::within_limit,
                            .retry_after = {},
                            .numbers_known = true};
const LadderVerdict kOpen{.verdict = Verdict::allowed,
                          .rung = Rung::policy,
                          .reason = Reason::store_unavailable,
                          .retry_after = {},
                          .unenforced = true};
const LadderVerdict kRefused{.verdict = Verdict::refused,
                             .rung = Rung::policy,
                             .reason = Reason::store_unavailable,
                             .retry_after = 500ms};
LadderVerdict limited(Rung rung, std::optional<Nanos> wait) {
  return {.verdict = Verdict::limited,
          .rung = rung,
          .reason = Reason::over_limit,
          .retry_after = wait,
          .numbers_known = true};
}

TEST(JoinedVerdict, IsLimitedBeforeRefusedBeforeAllowed) {
  EXPECT_EQ(joined({kCounted, kRefused, limited(Rung::store, 1s)}).verdict, Verdict::limited);
  EXPECT_EQ(joined({limited(Rung::store, 1s), kRefused}).rung, Rung::store);
  EXPECT_EQ(joined({kCounted, kRefused, kShared}).verdict, Verdict::refused);
  EXPECT_EQ(joined({kRefused, kCounted}).reason, Reason::store_unavailable);
  EXPECT_EQ(joined({kCounted, kCounted}).verdict, Verdict::allowed);
}

TEST(JoinedVerdict, SaysWhoWasFurthestFromTheStore) {
  EXPECT_EQ(joined({kCounted, kShared}).rung, Rung::share);
  EXPECT_EQ(joined({kShared, kCounted}).rung, Rung::share);
  EXPECT_EQ(joined({kShared, kOpen, kCounted}).rung, Rung::policy);
  EXPECT_TRUE(joined({kOpen, kCounted}).unenforced);
  EXPECT_TRUE(joined({kOpen, kCounted}).numbers_known) << "of the part that was counted";
}

TEST(JoinedVerdict, IsTheJournalsWhereOnePartIsServedBeyondItsOwn) {
  LadderVerdict beyond = kShared;
  beyond.rung = Rung::journal;
  EXPECT_EQ(joined({kCounted, beyond, kShared}).rung, Rung::journal);
  EXPECT_EQ(joined({beyond, kCounted}).verdict, Verdict::allowed);
}

// Bits of the whole's counters are told of the part's own.
TEST(SplitAsk, MakesAPartsRequestOfTheWholes) {
  const std::vector<store::Counter> counters(5);
  const ladder::LadderRequest whole{
      .counters = counters, .cost = 3, .metered = 0b00110, .marks = 2};
  const std::vector<std::size_t> places{2, 3, 4};
  const ladder::LadderRequest part =
      part_of(whole, std::span(counters).first(places.size()), places);
  EXPECT_EQ(part.metered, 0b001u);
  EXPECT_EQ(part.marks, 2u);
  EXPECT_EQ(part.cost, 3u);
  const std::vector<std::size_t> others{0, 1};
  EXPECT_EQ(part_of(whole, std::span(counters).first(2), others).metered, 0b10u);
  EXPECT_EQ(part_of(whole, std::span(counters).first(2), others).marks, 0u);
}

TEST(JoinedVerdict, NeverFitsWhereOnePartNeverDoes) {
  LadderVerdict never = limited(Rung::known, {});
  never.reason = Reason::cost_exceeds_burst;
  for (const LadderVerdict& all :
       {joined({never, limited(Rung::store, 1s)}), joined({limited(Rung::share, 1s), never})}) {
    EXPECT_EQ(all.reason, Reason::cost_exceeds_burst);
    EXPECT_EQ(all.retry_after, std::nullopt);
  }
}

TEST(JoinedVerdict, WaitsAsLongAsTheLongestAndOnlyWhereAllAreKnown) {
  EXPECT_EQ(joined({limited(Rung::store, 1s), limited(Rung::known, 3s)}).retry_after, 3s);
  EXPECT_EQ(joined({limited(Rung::known, 3s), limited(Rung::store, 1s)}).retry_after, 3s);
  EXPECT_EQ(joined({limited(Rung::store, 1s), limited(Rung::share, {})}).retry_after, std::nullopt);
  EXPECT_EQ(joined({kRefused, limited(Rung::store, 1s)}).retry_after, 1s);
}

}  // namespace
}  // namespace weir::guard
