#include "ladder/explain.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "weir/policy.h"

namespace weir::ladder {
namespace {

using namespace std::chrono_literals;

Explanation explained(const std::string& routes, const ExplainOptions& options = {},
                      const std::string& store = "redis://127.0.0.1") {
  const auto policy = Policy::parse("store: " + store + "\nroutes:\n  r: " + routes + "\n");
  EXPECT_TRUE(policy) << policy.error().message;
  return explain(policy->model(), options).value();
}

const StateOfStore& state(const Explanation& explanation, StoreState which) {
  return explanation.routes.at(0).states.at(static_cast<std::size_t>(which));
}

std::vector<int> statuses(const StateOfStore& state) {
  std::vector<int> out;
  for (const Answer& answer : state.answers) out.push_back(answer.status);
  return out;
}

// Its text as one line, wherever it was wrapped.
std::string one_line(const Explanation& explanation) {
  std::string out;
  for (const char c : explain_text(explanation)) {
    const bool blank = c == ' ' || c == '\n';
    if (!blank)
      out += c;
    else if (!out.ends_with(' '))
      out += ' ';
  }
  return out;
}

TEST(Explain, NamesTheStatusesOfEachFailurePolicy) {
  const auto away = [](const std::string& policy) {
    return statuses(state(explained("{limits: [5 per minute], " + policy + "}"), StoreState::away));
  };
  EXPECT_EQ(away("when_store_fails: closed"), (std::vector<int>{429, 503}));
  // What the store denied a moment ago is denied under every policy.
  EXPECT_EQ(away("when_store_fails: bounded"), (std::vector<int>{429, 200, 429, 503, 503}));
  EXPECT_EQ(away("when_store_fails: bounded, ceiling: 5 per second"),
            (std::vector<int>{429, 200, 429, 503, 503, 503}));
  EXPECT_EQ(away("when_store_fails: open"), (std::vector<int>{429, 200}));
  EXPECT_EQ(away("when_store_fails: open, ceiling: 5 per second"),
            (std::vector<int>{429, 200, 503}));
  // But a rule that only watches has denied nobody.
  EXPECT_EQ(away("shadow: true, when_store_fails: open"), (std::vector<int>{200}));
  EXPECT_EQ(away("shadow: true, when_store_fails: closed"), (std::vector<int>{200}));
  EXPECT_EQ(away("shadow: true, protects: capacity, ceiling: 5 per second"),
            (std::vector<int>{200}));
}

TEST(Explain, PrintsTheMostOfAllRegionsTogether) {
  const std::string store = "{url: 'redis://127.0.0.1', regions: 3}";
  const ExplainOptions options{.workers = 4, .outage = 30s};
  const Explanation bounded = explained(
      "{limits: [{requests: 100, per: minute, algorithm: fixed_window}], protects: capacity, "
      "ceiling: 5 per second}",
      options, store);
  EXPECT_EQ(state(bounded, StoreState::answers).bounds[0].most, 300u);
  EXPECT_EQ(state(bounded, StoreState::away).bounds[0].most, 300u);
  EXPECT_EQ(state(bounded, StoreState::slow).bounds[0].most, 600u);
  EXPECT_EQ(state(bounded, StoreState::returning).bounds[0].most, 600u);
  // Two windows are touched in it.
  EXPECT_EQ(bounded.routes[0].outage->bounds[0].most, 600u);
  EXPECT_EQ(bounded.routes[0].outage->all_keys, 3u * 4u * (5u + 150u));
  EXPECT_EQ(bounded.plan->regions, 3u);
  const std::string text = one_line(bounded);
  EXPECT_NE(text.find("4 workers in each of 3 regions"), std::string::npos) << text;
  EXPECT_NE(text.find("an outage of 30s, 4 workers in each of 3 regions"), std::string::npos);
  EXPECT_NE(explain_json(bounded).find("\"regions\":3"), std::string::npos)
      << explain_json(bounded);
  const Explanation closed =
      explained("{limits: [5 per minute], protects: security}", options, store);
  EXPECT_EQ(state(closed, StoreState::away).bounds[0].most, 0u);
}

// A limit of 5 in the memory of each of four processes is 20.
TEST(Explain, MultipliesWhatWorkersWithAMemoryEachAdmit) {
  const std::string limits = "{limits: [5 per minute], protects: security}";
  const Explanation four = explained(limits, {.workers = 4}, "'memory:'");
  EXPECT_EQ(state(four, StoreState::answers).bounds[0].most, 20u);
  const std::string text = one_line(four);
  EXPECT_NE(text.find("store memory:, 4 workers "), std::string::npos) << text;
  EXPECT_NE(text.find("Each of the 4 workers counts in its own memory: together they admit 4 times "
                      "a limit, which is what the table says of a store that answers."),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("200 allowed: every limit has room 20 "), std::string::npos) << text;
  const std::string json = explain_json(four);
  EXPECT_NE(json.find(R"("counted_in_each_worker":true)"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("bounds":[{"rule":"5 per minute","most":20}])"), std::string::npos);
  EXPECT_NE(json.find("admit 4 times a limit."), std::string::npos) << json;
  // One worker, or one store, is one counter.
  for (const Explanation& one :
       {explained(limits, {}, "'memory:'"), explained(limits, {.workers = 4})}) {
    EXPECT_EQ(state(one, StoreState::answers).bounds[0].most, 5u);
    EXPECT_EQ(one_line(one).find("times a limit"), std::string::npos);
    EXPECT_EQ(explain_json(one).find("counted_in_each_worker"), std::string::npos);
  }
}

TEST(Explain, SaysWhoseTimeCounts) {
  const std::string limits = "{limits: [5 per minute], protects: capacity, ceiling: 5 per second}";
  EXPECT_EQ(one_line(explained(limits)).find("own clocks"), std::string::npos);
  EXPECT_NE(one_line(explained(limits, {}, "{url: 'redis://127.0.0.1', clock: client}"))
                .find("Workers count by their own clocks, each within 400 ms of the store's"),
            std::string::npos);
  const auto in_json = [&](const std::string& store, const std::string& words) {
    return explain_json(explained(limits, {}, store)).find(words) != std::string::npos;
  };
  EXPECT_TRUE(in_json("{url: 'redis://127.0.0.1'}", "\"clock\":\"store\""));
  EXPECT_TRUE(in_json("{url: 'redis://127.0.0.1', clock: client}", "\"clock\":\"client\""));
  EXPECT_FALSE(in_json("{url: 'memory:'}", "\"clock\"")) << "there is only one";
}

// Two servers with clocks 780 ms apart admitted 10 and 275 of what is said to be 5 and 200.
TEST(Explain, CountsHowFarWorkersOwnClocksMayBeApart) {
  const auto most = [](const std::string& limit) {
    const Explanation by_own =
        explained("{limits: [" + limit + "], protects: security}", {.workers = 2},
                  "{url: 'redis://127.0.0.1', clock: client}");
    return state(by_own, StoreState::answers).bounds[0].most;
  };
  EXPECT_EQ(most("{requests: 5, per: 10s, algorithm: sliding_log}"), 10u);
  EXPECT_EQ(most("{requests: 100, per: 1s, algorithm: gcra}"), 100u + 180u);
  EXPECT_EQ(most("{requests: 100, per: 1s, algorithm: fixed_window}"), 100u) << "of each window";
  const std::string said =
      one_line(explained("{limits: [{requests: 5, per: 10s, algorithm: sliding_log}], protects: "
                         "security}",
                         {.workers = 2}, "{url: 'redis://127.0.0.1', clock: client}"));
  EXPECT_EQ(said.find("exactly"), std::string::npos) << said;
  EXPECT_NE(said.find("10 in the worst one"), std::string::npos) << said;
}

TEST(Explain, PrintsTheBoundThatIsEnforced) {
  const Explanation bounded = explained(
      "{limits: [{requests: 100, per: minute, algorithm: fixed_window}], protects: capacity}",
      {.workers = 3});
  EXPECT_EQ(state(bounded, StoreState::answers).bounds[0].most, 100u);
  EXPECT_EQ(state(bounded, StoreState::away).bounds[0].most, 100u);
  EXPECT_EQ(state(bounded, StoreState::slow).bounds[0].most, 200u);
  EXPECT_EQ(state(bounded, StoreState::returning).bounds[0].most, 200u);
  const Explanation closed = explained("{limits: [5 per minute], protects: security}");
  EXPECT_EQ(state(closed, StoreState::away).bounds[0].most, 0u);
  const Explanation open = explained("{limits: [5 per minute], protects: nothing}");
  EXPECT_EQ(state(open, StoreState::away).bounds[0].most, std::nullopt);
  EXPECT_NE(explain_text(open).find("nothing holds"), std::string::npos);
}

// Said of 5 a minute, it was 10, while the value with a number of its own got 18.
TEST(Explain, BoundsTheValueThatHasMostByANumberOfItsOwn) {
  const auto with = [](const std::string& override, const std::string& more) {
    return explained("{limits: [{requests: 100, per: minute, by: [ip], algorithm: fixed_window" +
                         override + "}], " + more + "}",
                     {.workers = 3, .outage = 10s});
  };
  const auto bound = [](const Explanation& of, StoreState which) {
    return state(of, which).bounds.at(0).most;
  };
  const std::string larger = ", override: {192.0.2.1: 7, 192.0.2.2: 900}";
  const Explanation bounded = with(larger, "protects: capacity");
  EXPECT_EQ(bound(bounded, StoreState::answers), 900u);
  EXPECT_EQ(bound(bounded, StoreState::away), 900u);
  EXPECT_EQ(bound(bounded, StoreState::slow), 1800u);
  EXPECT_EQ(bound(bounded, StoreState::returning), 1800u);
  EXPECT_EQ(bounded.routes[0].outage->bounds.at(0).most, 1800u);  // a turn of two windows in it
  EXPECT_EQ(bounded.routes[0].rules.at(0).most_in_window, 900u);
  EXPECT_EQ(bounded.routes[0].rules.at(0).most_in_period, 1800u);
  EXPECT_NE(one_line(bounded).find("2 values have their own numbers, at most 900 in a window"),
            std::string::npos)
      << one_line(bounded);
  EXPECT_NE(explain_json(bounded).find("\"most_in_window_of_overrides\":900"), std::string::npos);
  const Explanation smaller = with(", override: {192.0.2.1: 7}", "protects: capacity");
  EXPECT_EQ(bound(smaller, StoreState::answers), 100u);
  EXPECT_NE(one_line(smaller).find("1 value has its own number, at most 7"), std::string::npos);
  const Explanation open = with(larger, "when_store_fails: open");
  EXPECT_EQ(bound(open, StoreState::answers), 900u);
  EXPECT_EQ(bound(open, StoreState::away), std::nullopt);
  const Explanation blocked = with(", override: {192.0.2.1: 0}", "when_store_fails: open");
  EXPECT_EQ(bound(blocked, StoreState::away), std::nullopt) << "the others are unbounded";
}

TEST(Explain, SaysThatNothingHoldsWhoIsExempt) {
  EXPECT_NE(one_line(explained("{limits: [{requests: 5, per: minute, by: [ip], exempt: "
                               "[10.0.0.0/8, 192.0.2.1]}], protects: capacity}"))
                .find("2 exempt: nothing holds them"),
            std::string::npos);
}

TEST(Explain, AddsTheOverspendOfMeteredRules) {
  const std::string limits =
      "{limits: [{requests: 10, per: day, algorithm: fixed_window, meter: true}, {requests: 10, "
      "per: hour, algorithm: fixed_window}], protects: revenue, ";
  const Explanation capped = explained(limits + "overspend: {cap: 50}}");
  EXPECT_EQ(state(capped, StoreState::away).bounds[0].most, 60u);
  EXPECT_EQ(state(capped, StoreState::away).bounds[1].most, 10u);
  const Explanation billed = explained(limits + "overspend: bill, ceiling: 5 per second}");
  EXPECT_EQ(state(billed, StoreState::away).bounds[0].most, 5u + 5u * 86'400u);
  EXPECT_EQ(state(billed, StoreState::away).bounds[1].most, 10u);
}

TEST(Explain, SaysWhatOfTheUsageACrashCanLose) {
  const auto text = [](const std::string& journal, const std::string& store,
                       const std::string& mode) {
    const auto policy = Policy::parse(store + journal +
                                      "routes: {a: {limits: [{requests: 10, per: day, meter: "
                                      "true}], protects: revenue, overspend: {cap: 5}" +
                                      mode + "}}\n");
    EXPECT_TRUE(policy) << policy.error().message;
    std::string out;
    const Explanation whole = explain(policy->model(), {}).value();
    for (const std::string& line : whole.routes.at(0).besides) out += line + "\n";
    return out;
  };
  const std::string redis = "store: redis://127.0.0.1:1\n";
  const std::string folder = "journal: {folder: /var/j, within: 250ms}\n";
  EXPECT_NE(text(folder, redis, "").find("follows within 250ms: a crash loses at most what was "),
            std::string::npos)
      << text(folder, redis, "");
  EXPECT_NE(text(folder, redis, "")
                .find("or, while the disk takes nothing, what waits in memory: "
                      "up to 65536 events, and then such calls are refused"),
            std::string::npos)
      << text(folder, redis, "");
  EXPECT_NE(text(folder, redis, ", journal: outage").find("While the store answers, none is"),
            std::string::npos);
  EXPECT_NE(text("", redis, "").find("it is refused at start"), std::string::npos);
  EXPECT_NE(text("", "", "").find("no usage is recorded"), std::string::npos);
}

TEST(Explain, SaysHowAReservationEndsThatNobodySettles) {
  const auto text = [](const std::string& reservations) {
    const auto policy = Policy::parse(
        "routes: {a: {limits: [{requests: 10, per: day, meter: true}], protects: revenue, "
        "overspend: {cap: 5}" +
        reservations + "}}\n");
    EXPECT_TRUE(policy) << policy.error().message;
    std::string out;
    const Explanation whole = explain(policy->model(), {}).value();
    for (const std::string& line : whole.routes.at(0).besides) out += line + "\n";
    return out;
  };
  EXPECT_EQ(text("").find("reservation"), std::string::npos);
  EXPECT_NE(text(", reservations: {on_expiry: full, expire: 10m}")
                .find("A reservation that nobody settles ends after 10m, and all that was reserved "
                      "is billed.\n"),
            std::string::npos)
      << text(", reservations: {on_expiry: full, expire: 10m}");
  EXPECT_NE(text(", reservations: {on_expiry: last_heartbeat}")
                .find("ends after the time that its call says, and what its last heartbeat said is "
                      "billed.\n"),
            std::string::npos);
  EXPECT_NE(text(", reservations: {on_expiry: zero, expire: 1s}").find("and nothing is billed"),
            std::string::npos);
}

TEST(Explain, GivesShadowRulesNoBound) {
  const Explanation shadow =
      explained("{limits: [{requests: 5, per: minute, shadow: true}], protects: security}");
  for (const StoreState each : {StoreState::answers, StoreState::slow, StoreState::away}) {
    EXPECT_EQ(state(shadow, each).bounds[0].most, std::nullopt);
    ASSERT_EQ(state(shadow, each).answers.size(), 1U);
    EXPECT_EQ(state(shadow, each).answers[0].status, 200);
  }
}

// Under a heading that named the failure policy the table below seemed to contradict it.
TEST(Explain, SaysInItsHeadingThatARouteInShadowDeniesNobody) {
  const std::string route = "limits: [5 per minute], protects: capacity, ceiling: 3 per second";
  const std::string shadow = one_line(explained("{" + route + ", shadow: true}"));
  EXPECT_NE(
      shadow.find("protects capacity; in shadow: it counts, and denies nobody, with its store "
                  "or without"),
      std::string::npos)
      << shadow;
  EXPECT_EQ(shadow.find("bounded, each worker"), std::string::npos);
  EXPECT_EQ(shadow.find("under a ceiling"), std::string::npos);
  EXPECT_NE(one_line(explained("{" + route + "}")).find("bounded, each worker"), std::string::npos);
}

// Newcomers are refused then, though the part of each has room.
TEST(Explain, SaysThatPartsAreCountedInATableWithAnEnd) {
  const auto refused = [](const std::string& route) {
    const Explanation of_route = explained("{" + route + "}");
    for (const Answer& each : state(of_route, StoreState::away).answers)
      if (each.when.find("known_keys: 100000") != std::string::npos)
        return each.verdict == Verdict::refused && each.status == 503;
    return false;
  };
  EXPECT_TRUE(refused("limits: [5 per minute], protects: capacity"));
  EXPECT_TRUE(
      refused("limits: [{requests: 5, per: minute, meter: true}], protects: revenue, "
              "overspend: {cap: 5}"));
  EXPECT_FALSE(refused("limits: [5 per minute], protects: security")) << "nothing is counted";
  EXPECT_FALSE(refused("limits: [5 per minute], protects: nothing"));
  EXPECT_FALSE(refused("limits: [5 per minute], protects: capacity, shadow: true"));
}

TEST(Explain, PrintsNoCeilingOfARouteThatDeniesNobody) {
  const std::string route = "limits: [5 per minute], protects: capacity, ceiling: 3 per second";
  const ExplainOptions options{.outage = 30s};
  EXPECT_TRUE(explained("{" + route + "}", options).routes[0].outage->all_keys);
  const Explanation shadow = explained("{" + route + ", shadow: true}", options);
  EXPECT_FALSE(shadow.routes[0].outage->all_keys);
  EXPECT_EQ(one_line(shadow).find("All keys together"), std::string::npos);
}

TEST(Explain, SaysThatAMemoryStoreCannotBeAway) {
  const Explanation memory =
      explained("{limits: [5 per minute], protects: security}", {}, "'memory:'");
  EXPECT_TRUE(memory.embedded);
  EXPECT_NE(explain_text(memory).find("cannot be slow or away"), std::string::npos);
}

TEST(Explain, SaysHowLongTheReturnTakes) {
  const auto back = [](Nanos outage) {
    return explained("{limits: [5 per minute], protects: capacity}", {.outage = outage})
        .routes.at(0)
        .outage->back_within;
  };
  // The cooldown that was reached, 20 % of jitter, and four steps of 250 ms.
  EXPECT_EQ(back(100ms), Nanos(500ms + 100ms + 1s));
  EXPECT_EQ(back(600ms), Nanos(1s + 200ms + 1s));
  EXPECT_EQ(back(11s), Nanos(5s + 1s + 1s));
}

TEST(Explain, NeverShowsCredentials) {
  const Explanation secret =
      explained("{limits: [5 per minute], protects: security}", {},
                "{url: 'redis://u:hunter2@h', fallback: 'redis://:hunter2@g'}");
  EXPECT_EQ((explain_text(secret) + explain_json(secret)).find("hunter2"), std::string::npos);
}

TEST(Explain, AFallbackStoreIsInTheBoundsAndInTheWords) {
  const std::string policy = "{limits: [5 per minute], protects: security}";
  const Explanation without = explained(policy, {}, "{url: 'redis://h'}");
  const Explanation with = explained(policy, {}, "{url: 'redis://h', fallback: 'redis://g'}");
  const auto most = [](const Explanation& of, StoreState which) {
    return state(of, which).bounds.at(0).most.value();
  };
  const std::uint64_t exact = most(without, StoreState::answers);
  EXPECT_EQ(most(with, StoreState::answers), exact);
  EXPECT_EQ(most(without, StoreState::away), 0U);
  EXPECT_EQ(most(with, StoreState::away), exact);
  EXPECT_EQ(most(with, StoreState::returning), most(without, StoreState::returning) + exact);
  EXPECT_NE(explain_text(with).find("The fallback store counts"), std::string::npos);
  EXPECT_EQ(explain_text(without).find("allback"), std::string::npos);
}

TEST(Explain, SaysTheNominalLengthOfAMonth) {
  EXPECT_NE(explain_text(explained("{limits: [5 per month], protects: security}"))
                .find("a month counts as 30 days"),
            std::string::npos);
  EXPECT_NE(explain_text(explained("{limits: [{requests: 5, per: month, algorithm: fixed_window}], "
                                   "protects: security}"))
                .find("in each month (UTC)"),
            std::string::npos);
}

TEST(Explain, TellsDomainsByTheirFailurePolicy) {
  const auto policy = Policy::parse(R"(domain: shop
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: 5}}
  - key: login
    protects: security
    rate_limit: {unit: minute, requests_per_unit: 5}
)")
                          .value();
  const Explanation both = explain(policy.model(), {.route = "shop"}).value();
  ASSERT_EQ(both.routes.size(), 2u);
  EXPECT_FALSE(both.routes[0].decided);
  EXPECT_EQ(both.routes[0].states.size(), 1u);
  EXPECT_EQ(both.routes[1].heading, "domain shop, below login");
  EXPECT_EQ(both.routes[1].policy, FailurePolicy::closed);
  EXPECT_NE(explain_text(both).find("says nothing about its store being away"), std::string::npos);
  const Policy said = policy.with_protects(Protects::capacity);
  const Explanation decided = explain(said.model(), {}).value();
  EXPECT_TRUE(decided.routes[0].decided);
  EXPECT_EQ(decided.routes[0].policy, FailurePolicy::bounded);
}

TEST(Explain, SaysWhoseKeysDomainsAreCountedOn) {
  const auto facts = [](bool theirs) {
    auto model = Policy::parse(
                     "domain: d\ndescriptors:\n  - {key: k, rate_limit: {unit: day, "
                     "requests_per_unit: 1}}\n")
                     .value()
                     .model();
    if (theirs) model.rls.envoyproxy_prefix = "";
    return explain_text(explain(model, {}).value());
  };
  EXPECT_NE(facts(true).find("counted on envoyproxy/ratelimit's own keys"), std::string::npos);
  EXPECT_EQ(facts(false).find("envoyproxy"), std::string::npos);
}

TEST(Explain, KnowsOnlyRoutesOfThePolicy) {
  const auto policy = Policy::parse("routes: {a: {limits: [], protects: nothing}}").value();
  EXPECT_EQ(explain(policy.model(), {.route = "a"}).value().routes.size(), 1u);
  const auto none = explain(policy.model(), {.route = "b"});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace weir::ladder
