#include "weir/decision.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "testing/allocations.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::allocations;

RuleReport rule_named(std::string_view name, std::uint64_t remaining = 4) {
  RuleReport rule;
  rule.rule = name;
  rule.limit = 5;
  rule.burst = 5;
  rule.period = 60s;
  rule.remaining = remaining;
  rule.reset_after = 12s;
  return rule;
}

Decision with_rules(std::size_t count) {
  static const std::string names[] = {"a", "b", "c", "d", "e", "f", "g"};
  Decision d;
  d.verdict = Verdict::allowed;
  d.rung = Rung::store;
  d.reason = Reason::within_limit;
  for (std::size_t i = 0; i < count; ++i) d.add(rule_named(names[i], i));
  return d;
}

void expect_rules(const Decision& d, std::size_t count) {
  ASSERT_EQ(d.rules().size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(d.rules()[i].rule, std::string(1, static_cast<char>('a' + i)));
    EXPECT_EQ(d.rules()[i].remaining, i);
  }
}

TEST(Decision, KeepsItsRulesThroughCopyAndMove) {
  for (std::size_t count : {0, 1, 4, 5, 7}) {
    const Decision original = with_rules(count);
    expect_rules(original, count);
    Decision copy = original;
    expect_rules(copy, count);
    const Decision moved = std::move(copy);
    expect_rules(moved, count);
    for (std::size_t other : {0, 4, 6}) {
      Decision target = with_rules(other);
      target = original;
      expect_rules(target, count);
      Decision taken = with_rules(other);
      taken = with_rules(count);
      expect_rules(taken, count);
    }
  }
}

TEST(Decision, SurvivesAssignmentToItselfAndAddingItsOwnReport) {
  Decision d = with_rules(4);
  const Decision& same = d;
  d = same;
  expect_rules(d, 4);
  d.add(d.rules()[0]);
  d.add(d.rules()[4]);
  ASSERT_EQ(d.rules().size(), 6U);
  EXPECT_EQ(d.rules()[5].rule, "a");
}

TEST(Decision, NeitherBuildingCopyingNorMovingAFewRulesAllocates) {
  const std::uint64_t before = allocations();
  Decision d;
  for (std::size_t i = 0; i < Decision::kInlineRules; ++i) d.add(rule_named("a"));
  Decision copy = d;
  Decision moved = std::move(copy);
  d = moved;
  const std::uint64_t after = allocations();
  EXPECT_EQ(after, before);
  EXPECT_EQ(d.rules().size(), Decision::kInlineRules);
}

TEST(Decision, SaysItselfInJsonInAStableOrder) {
  Decision d = with_rules(1);
  d.route = "login";
  EXPECT_EQ(d.json(),
            R"({"verdict":"allowed","rung":"store","reason":"within_limit","route":"login",)"
            R"("rules":[{"rule":"a","limit":5,"period_ms":60000,"remaining":0,)"
            R"("reset_after_ms":12000}]})");
}

TEST(Decision, LeavesOutOfJsonWhatIsNotKnown) {
  Decision d;
  d.verdict = Verdict::refused;
  d.reason = Reason::store_unavailable;
  RuleReport rule;
  rule.rule = "5 per minute";
  rule.limit = 5;
  rule.period = 60s;
  rule.fits = false;
  d.add(rule);
  EXPECT_EQ(d.json(),
            R"({"verdict":"refused","rung":"policy","reason":"store_unavailable",)"
            R"("rules":[{"rule":"5 per minute","limit":5,"period_ms":60000,"fits":false}]})");
}

TEST(Decision, RoundsJsonWaitsUpAndPeriodsNot) {
  Decision d;
  d.verdict = Verdict::limited;
  d.rung = Rung::store;
  d.reason = Reason::over_limit;
  d.retry_after = 1ns;
  RuleReport rule = rule_named("a", 0);
  rule.period = 1500us;
  rule.burst = 9;
  rule.fits = false;
  rule.shadow = true;
  rule.retry_after = 1000001ns;
  rule.reset_after = 2ms;
  d.add(rule);
  EXPECT_EQ(d.json(),
            R"({"verdict":"limited","rung":"store","reason":"over_limit","retry_after_ms":1,)"
            R"("rules":[{"rule":"a","limit":5,"period_ms":1.5,"burst":9,"remaining":0,)"
            R"("reset_after_ms":2,"retry_after_ms":2,"fits":false,"shadow":true}]})");
}

TEST(Decision, IsJsonWhateverBytesANameHolds) {
  std::string every;
  for (int c = 0; c < 256; ++c) every += static_cast<char>(c);
  Decision d = with_rules(0);
  d.add(rule_named(every));
  const auto parsed = nlohmann::json::parse(d.json(), nullptr, false);
  ASSERT_FALSE(parsed.is_discarded()) << d.json();
  const std::string name = parsed["rules"][0]["rule"];
  EXPECT_EQ(name.substr(0, 128), every.substr(0, 128));
  EXPECT_EQ(name.substr(128, 3), "\xef\xbf\xbd") << "not well-formed UTF-8 becomes U+FFFD";
}

TEST(Decision, MapsToOneStatus) {
  const auto status = [](Verdict verdict, Reason reason) {
    Decision d;
    d.verdict = verdict;
    d.reason = reason;
    return d.http_status();
  };
  EXPECT_EQ(status(Verdict::allowed, Reason::within_limit), 200);
  EXPECT_EQ(status(Verdict::allowed, Reason::store_unavailable), 200);
  EXPECT_EQ(status(Verdict::limited, Reason::over_limit), 429);
  EXPECT_EQ(status(Verdict::limited, Reason::cost_exceeds_burst), 429);
  EXPECT_EQ(status(Verdict::limited, Reason::blocked), 429);
  EXPECT_EQ(status(Verdict::limited, Reason::over_share), 429);
  EXPECT_EQ(status(Verdict::refused, Reason::store_unavailable), 503);
  EXPECT_EQ(status(Verdict::refused, Reason::over_share), 503);
  EXPECT_EQ(status(Verdict::refused, Reason::over_ceiling), 503);
  EXPECT_EQ(status(Verdict::refused, Reason::keys_exhausted), 503);
  EXPECT_EQ(status(Verdict::refused, Reason::unmatched_request), 503);
  EXPECT_EQ(status(Verdict::refused, Reason::unknown_route), 404);
  EXPECT_EQ(status(Verdict::refused, Reason::missing_value), 400);
  EXPECT_EQ(status(Verdict::refused, Reason::invalid_request), 400);
}

}  // namespace
}  // namespace weir
