#include "server/serve/ready_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weir/policy.h"

namespace weir::server {
namespace {

Policy policy() {
  return Policy::parse(R"(
inputs: [user]
routes:
  nothing:
    limits: []
    protects: nothing
  login:
    limits: ["5 per minute by ip, user", "9 per minute by ip"]
    protects: security
)")
      .value();
}

TEST(ReadyText, SaysWhatThisWorkerCouldDoWithoutItsStore) {
  policy::StoreSpec spec;
  spec.url = "redis://ada:secret@cache:6379/0";
  EXPECT_EQ(
      store_line(spec, true, {.worker = "host:/w", .has_part = true, .workers = 3, .why_none = {}}),
      "redis://***@cache:6379/0 answers; worker host:/w holds a part, one of 3");
  EXPECT_EQ(store_line(spec, false,
                       {.worker = "host:/w",
                        .has_part = false,
                        .workers = 0,
                        .why_none = "has not read the fleet's members yet"}),
            "redis://***@cache:6379/0 does not answer; worker host:/w has no part of any limit "
            "without it: has not read the fleet's members yet");
}

TEST(ReadyText, SaysWhetherTheFallbackStoreWouldBeOfHelp) {
  policy::StoreSpec spec;
  EXPECT_EQ(fallback_line(spec, std::nullopt), "");
  spec.fallback_url = "redis://:secret@second:6379/0";
  EXPECT_EQ(fallback_line(spec, guard::SharedStore::Fallback{.answers = true, .trouble = {}}),
            "redis://***@second:6379/0 answers");
  EXPECT_EQ(fallback_line(spec, guard::SharedStore::Fallback{.answers = false, .trouble = "gone"}),
            "redis://***@second:6379/0 does not answer: gone");
  ReadyFacts facts{.http = parse_address("off").value(),
                   .grpc = parse_address("off").value(),
                   .admin = parse_address("off").value()};
  facts.store = "the first";
  facts.fallback = "the second";
  EXPECT_THAT(ready_text(facts, policy().model()),
              ::testing::HasSubstr("\n  store  the first\n  fallback the second\n"));
}

TEST(ReadyText, NamesTheDoorsThatAreOpen) {
  const ReadyFacts facts{.policy_path = "weir.yaml",
                         .lanes = 1,
                         .http = parse_address("0.0.0.0:8080").value(),
                         .grpc = parse_address("0.0.0.0:8081").value(),
                         .admin = parse_address("off").value()};
  EXPECT_EQ(ready_text(facts, policy().model()),
            "weir 0.1.0 is ready: weir.yaml, 2 routes, 1 lane\n"
            "  http   http://127.0.0.1:8080 (on 0.0.0.0:8080)\n"
            "  grpc   0.0.0.0:8081\n"
            "try:\n"
            "  curl -si http://127.0.0.1:8080/v1/check -d "
            "'{\"route\":\"login\",\"descriptors\":{\"ip\":\"192.0.2.7\",\"user\":\"example\"}}'"
            "\n");
}

TEST(ReadyText, SaysWhichDoorsSpeakTls) {
  ReadyFacts facts{.policy_path = "weir.yaml",
                   .http = parse_address("0.0.0.0:8080").value(),
                   .grpc = parse_address("0.0.0.0:8081").value(),
                   .admin = parse_address("127.0.0.1:6070").value(),
                   .tls = {.cert_file = "cert.pem", .key_file = "key.pem"}};
  EXPECT_THAT(
      ready_text(facts, policy().model()),
      ::testing::AllOf(::testing::HasSubstr("  http   https://127.0.0.1:8080 (on 0.0.0.0:8080)\n"
                                            "  grpc   0.0.0.0:8081 (TLS)\n"
                                            "  admin  http://127.0.0.1:6070\n"),
                       ::testing::HasSubstr("curl -si --insecure https://127.0.0.1:8080/")));
  // Who must show a certificate has more to type than a line.
  facts.tls.client_ca_file = "clients.pem";
  EXPECT_THAT(ready_text(facts, policy().model()), ::testing::Not(::testing::HasSubstr("curl")));
}

Policy domains(const std::string& name) {
  return Policy::parse("domain: " + name + R"(
descriptors:
  - key: path
    value: /login*
    descriptors:
      - key: user
        rate_limit: {unit: minute, requests_per_unit: 5}
      - key: ip
        rate_limit: {unit: minute, requests_per_unit: 5}
)")
      .value();
}

TEST(ReadyText, SaysWhatADomainHasAndHowToAskIt) {
  const ReadyFacts facts{.policy_path = "config",
                         .lanes = 2,
                         .http = parse_address("0.0.0.0:8080").value(),
                         .grpc = parse_address("off").value(),
                         .admin = parse_address("off").value()};
  EXPECT_EQ(ready_text(facts, domains("shop").model()),
            "weir 0.1.0 is ready: config, domain shop with 2 limits, 2 lanes\n"
            "  http   http://127.0.0.1:8080 (on 0.0.0.0:8080)\n"
            "try:\n"
            "  curl -si http://127.0.0.1:8080/json -d "
            "'{\"domain\":\"shop\",\"descriptors\":[{\"entries\":[{\"key\":\"path\",\"value\":"
            "\"/login\"},{\"key\":\"user\",\"value\":\"example\"}]}]}'\n");
  // A name cannot end the line.
  EXPECT_EQ(policy_summary(domains("\"a\\nb\"").model()), "domain a\\x0ab with 2 limits");
}

TEST(ReadyText, ReachesAUnixSocket) {
  EXPECT_EQ(try_line(parse_address("unix:/run/it's.sock").value(), policy().model()).substr(0, 66),
            "curl -si --unix-socket '/run/it'\\''s.sock' http://weir/v1/check -d");
  EXPECT_EQ(try_line(parse_address("off").value(), policy().model()), "");
}

}  // namespace
}  // namespace weir::server
