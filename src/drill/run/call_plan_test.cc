#include "drill/run/call_plan.h"

#include <gtest/gtest.h>

#include <map>

namespace weir::drill {
namespace {

using namespace std::chrono_literals;

Scenario ten_seconds() {
  return parse_scenario("phases: [{name: a, for: 5s}, {name: b, for: 5s, load: 300}]", "s", "s")
      .value();
}

struct Heard {
  std::map<std::uint32_t, std::vector<MonoTime>> of_client;
  std::vector<MonoTime> all;
  std::vector<std::string> requests;
};

Heard play(CallPlan& plan, MonoTime at, const std::function<void(const HttpLoad::Call&)>& then) {
  plan.begin(at);
  Heard heard;
  HttpLoad::Call call;
  while (plan.next(call)) {
    heard.of_client[CallPlan::client_of(call.tag)].push_back(call.due);
    heard.all.push_back(call.due);
    heard.requests.push_back(call.request);
    if (then) then(call);
  }
  return heard;
}

TEST(CallPlan, GivesEachKindItsPaceInTheOrderOfTime) {
  const Scenario scenario = ten_seconds();
  CallPlan plan(scenario, {.routes = 1, .clients = 12, .rate = 310},
                [](std::size_t, std::uint32_t client, std::size_t phase) {
                  return std::to_string(client) + "/" + std::to_string(phase);
                });
  const MonoTime begin{1h};
  const Heard heard = play(plan, begin, {});
  EXPECT_TRUE(std::is_sorted(heard.all.begin(), heard.all.end()));
  EXPECT_LT(heard.all.back(), begin + 10s);
  // 310 a second, of 31 weights: 200 and 10 each; then three times that.
  EXPECT_NEAR(static_cast<double>(heard.of_client.at(0).size()), 200 * 5 + 600 * 5, 300);
  for (std::uint32_t client = 1; client < 12; ++client) {
    EXPECT_NEAR(static_cast<double>(heard.of_client.at(client).size()), 10 * 5 + 30 * 5, 60)
        << client;
  }
  const auto before = std::count_if(heard.all.begin(), heard.all.end(),
                                    [&](MonoTime at) { return at < begin + 5s; });
  EXPECT_NEAR(static_cast<double>(before) / static_cast<double>(heard.all.size()), 0.25, 0.05);
  EXPECT_TRUE(heard.requests.front().ends_with("/0"));
  EXPECT_TRUE(heard.requests.back().ends_with("/1"));
}

TEST(CallPlan, BurstyClientsAskEightTimesAtOnce) {
  const Scenario scenario = ten_seconds();
  CallPlan plan(scenario, {.clients = 4, .rate = 230}, [](auto...) { return std::string(); });
  ASSERT_EQ(plan.kind_of(0), ClientKind::hostile);
  ASSERT_EQ(plan.kind_of(2), ClientKind::bursty);
  const Heard heard = play(plan, MonoTime{1h}, {});
  std::map<MonoTime, int> at;
  for (const MonoTime due : heard.of_client.at(2)) ++at[due];
  for (const auto& [due, count] : at) EXPECT_EQ(count, 8);
}

TEST(CallPlan, RetryingClientsComeBackTwiceAndOthersDoNot) {
  const Scenario scenario = ten_seconds();
  CallPlan plan(scenario, {.clients = 4, .rate = 23}, [](auto...) { return std::string(); });
  ASSERT_EQ(plan.kind_of(3), ClientKind::retrying);
  std::map<std::uint32_t, std::map<std::uint64_t, int>> attempts;  // by client, by attempt
  play(plan, MonoTime{1h}, [&](const HttpLoad::Call& call) {
    ++attempts[CallPlan::client_of(call.tag)][call.tag >> 32U & 0xffU];
    plan.take({.tag = call.tag, .due = call.due, .answered = call.due + 1ms, .status = 503});
  });
  EXPECT_EQ(attempts.at(0).size(), 1u);
  EXPECT_EQ(attempts.at(1).size(), 1u);
  ASSERT_EQ(attempts.at(3).size(), 3u);
  EXPECT_GE(attempts.at(3)[1] + 1, attempts.at(3)[0]) << "all but what the end cut off";
}

TEST(CallPlan, WhoWasServedDoesNotComeBack) {
  const Scenario scenario = ten_seconds();
  CallPlan plan(scenario, {.clients = 4, .rate = 23}, [](auto...) { return std::string(); });
  play(plan, MonoTime{1h}, [&](const HttpLoad::Call& call) {
    EXPECT_EQ(call.tag >> 32U & 0xffU, 0u);
    plan.take({.tag = call.tag, .due = call.due, .answered = call.due + 1ms, .status = 200});
  });
}

}  // namespace
}  // namespace weir::drill
