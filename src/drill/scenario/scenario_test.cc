#include "drill/scenario/scenario.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "drill/scenario/shipped.h"

namespace weir::drill {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string faults_in(std::string_view text) {
  const auto scenario = parse_scenario(text, "s.yaml", "s");
  return scenario ? "none" : scenario.error().message;
}

TEST(Scenario, EveryOneThatShipsIsReadAndEndsCalm) {
  ASSERT_EQ(shipped_scenarios().size(), shipped_texts().size());
  ASSERT_GE(shipped_scenarios().size(), 18U);
  for (const Scenario& each : shipped_scenarios()) {
    EXPECT_EQ(shipped_scenario(each.name), &each);
    EXPECT_FALSE(each.about.empty()) << each.name;
    EXPECT_TRUE(each.phases.back().is_calm()) << each.name;
    EXPECT_LE(each.length(), 60s) << each.name;
  }
  EXPECT_TRUE(shipped_scenario("settle-11s")->settles);
  EXPECT_FALSE(shipped_scenario("failover-11s")->settles);
  EXPECT_EQ(shipped_scenario("one-of-three-shards")->shards, 3U);
  EXPECT_TRUE(shipped_scenario("one-of-three-shards")->needs_own_server());
  EXPECT_EQ(shipped_scenario("failover-12s"), nullptr);
}

TEST(Scenario, ReadsEveryFault) {
  const Scenario scenario = parse_scenario(R"(
name: all
about: Everything at once.
phases:
  - {name: calm, for: 1s}
  - {name: bad, for: 2s, store: deaf, delay: 5ms, jitter: 1ms, between_bytes: 1ms,
     cut: inside_reply, percent: 20, reset: true, server: kill, flap: 500ms, load: 300}
  - {name: again, for: 1s, server: start}
)",
                                           "s.yaml", "s")
                                .value();
  EXPECT_EQ(scenario.name, "all");
  EXPECT_EQ(scenario.length(), 4s);
  EXPECT_EQ(scenario.losses(), 1U);
  const Phase& bad = scenario.phases[1];
  EXPECT_EQ(bad.faults.replies, ProxyFaults::Flow::drop);
  EXPECT_EQ(bad.faults.reply_delay, 5ms);
  EXPECT_EQ(bad.faults.cut, ProxyFaults::Cut::inside_reply);
  EXPECT_EQ(bad.faults.percent, 20U);
  EXPECT_EQ(bad.flap, 500ms);
  EXPECT_EQ(bad.load_percent, 300U);
  EXPECT_FALSE(bad.is_calm());
  EXPECT_TRUE(scenario.phases[2].is_calm());
}

TEST(Scenario, WhatIsDoneToTheServerHoldsUntilItIsUndone) {
  const Scenario scenario = parse_scenario(R"(
phases:
  - {name: calm, for: 1s}
  - {name: paused, for: 1s, server: pause}
  - {name: paused still, for: 1s, load: 200}
  - {name: again, for: 1s, server: resume}
  - {name: ahead, for: 1s, clock: 1h}
  - {name: ahead still, for: 1s}
  - {name: back, for: 1s, clock: 0s}
)",
                                           "s.yaml", "s")
                                .value();
  const auto& phases = scenario.phases;
  EXPECT_EQ(phases[2].state, ServerState::paused);
  EXPECT_FALSE(phases[2].is_calm());
  EXPECT_TRUE(phases[3].is_calm());
  EXPECT_EQ(phases[5].clock_ahead, 1h);
  EXPECT_FALSE(phases[5].is_calm());
  EXPECT_TRUE(phases[6].is_calm());
  EXPECT_EQ(scenario.losses(), 2U) << "the clock leaves its windows, and comes back to them";
  EXPECT_TRUE(scenario.moves_clock());
  EXPECT_TRUE(scenario.needs_own_server());
  EXPECT_FALSE(shipped_scenario("failover-11s")->needs_own_server());
}

TEST(Scenario, ShortenedItsFaultsAreShortAndItsEndIsNot) {
  const Scenario scenario = parse_scenario(R"(
phases:
  - {name: before, for: 3s}
  - {name: away, for: 20s, store: refuse}
  - {name: blink, for: 500ms, store: deaf}
  - {name: after, for: 8s}
)",
                                           "s.yaml", "s")
                                .value();
  const Scenario shorter = scenario.shortened(10);
  EXPECT_EQ(shorter.phases[0].length, 1s);
  EXPECT_EQ(shorter.phases[1].length, 2s);
  EXPECT_EQ(shorter.phases[2].length, 500ms) << "nothing becomes longer";
  EXPECT_EQ(shorter.phases[3].length, 5s);
  EXPECT_EQ(scenario.shortened(100).length(), scenario.length());
}

TEST(Scenario, AClusterIsOfThreeAndMoreThatAreNobodysReplicas) {
  EXPECT_EQ(parse_scenario("shards: 3\nphases: [{name: a, for: 1s}]", "s", "s")->shards, 3U);
  EXPECT_THAT(faults_in("shards: 2\nphases: [{name: a, for: 1s}]"), HasSubstr("shards: is too"));
  EXPECT_THAT(faults_in("shards: 17\nphases: [{name: a, for: 1s}]"), HasSubstr("shards: "));
  for (const char* act : {"readonly", "loading"}) {
    EXPECT_THAT(faults_in("shards: 3\nphases: [{name: a, for: 1s}, {name: b, for: 1s, server: " +
                          std::string(act) + "}]"),
                HasSubstr("phases[1].server: cannot be done to a cluster's node"));
  }
}

TEST(Scenario, ActsThatDoNotFollowFromEachOtherAreFaults) {
  for (const char* act : {"resume", "start", "writable", "freed", "loaded"}) {
    EXPECT_THAT(faults_in("phases: [{name: a, for: 1s}, {name: b, for: 1s, server: " +
                          std::string(act) + "}]"),
                HasSubstr("phases[1].server: does not fit what was done"))
        << act;
  }
  EXPECT_THAT(faults_in("phases: [{name: a, for: 1s}, {name: b, for: 1s, server: pause}, "
                        "{name: c, for: 1s, server: start}]"),
              HasSubstr("phases[2].server"));
}

TEST(Scenario, NamesEveryFaultWithItsPlace) {
  const std::string faults = faults_in(R"(
phases:
  - {name: calm, for: 1}
  - {for: 2s, store: gone, percent: 200}
  - {name: x, for: 1s, sotre: well}
)");
  EXPECT_THAT(faults, HasSubstr("s.yaml:3:23: phases[0].for: "));
  EXPECT_THAT(faults, HasSubstr("phases[1]: has no name"));
  EXPECT_THAT(faults, HasSubstr("phases[1].store: 'gone' is no choice here; allowed: well, "));
  EXPECT_THAT(faults, HasSubstr("phases[1].percent: '200' "));
  EXPECT_THAT(faults, HasSubstr("sotre"));
  EXPECT_THAT(faults_in("about: nothing"), HasSubstr("has no phases"));
  EXPECT_THAT(faults_in("phases: [{name: x, for: 1s, store: refuse}]"),
              HasSubstr("phases[0]: is not calm"));
  EXPECT_THAT(faults_in("phases: []"), HasSubstr("phases: is empty"));
  EXPECT_THAT(faults_in("name: ../x\nphases: [{name: a, for: 1s}]"),
              HasSubstr("no name for a file"));
  EXPECT_THAT(faults_in("- a"), HasSubstr("s.yaml:1:1"));
}

}  // namespace
}  // namespace weir::drill
