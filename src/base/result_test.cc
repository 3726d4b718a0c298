#include "weir/result.h"

#include <gtest/gtest.h>

namespace weir {
namespace {

TEST(Result, HoldsAValueOrAnError) {
  Result<int> good = 7;
  EXPECT_TRUE(good.has_value());
  EXPECT_EQ(*good, 7);
  Result<int> bad = Error{ErrorCode::not_found, "no such thing"};
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::not_found);
}

TEST(Result, ValueOfAnErrorThrowsItsMessage) {
  Result<int> bad = Error{ErrorCode::unavailable, "the store did not answer"};
  try {
    (void)bad.value();
    FAIL() << "value() returned";
  } catch (const BadResultAccess& e) {
    EXPECT_STREQ(e.what(), "the store did not answer");
    EXPECT_EQ(e.error().code, ErrorCode::unavailable);
  }
}

}  // namespace
}  // namespace weir
