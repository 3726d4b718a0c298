#include <gtest/gtest.h>

#include "server/http/rate_limit_json.h"

namespace weir::server::http {
namespace {

std::string json(const guard::RateLimitAnswer& answer) {
  std::string out;
  append_rate_limit_json(out, answer);
  return out;
}

TEST(RateLimitJson, LeavesOutWhatIsZero) {
  guard::RateLimitAnswer answer;
  answer.decision.verdict = Verdict::allowed;
  answer.decision.rung = Rung::store;
  EXPECT_EQ(json(answer), R"({"overallCode":"OK"})");
  answer.statuses.push_back({});
  EXPECT_EQ(json(answer), R"({"overallCode":"OK","statuses":[{"code":"OK"}]})");
}

TEST(RateLimitJson, TellsEachStatus) {
  guard::RateLimitAnswer answer;
  answer.decision.verdict = Verdict::limited;
  answer.decision.rung = Rung::store;
  answer.decision.retry_after = std::chrono::milliseconds(1500);
  answer.statuses.push_back(
      {.over = true,
       .limit = guard::DescriptorStatus::Limit{5, guard::LimitUnit::week, "a\"\xff"},
       .remaining = 0,
       .until_reset = std::chrono::milliseconds(1)});
  answer.statuses.push_back(
      {.limit = guard::DescriptorStatus::Limit{1ULL << 40U, guard::LimitUnit::unknown, ""},
       .remaining = 1ULL << 40U,
       .until_reset = std::chrono::seconds(60)});
  EXPECT_EQ(json(answer),
            R"({"overallCode":"OVER_LIMIT","statuses":[)"
            R"({"code":"OVER_LIMIT","currentLimit":{"requestsPerUnit":5,"unit":"WEEK",)"
            R"("name":"a\"\ufffd"},"durationUntilReset":"1s"},)"
            R"({"code":"OK","currentLimit":{"requestsPerUnit":4294967295},)"
            R"("limitRemaining":4294967295,"durationUntilReset":"60s"}],)"
            R"("responseHeadersToAdd":[{"key":"Retry-After","value":"2"},)"
            R"({"key":"Cache-Control","value":"no-store"}]})");
}

TEST(RateLimitJson, ARefusalSaysWhy) {
  guard::RateLimitAnswer answer;
  answer.decision.verdict = Verdict::refused;
  answer.decision.rung = Rung::policy;
  answer.decision.reason = Reason::store_unavailable;
  EXPECT_EQ(json(answer),
            R"({"overallCode":"OVER_LIMIT","responseHeadersToAdd":[)"
            R"({"key":"Weir-Rung","value":"policy"},{"key":"Cache-Control","value":"no-store"},)"
            R"({"key":"Weir-Reason","value":"store_unavailable"}],)"
            R"("dynamicMetadata":{"weir_verdict":"refused","weir_rung":"policy",)"
            R"("weir_reason":"store_unavailable"}})");
}

TEST(RateLimitJson, ARequestThatWasWrongIsToldWhatWas) {
  guard::RateLimitAnswer answer;
  answer.decision.verdict = Verdict::refused;
  answer.decision.reason = Reason::invalid_request;
  answer.decision.fault = "the peer is no address";
  EXPECT_NE(json(answer).find(R"("weir_reason":"invalid_request","weir_fault":"the peer is no)"
                              R"( address"}})"),
            std::string::npos)
      << json(answer);
  answer.decision.reason = Reason::missing_value;
  answer.decision.fault = "query:\xff";
  answer.decision.add(
      {.rule = "3 per minute", .limit = 3, .period = std::chrono::seconds(60), .fits = false});
  EXPECT_NE(json(answer).find(R"("weir_reason":"missing_value","weir_lacks":"query:)"
                              "\xef\xbf\xbd"
                              R"(","weir_rule":"3 per minute"}})"),
            std::string::npos)
      << json(answer);
}

TEST(RateLimitJson, MergesMetadata) {
  guard::RateLimitAnswer answer;
  answer.decision.verdict = Verdict::allowed;
  answer.decision.rung = Rung::store;
  answer.metadata = {R"({"a":1,"b":{"c":1}})", R"({"b":{"d":2}})"};
  EXPECT_EQ(json(answer), R"({"overallCode":"OK","dynamicMetadata":{"a":1,"b":{"d":2}}})");
}

}  // namespace
}  // namespace weir::server::http
