#include "guard/route_limiter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "guard/impl.h"
#include "testing/manual_clock.h"
#include "testing/rate_limit_listeners.h"

namespace weir::guard {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using weir::testing::NobodyListens;

constexpr const char* kRoutes = R"(
inputs: [user, plan]
routes:
  login:
    limits:
      - {requests: 2, per: minute, by: [ip], algorithm: fixed_window, name: by_ip}
      - {requests: 10, per: hour, by: [user], algorithm: fixed_window, name: by_user}
    protects: security
  pair:
    limits:
      - {requests: 1, per: day, by: [user, plan], algorithm: fixed_window}
    protects: capacity
  all:
    limits:
      - {requests: 3, per: 90s, algorithm: fixed_window, name: everybody}
    protects: capacity
  header:
    limits:
      - {requests: 1, per: minute, by: ["header:X-API-Key"], algorithm: fixed_window}
    protects: capacity
  monthly:
    limits: [{requests: 2, per: month, by: [user], algorithm: fixed_window}]
    protects: capacity
  quarterly:
    limits: [{requests: 2, per: 3 months, by: [user], algorithm: fixed_window}]
    protects: capacity
  watched:
    shadow: true
    limits:
      - {requests: 1, per: minute, by: [ip], algorithm: fixed_window}
    protects: capacity
)";

class RouteLimiterTest : public ::testing::Test {
 protected:
  using Entries = std::vector<DescriptorEntry>;
  struct Asked {
    Entries entries;
    std::optional<std::uint64_t> hits = std::nullopt;
  };

  RateLimitAnswer ask(std::string_view domain, const std::vector<Asked>& descriptors,
                      std::uint64_t hits = 1) {
    std::vector<AskedDescriptor> asked;
    for (const Asked& each : descriptors) asked.push_back({each.entries, std::nullopt, each.hits});
    RateLimitAnswer answer;
    EXPECT_TRUE(
        limiter.decide({.domain = domain, .descriptors = asked, .hits = hits}, answer, nobody, 0));
    EXPECT_EQ(answer.statuses.size(), descriptors.size());
    return answer;
  }

  weir::testing::ManualClock clock;
  Guard guard = Guard::open(Policy::parse(kRoutes).value(), {.clock = &clock}).value();
  RouteLimiter limiter{guard};
  NobodyListens nobody;
};

TEST_F(RouteLimiterTest, TheDomainIsTheRouteAndEachEntryASource) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(ask("login", {{{{"ip", "192.0.2.1"}, {"user", "ann"}}}}).decision.allowed());
  }
  const auto denied = ask("login", {{{{"ip", "192.0.2.1"}, {"user", "ann"}}}});
  EXPECT_EQ(denied.decision.verdict, Verdict::limited);
  EXPECT_TRUE(denied.statuses[0].over);
  EXPECT_EQ(denied.statuses[0].limit->name, "by_ip");
  EXPECT_EQ(denied.statuses[0].limit->unit, LimitUnit::minute);
  EXPECT_EQ(denied.statuses[0].remaining, 0U);
  // The same counters as everywhere else.
  EXPECT_FALSE(guard.check("login", {{"ip", "192.0.2.1"}, {"user", "bob"}}).allowed());
}

TEST_F(RouteLimiterTest, EnvoysRemoteAddressIsTheIp) {
  EXPECT_TRUE(ask("login", {{{{"remote_address", "192.0.2.1"}}}}, 2).decision.allowed());
  EXPECT_FALSE(guard.check("login", {{"ip", "192.0.2.1"}}).allowed());
}

TEST_F(RouteLimiterTest, DescriptorsTogetherAreOneRequestAndEachHasItsStatus) {
  const std::vector<Asked> asked = {{{{"ip", "192.0.2.1"}}}, {{{"user", "ann"}}}, {{{"no", "x"}}}};
  auto answer = ask("login", asked);
  EXPECT_TRUE(answer.decision.allowed());
  EXPECT_EQ(answer.statuses[0].limit->name, "by_ip");
  EXPECT_EQ(answer.statuses[0].remaining, 1U);
  EXPECT_EQ(answer.statuses[1].limit->name, "by_user");
  EXPECT_EQ(answer.statuses[1].remaining, 9U);
  EXPECT_EQ(answer.statuses[1].limit->unit, LimitUnit::hour);
  EXPECT_FALSE(answer.statuses[2].limit);
  EXPECT_FALSE(answer.statuses[2].over);
  (void)ask("login", asked);
  // One denies: none is charged, and each says how it stands.
  for (int i = 0; i < 5; ++i) answer = ask("login", asked);
  EXPECT_EQ(answer.decision.verdict, Verdict::limited);
  EXPECT_TRUE(answer.statuses[0].over);
  EXPECT_FALSE(answer.statuses[1].over);
  EXPECT_EQ(answer.statuses[1].remaining, 8U);
}

TEST_F(RouteLimiterTest, ARuleByTwoSourcesIsToldToBothDescriptors) {
  const std::vector<Asked> asked = {{{{"user", "ann"}}}, {{{"plan", "free"}}}};
  (void)ask("pair", asked);
  const auto denied = ask("pair", asked);
  EXPECT_TRUE(denied.statuses[0].over);
  EXPECT_TRUE(denied.statuses[1].over);
}

TEST_F(RouteLimiterTest, ARuleByNothingIsToldToEveryDescriptor) {
  const auto answer = ask("all", {{{{"a", "1"}}}, {}});
  EXPECT_EQ(answer.statuses[0].limit->name, "everybody");
  EXPECT_EQ(answer.statuses[1].limit->name, "everybody");
  EXPECT_EQ(answer.statuses[1].remaining, 2U);
  // 90 seconds are no unit of the protocol's: unknown rather than wrong.
  EXPECT_EQ(answer.statuses[1].limit->unit, LimitUnit::unknown);
}

TEST_F(RouteLimiterTest, AMonthIsOneHoweverLongItIs) {
  for (int month = 0; month < 12; ++month) {
    clock.advance(std::chrono::days(30));
    const auto answer = ask("monthly", {{{{"user", "ann"}}}});
    EXPECT_EQ(answer.statuses[0].limit->unit, LimitUnit::month) << month;
    EXPECT_EQ(ask("quarterly", {{{{"user", "bob"}}}}).statuses[0].limit->unit, LimitUnit::unknown);
    clock.advance(std::chrono::days(1));
  }
}

TEST_F(RouteLimiterTest, HeadersAreEntriesUnderTheirSourcesName) {
  EXPECT_TRUE(ask("header", {{{{"header:X-API-Key", "k"}}}}).decision.allowed());
  EXPECT_FALSE(ask("header", {{{{"header:X-API-Key", "k"}}}}).decision.allowed());
  EXPECT_TRUE(ask("header", {{{{"header:X-API-Key", "l"}}}}).decision.allowed());
}

TEST_F(RouteLimiterTest, KeysAndValuesAreNeverJoined) {
  // One a day by user and plan: a_b + c is not a + b_c, and a value may equal its key.
  EXPECT_TRUE(ask("pair", {{{{"user", "a_b"}, {"plan", "c"}}}}).decision.allowed());
  EXPECT_TRUE(ask("pair", {{{{"user", "a"}, {"plan", "b_c"}}}}).decision.allowed());
  EXPECT_TRUE(ask("pair", {{{{"user", "user"}, {"plan", "plan"}}}}).decision.allowed());
  EXPECT_TRUE(ask("pair", {{{{"user", ""}, {"plan", ""}}}}).decision.allowed());
  EXPECT_FALSE(ask("pair", {{{{"user", ""}, {"plan", ""}}}}).decision.allowed());
}

TEST_F(RouteLimiterTest, AnyBytesAndLongValuesAreCounted) {
  const std::string binary("\0\xff\xfe", 3);
  const std::string longer(8192, 'x');
  for (const std::string& value : {binary, longer}) {
    EXPECT_TRUE(ask("pair", {{{{"user", value}, {"plan", "p"}}}}).decision.allowed());
    EXPECT_FALSE(ask("pair", {{{{"user", value}, {"plan", "p"}}}}).decision.allowed());
  }
}

TEST_F(RouteLimiterTest, HitsOfADescriptorHoldAndZeroIsAProbe) {
  EXPECT_EQ(ask("all", {{{}, 0}}).statuses[0].remaining, 3U);
  EXPECT_EQ(ask("all", {{{}, 2}}).statuses[0].remaining, 1U);
  EXPECT_EQ(ask("all", {{{}}}, 1).statuses[0].remaining, 0U);
  EXPECT_FALSE(ask("all", {{{}, 1}}).decision.allowed());
}

// What a descriptor says of its own was used already; what the request says is asked for.
TEST_F(RouteLimiterTest, ALateReportTakesWhatIsLeftOfEveryRule) {
  const Entries both = {{"ip", "192.0.2.1"}, {"user", "ann"}};
  EXPECT_FALSE(ask("login", {{both}}, 3).decision.allowed());
  EXPECT_EQ(ask("login", {{both, 0}}).statuses[0].remaining, 2U) << "a request takes nothing";
  const auto late = ask("login", {{both, 3}});
  EXPECT_EQ(late.decision.verdict, Verdict::limited);
  EXPECT_TRUE(late.statuses[0].over);
  EXPECT_EQ(late.statuses[0].remaining, 0U);
  EXPECT_FALSE(ask("login", {{both}}).decision.allowed());
  const Decision elsewhere = guard.peek("login", {{"ip", "192.0.2.9"}, {"user", "ann"}});
  EXPECT_EQ(elsewhere.rules()[1].remaining, 7U);
}

TEST_F(RouteLimiterTest, ResetIsWhenTheWindowEnds) {
  clock.advance(seconds(10));
  const auto answer = ask("login", {{{{"ip", "192.0.2.1"}}}}, 2);
  const auto denied = ask("login", {{{{"ip", "192.0.2.1"}}}});
  ASSERT_TRUE(denied.statuses[0].until_reset);
  EXPECT_EQ(denied.statuses[0].until_reset, denied.decision.retry_after);
  EXPECT_LE(*denied.statuses[0].until_reset, minutes(1));
  clock.advance(*denied.statuses[0].until_reset);
  EXPECT_TRUE(ask("login", {{{{"ip", "192.0.2.1"}}}}).decision.allowed());
}

TEST_F(RouteLimiterTest, AShadowRouteIsCountedAndNeverDenies) {
  (void)ask("watched", {{{{"ip", "192.0.2.1"}}}});
  const auto answer = ask("watched", {{{{"ip", "192.0.2.1"}}}});
  EXPECT_TRUE(answer.decision.allowed());
  EXPECT_FALSE(answer.statuses[0].over);
  EXPECT_EQ(answer.statuses[0].remaining, 0U);
}

TEST_F(RouteLimiterTest, AnUnknownOrEmptyDomainIsAdmittedAndCounted) {
  for (const char* domain : {"nowhere", ""}) {
    const auto answer = ask(domain, {{{{"ip", "192.0.2.1"}}}});
    EXPECT_TRUE(answer.decision.allowed());
    EXPECT_EQ(answer.decision.reason, Reason::no_limit);
    EXPECT_FALSE(answer.statuses[0].limit);
  }
  std::string metrics;
  guard.impl().metrics().write(metrics);
  EXPECT_NE(metrics.find("weir_unmatched_total 2\n"), std::string::npos);
}

TEST_F(RouteLimiterTest, AnUnknownDomainIsRefusedWhereThePolicySaysSo) {
  Guard strict = Guard::open(Policy::parse(std::string("unmatched: refuse\n") + kRoutes).value(),
                             {.clock = &clock})
                     .value();
  RouteLimiter its(strict);
  RateLimitAnswer answer;
  const AskedDescriptor asked;
  EXPECT_TRUE(its.decide({.domain = "nowhere", .descriptors = {&asked, 1}}, answer, nobody, 0));
  EXPECT_EQ(answer.decision.verdict, Verdict::refused);
  EXPECT_EQ(answer.decision.reason, Reason::unmatched_request);
  EXPECT_TRUE(answer.statuses[0].over);
}

TEST_F(RouteLimiterTest, EmptyAsksAreNoError) {
  EXPECT_TRUE(ask("login", {}).decision.allowed());
  EXPECT_TRUE(ask("header", {{}}).decision.allowed());
  EXPECT_TRUE(ask("", {}).decision.allowed());
}

TEST_F(RouteLimiterTest, TwoValuesForOneSourceAreRefused) {
  const auto same = ask("login", {{{{"ip", "192.0.2.1"}}}, {{{"ip", "192.0.2.1"}, {"user", "a"}}}});
  EXPECT_TRUE(same.decision.allowed());
  const auto answer = ask("login", {{{{"ip", "192.0.2.1"}}}, {{{"ip", "192.0.2.2"}}}});
  EXPECT_EQ(answer.decision.verdict, Verdict::refused);
  EXPECT_EQ(answer.decision.reason, Reason::invalid_request);
  EXPECT_EQ(answer.decision.fault,
            "a source has two different values, or there are more than 64 values");
  // What the route does not count by may say what it likes.
  EXPECT_TRUE(ask("login", {{{{"x", "1"}}}, {{{"x", "2"}}}}).decision.allowed());
}

TEST_F(RouteLimiterTest, MoreDescriptorsThanPlacesAreAnsweredAllTheSame) {
  const std::vector<Asked> asked(200, Asked{{{"user", "ann"}, {"plan", "p"}}});
  EXPECT_TRUE(ask("pair", asked).decision.allowed());
  const auto denied = ask("pair", asked);
  for (const DescriptorStatus& status : denied.statuses) EXPECT_TRUE(status.over);
}

TEST_F(RouteLimiterTest, WhatWasNotReadIsRefused) {
  RateLimitAnswer answer;
  limiter.refuse_unread(answer);
  EXPECT_EQ(answer.decision.verdict, Verdict::refused);
  EXPECT_EQ(answer.decision.reason, Reason::invalid_request);
  EXPECT_EQ(answer.decision.fault, "the message holds too many descriptors and entries");
}

}  // namespace
}  // namespace weir::guard
