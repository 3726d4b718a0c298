#include "cli/answer_difference.h"

#include <gtest/gtest.h>

#include "cli/descriptor_words.h"

namespace weir::cli {
namespace {

drill::RlsAnswer answer(std::uint64_t remaining, std::string code = "OK") {
  return {.overall = code,
          .statuses = {{.code = code,
                        .limited = true,
                        .requests_per_unit = 10,
                        .unit = "MINUTE",
                        .name = "n",
                        .remaining = remaining,
                        .reset_seconds = 30}}};
}

std::string told(const drill::RlsAnswer& a, const drill::RlsAnswer& b, ComparisonRules rules = {}) {
  std::string out;
  for (const AnswerDifference& each : differences(a, b, rules)) {
    out += std::string(each.field) + " " + each.old_says + "/" + each.new_says + ";";
  }
  return out;
}

TEST(AnswerDifference, IsOfCodeLimitRemainingAndReset) {
  EXPECT_EQ(told(answer(4), answer(4)), "");
  EXPECT_EQ(told(answer(4), answer(5)), "remaining 4/5;");
  EXPECT_EQ(told(answer(0), answer(0, "OVER_LIMIT")),
            "overall_code OK/OVER_LIMIT;code OK/OVER_LIMIT;");
  drill::RlsAnswer other = answer(4);
  other.statuses[0].unit = "HOUR";
  other.statuses[0].reset_seconds = 3'000;
  EXPECT_EQ(told(answer(4), other), "limit 10 per MINUTE (n)/10 per HOUR (n);reset 30 s/3000 s;");
  other.statuses[0] = {.code = "OK", .limited = false, .remaining = 0, .reset_seconds = {}};
  EXPECT_EQ(told(answer(4), other), "limit 10 per MINUTE (n)/none;remaining 4/0;reset 30 s/none;");
  other.statuses.clear();
  EXPECT_EQ(told(answer(4), other), "statuses 1/0;");
}

TEST(AnswerDifference, ASecondMayPassBetweenTheAsks) {
  drill::RlsAnswer later = answer(4);
  later.statuses[0].reset_seconds = 29;
  EXPECT_EQ(told(answer(4), later), "");
  later.statuses[0].reset_seconds = 28;
  EXPECT_EQ(told(answer(4), later), "reset 30 s/28 s;");
}

TEST(AnswerDifference, OnOneBudgetTheSecondHasLessLeft) {
  const ComparisonRules one{.taken_between = 2};
  EXPECT_EQ(told(answer(4), answer(2), one), "");
  EXPECT_EQ(told(answer(4), answer(4), one), "remaining 2/4;");
  EXPECT_EQ(told(answer(1), answer(0, "OVER_LIMIT"), one), "") << "the first took the last";
  EXPECT_EQ(told(answer(1), answer(0), one),
            "overall_code OK with the last units/OK;code OK with the last units/OK;");
  // Which of them are in shadow mode is nothing that the answers tell.
  const ComparisonRules shadow{.taken_between = 2, .shadow = true};
  EXPECT_EQ(told(answer(1), answer(0), shadow), "");
  EXPECT_EQ(told(answer(1), answer(0, "OVER_LIMIT"), shadow), "");
  EXPECT_EQ(told(answer(1), answer(1), shadow), "remaining 0/1;");
  EXPECT_EQ(told(answer(2), answer(0, "OVER_LIMIT"), one),
            "overall_code OK/OVER_LIMIT;code OK/OVER_LIMIT;");
  EXPECT_EQ(told(answer(0, "OVER_LIMIT"), answer(0, "OVER_LIMIT"), one), "");
}

TEST(DescriptorWords, AreADomainAndItsDescriptors) {
  const auto request = read_request("  shop user=ada  path=/x,remote_address=192.0.2.7 ");
  ASSERT_TRUE(request);
  EXPECT_EQ(request->domain, "shop");
  ASSERT_EQ(request->descriptors.size(), 2U);
  EXPECT_EQ(descriptor_word(request->descriptors[1]), "path=/x,remote_address=192.0.2.7");
  EXPECT_EQ(read_descriptor("a=b=c")->front().second, "b=c");
  EXPECT_EQ(read_descriptor("a=")->front().second, "");
  for (const char* text : {"", "shop", "shop user", "shop =x", "shop user=ada path"}) {
    EXPECT_FALSE(read_request(text)) << text;
  }
}

}  // namespace
}  // namespace weir::cli
