#include "ladder/outage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weir/policy.h"

namespace weir::ladder {
namespace {

using namespace std::chrono_literals;

constexpr const char* kPolicy = R"(
store:
  url: redis://127.0.0.1:1
  deadline: 50ms
  breaker: {failures: 5, cooldown: 500ms, max_cooldown: 5s, jitter: 20%}
  recovery: {steps: 4, step: 250ms}
inputs: [user]
routes:
  login: {limits: [5 per minute by ip], protects: security}
  search: {limits: [10 per second by user], protects: capacity}
  capped: {limits: [10 per second by user], protects: capacity, ceiling: 50 per second}
  status: {limits: [10 per second by user], when_store_fails: open}
  all: {limits: [{requests: 10, per: second, algorithm: fixed_window}], protects: capacity}
)";

class Outage : public ::testing::Test {
 protected:
  OutagePlan plan(const char* offered = nullptr, std::uint32_t workers = 1,
                  std::string_view route = {}) {
    std::optional<Offered> load;
    if (offered != nullptr) load = parse_offered(offered).value();
    return plan_outage(policy_.model(), workers, 11s, load, route);
  }
  std::optional<std::uint64_t> most(const OutagePlan& plan, std::string_view route) {
    for (const OutageOfRoute& each : plan.routes) {
      if (each.name == route) return each.most;
    }
    ADD_FAILURE() << route;
    return {};
  }
  Policy policy_ = Policy::parse(kPolicy).value();
};

TEST_F(Outage, LastsLongerThanTheStoreIsAway) {
  const OutagePlan p = plan();
  // 0.5, 1, 2, 4: the next cooldown is 5 s, and its jitter 1 s.
  EXPECT_EQ(p.cooldown, 6s);
  EXPECT_EQ(p.ramp, 1s);
  EXPECT_EQ(p.without(), 18s);
  EXPECT_EQ(p.detection, 50ms);
  EXPECT_FALSE(p.arrivals_known);
}

TEST_F(Outage, OfSeveralRegionsIsOfAllOfThemTogether) {
  std::string text = kPolicy;
  text.replace(text.find("  deadline"), 0, "  regions: 3\n");
  const OutagePlan one = plan(nullptr, 4);
  policy_ = Policy::parse(text).value();
  const OutagePlan three = plan(nullptr, 4);
  EXPECT_EQ(three.regions, 3u);
  EXPECT_EQ(three.without(), one.without());
  ASSERT_TRUE(most(one, "all") && most(one, "capped"));
  EXPECT_EQ(most(three, "all"), *most(one, "all") * 3);
  EXPECT_EQ(most(three, "capped"), *most(one, "capped") * 3);
  EXPECT_EQ(most(three, "login"), 0u);
  // One of them, as a drill strikes it.
  EXPECT_EQ(most(plan_outage(policy_.model(), 4, 11s, {}, {}, 1), "all"), most(one, "all"));
  // As many calls on three times as many workers.
  EXPECT_EQ(plan("2 clients at 10 per second", 4).detection, 50ms + 4 * 120ms);
}

TEST_F(Outage, IsFoundOutByTheCallsThatCome) {
  // 5 routes x 2 clients x 10 a second are 100 a second; on 4 workers, 25 a second each, 40 ms
  // apart.
  EXPECT_EQ(plan("2 clients at 10 per second", 4).detection, 50ms + 4 * 40ms);
  EXPECT_TRUE(plan("2 clients at 10 per second").arrivals_known);
}

TEST_F(Outage, AdmitsByThePolicyOfEachRoute) {
  // 30 clients at 200 a second for 18 s: the seed of many a bad night.
  const OutagePlan p = plan("30 clients at 200 per second", 3);
  EXPECT_EQ(p.routes[0].offered, 108'000u);
  EXPECT_EQ(most(p, "login"), 0u);
  EXPECT_EQ(most(p, "search"), 30u * (10 + 180));
  EXPECT_EQ(most(p, "capped"), 3u * (50 + 50 * 18));
  EXPECT_EQ(most(p, "status"), 108'000u) << "open is whatever comes";
  EXPECT_EQ(most(p, "all"), 10u * 19) << "one counter for all clients";
  EXPECT_EQ(p.offered, 5u * 108'000);
  EXPECT_EQ(p.most, 0u + 5'700 + 2'850 + 108'000 + 190);
}

TEST_F(Outage, WithoutALoadNothingThatDependsOnItIsMadeUp) {
  const OutagePlan p = plan();
  EXPECT_EQ(p.routes[0].offered, std::nullopt);
  EXPECT_EQ(most(p, "login"), 0u);
  EXPECT_EQ(most(p, "search"), std::nullopt) << "as many keys as come";
  EXPECT_EQ(most(p, "capped"), 50u + 50 * 18);
  EXPECT_EQ(most(p, "all"), 190u);
  EXPECT_EQ(p.most, std::nullopt);
  EXPECT_EQ(plan(nullptr, 1, "login").routes.size(), 1u);
}

TEST_F(Outage, SaysWhatEachKnobWouldChange) {
  const OutagePlan p = plan("30 clients at 200 per second", 3, "capped");
  const auto instead = [&](std::string_view knob) -> OutageInstead {
    for (const OutageInstead& each : p.instead) {
      if (each.knob.starts_with(knob)) return each;
    }
    ADD_FAILURE() << knob;
    return {};
  };
  EXPECT_EQ(instead("max_cooldown").knob, "max_cooldown 1250ms (now 5s)");
  EXPECT_EQ(instead("max_cooldown").without, 11s + 1500ms + 1s);
  EXPECT_EQ(instead("steps").without, 17s + 250ms);
  EXPECT_EQ(instead("every ceiling").most, 3u * 950 / 2);
  EXPECT_EQ(instead("workers").most, 30u * 190) << "six workers' ceilings let more through";
  EXPECT_LT(instead("deadline").detection, p.detection);
  EXPECT_LT(instead("failures").detection, p.detection);
  // What changes nothing is not listed.
  for (const OutageInstead& each : plan(nullptr, 1, "login").instead) {
    EXPECT_FALSE(each.knob.starts_with("workers")) << each.knob;
  }
}

TEST_F(Outage, ReadsWhoAsks) {
  const Offered offered = parse_offered("30 clients at 200 per second").value();
  EXPECT_EQ(offered.clients, 30u);
  EXPECT_EQ(offered.requests, 200u);
  EXPECT_EQ(offered.per, 1s);
  EXPECT_EQ(parse_offered("1 client at 5 per minute").value().per, 1min);
  for (const char* text : {"", "30", "30 clients", "30 clients at", "0 clients at 1 per second",
                           "30 clients at 0 per second", "30 clients at 200",
                           "30 clients at 200 per second by ip", "-1 clients at 1 per second"}) {
    EXPECT_FALSE(parse_offered(text)) << text;
  }
}

TEST_F(Outage, KeepsToAHundredColumns) {
  const std::string text = outage_text(plan("1000000 clients at 1000000 per second", 1'000'000));
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin);
    EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
    begin = end + 1;
  }
}

}  // namespace
}  // namespace weir::ladder
