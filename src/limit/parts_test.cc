#include "limit/parts.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "limit/rendezvous.h"
#include "limit/step.h"

namespace weir::limit {
namespace {

using namespace std::chrono_literals;

Numbers gcra_numbers(std::uint64_t limit, Nanos period, std::optional<std::uint64_t> burst = {}) {
  return Numbers::make(
             {.algorithm = Algorithm::gcra, .limit = limit, .period = {period}, .burst = burst})
      .value();
}

TEST(Parts, FiveOverThreeAreTwoTwoOne) {
  const Numbers five = gcra_numbers(5, 60s);
  EXPECT_EQ(part_of(five, 5, {0, 3}), 2U);
  EXPECT_EQ(part_of(five, 5, {1, 3}), 2U);
  EXPECT_EQ(part_of(five, 5, {2, 3}), 1U);
  EXPECT_EQ(part_of(five, 5, {3, 3}), 0U);
  const Numbers first = part_numbers(five, {0, 3}).value();
  EXPECT_EQ(first.limit, 2U);
  EXPECT_EQ(first.interval_ns, Nanos(30s).count());
  EXPECT_NE(first.stamp, five.stamp);
}

TEST(Parts, OneOverThreeIsTheFirstMembersAlone) {
  const Numbers one = gcra_numbers(1, 60s);
  EXPECT_EQ(participants(one, 3), 1U);
  EXPECT_EQ(part_numbers(one, {0, 3}), one);
  EXPECT_FALSE(part_numbers(one, {1, 3}));
  EXPECT_FALSE(part_numbers(one, {2, 3}));
}

TEST(Parts, NobodyHasALimitWithoutABurst) {
  const Numbers bursty = gcra_numbers(100, 60s, 2);
  EXPECT_EQ(participants(bursty, 10), 2U);
  EXPECT_EQ(part_of(bursty, 100, {1, 10}), 50U);
  EXPECT_EQ(part_of(bursty, 100, {2, 10}), 0U);
}

TEST(Parts, BlockedLimitHasNone) {
  const Numbers blocked = gcra_numbers(0, 60s);
  EXPECT_EQ(participants(blocked, 4), 0U);
  EXPECT_FALSE(part_numbers(blocked, {0, 4}));
  EXPECT_FALSE(part_numbers(blocked, {0, 1}));
}

// Rounding a third of a billion a second to whole nanoseconds would lose a quarter of it.
TEST(Parts, FastRatesAreDividedWithoutLoss) {
  const Numbers fast = gcra_numbers(1'000'000'000, 1s);
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(part_numbers(fast, {rank, 3}).value().interval_ns, 3);
  }
}

TEST(Parts, SumOverEveryMemberAndNeverRise) {
  for (std::uint64_t limit = 1; limit <= 24; ++limit) {
    for (const std::uint64_t burst : {std::uint64_t{1}, limit, 2 * limit}) {
      const Numbers whole = gcra_numbers(limit, 1h, burst);
      for (std::uint64_t members = 1; members <= 30; ++members) {
        for (std::uint32_t units = 0; units <= whole.burst; ++units) {
          std::uint64_t sum = 0;
          for (std::uint64_t rank = 0; rank < members; ++rank) {
            const std::uint32_t part = part_of(whole, units, {rank, members});
            sum += part;
            // A further member comes before this one, or after.
            ASSERT_LE(part_of(whole, units, {rank, members + 1}), part);
            ASSERT_LE(part_of(whole, units, {rank + 1, members + 1}), part);
          }
          ASSERT_EQ(sum, units);
        }
      }
    }
  }
}

RC_GTEST_PROP(Parts, RatesSumToTheLimitWithinAThousandth, ()) {
  const std::uint64_t period = *rc::gen::element<std::uint64_t>(
      1'000'000'000, 60'000'000'000, 3'600'000'000'000, 86'400'000'000'000);
  const std::uint64_t limit = *rc::gen::inRange<std::uint64_t>(1, 1'000'000'000);
  const std::uint64_t burst = *rc::gen::inRange<std::uint64_t>(1, 1'000'000);
  const std::uint64_t members = *rc::gen::inRange<std::uint64_t>(1, 60);
  const auto whole = Numbers::make({.algorithm = Algorithm::gcra,
                                    .limit = limit,
                                    .period = {Nanos(static_cast<std::int64_t>(period))},
                                    .burst = burst});
  RC_PRE(whole.has_value());
  std::uint64_t limits = 0;
  std::uint64_t bursts = 0;
  long double rates = 0;
  for (std::uint64_t rank = 0; rank < members; ++rank) {
    const auto part = part_numbers(*whole, {rank, members});
    const auto wider = part_numbers(*whole, {rank, members + 1});
    if (!part) {
      RC_ASSERT(!wider);
      continue;
    }
    limits += part->limit;
    bursts += part->burst;
    rates += 1.0L / static_cast<long double>(part->interval_ns);
    RC_ASSERT(part->tolerance_ns == part->interval_ns * part->burst);
    if (wider) RC_ASSERT(wider->interval_ns >= part->interval_ns);
  }
  RC_ASSERT(limits == whole->limit);
  RC_ASSERT(bursts == whole->burst);
  const long double exact = 1.0L / static_cast<long double>(whole->interval_ns);
  RC_ASSERT(rates <= exact * (1 + 1e-15L));
  RC_ASSERT(rates >= exact * 0.999L);
}

TEST(Parts, OfOneKeyAdmitTheLimitTogether) {
  const Numbers whole =
      Numbers::make({.algorithm = Algorithm::fixed_window, .limit = 100, .period = {60s}}).value();
  std::uint64_t admitted = 0;
  for (std::uint64_t rank = 0; rank < 7; ++rank) {
    const Numbers part = part_numbers(whole, {rank, 7}).value();
    State state;
    for (int i = 0; i < 50; ++i) {
      const Step step = take(part, state, Instant{1'700'000'000s}, 1);
      admitted += step.outcome == Outcome::allowed ? 1 : 0;
      state = step.next;
    }
  }
  EXPECT_EQ(admitted, 100U);
}

std::vector<std::uint64_t> fleet(std::uint64_t size) {
  std::vector<std::uint64_t> members;
  for (std::uint64_t i = 0; i < size; ++i) members.push_back(0x1234'5678 + i);
  return members;
}

TEST(Rendezvous, RanksAreAPermutationAndSpreadOverKeys) {
  const auto members = fleet(5);
  std::vector<int> firsts(members.size(), 0);
  for (std::uint64_t key = 0; key < 10'000; ++key) {
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      const std::size_t rank = rendezvous_rank(members, members[i], {key, key * 7});
      seen |= std::uint64_t{1} << rank;
      if (rank == 0) ++firsts[i];
    }
    ASSERT_EQ(seen, 0b11111U);
  }
  for (const int first : firsts) EXPECT_NEAR(first, 2'000, 200);
}

TEST(Rendezvous, TheHighestScoreComesFirst) {
  const auto members = fleet(3);
  for (std::uint64_t key = 0; key < 50; ++key) {
    for (const std::uint64_t a : members) {
      for (const std::uint64_t b : members) {
        const bool higher = rendezvous_score(a, {key, 1}) > rendezvous_score(b, {key, 1});
        const bool before =
            rendezvous_rank(members, a, {key, 1}) < rendezvous_rank(members, b, {key, 1});
        ASSERT_EQ(before, higher);
      }
    }
  }
}

TEST(Rendezvous, AJoinerLeavesTheOthersInTheirOrder) {
  const auto members = fleet(6);
  const std::span<const std::uint64_t> before(members.data(), 5);
  for (std::uint64_t key = 0; key < 500; ++key) {
    const KeyHash hash{key, ~key};
    const std::size_t joiner = rendezvous_rank(members, members[5], hash);
    for (std::size_t i = 0; i < 5; ++i) {
      const std::size_t was = rendezvous_rank(before, members[i], hash);
      const std::size_t is = rendezvous_rank(members, members[i], hash);
      ASSERT_EQ(is, was + (joiner <= was ? 1 : 0));
    }
  }
}

// Workers of different versions agree on it.
TEST(Rendezvous, ScoresStayTheSameOverVersions) {
  EXPECT_EQ(rendezvous_score(1, {2, 3}), 15'020'427'595'393'229'491U);
}

}  // namespace
}  // namespace weir::limit
