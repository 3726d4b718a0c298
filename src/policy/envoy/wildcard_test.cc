#include "policy/envoy/wildcard.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace weir::policy {
namespace {

// Obviously right, and slow.
bool fits(std::string_view pattern, std::string_view value) {
  if (pattern.empty()) return value.empty();
  if (pattern.front() == '*')
    return fits(pattern.substr(1), value) || (!value.empty() && fits(pattern, value.substr(1)));
  return !value.empty() && value.front() == pattern.front() &&
         fits(pattern.substr(1), value.substr(1));
}

TEST(Wildcard, StandsForAnyBytesAnywhere) {
  EXPECT_TRUE(Wildcard("foo*").fits("foo"));
  EXPECT_TRUE(Wildcard("foo*").fits("foobar"));
  EXPECT_FALSE(Wildcard("foo*").fits("fo"));
  EXPECT_TRUE(Wildcard("*bar").fits("foobar"));
  EXPECT_TRUE(Wildcard("bar*b").fits("barb"));
  EXPECT_FALSE(Wildcard("bar*b").fits("bar"));
  EXPECT_TRUE(Wildcard("foo*bar*baz").fits("foo-bar-baz"));
  EXPECT_FALSE(Wildcard("foo*bar*baz").fits("foo-baz"));
  EXPECT_TRUE(Wildcard("*").fits(""));
  EXPECT_TRUE(Wildcard("**").fits("x"));
  EXPECT_FALSE(Wildcard("a*a").fits("a"));
}

TEST(Wildcard, AgreesWithTheNaiveMatchOnAllShortWords) {
  const auto words = [](std::string_view alphabet, std::size_t longest) {
    std::vector<std::string> out = {""};
    for (std::size_t begin = 0, length = 0; length < longest; ++length) {
      const std::size_t end = out.size();
      for (std::size_t i = begin; i < end; ++i)
        for (const char c : alphabet) out.push_back(out[i] + c);
      begin = end;
    }
    return out;
  };
  const auto values = words("ab", 6);
  for (const std::string& pattern : words("ab*", 5)) {
    if (!Wildcard::is_one(pattern)) continue;
    const Wildcard wildcard(pattern);
    for (const std::string& value : values)
      ASSERT_EQ(wildcard.fits(value), fits(pattern, value)) << pattern << " on " << value;
  }
}

TEST(Wildcard, TakesNoLongerForPatternsMadeToBeSlow) {
  const std::string value(100'000, 'a');
  EXPECT_FALSE(Wildcard("*a*a*a*a*a*a*a*a*a*a*a*b").fits(value));
  EXPECT_TRUE(Wildcard("*a*a*a*a*a*a*a*a*a*a*a*").fits(value));
}

}  // namespace
}  // namespace weir::policy
