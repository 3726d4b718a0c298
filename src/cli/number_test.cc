#include "cli/number.h"

#include <gtest/gtest.h>

namespace weir::cli {
namespace {

TEST(Number, TakesDecimalDigitsAndNothingElse) {
  EXPECT_EQ(parse_number("0"), 0U);
  EXPECT_EQ(parse_number("010"), 10U) << "not octal";
  EXPECT_EQ(parse_number("18446744073709551615"), 18446744073709551615U);
  for (const char* wrong :
       {"", "-1", "+1", " 1", "1 ", "0x10", "1e3", "1.0", "1,000", "one", "18446744073709551616"}) {
    EXPECT_EQ(parse_number(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace weir::cli
