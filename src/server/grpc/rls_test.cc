#include "server/grpc/rls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "server/grpc/test_client.h"

namespace weir::server::grpc {
namespace {

using namespace std::chrono_literals;
using ::envoy::service::ratelimit::v3::RateLimitRequest;
using ::envoy::service::ratelimit::v3::RateLimitResponse;

constexpr std::string_view kPath = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

// Answers what the test says, and keeps what it was asked: the service only translates.
class ScriptedLimiter final : public guard::RateLimiter {
 public:
  bool decide(const guard::RateLimitAsk& asked, guard::RateLimitAnswer& out,
              guard::RateLimitListener& who, std::uint64_t which) override {
    ++asks;
    domain = asked.domain;
    hits = asked.hits;
    deadline = asked.deadline;
    descriptors.clear();
    for (const auto& descriptor : asked.descriptors) {
      Descriptor& kept = descriptors.emplace_back();
      for (const auto& entry : descriptor.entries)
        kept.entries.emplace_back(entry.key, entry.value);
      kept.limit = descriptor.limit;
      kept.hits = descriptor.hits;
    }
    listener = &who;
    ticket = which;
    if (later) return false;
    out = answer;
    return true;
  }
  void refuse_unread(guard::RateLimitAnswer& out) override {
    out.decision.verdict = Verdict::refused;
    out.decision.reason = Reason::invalid_request;
  }

  struct Descriptor {
    std::vector<std::pair<std::string, std::string>> entries;
    std::optional<guard::LimitOverride> limit;
    std::optional<std::uint64_t> hits;
  };
  int asks = 0;
  std::string domain;
  std::uint64_t hits = 0;
  std::optional<Nanos> deadline;
  std::vector<Descriptor> descriptors;
  guard::RateLimitListener* listener = nullptr;
  std::uint64_t ticket = 0;
  bool later = false;
  guard::RateLimitAnswer answer;
};

class RlsTest : public ::testing::Test {
 protected:
  RlsTest()
      : rls(limiter, [this](std::function<void()> work) { posted.push_back(std::move(work)); }) {
    engine.add(rls);
    limiter.answer.decision.verdict = Verdict::allowed;
    limiter.answer.decision.rung = Rung::store;
    limiter.answer.decision.reason = Reason::within_limit;
  }

  static RateLimitRequest request(const std::string& domain = "edge") {
    RateLimitRequest out;
    out.set_domain(domain);
    auto& entry = *out.add_descriptors()->add_entries();
    entry.set_key("ip");
    entry.set_value("192.0.2.7");
    return out;
  }
  const TestClient::Answer& call(const RateLimitRequest& asked, TestClient::Headers extra = {}) {
    const auto id = client.call(kPath, framed(asked.SerializeAsString()), true, std::move(extra));
    client.run(now);
    return client.answer(id);
  }
  RateLimitResponse ask(const RateLimitRequest& asked) {
    const auto& answer = call(asked);
    EXPECT_EQ(answer.status(), "0");
    RateLimitResponse response;
    EXPECT_TRUE(response.ParseFromString(answer.message()));
    return response;
  }
  static std::map<std::string, std::string> headers_of(const RateLimitResponse& response) {
    std::map<std::string, std::string> out;
    for (const auto& header : response.response_headers_to_add()) {
      EXPECT_TRUE(out.emplace(header.key(), header.value()).second) << header.key();
    }
    return out;
  }

  MonoTime now{1h};
  ScriptedLimiter limiter;
  std::vector<std::function<void()>> posted;
  RlsService rls;
  Engine engine;
  Session session{engine, now};
  TestClient client{session};
};

TEST_F(RlsTest, HandsOverWhatWasAsked) {
  RateLimitRequest asked = request();
  auto& second = *asked.add_descriptors();
  for (const char* key : {"path", "method"}) {
    second.add_entries()->set_key(key);
    second.mutable_entries(second.entries_size() - 1)->set_value(std::string("v-") + key);
  }
  second.mutable_limit()->set_requests_per_unit(7);
  second.mutable_limit()->set_unit(envoy::type::v3::HOUR);
  second.mutable_hits_addend()->set_value(0);
  asked.set_hits_addend(5);
  call(asked, {{"grpc-timeout", "20m"}});
  EXPECT_EQ(limiter.domain, "edge");
  EXPECT_EQ(limiter.hits, 5U);
  EXPECT_EQ(limiter.deadline, 20ms);
  ASSERT_EQ(limiter.descriptors.size(), 2U);
  EXPECT_THAT(limiter.descriptors[0].entries,
              ::testing::ElementsAre(::testing::Pair("ip", "192.0.2.7")));
  EXPECT_FALSE(limiter.descriptors[0].limit);
  EXPECT_FALSE(limiter.descriptors[0].hits);
  EXPECT_THAT(limiter.descriptors[1].entries,
              ::testing::ElementsAre(::testing::Pair("path", "v-path"),
                                     ::testing::Pair("method", "v-method")));
  ASSERT_TRUE(limiter.descriptors[1].limit);
  EXPECT_EQ(limiter.descriptors[1].limit->requests_per_unit, 7U);
  EXPECT_EQ(limiter.descriptors[1].limit->unit, guard::LimitUnit::hour);
  EXPECT_EQ(limiter.descriptors[1].hits, 0U);
}

TEST_F(RlsTest, ARequestsZeroHitsAreOneAndADescriptorsZeroStays) {
  RateLimitRequest asked = request();
  ask(asked);
  EXPECT_EQ(limiter.hits, 1U);
  asked.mutable_descriptors(0)->mutable_hits_addend()->set_value(0);
  ask(asked);
  EXPECT_EQ(limiter.descriptors[0].hits, 0U);
}

TEST_F(RlsTest, NothingOfACallIsLeftInTheNext) {
  RateLimitRequest asked = request("first");
  asked.mutable_descriptors(0)->mutable_limit()->set_requests_per_unit(1);
  asked.mutable_descriptors(0)->mutable_hits_addend()->set_value(9);
  asked.add_descriptors();
  limiter.answer.statuses.resize(2);
  limiter.answer.statuses[0].limit = {
      .requests_per_unit = 5, .unit = guard::LimitUnit::day, .name = "x"};
  ask(asked);
  limiter.answer.statuses.assign(1, {});
  const auto response = ask(request("second"));
  EXPECT_EQ(limiter.domain, "second");
  ASSERT_EQ(limiter.descriptors.size(), 1U);
  EXPECT_FALSE(limiter.descriptors[0].limit);
  EXPECT_FALSE(limiter.descriptors[0].hits);
  ASSERT_EQ(response.statuses_size(), 1);
  EXPECT_FALSE(response.statuses(0).has_current_limit());
  EXPECT_FALSE(response.statuses(0).has_duration_until_reset());
}

TEST_F(RlsTest, AnUnknownUnitOfAnOverrideIsNoUnit) {
  RateLimitRequest asked = request();
  for (const int unit : {0, 7, 99, -1}) {
    asked.mutable_descriptors(0)->mutable_limit()->set_unit(
        static_cast<envoy::type::v3::RateLimitUnit>(unit));
    ask(asked);
    ASSERT_TRUE(limiter.descriptors[0].limit);
    EXPECT_EQ(limiter.descriptors[0].limit->unit, guard::LimitUnit::unknown) << unit;
  }
}

TEST_F(RlsTest, AnswersOneStatusForEachDescriptorInOrder) {
  limiter.answer.decision.verdict = Verdict::limited;
  limiter.answer.decision.reason = Reason::over_limit;
  limiter.answer.statuses.resize(3);
  limiter.answer.statuses[0] = {.over = false,
                                .limit = {{10, guard::LimitUnit::second, "ten"}},
                                .remaining = 9,
                                .until_reset = 1ns};
  limiter.answer.statuses[2] = {.over = true,
                                .limit = {{1ULL << 40, guard::LimitUnit::week, ""}},
                                .remaining = 1ULL << 40,
                                .until_reset = 61s + 1ms};
  const auto response = ask(request());
  EXPECT_EQ(response.overall_code(), RateLimitResponse::OVER_LIMIT);
  ASSERT_EQ(response.statuses_size(), 3);
  EXPECT_EQ(response.statuses(0).code(), RateLimitResponse::OK);
  EXPECT_EQ(response.statuses(0).current_limit().requests_per_unit(), 10U);
  EXPECT_EQ(response.statuses(0).current_limit().unit(), RateLimitResponse::RateLimit::SECOND);
  EXPECT_EQ(response.statuses(0).current_limit().name(), "ten");
  EXPECT_EQ(response.statuses(0).limit_remaining(), 9U);
  EXPECT_EQ(response.statuses(0).duration_until_reset().seconds(), 1);
  EXPECT_EQ(response.statuses(1).code(), RateLimitResponse::OK);
  EXPECT_FALSE(response.statuses(1).has_current_limit());
  EXPECT_FALSE(response.statuses(1).has_duration_until_reset());
  EXPECT_EQ(response.statuses(2).code(), RateLimitResponse::OVER_LIMIT);
  EXPECT_EQ(response.statuses(2).current_limit().requests_per_unit(), 0xffff'ffffU);
  EXPECT_EQ(response.statuses(2).current_limit().unit(), RateLimitResponse::RateLimit::WEEK);
  EXPECT_EQ(response.statuses(2).limit_remaining(), 0xffff'ffffU);
  EXPECT_EQ(response.statuses(2).duration_until_reset().seconds(), 62);
}

TEST_F(RlsTest, APlainYesCarriesNothingElse) {
  const auto response = ask(request());
  EXPECT_EQ(response.overall_code(), RateLimitResponse::OK);
  EXPECT_EQ(response.response_headers_to_add_size(), 0);
  EXPECT_FALSE(response.has_dynamic_metadata());
}

TEST_F(RlsTest, ADenialSaysWhenToComeBack) {
  limiter.answer.decision.verdict = Verdict::limited;
  limiter.answer.decision.reason = Reason::over_limit;
  limiter.answer.decision.retry_after = 2500ms;
  const auto headers = headers_of(ask(request()));
  EXPECT_EQ(headers.at("Retry-After"), "3");
  EXPECT_EQ(headers.count("Weir-Reason"), 0U);
}

TEST_F(RlsTest, ARefusalIsOverLimitAndSaysWhy) {
  limiter.answer.decision.verdict = Verdict::refused;
  limiter.answer.decision.rung = Rung::policy;
  limiter.answer.decision.reason = Reason::store_unavailable;
  const auto response = ask(request());
  EXPECT_EQ(response.overall_code(), RateLimitResponse::OVER_LIMIT);
  const auto headers = headers_of(response);
  EXPECT_EQ(headers.at("Weir-Rung"), "policy");
  EXPECT_EQ(headers.at("Weir-Reason"), "store_unavailable");
  const auto& metadata = response.dynamic_metadata().fields();
  EXPECT_EQ(metadata.at("weir_verdict").string_value(), "refused");
  EXPECT_EQ(metadata.at("weir_rung").string_value(), "policy");
  EXPECT_EQ(metadata.at("weir_reason").string_value(), "store_unavailable");
}

TEST_F(RlsTest, ARequestThatWasWrongIsToldWhatWas) {
  limiter.answer.decision.verdict = Verdict::refused;
  limiter.answer.decision.reason = Reason::missing_value;
  limiter.answer.decision.fault = "ip";
  limiter.answer.decision.add({.rule = "3 per minute by ip", .limit = 3, .fits = false});
  const auto lacking = ask(request());
  EXPECT_EQ(lacking.dynamic_metadata().fields().at("weir_lacks").string_value(), "ip");
  EXPECT_EQ(lacking.dynamic_metadata().fields().at("weir_rule").string_value(),
            "3 per minute by ip");
  limiter.answer.decision.reason = Reason::invalid_request;
  limiter.answer.decision.fault = "a value is above 1 MiB";
  const auto malformed = ask(request());
  EXPECT_EQ(malformed.dynamic_metadata().fields().at("weir_fault").string_value(),
            "a value is above 1 MiB");
  EXPECT_FALSE(malformed.dynamic_metadata().fields().contains("weir_rule"));
}

TEST_F(RlsTest, ARefusalIsAnErrorOnlyWhereThePolicySaysSo) {
  limiter.answer.decision.verdict = Verdict::refused;
  limiter.answer.decision.reason = Reason::store_unavailable;
  limiter.answer.refuse_as_error = true;
  EXPECT_EQ(call(request()).status(), "14");
  // A denial is a denial all the same.
  limiter.answer.decision.verdict = Verdict::limited;
  EXPECT_EQ(ask(request()).overall_code(), RateLimitResponse::OVER_LIMIT);
}

TEST_F(RlsTest, ADegradedYesSaysSo) {
  limiter.answer.decision.rung = Rung::share;
  const auto response = ask(request());
  EXPECT_EQ(response.overall_code(), RateLimitResponse::OK);
  EXPECT_EQ(headers_of(response).at("Weir-Rung"), "share");
  EXPECT_EQ(response.dynamic_metadata().fields().at("weir_rung").string_value(), "share");
}

TEST_F(RlsTest, MetadataOfThePolicyReachesTheProxy) {
  limiter.answer.metadata = {R"({"plan": {"name": "gold", "seats": 3}, "a": [1, null]})",
                             R"({"a": true})"};
  for (int i = 0; i < 2; ++i) {
    const auto response = ask(request());
    const auto& fields = response.dynamic_metadata().fields();
    EXPECT_EQ(fields.at("plan").struct_value().fields().at("name").string_value(), "gold");
    EXPECT_EQ(fields.at("plan").struct_value().fields().at("seats").number_value(), 3);
    EXPECT_TRUE(fields.at("a").bool_value());
  }
  limiter.answer.metadata.clear();
  EXPECT_FALSE(ask(request()).has_dynamic_metadata());
}

TEST_F(RlsTest, BytesThatAreNotUtf8ReachTheLimiterAsTheyAre) {
  RateLimitRequest asked = request("d\xff");
  asked.mutable_descriptors(0)->mutable_entries(0)->set_key("\xc3\x28");
  asked.mutable_descriptors(0)->mutable_entries(0)->set_value(std::string("\0\xfe", 2));
  ask(asked);
  EXPECT_EQ(limiter.domain, "d\xff");
  EXPECT_EQ(limiter.descriptors[0].entries[0].first, "\xc3\x28");
  EXPECT_EQ(limiter.descriptors[0].entries[0].second, std::string("\0\xfe", 2));
}

TEST_F(RlsTest, EmptyPartsAreNoError) {
  EXPECT_EQ(ask(RateLimitRequest()).overall_code(), RateLimitResponse::OK);
  RateLimitRequest asked;
  asked.add_descriptors();
  asked.add_descriptors()->add_entries();
  EXPECT_EQ(ask(asked).overall_code(), RateLimitResponse::OK);
  ASSERT_EQ(limiter.descriptors.size(), 2U);
  EXPECT_TRUE(limiter.descriptors[0].entries.empty());
  EXPECT_EQ(limiter.descriptors[1].entries[0], (std::pair<std::string, std::string>("", "")));
}

TEST_F(RlsTest, UnknownFieldsAreSkipped) {
  // Field 99, a varint, before and after.
  const std::string unknown = "\x98\x06\x2a";
  const auto id = client.call(kPath, framed(unknown + request().SerializeAsString() + unknown));
  client.run(now);
  EXPECT_EQ(client.answer(id).status(), "0");
  EXPECT_EQ(limiter.domain, "edge");
}

TEST_F(RlsTest, WhatIsNoRequestIsAnError) {
  const auto id = client.call(kPath, framed("\xff\xff\xff"));
  client.run(now);
  EXPECT_EQ(client.answer(id).status(), "13");
  EXPECT_EQ(limiter.asks, 0);
}

// A few bytes become a few hundred: such a message is not even parsed.
TEST_F(RlsTest, AMessageOfTooManyPartsIsRefusedAndNoError) {
  std::string many;
  while (many.size() / 2 <= guard::kMaxAskParts) many += std::string("\x12\0", 2);
  std::string deep = "\x12";
  for (std::size_t rest = many.size(); rest > 0; rest >>= 7U) {
    deep += static_cast<char>((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
  }
  for (std::size_t i = 0; i < many.size(); i += 2) deep += std::string("\x0a\0", 2);
  const auto sent = [this](const std::string& message) -> const TestClient::Answer& {
    const auto id = client.call(kPath, framed(message));
    client.run(now);
    return client.answer(id);
  };
  for (const std::string& message : {many, deep}) {
    const TestClient::Answer& answer = sent(message);
    EXPECT_EQ(answer.status(), "0");
    RateLimitResponse response;
    ASSERT_TRUE(response.ParseFromString(answer.message()));
    EXPECT_EQ(response.overall_code(), RateLimitResponse::OVER_LIMIT);
    EXPECT_EQ(response.statuses_size(), 0);
  }
  // As large, but of one long value: read as ever.
  RateLimitRequest asked = request();
  asked.mutable_descriptors(0)->mutable_entries(0)->set_value(std::string(many.size(), '\0'));
  EXPECT_EQ(ask(asked).overall_code(), RateLimitResponse::OK);
  EXPECT_EQ(limiter.asks, 1);
}

TEST_F(RlsTest, AMessageTooLongToReadIsRefusedAndNoError) {
  RateLimitRequest asked = request();
  asked.mutable_descriptors(0)->mutable_entries(0)->set_value(std::string(5U << 20U, 'x'));
  const auto response = ask(asked);
  EXPECT_EQ(response.overall_code(), RateLimitResponse::OVER_LIMIT);
  EXPECT_EQ(headers_of(response).at("Weir-Reason"), "invalid_request");
  EXPECT_EQ(limiter.asks, 0);
}

TEST_F(RlsTest, AnAnswerMayComeLater) {
  limiter.later = true;
  const auto id = client.call(kPath, framed(request().SerializeAsString()));
  client.run(now);
  EXPECT_EQ(rls.waiting(), 1U);
  limiter.listener->answered(limiter.ticket, limiter.answer);
  EXPECT_FALSE(client.answer(id).closed);
  ASSERT_EQ(posted.size(), 1U);
  posted[0]();
  client.run(now);
  EXPECT_EQ(client.answer(id).status(), "0");
  EXPECT_EQ(rls.waiting(), 0U);
}

TEST_F(RlsTest, ALateAnswerNeverReachesAnotherCall) {
  limiter.later = true;
  const auto left = client.call(kPath, framed(request().SerializeAsString()));
  client.run(now);
  const std::uint64_t stale = limiter.ticket;
  client.reset(left);
  client.run(now);
  EXPECT_EQ(rls.waiting(), 0U);
  const auto next = client.call(kPath, framed(request().SerializeAsString()));
  client.run(now);
  limiter.listener->answered(stale, limiter.answer);
  posted.at(0)();
  client.run(now);
  EXPECT_FALSE(client.answer(next).closed);
  limiter.listener->answered(limiter.ticket, limiter.answer);
  posted.at(1)();
  client.run(now);
  EXPECT_TRUE(client.answer(next).closed);
}

}  // namespace
}  // namespace weir::server::grpc
