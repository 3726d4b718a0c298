#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "testing/manual_clock.h"
#include "weir/guard.h"

// Requests as an HTTP door hands them over, through match, trusted proxies and values to the
// answer.

namespace weir {
namespace {

constexpr const char* kRequested = R"(
inputs: [user]
unmatched: refuse
trusted_proxies: [10.0.0.0/8]
routes:
  login:
    match: {method: POST, path: /login}
    limits: [1 per minute by ip]
    protects: security
  key:
    match: {path: /key/*}
    limits: [1 per minute by header:X-API-Key]
    protects: capacity
  session:
    match: {path: /session}
    limits: [{requests: 1, per: minute, by: 'cookie:sid', strict: true}]
    protects: capacity
)";

class GuardRequestTest : public ::testing::Test {
 protected:
  Decision ask(std::string_view method, std::string_view target,
               std::vector<Descriptor> headers = {}, std::string_view peer = "192.0.2.7:80") {
    return guard_.check_request(
        {.method = method, .target = target, .peer = peer, .headers = headers});
  }

  testing::ManualClock clock_;
  Guard guard_ = Guard::open(Policy::parse(kRequested).value(), {.clock = &clock_}).value();
};

TEST_F(GuardRequestTest, FindsItsRouteHoweverThePathIsSpelt) {
  EXPECT_EQ(ask("POST", "/login").verdict, Verdict::allowed);
  for (const std::string_view target :
       {"/login/", "//login", "/%6cogin", "/x/../login?a=b", "http://h/./login"}) {
    const Decision decision = ask("POST", target);
    EXPECT_EQ(decision.verdict, Verdict::limited) << target;
    EXPECT_EQ(decision.route, "login") << target;
  }
}

TEST_F(GuardRequestTest, RefusesWhatNoRouteMatchesAsThePolicySays) {
  EXPECT_EQ(ask("GET", "/login").reason, Reason::unmatched_request);
  EXPECT_EQ(ask("POST", "/logins").reason, Reason::unmatched_request);
}

TEST_F(GuardRequestTest, RefusesWhatIsMalformed) {
  const auto fault = [](const Decision& decision) {
    EXPECT_EQ(decision.reason, Reason::invalid_request);
    EXPECT_EQ(decision.http_status(), 400);
    return decision.fault;
  };
  EXPECT_EQ(fault(ask("G T", "/login")), "the method is no token of at most 32 bytes");
  EXPECT_EQ(fault(ask("POST", "/%zz")), "the target holds no path that can be matched");
  EXPECT_EQ(fault(ask("POST", "api")), "the target holds no path that can be matched");
  EXPECT_EQ(fault(ask("POST", "/login", {{"Host", "a"}, {"Host", "b"}})),
            "there are different Hosts, or one that is no host");
  EXPECT_EQ(fault(ask("POST", "/login", {}, "nobody")), "the peer is no address");
  EXPECT_EQ(fault(ask("POST", "/login", {{"", "x"}})), "a header has no name");
}

// A client that changes its X-Forwarded-For gets no fresh counter, be it read from the left or
// from a peer that is no proxy.
TEST_F(GuardRequestTest, GivesNoFreshCounterToAForgedAddress) {
  EXPECT_TRUE(
      ask("POST", "/login", {{"X-Forwarded-For", "1.1.1.1, 2.2.2.2"}}, "10.0.0.1").allowed());
  EXPECT_FALSE(
      ask("POST", "/login", {{"X-Forwarded-For", "9.9.9.9,2.2.2.2"}}, "10.0.0.2").allowed());
  EXPECT_TRUE(ask("POST", "/login", {{"X-Forwarded-For", "3.3.3.3"}}).allowed());
  EXPECT_FALSE(ask("POST", "/login", {{"X-Forwarded-For", "4.4.4.4"}}).allowed());
}

TEST_F(GuardRequestTest, CountsHeadersInAnyCase) {
  EXPECT_TRUE(ask("GET", "/key/a", {{"x-api-key", "k"}}).allowed());
  EXPECT_FALSE(ask("GET", "/key/b", {{"X-API-KEY", "k"}}).allowed());
  EXPECT_FALSE(guard_.check("key", {{"header:x-api-key", "k"}}).allowed());
  EXPECT_FALSE(guard_.check("key", {{"header:X-API-Key", "k"}}).allowed());
  EXPECT_TRUE(ask("GET", "/key/a").allowed());
}

TEST_F(GuardRequestTest, RefusesAStrictRuleWithoutItsValue) {
  const Decision lacking = ask("GET", "/session");
  EXPECT_EQ(lacking.reason, Reason::missing_value);
  EXPECT_EQ(lacking.fault, "cookie:sid");
  EXPECT_EQ(ask("GET", "/session", {{"Cookie", "sid=a; sid=b"}}).reason, Reason::missing_value);
  EXPECT_TRUE(ask("GET", "/session", {{"Cookie", "sid=a"}}).allowed());
}

TEST_F(GuardRequestTest, RefusesValuesThatCannotBeToldInFull) {
  const std::string large(12'000, 'x');
  const Decision decision = ask("GET", "/key/a", {{"X-API-Key", large}, {"X-API-Key", large}});
  EXPECT_EQ(decision.reason, Reason::invalid_request);
  EXPECT_EQ(decision.fault, "the values that the route counts by are together above 16 KiB");
  EXPECT_TRUE(ask("GET", "/key/a", {{"X-API-Key", large}}).allowed());
}

}  // namespace
}  // namespace weir
