// Envoy-style files, served: over /json, /v1/check and gRPC, on the memory store and on a shared
// one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/serve/served_process.h"
#include "testing/redis_server.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kShop = R"(domain: shop
descriptors:
  - key: user
    rate_limit: {unit: day, requests_per_unit: 2, name: per_user}
  - key: path
    value: /login
    metadata: {tier: slow}
    rate_limit: {unit: day, requests_per_unit: 10}
)";

std::string request(const std::string& user) {
  return R"({"domain":"shop","descriptors":[{"entries":[{"key":"user","value":")" + user +
         R"("}]},{"entries":[{"key":"path","value":"/login"}]}]})";
}

// A weir.yaml beside a folder of domains.
class ServedDomains : public ServedProcess {
 public:
  ServedDomains(const std::string& native, const std::string& domain)
      : ServedProcess(native, [&](ServeOptions& options) {
          const auto folder = std::filesystem::path(options.policy_path).parent_path() / "domains";
          std::filesystem::create_directories(folder);
          std::ofstream(folder / "shop.yaml") << domain;
          options.grpc = "127.0.0.1:0";
        }) {}

  // By rename, as a careful writer does: nobody sees half of it.
  void replace(const std::string& name, const std::string& text) const {
    std::ofstream(path(name + ".new")) << text;
    std::filesystem::rename(path(name + ".new"), path(name));
  }
};

TEST(ServeDomains, AnswersJsonAsTheProtocolDoes) {
  ServedProcess weir(kShop);
  ASSERT_TRUE(weir.ready()) << weir.err();
  EXPECT_THAT(weir.out(), HasSubstr("weir.yaml, domain shop with 2 limits, 2 lanes\n"));
  // The line in the log comes after the one for people.
  ASSERT_TRUE(
      ServedProcess::within([&] { return weir.err().find("event=ready") != std::string::npos; }));
  EXPECT_THAT(weir.err(), AllOf(HasSubstr("domains=1"), HasSubstr("domain_limits=2")));
  EXPECT_THAT(weir.admin("GET", "/policy").body, HasSubstr(R"("domains":["shop"])"));
  const auto first = weir.http("POST", "/json", request("ada"));
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.header("Content-Type"), "application/json");
  EXPECT_THAT(first.body,
              AllOf(StartsWith(R"({"overallCode":"OK","statuses":[{"code":"OK","currentLimit":)"
                               R"({"requestsPerUnit":2,"unit":"DAY","name":"per_user"},)"
                               R"("limitRemaining":1,"durationUntilReset":")"),
                    HasSubstr(R"({"code":"OK","currentLimit":{"requestsPerUnit":10,"unit":"DAY"},)"
                              R"("limitRemaining":9,)"),
                    HasSubstr(R"("dynamicMetadata":{"tier":"slow"}})")));
  EXPECT_EQ(weir.http("PUT", "/json", request("ada")).status, 200) << "any method";
  const auto over = weir.http("POST", "/json", request("ada"));
  EXPECT_EQ(over.status, 429);
  EXPECT_FALSE(over.header("Retry-After").empty());
  EXPECT_THAT(over.body, AllOf(StartsWith(R"({"overallCode":"OVER_LIMIT","statuses":[)"
                                          R"({"code":"OVER_LIMIT",)"),
                               HasSubstr(R"("limitRemaining":8,)"),
                               HasSubstr(R"({"key":"Retry-After","value":")")));
  // A denied request charges none of its descriptors.
  EXPECT_THAT(weir.http("POST", "/json", request("eve")).body, HasSubstr(R"("limitRemaining":7,)"));
}

TEST(ServeDomains, WhatIsNoRequestIs400AndWhatIsEmptyIsOk) {
  ServedProcess weir(kShop);
  for (const char* body : {"", "[]", "{", R"({"domian":"shop"})", R"({"hitsAddend":-1})"}) {
    EXPECT_EQ(weir.http("POST", "/json", body).status, 400) << body;
  }
  for (const char* body : {"{}", R"({"domain":"unknown","descriptors":[{}]})",
                           R"({"domain":"shop","descriptors":[]})"}) {
    EXPECT_EQ(weir.http("POST", "/json", body).status, 200) << body;
  }
  // Bytes that are not UTF-8 are values like others.
  EXPECT_EQ(weir.http("POST", "/json", request("\xff\xfe")).status, 200);
}

TEST(ServeDomains, HealthcheckKeepsItsShape) {
  ServedProcess weir(kShop);
  const auto up = weir.http("GET", "/healthcheck");
  EXPECT_EQ(up.status, 200);
  EXPECT_EQ(up.body, "OK");
  EXPECT_EQ(weir.http("POST", "/healthcheck").status, 405);
  TestClient kept(weir.http());
  ASSERT_EQ(kept.ask("GET", "/healthcheck").value_or(TestClient::Answer{}).status, 200);
  weir.signal(SIGTERM);
  TestClient::Answer down;
  EXPECT_TRUE(ServedProcess::within([&] {
    TestClient client(weir.http());
    down = client.ask("GET", "/healthcheck").value_or(TestClient::Answer{});
    return down.status == 500;
  }));
  EXPECT_EQ(down.body, "");
  EXPECT_EQ(weir.wait(), 0);
}

TEST(ServeDomains, CheckTakesDomains) {
  ServedProcess weir(kShop);
  const std::string body =
      R"({"domain":"shop","descriptors":[[{"key":"user","value":"ada"}]],"cost":2})";
  const auto first = weir.http("POST", "/v1/check", body);
  EXPECT_EQ(first.status, 200);
  EXPECT_THAT(first.body, AllOf(HasSubstr(R"("verdict":"allowed")"), HasSubstr(R"("rule":"user")"),
                                HasSubstr(R"("remaining":0)")));
  const auto second = weir.http("POST", "/v1/check", body);
  EXPECT_EQ(second.status, 429);
  EXPECT_THAT(second.body, HasSubstr(R"("verdict":"limited")"));
  EXPECT_EQ(
      weir.http("POST", "/v1/check", R"({"domain":"shop","descriptors":{"user":"a"}})").status,
      400);
}

// What curl shows of a gRPC call: header and trailer lines.
std::string grpc_call(const ServedProcess& weir, const std::string& message) {
  const std::string file = weir.path("message");
  std::string framed(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) {
    framed += static_cast<char>(message.size() >> shift & 0xff);
  }
  std::ofstream(file, std::ios::binary) << framed << message;
  const std::string command =
      "curl -s -D - -o /dev/null --http2-prior-knowledge -H 'te: trailers' -H 'content-type: "
      "application/grpc' --data-binary @" +
      file + " http://127.0.0.1:" + std::to_string(weir.grpc()) +
      "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
  std::string out;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    out.append(buffer, got);
  ::pclose(pipe);
  return out;
}

// {domain: "shop", descriptors: [{entries: [{key: "user", value: user}]}]}
std::string asked(char user) {
  return std::string("\x0a\x04shop\x12\x0b\x0a\x09\x0a\x04user\x12\x01", 18) + user;
}

std::string native(const testing::RedisServer& redis, const std::string& rls) {
  return "store: {url: 'redis://127.0.0.1:" + std::to_string(redis.port()) +
         "/0', deadline: 50ms}\nrls: {config: domains, protects: security" + rls + "}\n";
}

TEST(ServeDomains, ARefusalIsOverLimitUnlessThePolicyWantsAnError) {
  testing::RedisServer redis;
  ServedDomains weir(native(redis, ""), kShop);
  ServedDomains strict(native(redis, ", rls_refusal: unavailable"), kShop);
  ASSERT_TRUE(weir.ready()) << weir.err();
  ASSERT_TRUE(strict.ready()) << strict.err();
  for (const ServedDomains* each : {&weir, &strict}) {
    EXPECT_TRUE(ServedProcess::within([&] {
      return each->http("POST", "/json",
                        R"({"domain":"shop","descriptors":[{"entries":)"
                        R"([{"key":"user","value":"b"}],"hitsAddend":0}]})")
                 .status == 200;
    }));
    EXPECT_THAT(grpc_call(*each, asked('a')), HasSubstr("grpc-status: 0"));
  }
  redis.pause();
  EXPECT_THAT(grpc_call(weir, asked('x')), HasSubstr("grpc-status: 0"));
  EXPECT_THAT(grpc_call(strict, asked('y')), HasSubstr("grpc-status: 14"));
  const auto refused = weir.http("POST", "/json", request("zoe"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_TRUE(refused.has("Weir-Reason: ")) << refused.head;
  EXPECT_THAT(refused.body, AllOf(StartsWith(R"({"overallCode":"OVER_LIMIT")"),
                                  HasSubstr(R"("weir_verdict":"refused")")));
  EXPECT_EQ(weir.http("GET", "/healthcheck").status, 200) << "degraded is not ill";
  redis.resume();
  EXPECT_TRUE(ServedProcess::within(
      [&] { return weir.http("POST", "/json", request("zoe")).status == 200; }));
}

TEST(ServeDomains, CountDeniedChargesWhatWasDenied) {
  testing::RedisServer redis;
  ServedDomains weir(native(redis, ", count_denied: true"), kShop);
  ASSERT_TRUE(weir.ready()) << weir.err();
  ASSERT_TRUE(ServedProcess::within(
      [&] { return weir.http("POST", "/json", request("a")).status == 200; }));
  const auto paths_left = [&] {
    return weir
        .http("POST", "/json",
              R"({"domain":"shop","descriptors":[{"entries":[{"key":"path","value":"/login"}],)"
              R"("hitsAddend":"0"}]})")
        .body;
  };
  while (weir.http("POST", "/json", request("a")).status == 200) {
  }
  const std::string before = paths_left();
  EXPECT_EQ(weir.http("POST", "/json", request("a")).status, 429);
  // The charge is told the store behind the answer.
  EXPECT_TRUE(ServedProcess::within([&] { return paths_left() != before; })) << before;
  for (int i = 0; i < 12; ++i) (void)weir.http("POST", "/json", request("a"));
  EXPECT_TRUE(ServedProcess::within([&] {
    return paths_left().find(R"("code":"OVER_LIMIT")") != std::string::npos;
  })) << paths_left();
}

std::string shop_with(int limit) {
  std::string text = kShop;
  const std::string two = "requests_per_unit: 2";
  return text.replace(text.find(two), two.size(), "requests_per_unit: " + std::to_string(limit));
}

std::string load_errors(const ServedProcess& weir) {
  const std::string page = weir.admin("GET", "/metrics").body;
  const std::size_t at = page.find("\nweir_policy_load_errors_total ");
  return at == std::string::npos ? "" : page.substr(at + 1, page.find('\n', at + 1) - at - 1);
}

// The files that `rls.config` names are watched as the policy itself is.
TEST(ServeDomains, AFaultyDomainKeepsThePolicyBeforeItAndSaysSo) {
  ServedDomains weir("rls: {config: domains, protects: security}\n", kShop);
  ASSERT_TRUE(weir.ready()) << weir.err();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(weir.http("POST", "/json", request("ada")).status, 200);
  EXPECT_EQ(weir.http("POST", "/json", request("ada")).status, 429);
  const std::string none = load_errors(weir);
  weir.replace("domains/shop.yaml",
               shop_with(4) + "  - key: user\n    rate_limit: {unit: day, requests_per_unit: 9}\n");
  ASSERT_TRUE(ServedProcess::within([&] { return load_errors(weir) != none; }));
  EXPECT_THAT(weir.admin("GET", "/readyz").body,
              AllOf(HasSubstr("\"policy_fault\""), HasSubstr("\"generation\":1")));
  EXPECT_THAT(weir.admin("GET", "/policy").body, HasSubstr("stands twice among its neighbours"));
  EXPECT_THAT(weir.err(), AllOf(HasSubstr("event=policy_rejected"), HasSubstr("shop.yaml")));
  EXPECT_EQ(weir.http("POST", "/json", request("ada")).status, 429) << "the limits before hold";
  // Mended: two more of the four, since two are used.
  weir.replace("domains/shop.yaml", shop_with(4));
  ASSERT_TRUE(ServedProcess::within([&] {
    return weir.admin("GET", "/policy").body.find("\"generation\":2") != std::string::npos;
  }));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(weir.http("POST", "/json", request("ada")).status, 200);
  EXPECT_EQ(weir.http("POST", "/json", request("ada")).status, 429);
}

TEST(ServeDomains, AnotherFolderOfDomainsIsWatchedInPlaceOfTheFirst) {
  ServedDomains weir("rls: {config: domains, protects: security}\n", kShop);
  ASSERT_TRUE(weir.ready()) << weir.err();
  std::filesystem::create_directories(weir.path("others"));
  weir.replace("others/shop.yaml", shop_with(1));
  weir.write_policy("rls: {config: others, protects: security}\n");
  const auto generation = [&](const std::string& number) {
    return ServedProcess::within([&] {
      return weir.admin("GET", "/policy").body.find("\"generation\":" + number) !=
             std::string::npos;
    });
  };
  ASSERT_TRUE(generation("2"));
  weir.replace("others/shop.yaml", shop_with(3));
  ASSERT_TRUE(generation("3"));
  EXPECT_THAT(weir.http("POST", "/json", request("ada")).body, HasSubstr("\"limitRemaining\":2"));
}

}  // namespace
}  // namespace weir::server
