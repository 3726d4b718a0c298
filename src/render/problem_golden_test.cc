#include "render/problem.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "render/status.h"

namespace weir::render {
namespace {

using namespace std::chrono_literals;

struct ProblemCase {
  Verdict verdict;
  Rung rung;
  Reason reason;
  bool never;
  int status;
  std::optional<Nanos> retry_after;
  std::string_view type;
  std::string_view detail;
  std::string_view fault = {};  // of the decision
};

constexpr std::string_view kQuota =
    "https://iana.org/assignments/http-problem-types#quota-exceeded";
constexpr std::string_view kReduced =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

constexpr ProblemCase kCases[] = {
    {Verdict::limited, Rung::store, Reason::over_limit, false, 429, 11500ms, kQuota,
     R"(limit "5 per minute by ip" (5 per 60 s) of route "login" is used up; it has room for this request in 12 s if nothing else is asked)"},
    {Verdict::limited, Rung::store, Reason::cost_exceeds_burst, true, 429, std::nullopt, kQuota,
     R"(limit "5 per minute by ip" (5 per 60 s) of route "login" never admits so much at once: 5 is the most; waiting does not help)"},
    {Verdict::limited, Rung::store, Reason::blocked, true, 429, std::nullopt, kQuota,
     R"(limit "5 per minute by ip" (5 per 60 s) of route "login" admits nothing; waiting does not help)"},
    {Verdict::limited, Rung::share, Reason::over_share, false, 429, 3s, kQuota,
     R"(limit "5 per minute by ip" (5 per 60 s) of route "login" cannot be checked for the moment, and the part of it that is left here is used up)"},
    {Verdict::refused, Rung::share, Reason::over_share, false, 503, std::nullopt, kReduced,
     R"(limit "5 per minute by ip" (5 per 60 s) of route "login" cannot be checked for the moment, and the part of it that is left here cannot hold this request)"},
    {Verdict::refused, Rung::policy, Reason::over_ceiling, false, 503, 1s, kReduced,
     R"(the limits of route "login" cannot be checked for the moment, and the ceiling for that time is reached)"},
    {Verdict::refused, Rung::policy, Reason::store_unavailable, false, 503, 1s, kReduced,
     R"(limit "5 per minute by ip" (5 per 60 s) of route "login" cannot be checked for the moment, and its policy refuses what it cannot check)"},
    {Verdict::refused, Rung::policy, Reason::keys_exhausted, false, 503, 1s, kReduced,
     R"(limit "5 per minute by ip" (5 per 60 s) of route "login" cannot be counted for the moment: every counter is in use)"},
    {Verdict::refused, Rung::policy, Reason::unmatched_request, false, 503, std::nullopt,
     "about:blank",
     "no route of the policy matches this request, and the policy refuses such requests"},
    {Verdict::refused, Rung::policy, Reason::unknown_route, false, 404, std::nullopt, "about:blank",
     "the policy has no such route"},
    {Verdict::refused, Rung::policy, Reason::unknown_route, false, 404, std::nullopt, "about:blank",
     R"(the policy has no such route; the nearest is "login")", "login"},
    {Verdict::refused, Rung::policy, Reason::missing_value, false, 400, std::nullopt, "about:blank",
     R"(limit "5 per minute by ip" (5 per 60 s) of route "login" needs a value that the request lacks)"},
    {Verdict::refused, Rung::policy, Reason::missing_value, false, 400, std::nullopt, "about:blank",
     R"(limit "5 per minute by ip" (5 per 60 s) of route "login" needs "header:X-Key", and the request gives no value of it that can be counted)",
     "header:X-Key"},
    {Verdict::refused, Rung::policy, Reason::invalid_request, false, 400, std::nullopt,
     "about:blank", "the request is outside the stated bounds"},
    {Verdict::refused, Rung::policy, Reason::invalid_request, false, 400, std::nullopt,
     "about:blank", "the method is no token of at most 32 bytes",
     "the method is no token of at most 32 bytes"},
    {Verdict::refused, Rung::policy, Reason::invalid_request, false, 400, std::nullopt,
     "about:blank", "the target holds no path that can be matched",
     "the target holds no path that can be matched"},
    {Verdict::refused, Rung::policy, Reason::invalid_request, false, 400, std::nullopt,
     "about:blank", "there are different Hosts, or one that is no host",
     "there are different Hosts, or one that is no host"},
    {Verdict::refused, Rung::policy, Reason::invalid_request, false, 400, std::nullopt,
     "about:blank", "the peer is no address", "the peer is no address"},
    {Verdict::refused, Rung::policy, Reason::invalid_request, false, 400, std::nullopt,
     "about:blank", "a header has no name", "a header has no name"},
};

Decision decision_of(const ProblemCase& c) {
  Decision d;
  d.verdict = c.verdict;
  d.rung = c.rung;
  d.reason = c.reason;
  d.retry_after = c.retry_after;
  d.route = "login";
  d.fault = c.fault;
  RuleReport denying;
  denying.rule = "5 per minute by ip";
  denying.limit = denying.burst = 5;
  denying.period = 60s;
  denying.fits = false;
  denying.never_fits = c.never;
  denying.retry_after = c.retry_after;
  d.add({.rule = "passes", .limit = 100, .period = 1h, .remaining = 1});
  d.add(denying);
  d.add({.rule = "trial", .limit = 1, .period = 1h, .fits = false, .shadow = true});
  return d;
}

// A denial that told of another limit, or of none, sent people after the wrong one.
TEST(Problem, NamesTheLimitThatDenied) {
  for (const ProblemCase& c : kCases) {
    std::string text;
    append_problem(text, decision_of(c));
    const auto body = nlohmann::json::parse(text, nullptr, false);
    ASSERT_FALSE(body.is_discarded()) << text;
    EXPECT_EQ(body["status"], c.status) << c.detail;
    EXPECT_EQ(body["type"], c.type) << c.detail;
    EXPECT_EQ(body["detail"], c.detail);
    const char* member = c.reason == Reason::missing_value   ? "lacks"
                         : c.reason == Reason::unknown_route ? "nearest"
                                                             : "fault";
    EXPECT_EQ(body.value(member, ""), c.fault);
    EXPECT_FALSE(std::string(body["title"]).empty());
    EXPECT_EQ(body["verdict"], to_string(c.verdict));
    EXPECT_EQ(body["reason"], to_string(c.reason));
    EXPECT_EQ(body["violated-policies"], nlohmann::json::array({"5 per minute by ip"}));
  }
}

TEST(Problem, IsOneObjectWithTheDecisionInside) {
  Decision d;
  d.verdict = Verdict::limited;
  d.rung = Rung::store;
  d.reason = Reason::over_limit;
  d.retry_after = 12s;
  d.route = "log\"in";
  d.add({.rule = "a\\b",
         .limit = 5,
         .period = 60s,
         .burst = 5,
         .fits = false,
         .remaining = 0,
         .retry_after = 12s});
  std::string text;
  append_problem(text, d);
  EXPECT_EQ(text,
            R"({"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",)"
            R"("title":"The quota for these requests is used up","status":429,)"
            R"("detail":"limit \"a\\b\" (5 per 60 s) of route \"log\"in\" is used up; )"
            R"(it has room for this request in 12 s if nothing else is asked",)"
            R"("verdict":"limited","rung":"store","reason":"over_limit","route":"log\"in",)"
            R"("retry_after_ms":12000,"rules":[{"rule":"a\\b","limit":5,"period_ms":60000,)"
            R"("remaining":0,"retry_after_ms":12000,"fits":false}],"violated-policies":["a\\b"]})");
  EXPECT_TRUE(nlohmann::json::accept(text));
}

TEST(Problem, DescribesMalformedRequests) {
  for (const int status : {400, 404, 405, 408, 411, 413, 414, 415, 417, 431, 500, 501, 503, 505}) {
    std::string text;
    append_problem(text, status, "a \"reason\"");
    const auto body = nlohmann::json::parse(text, nullptr, false);
    ASSERT_FALSE(body.is_discarded()) << text;
    EXPECT_EQ(body["type"], "about:blank");
    EXPECT_EQ(body["title"], status_phrase(status));
    EXPECT_FALSE(std::string(body["title"]).empty()) << status;
    EXPECT_EQ(body["status"], status);
    EXPECT_EQ(body["detail"], "a \"reason\"");
  }
}

}  // namespace
}  // namespace weir::render
