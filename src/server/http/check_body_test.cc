#include "server/http/check_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::server::http {
namespace {

using testing::StartsWith;

TEST(CheckBody, ReadsTheRouteForm) {
  CheckBody body;
  const std::string text =
      R"({"cost": 3, "route": "lo\u0067in", "descriptors": {"ip": "192.0.2.7", "user": "\u00e9"}})";
  ASSERT_EQ(body.read(text), std::nullopt);
  EXPECT_FALSE(body.by_request);
  EXPECT_EQ(body.route, "login");
  EXPECT_EQ(body.cost, 3u);
  ASSERT_EQ(body.descriptors.size(), 2u);
  EXPECT_EQ(body.descriptors[0].name, "ip");
  EXPECT_EQ(body.descriptors[0].value, "192.0.2.7");
  EXPECT_EQ(body.descriptors[1].value, "\xc3\xa9");
}

TEST(CheckBody, ReadsTheRequestForm) {
  CheckBody body;
  const std::string text = R"({"request": {"method": "GET", "path": "/a?b", "peer": "192.0.2.7:1",
      "headers": {"X-Forwarded-For": ["1.1.1.1", "2.2.2.2"], "x-api-key": "k"}}})";
  ASSERT_EQ(body.read(text), std::nullopt);
  EXPECT_TRUE(body.by_request);
  EXPECT_EQ(body.method, "GET");
  EXPECT_EQ(body.path, "/a?b");
  EXPECT_EQ(body.peer, "192.0.2.7:1");
  ASSERT_EQ(body.headers.size(), 3u);
  EXPECT_EQ(body.headers[0].name, "X-Forwarded-For");
  EXPECT_EQ(body.headers[1].value, "2.2.2.2");
  EXPECT_EQ(body.headers[2].name, "x-api-key");
  EXPECT_EQ(body.cost, 1u);
}

TEST(CheckBody, ReadsTheDomainForm) {
  CheckBody body;
  const std::string text = R"({"descriptors": [[{"key": "user", "value": "a\u0064a"}],
      [], [{"key": "path", "value": "/x"}, {"key": "ip"}]], "domain": "shop", "cost": 0})";
  ASSERT_EQ(body.read(text), std::nullopt);
  ASSERT_TRUE(body.by_domain);
  EXPECT_EQ(body.ask().domain, "shop");
  EXPECT_EQ(body.ask().hits, 0u);
  ASSERT_EQ(body.ask().descriptors.size(), 3u);
  EXPECT_EQ(body.ask().descriptors[0].entries[0].value, "ada");
  EXPECT_TRUE(body.ask().descriptors[1].entries.empty());
  ASSERT_EQ(body.ask().descriptors[2].entries.size(), 2u);
  EXPECT_EQ(body.ask().descriptors[2].entries[1].key, "ip");
  ASSERT_EQ(body.read(R"({"domain": "d"})"), std::nullopt);
  EXPECT_TRUE(body.ask().descriptors.empty());
  ASSERT_EQ(body.read(R"({"route": "a"})"), std::nullopt);
  EXPECT_FALSE(body.by_domain);
}

TEST(CheckBody, ForgetsTheBodyBefore) {
  CheckBody body;
  ASSERT_EQ(body.read(R"({"route": "a", "descriptors": {"ip": "x"}, "cost": 7})"), std::nullopt);
  ASSERT_EQ(body.read(R"({"route": "b"})"), std::nullopt);
  EXPECT_EQ(body.route, "b");
  EXPECT_TRUE(body.descriptors.empty());
  EXPECT_EQ(body.cost, 1u);
}

TEST(CheckBody, KeepsAnEmptyValueApartFromNone) {
  CheckBody body;
  ASSERT_EQ(body.read(R"({"route": "", "descriptors": {"": ""}})"), std::nullopt);
  ASSERT_EQ(body.descriptors.size(), 1u);
  EXPECT_NE(body.descriptors[0].value.data(), nullptr);
  EXPECT_EQ(body.descriptors[0].value, "");
}

TEST(CheckBody, NamesTheFieldThatIsWrong) {
  struct Row {
    const char* text;
    const char* problem;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"", "The body must be an object and is not JSON."},
           {"[]", "The body must be an object and is an array."},
           {"null", "The body must be an object and is null."},
           {"{}", "route is missing"},
           {R"({"route": 1})", "route must be a string and is a number."},
           {R"({"route": null})", "route must be a string and is null."},
           {R"({"route": "a", "route": "a"})", "route is given twice."},
           {R"({"route": "a", "rout": "a"})",
            "rout is unknown; allowed: route, descriptors, request, domain, cost."},
           {R"({"route": "a", "\n": 1})", "(unprintable) is unknown"},
           {R"({"route": "a", "descriptors": []})",
            "descriptors is an array, which goes with domain"},
           {R"({"domain": "d", "descriptors": {"ip": "1"}})",
            "descriptors must be an array of lists of {\"key\", \"value\"} beside domain."},
           {R"({"domain": "d", "route": "a"})", "domain stands beside route or request"},
           {R"({"domain": "d", "domain": "d"})", "domain is given twice."},
           {R"({"domain": "d", "descriptors": [{}]})",
            "descriptors must be an array and is an object."},
           {R"({"domain": "d", "descriptors": [[1]]})",
            "descriptors must be an object and is a number."},
           {R"({"domain": "d", "descriptors": [[{"value": "a"}]]})", "descriptors.key is missing."},
           {R"({"domain": "d", "descriptors": [[{"key": "a", "key": "b"}]]})",
            "descriptors.key is given twice."},
           {R"({"domain": "d", "descriptors": [[{"key": "a", "limit": 1}]]})",
            "descriptors.limit is unknown; allowed: key, value."},
           {R"({"route": "a", "descriptors": {"ip": 7}})",
            "descriptors.ip must be a string and is a number."},
           {R"({"route": "a", "descriptors": {"header:X-A": {}}})",
            "descriptors.header:X-A must be a string and is an object."},
           {R"({"route": "a", "descriptors": {"ip": "1", "i\u0070": "2"}})",
            "descriptors.ip is given twice."},
           {R"({"route": "a", "cost": "1"})", "cost must be a number and is a string."},
           {R"({"route": "a", "cost": -1})", "cost must be a whole number from 0 to 4294967295."},
           {R"({"route": "a", "cost": 1.0})", "cost must be a whole number from 0 to 4294967295."},
           {R"({"route": "a", "cost": 1e3})", "cost must be a whole number from 0 to 4294967295."},
           {R"({"route": "a", "cost": 4294967296})", "cost must be a whole number"},
           {R"({"route": "a", "cost": 99999999999999999999})", "cost must be a whole number"},
           {R"({"route": "a", "cost": 1, "cost": 1})", "cost is given twice."},
           {R"({"route": "a", "request": {"method": "GET", "path": "/"}})",
            "request stands beside route or descriptors; give request alone"},
           {R"({"request": {"method": "GET", "path": "/"}, "descriptors": {"ip": "1"}})",
            "request stands beside route or descriptors; give request alone"},
           {R"({"request": "GET /"})", "request must be an object and is a string."},
           {R"({"request": {}})", "request.method is missing."},
           {R"({"request": {"method": "GET"}})", "request.path is missing."},
           {R"({"request": {"method": "GET", "path": "/", "uri": ""}})",
            "request.uri is unknown; allowed: method, path, peer, headers."},
           {R"({"request": {"method": 1}})", "request.method must be a string and is a number."},
           {R"({"request": {"headers": {"a": [1]}}})",
            "request.headers.a must be a string and is a number."},
           {R"({"request": {"headers": {"a": "1", "a": "2"}}})",
            "request.headers.a is given twice"},
           {R"({"route": "a"} x)", "The body is not JSON, from byte 15 on: Something follows"},
           {R"({"route": "a)", "The body is not JSON, from byte 12 on: A string does not end."},
           {R"({"route": "a\q"})", "The body is not JSON, from byte 14 on: An escape"},
           {R"({"route": "a",})", "The body is not JSON, from byte 14 on: A member's name"},
       }) {
    CheckBody body;
    const auto problem = body.read(row.text);
    ASSERT_TRUE(problem) << row.text;
    EXPECT_THAT(*problem, StartsWith(row.problem)) << row.text;
  }
}

TEST(CheckBody, BoundsListsAndEntriesTogether) {
  std::string lists = R"({"domain": "d", "descriptors": [[])";
  for (std::size_t i = 1; i < guard::kMaxAskParts; ++i) lists += ",[]";
  CheckBody body;
  EXPECT_EQ(body.read(lists + "]}"), std::nullopt);
  EXPECT_THAT(body.read(lists + ",[]]}").value_or(""), StartsWith("descriptors hold more than"));
}

TEST(CheckBody, BoundsDescriptorsAndHeaders) {
  const auto with = [](const char* before, std::size_t count, const char* after) {
    std::string text = before;
    for (std::size_t i = 0; i < count; ++i) {
      text += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":\"v\"";
    }
    return text + after;
  };
  CheckBody body;
  EXPECT_EQ(body.read(with(R"({"route":"a","descriptors":{)", kMaxDescriptors, "}}")),
            std::nullopt);
  EXPECT_THAT(
      body.read(with(R"({"route":"a","descriptors":{)", kMaxDescriptors + 1, "}}")).value_or(""),
      StartsWith("descriptors has more than 64 members"));
  const char* request = R"({"request":{"method":"GET","path":"/","headers":{)";
  EXPECT_EQ(body.read(with(request, CheckBody::kMaxHeaders, "}}}")), std::nullopt);
  EXPECT_THAT(body.read(with(request, CheckBody::kMaxHeaders + 1, "}}}")).value_or(""),
              StartsWith("request.headers has more than 256 values"));
}

}  // namespace
}  // namespace weir::server::http
