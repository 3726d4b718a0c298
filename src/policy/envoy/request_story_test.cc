#include "policy/envoy/request_story.h"

#include <gtest/gtest.h>

#include <string>

#include "policy/load.h"

namespace weir::policy {
namespace {

constexpr const char* kDomain = R"(domain: shop
descriptors:
  - key: user
    descriptors:
      - {key: path, rate_limit: {unit: minute, requests_per_unit: 5}}
      - {key: path, value: '/api*', share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 50}}
  - key: free
    shadow_mode: true
    rate_limit: {unlimited: true}
)";

std::string story(std::string_view request) {
  const Loaded loaded = load_text(kDomain, "shop.yaml");
  EXPECT_TRUE(loaded.model);
  const auto out = request_story(*loaded.model, request);
  return out ? *out : out.error().message;
}

TEST(RequestStory, SaysWhichLimitIsMetAndByWhichWay) {
  EXPECT_EQ(story("shop user=ada,path=/x"),
            "domain shop\n"
            "  user=ada  fits any value\n"
            "  path=/x  fits any value\n"
            "meets the limit of user.path (shop.yaml:5): 5 per minute, fixed_window\n");
  EXPECT_EQ(
      story("shop user=ada,path=/api/x"),
      "domain shop\n"
      "  user=ada  fits any value\n"
      "  path=/api/x  fits the wildcard /api*, which comes before any value\n"
      "meets the limit of user.path_/api* (shop.yaml:6): 50 per hour, fixed_window; all values "
      "of path like /api* are one counter\n");
  EXPECT_EQ(story("shop free=x"),
            "domain shop\n"
            "  free=x  fits any value\n"
            "meets the limit of free (shop.yaml:9): unlimited\n");
}

TEST(RequestStory, SaysWhyNoLimitIsMet) {
  EXPECT_EQ(story("shop user=ada"),
            "domain shop\n"
            "  user=ada  fits any value\n"
            "meets no limit: there is none here, only below, for path, path_/api*; allowed\n");
  EXPECT_EQ(story("shop path=/x"),
            "domain shop\n"
            "  path=/x  fits nothing here; there is: user, free\n"
            "meets no limit: allowed\n");
  EXPECT_EQ(story("shop free=x,path=y"),
            "domain shop\n"
            "  free=x  fits any value\n"
            "  path=y  is more than the way has: nothing stands below\n"
            "meets no limit: allowed\n");
}

TEST(RequestStory, SaysWhatElseWouldHaveFitted) {
  const Loaded loaded = load_text(R"(domain: d
descriptors:
  - {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}
  - {key: k, value: 'a*', rate_limit: {unit: minute, requests_per_unit: 2}}
  - {key: k, value: 'ab*', rate_limit: {unit: minute, requests_per_unit: 3}}
  - {key: k, value: abc, rate_limit: {unit: minute, requests_per_unit: 4}}
)",
                                  "d.yaml");
  ASSERT_TRUE(loaded.model);
  EXPECT_EQ(
      request_story(*loaded.model, "d k=abc").value(),
      "domain d\n"
      "  k=abc  fits the value abc, which comes before the wildcard a*, the wildcard ab*, any "
      "value\n"
      "meets the limit of k_abc (d.yaml:6): 4 per minute, fixed_window\n");
  EXPECT_EQ(request_story(*loaded.model, "d k=abd").value(),
            "domain d\n"
            "  k=abd  fits the wildcard a*, which comes before the wildcard ab*, any value\n"
            "meets the limit of k_a* (d.yaml:4): 2 per minute, fixed_window\n");
}

TEST(RequestStory, TakesEscapedSigns) {
  EXPECT_NE(story("shop us\\=er=a\\,b").find("us=er=a,b  fits nothing"), std::string::npos);
  EXPECT_NE(story("shop user=a=b").find("user=a=b  fits any value"), std::string::npos);
}

TEST(RequestStory, SaysWhatItDoesNotUnderstand) {
  EXPECT_EQ(story("shop"),
            "the request has no domain, or no entries; allowed: DOMAIN KEY=VALUE[,KEY=VALUE ...]");
  EXPECT_EQ(story("shop user"),
            "the request has an entry without a key and '='; allowed: DOMAIN KEY=VALUE[,KEY=VALUE "
            "...]");
  EXPECT_EQ(story("other user=a"), "the policy has no domain 'other'");
}

}  // namespace
}  // namespace weir::policy
