#include "server/http/safeguard_handler.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "testing/manual_clock.h"

namespace weir::server::http {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kPolicy = R"(
inputs: [account]
breakers:
  payments: {consecutive_failures: 2, failure_rate: off, open_wait: 1500ms, jitter: 0%, ramp: off,
             probes: 1}
concurrency:
  reports: {limit: 2, by: account, lease: 2s, max_hold: 10s}
)";

struct Answer final : Exchange {
  void decision(const Decision&) override { throw std::logic_error("no decision is asked for"); }
  void problem(int number, std::string_view detail, std::string_view more) override {
    status = number;
    text = detail;
    lines = more;
  }
  void body(int number, std::string_view, std::string_view body, std::string_view more) override {
    status = number;
    text = body;
    lines = more;
  }
  Later later() override { throw std::logic_error("every answer comes at once"); }

  // The string value of a member.
  std::string member(const std::string& name) const {
    const std::string begin = "\"" + name + "\":\"";
    const std::size_t at = text.find(begin);
    if (at == std::string::npos) return {};
    return text.substr(at + begin.size(), text.find('"', at + begin.size()) - at - begin.size());
  }

  int status = 0;
  std::string text;
  std::string lines;
};

struct SafeguardRig {
  SafeguardRig() : guard(Guard::open(Policy::parse(kPolicy).value(), {.clock = &clock}).value()) {}
  Answer ask(std::string_view method, std::string_view path, std::string_view body = "") {
    Answer answer;
    handler.handle({.method = method, .target = path, .fields = {}, .body = body}, answer);
    return answer;
  }
  Answer post(std::string_view path, std::string_view body = "") { return ask("POST", path, body); }
  std::string permit() { return post("/v1/breaker/payments/admit").member("permit"); }
  Answer report(const std::string& permit, const std::string& outcome) {
    return post("/v1/breaker/payments/report",
                R"({"permit":")" + permit + R"(","outcome":")" + outcome + R"("})");
  }

  testing::ManualClock clock;
  Guard guard;
  SafeguardHandler handler{
      guard, [](const auto&) { throw std::logic_error("every answer comes at once"); }};
};

TEST(SafeguardHandler, OpensABreakerByWhatIsReported) {
  SafeguardRig rig;
  EXPECT_EQ(rig.report(rig.permit(), "failure").text, "{\"state\":\"closed\"}\n");
  EXPECT_EQ(rig.report(rig.permit(), "failure").text, "{\"state\":\"open\"}\n");
  const Answer no = rig.post("/v1/breaker/payments/admit");
  EXPECT_EQ(no.status, 503);
  EXPECT_EQ(no.text, "{\"admitted\":false,\"reason\":\"open\",\"retry_after_ms\":1500}\n");
  EXPECT_EQ(no.lines, "Retry-After: 2\r\n");
  rig.clock.advance(1500ms);
  const Answer probe = rig.post("/v1/breaker/payments/admit", R"({"spread":"ada"})");
  EXPECT_EQ(probe.status, 200);
  EXPECT_NE(probe.text.find("\"probe\":true"), std::string::npos) << probe.text;
  EXPECT_EQ(rig.report(probe.member("permit"), "ok").text, "{\"state\":\"closed\"}\n");
}

TEST(SafeguardHandler, OpensAtOnceWhereTheDependencySaysSo) {
  SafeguardRig rig;
  const std::string permit = rig.permit();
  EXPECT_EQ(rig.post("/v1/breaker/payments/report",
                     R"({"permit":")" + permit + R"(","outcome":"failure","open_for_ms":9000})")
                .status,
            200);
  EXPECT_NE(rig.post("/v1/breaker/payments/admit").text.find("\"retry_after_ms\":9000"),
            std::string::npos);
}

TEST(SafeguardHandler, ShowsABreakersState) {
  SafeguardRig rig;
  const Answer answer = rig.ask("GET", "/v1/breaker/payments");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.text.rfind(
                R"({"breaker":"payments","state":"closed","mode":"automatic","generation":0,)", 0),
            0U)
      << answer.text;
  EXPECT_EQ(rig.post("/v1/breaker/payments").status, 405);
}

TEST(SafeguardHandler, RefusesWhatIsNoPermit) {
  SafeguardRig rig;
  EXPECT_EQ(rig.report("1-2-3-4-5-6-7", "ok").status, 404);
  EXPECT_EQ(rig.report("", "ok").status, 404);
  EXPECT_EQ(rig.report(rig.permit(), "fine").text,
            "outcome must be one of ok, failure, slow, ignored, cancelled, local_reject, expired");
}

TEST(SafeguardHandler, SaysWhatIsWrongWithABody) {
  SafeguardRig rig;
  const std::string report = "/v1/breaker/payments/report";
  EXPECT_EQ(rig.post(report, "").text, "permit, outcome is missing");
  EXPECT_EQ(rig.post(report, "{").status, 400);
  EXPECT_EQ(rig.post(report, R"({"permit":1})").text, "permit must be a string and is a number");
  EXPECT_EQ(rig.post(report, R"({"permit":"a","permit":"a"})").text, "permit is given twice");
  EXPECT_EQ(rig.post(report, R"({"weight":1})").text,
            "a member is unknown; allowed: permit, outcome, retry_after_ms, open_for_ms");
  EXPECT_EQ(rig.post(report, R"({"retry_after_ms":-1})").text,
            "retry_after_ms must be a whole number from 0 to 18446744073709551615");
  EXPECT_EQ(rig.post("/v1/lease/reports/renew", "{}").text, "id is missing");
  EXPECT_EQ(rig.post("/v1/lease/reports/acquire", R"({"descriptors":{"a":"1","a":"2"}})").text,
            "descriptors name one source twice");
}

TEST(SafeguardHandler, KnowsNoNameThatThePolicyDoesNot) {
  SafeguardRig rig;
  EXPECT_EQ(rig.post("/v1/breaker/nobody/admit").status, 404);
  EXPECT_EQ(rig.post("/v1/breaker//admit").status, 404);
  EXPECT_EQ(rig.post("/v1/breaker/payments/close").status, 404);
  EXPECT_EQ(rig.post("/v1/lease/nobody/acquire").status, 404);
  EXPECT_EQ(rig.post("/v1/lease/reports/take").status, 404);
  EXPECT_EQ(rig.ask("GET", "/v1/lease/reports/acquire").status, 405);
}

TEST(SafeguardHandler, GivesLeasesUpToTheLimitOfEachKey) {
  SafeguardRig rig;
  const std::string ada = R"({"descriptors":{"account":"ada"}})";
  const Answer first = rig.post("/v1/lease/reports/acquire", ada);
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.member("id").size(), 32U);
  EXPECT_NE(first.text.find("\"expires_in_ms\":2000"), std::string::npos) << first.text;
  EXPECT_EQ(rig.post("/v1/lease/reports/acquire", ada).status, 200);
  const Answer no = rig.post("/v1/lease/reports/acquire", ada);
  EXPECT_EQ(no.status, 429);
  EXPECT_EQ(no.text, "{\"granted\":false,\"reason\":\"full\",\"retry_after_ms\":2000}\n");
  EXPECT_EQ(no.lines, "Retry-After: 2\r\n");
  EXPECT_EQ(rig.post("/v1/lease/reports/acquire", R"({"descriptors":{"account":"bob"}})").status,
            200);
}

TEST(SafeguardHandler, RenewsAndReleasesWhatStandsAndNothingElse) {
  SafeguardRig rig;
  const std::string body = R"({"descriptors":{"account":"ada"},"id":"0123456789abcdef"})";
  EXPECT_EQ(rig.post("/v1/lease/reports/acquire", body).status, 200);
  const Answer again = rig.post("/v1/lease/reports/acquire", body);
  EXPECT_EQ(again.status, 200);
  EXPECT_NE(again.text.find("\"repeated\":true"), std::string::npos);
  rig.clock.advance(1s);
  EXPECT_EQ(rig.post("/v1/lease/reports/renew", body).status, 200);
  EXPECT_EQ(rig.post("/v1/lease/reports/release", body).text, "{\"released\":true}\n");
  EXPECT_EQ(rig.post("/v1/lease/reports/release", body).status, 404);
  const Answer gone = rig.post("/v1/lease/reports/renew", body);
  EXPECT_EQ(gone.status, 404);
  EXPECT_EQ(gone.text, "{\"granted\":false,\"reason\":\"gone\"}\n");
}

TEST(SafeguardHandler, LookingAtABreakerChangesNothing) {
  // A monitor that polled moved it to half-open, where nobody called; the round ran out, and the
  // wait doubled with each.
  SafeguardRig rig;
  for (int i = 0; i < 2; ++i) rig.report(rig.permit(), "failure");
  rig.clock.advance(1h);
  for (int i = 0; i < 3; ++i) {
    const Answer answer = rig.ask("GET", "/v1/breaker/payments");
    EXPECT_EQ(answer.member("state"), "open");
    EXPECT_NE(answer.text.find("\"probe_due\":true"), std::string::npos);
    EXPECT_NE(answer.text.find("\"openings_in_a_row\":1"), std::string::npos);
    rig.clock.advance(1min);
  }
  EXPECT_EQ(rig.post("/v1/breaker/payments/admit").status, 200);
}

TEST(SafeguardHandler, SaysWhatItWouldOtherwiseHaveCut) {
  SafeguardRig rig;
  const auto told = [&](const std::string& more) {
    return rig.post("/v1/breaker/payments/report",
                    R"({"permit":")" + rig.permit() + R"(","outcome":"failure",)" + more + "}");
  };
  const Answer open = told(R"("open_for_ms":86400000)");
  EXPECT_EQ(open.status, 400);
  EXPECT_NE(open.text.find("at most 300000"), std::string::npos) << open.text;
  EXPECT_EQ(told(R"("retry_after_ms":86400000)").text,
            "{\"state\":\"closed\",\"retry_after_cut_to_ms\":300000}\n");
}

TEST(SafeguardHandler, TakesWhateverADependencyAsksForAndSaysWhatItCutItTo) {
  // Two days, as an upstream says it, and more than there is time.
  for (const char* const wanted : {"172800000", "18446744073709551615"}) {
    SafeguardRig rig;
    const auto failed = [&] {
      return rig.post("/v1/breaker/payments/report",
                      R"({"permit":")" + rig.permit() +
                          R"(","outcome":"failure","retry_after_ms":)" + wanted + "}");
    };
    EXPECT_EQ(failed().text, "{\"state\":\"closed\",\"retry_after_cut_to_ms\":300000}\n");
    EXPECT_EQ(failed().text, "{\"state\":\"open\",\"retry_after_cut_to_ms\":300000}\n");
    EXPECT_EQ(rig.post("/v1/breaker/payments/admit").lines, "Retry-After: 300\r\n");
  }
}

TEST(SafeguardHandler, FindsANameThatIsEscaped) {
  SafeguardRig rig;
  EXPECT_EQ(rig.ask("GET", "/v1/breaker/%70ayments").status, 200);
  EXPECT_EQ(rig.ask("GET", "/v1/breaker/payments%").status, 404);
  EXPECT_EQ(rig.ask("GET", "/v1/breaker/payments%2Fadmit").status, 404) << "no part of a path";
  EXPECT_EQ(rig.post("/v1/lease/re%70orts/acquire").status, 200);
}

TEST(SafeguardHandler, AValueThatALimitDoesNotCountByIsNamed) {
  SafeguardRig rig;
  const Answer answer =
      rig.post("/v1/lease/reports/acquire", R"({"descriptors":{"acount":"ada"}})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.text,
            "concurrency limit 'reports' does not count by 'acount'; it counts by: account.");
}

TEST(SafeguardHandler, ALatePermitAndAnAlteredOneAreTwoThings) {
  SafeguardRig rig;
  for (int i = 0; i < 2; ++i) rig.report(rig.permit(), "failure");
  rig.clock.advance(1500ms);
  const std::string probe = rig.permit();
  std::string altered = probe;
  altered[altered.rfind('-') - 1] ^= 1;
  EXPECT_EQ(rig.report(altered, "ok").status, 404);
  EXPECT_EQ(rig.report(probe, "ok").status, 200);
}

TEST(SafeguardHandler, TellsWhatNeverFitsFromWhatIsFull) {
  SafeguardRig rig;
  EXPECT_EQ(rig.post("/v1/lease/reports/acquire", R"({"weight":3})").status, 400);
  const Answer nothing = rig.post("/v1/lease/reports/acquire", R"({"weight":0})");
  EXPECT_EQ(nothing.status, 400);
  EXPECT_EQ(nothing.text, "weight must be a whole number from 1 to 1000000");
  EXPECT_EQ(rig.post("/v1/lease/reports/acquire", R"({"id":""})").status, 400)
      << "not an absent one";
  EXPECT_EQ(rig.post("/v1/lease/reports/acquire", R"({"id":"short"})").status, 400);
}

// What is no lease's and no breaker's body: all of it is a 400, says what is wrong, and changes
// nothing.
TEST(SafeguardHandler, HostileBodiesAreRefusedWithAReasonAndTakeNothing) {
  SafeguardRig rig;
  const std::string permit = rig.permit();
  const auto refused = [&](const std::string& path, const std::string& body) {
    const Answer answer = rig.post(path, body);
    EXPECT_EQ(answer.status, 400) << path << " " << body.substr(0, 100);
    EXPECT_FALSE(answer.text.empty()) << body.substr(0, 100);
    EXPECT_LT(answer.text.size(), 300U) << "nobody is sent back what he sent";
  };
  const std::string deep(100'000, '[');
  for (const std::string path :
       {"/v1/lease/reports/acquire", "/v1/lease/reports/renew", "/v1/lease/reports/release",
        "/v1/breaker/payments/admit", "/v1/breaker/payments/report"}) {
    for (const std::string& body :
         {std::string("null"), std::string("[]"), std::string("42"), std::string("\"x\""),
          std::string("{"), std::string("{}}"), std::string("{} {}"), std::string("{\"a\"}"),
          std::string("{,}"), std::string("NaN"), std::string("{\"\\u0000\":1}"),
          std::string("\xff\xfe{}"), std::string("{\"\xc3\x28\":1}"), std::string("{}\0", 3), deep,
          "{\"id\":" + deep, "{\"permit\":" + deep})
      refused(path, body);
  }
  const std::string acquire = "/v1/lease/reports/acquire";
  for (const char* const number : {"-1",
                                   "-0",
                                   "0",
                                   "1.5",
                                   "1e3",
                                   "1e400",
                                   "NaN",
                                   "Infinity",
                                   "0x1",
                                   "01",
                                   "+1",
                                   "1000001",
                                   "4294967297",
                                   "18446744073709551617",
                                   "99999999999999999999999999999999999999",
                                   "\"1\"",
                                   "null",
                                   "true",
                                   "[1]",
                                   "{}"}) {
    refused(acquire, R"({"id":"0123456789abcdef","weight":)" + std::string(number) + "}");
    refused("/v1/breaker/payments/report", R"({"permit":")" + permit +
                                               R"(","outcome":"failure","open_for_ms":)" +
                                               (number == std::string("0") ? "-1" : number) + "}");
  }
  for (const std::string& id :
       {std::string("1"), std::string("null"), std::string("[]"), std::string("\"\""),
        std::string("\"0123456789abcde\\u0000\""), std::string("\"0123456789abcde\u00e9\""),
        std::string("\"\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00\""),
        std::string("\"\\ud800\\ud800\\ud800\\ud800\\ud800\\ud800\""),
        std::string("\"0123456789abcdef/../\""), std::string("\"0123456789abcdef\\r\\nX: 1\""),
        std::string("\"0123456789abcdef\",\"id\":\"0123456789abcdef\""),
        '"' + std::string(65, 'a') + '"', '"' + std::string(1'000'000, 'a') + '"'})
    refused(acquire, R"({"descriptors":{"account":"ada"},"id":)" + id + "}");
  for (const char* const descriptors :
       {"[]", "null", "\"ada\"", R"({"account":1})", R"({"account":null})", R"({"account":{}})",
        R"({"account":"a","account":"a"})", R"({"Account":"a"})", R"({"account\u0000":"a"})"})
    refused(acquire, R"({"descriptors":)" + std::string(descriptors) + "}");
  refused("/v1/breaker/payments/admit", R"({"spread":1})");
  refused("/v1/breaker/payments/admit", R"({"spread":"a","spread":"a"})");

  EXPECT_EQ(rig.guard.breaker("payments")->snapshot().failed, 0U);
  EXPECT_EQ(rig.guard.breaker("payments")->state(), BreakerState::closed);
  for (const char* const account : {R"({"account":"ada"})", "{}"})
    EXPECT_EQ(
        rig.post(acquire, R"({"weight":2,"descriptors":)" + std::string(account) + "}").status, 200)
        << "nothing was taken";
}

TEST(SafeguardHandler, WhatIsNoPermitIsNoneHoweverItIsWritten) {
  SafeguardRig rig;
  const std::string permit = rig.permit();
  const std::vector<std::string> all{"2-------",
                                     "2-0-0-0-0-0-0-0",
                                     "2--1-0-0-0-0-0-0",
                                     "2-ffffffffffffffffff-0-0-0-0-0-0",
                                     permit + "-0",
                                     permit + " ",
                                     " " + permit,
                                     "2" + permit,
                                     permit.substr(0, permit.size() - 1),
                                     std::string(1'000'000, '-'),
                                     "\\ud83d\\ude00",
                                     permit + "\\u0000"};
  for (const std::string& each : all)
    EXPECT_EQ(rig.report(each, "failure").status, 404) << each.substr(0, 100);
  EXPECT_EQ(rig.guard.breaker("payments")->snapshot().failed, 0U);
  EXPECT_EQ(rig.report(permit, "failure").status, 200);
}

TEST(SafeguardHandler, AnyTextIsAKeyOfItsOwn) {
  // Names that normalise alike, are cut alike, or hold what ends a text elsewhere.
  SafeguardRig rig;
  const std::string large(100'000, 'x');
  for (const std::string& account :
       {std::string("\u00e9"), std::string("e\u0301"), std::string("\\u0000"),
        std::string("\\u0000\\u0000"), std::string("\\ud83d\\ude00"), std::string("\\ud83d"),
        std::string("A"), std::string("a"), std::string("a "), large, large + "y"}) {
    const std::string body = R"({"weight":2,"descriptors":{"account":")" + account + "\"}}";
    EXPECT_EQ(rig.post("/v1/lease/reports/acquire", body).status, 200) << account.substr(0, 50);
    EXPECT_EQ(rig.post("/v1/lease/reports/acquire", body).status, 429) << account.substr(0, 50);
  }
}

TEST(SafeguardHandler, ALeaseThatIsOverNeitherRisesNorFreesItsSuccessorsUnits) {
  SafeguardRig rig;
  const std::string old = R"({"id":"0123456789abcdef"})";
  const auto of = [&](const char* verb, const std::string& body) {
    return rig.post("/v1/lease/reports/" + std::string(verb), body);
  };
  ASSERT_EQ(of("acquire", R"({"id":"0123456789abcdef","weight":2})").status, 200);
  rig.clock.step_wall(-1h);  // a wall clock that is set back gives nobody more time
  rig.clock.advance(2s);
  EXPECT_EQ(of("renew", old).status, 404);
  ASSERT_EQ(of("acquire", R"({"id":"fedcba9876543210","weight":2})").status, 200);
  rig.clock.step_wall(2h);
  EXPECT_EQ(of("renew", old).status, 404);
  EXPECT_EQ(of("release", old).status, 404);
  EXPECT_EQ(of("acquire", old).status, 429) << "its successor's stand";
  // And up to max_hold it is renewed, whatever the wall says; not beyond.
  for (int i = 0; i < 9; ++i) {
    rig.clock.step_wall(i % 2 == 0 ? -3h : 3h);
    rig.clock.advance(1s);
    EXPECT_EQ(of("renew", R"({"id":"fedcba9876543210"})").status, 200) << i;
  }
  rig.clock.advance(1s);
  EXPECT_EQ(of("renew", R"({"id":"fedcba9876543210"})").status, 404);
  EXPECT_EQ(of("acquire", old).status, 200);
}

}  // namespace
}  // namespace weir::server::http
