#include "guard/untold_requests.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::guard {
namespace {

RequestName nth_request(std::uint32_t number, std::size_t place) {
  RequestName name;
  for (std::size_t i = 0; i < 4; ++i) name.key[i] = static_cast<char>(number >> (8 * i));
  name.place = std::string(place, 'p');
  return name;
}

TEST(UntoldRequests, AreTakenInTheOrderInWhichTheyCame) {
  UntoldRequests untold;
  for (std::uint32_t i = 0; i < 5; ++i) untold.keep(nth_request(i, i));
  for (const std::uint32_t begin : {0U, 2U, 4U}) {
    const auto taken = untold.take(2);
    ASSERT_EQ(taken.size(), begin == 4 ? 1U : 2U);
    for (std::uint32_t i = 0; i < taken.size(); ++i) {
      EXPECT_EQ(taken[i].key, nth_request(begin + i, 0).key);
      EXPECT_EQ(taken[i].place.size(), begin + i);
    }
  }
  EXPECT_EQ(untold.size(), 0U);
  EXPECT_EQ(untold.bytes(), 0U);
}

// In a long outage with the longest values the first are dropped, and memory stays what it is.
TEST(UntoldRequests, HoldNoMoreBytesThanTheirBoundHoweverLongTheirPlacesAre) {
  constexpr std::size_t kPlace = 520;
  constexpr std::uint32_t kCame = 100'000;
  static_assert(kCame < UntoldRequests::kMost && kCame * kPlace > UntoldRequests::kMostBytes);
  UntoldRequests untold;
  for (std::uint32_t i = 0; i < kCame; ++i) untold.keep(nth_request(i, kPlace));
  EXPECT_LE(untold.bytes(), UntoldRequests::kMostBytes);
  EXPECT_GT(untold.bytes() + 2 * (sizeof(RequestName) + kPlace), UntoldRequests::kMostBytes);
  const auto left = static_cast<std::uint32_t>(untold.size());
  EXPECT_EQ(untold.take(1).at(0).key, nth_request(kCame - left, 0).key);
  EXPECT_EQ(untold.take(kCame).back().key, nth_request(kCame - 1, 0).key);
  EXPECT_EQ(untold.bytes(), 0U);
}

}  // namespace
}  // namespace weir::guard
