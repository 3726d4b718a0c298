#include "server/http/rate_limit_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::server::http {
namespace {

using ::testing::StartsWith;

TEST(RateLimitBody, ReadsWhatProtobufWrites) {
  const std::string text = R"({"domain": "shop", "descriptors": [
      {"entries": [{"key": "user", "value": "ad\u0061"}, {"key": "path"}],
       "limit": {"requestsPerUnit": 5, "unit": "MINUTE"}, "hitsAddend": "18446744073709551615"},
      {"entries": [{"value": "/x", "key": "path"}], "hitsAddend": 0}], "hitsAddend": 3})";
  RateLimitBody body;
  ASSERT_EQ(body.read(text), std::nullopt);
  const guard::RateLimitAsk& ask = body.ask();
  EXPECT_EQ(ask.domain, "shop");
  EXPECT_EQ(ask.hits, 3u);
  ASSERT_EQ(ask.descriptors.size(), 2u);
  const guard::AskedDescriptor& first = ask.descriptors[0];
  ASSERT_EQ(first.entries.size(), 2u);
  EXPECT_EQ(first.entries[0].key, "user");
  EXPECT_EQ(first.entries[0].value, "ada");
  EXPECT_EQ(first.entries[1].key, "path");
  EXPECT_EQ(first.entries[1].value, "");
  ASSERT_TRUE(first.limit);
  EXPECT_EQ(first.limit->requests_per_unit, 5u);
  EXPECT_EQ(first.limit->unit, guard::LimitUnit::minute);
  EXPECT_EQ(first.hits, 18446744073709551615u);
  EXPECT_EQ(ask.descriptors[1].entries[0].value, "/x");
  EXPECT_EQ(ask.descriptors[1].hits, 0u);
  EXPECT_FALSE(ask.descriptors[1].limit);
}

TEST(RateLimitBody, TakesBothSpellingsAndNull) {
  RateLimitBody body;
  ASSERT_EQ(body.read(R"({"hits_addend": "7", "domain": null, "descriptors": [
      {"entries": null, "limit": {"requests_per_unit": "9", "unit": 4}, "hits_addend": null}]})"),
            std::nullopt);
  EXPECT_EQ(body.ask().hits, 7u);
  EXPECT_EQ(body.ask().domain, "");
  ASSERT_EQ(body.ask().descriptors.size(), 1u);
  EXPECT_EQ(body.ask().descriptors[0].limit->requests_per_unit, 9u);
  EXPECT_EQ(body.ask().descriptors[0].limit->unit, guard::LimitUnit::day);
  EXPECT_FALSE(body.ask().descriptors[0].hits);
}

TEST(RateLimitBody, ForgetsTheBodyBeforeAndZeroHitsAreOne) {
  RateLimitBody body;
  ASSERT_EQ(body.read(R"({"domain": "a", "hitsAddend": 9, "descriptors": [{}]})"), std::nullopt);
  ASSERT_EQ(body.read(R"({"hitsAddend": 0})"), std::nullopt);
  EXPECT_EQ(body.ask().domain, "");
  EXPECT_EQ(body.ask().hits, 1u);
  EXPECT_TRUE(body.ask().descriptors.empty());
}

TEST(RateLimitBody, AnUnknownNumberOfAUnitIsNoUnit) {
  RateLimitBody body;
  ASSERT_EQ(body.read(R"({"descriptors": [{"limit": {"unit": 4294967295}}]})"), std::nullopt);
  EXPECT_EQ(body.ask().descriptors[0].limit->unit, guard::LimitUnit::unknown);
}

TEST(RateLimitBody, BoundsDescriptorsAndEntriesTogether) {
  const auto with = [](std::size_t parts) {
    std::string text = R"({"descriptors":[{"entries":[)";
    for (std::size_t i = 1; i < parts; ++i) text += i == 1 ? "{}" : ",{}";
    return text + "]}]}";
  };
  RateLimitBody body;
  EXPECT_EQ(body.read(with(guard::kMaxAskParts)), std::nullopt);
  EXPECT_THAT(body.read(with(guard::kMaxAskParts + 1)).value_or(""),
              StartsWith("descriptors are more than 32768 together."));
}

TEST(RateLimitBody, SaysWhatIsWrong) {
  struct Row {
    const char* text;
    const char* problem;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"", "The body must be an object and is not JSON."},
           {"[]", "The body must be an object and is an array."},
           {R"({"domains": "x"})", "A member of the request is unknown."},
           {R"({"domain": 1})", "domain must be a string and is a number."},
           {R"({"domain": "a", "domain": "a"})", "The body has a member twice."},
           {R"({"hitsAddend": 1, "hits_addend": 1})", "The body has a member twice."},
           {R"({"hitsAddend": -1})", "hitsAddend must be a whole number from 0 to 4294967295."},
           {R"({"hitsAddend": 4294967296})", "hitsAddend must be a whole number"},
           {R"({"hitsAddend": "x"})", "hitsAddend must be a whole number"},
           {R"({"hitsAddend": true})", "hitsAddend must be a number and is true or false."},
           {R"({"descriptors": {}})", "descriptors must be an array and is an object."},
           {R"({"descriptors": [null]})", "A descriptor must be an object and is null."},
           {R"({"descriptors": [{"entry": []}]})", "A member of a descriptor is unknown."},
           {R"({"descriptors": [{"hitsAddend": 18446744073709551616}]})", "hitsAddend must be"},
           {R"({"descriptors": [{"limit": {"unit": "FORTNIGHT"}}]})", "unit must be SECOND"},
           {R"({"descriptors": [{"limit": {"limit": 1}}]})", "A member of limit is unknown."},
           {R"({"descriptors": [{"entries": [{"name": "a"}]}]})", "A member of an entry is unkn"},
           {R"({"domain": "a"} x)", "The body is not JSON, from byte 16 on: Something follows"},
           {R"({"domain": nul})", "domain must be a string and is not JSON."},
           {R"({"domain": nulls})", "The body is not JSON"},
       }) {
    RateLimitBody body;
    const auto problem = body.read(row.text);
    ASSERT_TRUE(problem) << row.text;
    EXPECT_THAT(*problem, StartsWith(row.problem)) << row.text;
  }
}

}  // namespace
}  // namespace weir::server::http
