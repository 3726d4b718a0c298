#include "limit/reciprocal.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "limit/reach.h"

namespace weir::limit {
namespace {

TEST(Reciprocal, IsRightAroundEveryMultipleOfSmallDivisors) {
  for (std::uint64_t d = 1; d <= 300; ++d) {
    const std::uint64_t r = reciprocal_of(d);
    for (std::uint64_t n = 0; n <= 3'000; ++n) ASSERT_EQ(quotient(n, d, r), n / d) << n << '/' << d;
  }
}

TEST(Reciprocal, IsRightAtTheLargestNumbers) {
  constexpr std::uint64_t kTop = (std::uint64_t{1} << 63) - 1;
  for (unsigned bit = 0; bit < 63; ++bit) {
    for (const std::uint64_t d : {(std::uint64_t{1} << bit), (std::uint64_t{1} << bit) + 1,
                                  (std::uint64_t{2} << bit) - 1}) {
      const std::uint64_t r = reciprocal_of(d);
      for (const std::uint64_t n : {kTop, kTop - 1, kTop / d * d, kTop / d * d - 1, d, d - 1}) {
        ASSERT_EQ(quotient(n, d, r), n / d) << n << '/' << d;
      }
    }
  }
}

RC_GTEST_PROP(Reciprocal, DividesAsTheMachineDoes, (std::uint64_t n, std::uint64_t d)) {
  n >>= 1 + d % 60;
  d = (d >> (n % 60)) | 1;
  RC_ASSERT(quotient(n, d, reciprocal_of(d)) == n / d);
}

}  // namespace
}  // namespace weir::limit
