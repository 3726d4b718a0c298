#include "base/random.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace weir {
namespace {

// The generator's published numbers. Which worker takes part in a key, and in which order, hangs on
// them: workers of two versions must agree.
TEST(Random, IsSplitMix64) {
  std::uint64_t state = 1234567;
  for (const std::uint64_t expected :
       {6457827717110365317U, 3203168211198807973U, 9817491932198370423U, 4593380528125082431U,
        16408922859458223821U})
    EXPECT_EQ(next_random(state), expected);
  EXPECT_EQ(spread_bits(1234567), 6457827717110365317U);
}

TEST(Random, OfTheMachineDoesNotRepeatItself) {
  EXPECT_NE(random_number(), random_number());
}

}  // namespace
}  // namespace weir
