#include "weir/guard.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "testing/manual_clock.h"

namespace weir {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr const char* kPolicy = R"(
inputs: [user, account]
routes:
  login:
    limits:
      - 5 per minute by ip
      - 20 per hour by user
    protects: security
  search:
    limits:
      - {requests: 10, per: second, by: [user], algorithm: gcra}
    protects: capacity
  window:
    limits:
      - {requests: 3, per: minute, by: [user], algorithm: fixed_window}
    protects: capacity
  strict:
    limits:
      - {requests: 3, per: minute, by: [user], strict: true}
    protects: capacity
  blocked:
    limits:
      - {requests: 0, per: minute}
    protects: capacity
  vip:
    limits:
      - {requests: 2, per: minute, by: [ip], exempt: [10.0.0.0/8], override: {192.0.2.9: 4, 192.0.2.8: 0}}
    protects: capacity
  watched:
    shadow: true
    limits:
      - {requests: 1, per: minute}
    protects: capacity
)";

class GuardTest : public ::testing::Test {
 protected:
  Guard open(const std::string& text = kPolicy) {
    return Guard::open(Policy::parse(text).value(), {.clock = &clock_}).value();
  }
  testing::ManualClock clock_;
};

TEST_F(GuardTest, AllowsUpToTheLimitThenLimitsWithATrueWait) {
  Guard guard = open();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(guard.check("window", {{"user", "u"}}).allowed()) << i;
  const Decision denied = guard.check("window", {{"user", "u"}});
  EXPECT_EQ(denied.verdict, Verdict::limited);
  EXPECT_EQ(denied.rung, Rung::store);
  EXPECT_EQ(denied.reason, Reason::over_limit);
  ASSERT_TRUE(denied.retry_after);
  clock_.advance(*denied.retry_after - Nanos(1));
  EXPECT_FALSE(guard.check("window", {{"user", "u"}}).allowed());
  clock_.advance(Nanos(1));
  EXPECT_TRUE(guard.check("window", {{"user", "u"}}).allowed());
}

TEST_F(GuardTest, ADenialChargesNoRuleOfTheRoute) {
  Guard guard = open();
  // Five a minute by address; the sixth from one address must not cost the user one of twenty.
  for (int i = 0; i < 8; ++i) (void)guard.check("login", {{"ip", "192.0.2.1"}, {"user", "ann"}});
  const Decision peek = guard.peek("login", {{"ip", "192.0.2.2"}, {"user", "ann"}});
  ASSERT_EQ(peek.rules().size(), 2U);
  EXPECT_EQ(peek.rules()[1].remaining, 15U);
}

TEST_F(GuardTest, PeekChargesNothing) {
  Guard guard = open();
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(guard.peek("window", {{"user", "u"}}).allowed());
  EXPECT_EQ(guard.peek("window", {{"user", "u"}}).rules()[0].remaining, 3U);
}

TEST_F(GuardTest, RefundGivesBackWhatTheDecisionCharged) {
  Guard guard = open();
  const Decision first = guard.check("window", {{"user", "u"}}, {.cost = 2});
  ASSERT_TRUE(first.allowed());
  EXPECT_FALSE(guard.check("window", {{"user", "u"}}, {.cost = 2}).allowed());
  ASSERT_TRUE(guard.refund(first).has_value());
  EXPECT_TRUE(guard.check("window", {{"user", "u"}}, {.cost = 3}).allowed());
}

TEST_F(GuardTest, ARefundOfADenialGivesNothing) {
  Guard guard = open();
  for (int i = 0; i < 3; ++i) (void)guard.check("window", {{"user", "u"}});
  const Decision denied = guard.check("window", {{"user", "u"}});
  ASSERT_TRUE(guard.refund(denied).has_value());
  EXPECT_FALSE(guard.check("window", {{"user", "u"}}).allowed());
}

TEST_F(GuardTest, ARefundNeverOutlivesItsWindow) {
  Guard guard = open();
  const Decision first = guard.check("window", {{"user", "u"}}, {.cost = 3});
  clock_.advance(minutes(1));
  ASSERT_TRUE(guard.check("window", {{"user", "u"}}, {.cost = 3}).allowed());
  ASSERT_TRUE(guard.refund(first).has_value());
  EXPECT_FALSE(guard.check("window", {{"user", "u"}}).allowed());
}

TEST_F(GuardTest, ResetForgetsTheCountersOfTheseValuesAlone) {
  Guard guard = open();
  for (const char* user : {"a", "b"}) (void)guard.check("window", {{"user", user}}, {.cost = 3});
  ASSERT_TRUE(guard.reset("window", {{"user", "a"}}).has_value());
  EXPECT_TRUE(guard.check("window", {{"user", "a"}}).allowed());
  EXPECT_FALSE(guard.check("window", {{"user", "b"}}).allowed());
}

TEST_F(GuardTest, ACostThatCanNeverFitIsSaidAsSuchAndChargesNothing) {
  Guard guard = open();
  const Decision d = guard.check("window", {{"user", "u"}}, {.cost = 4});
  EXPECT_EQ(d.verdict, Verdict::limited);
  EXPECT_EQ(d.reason, Reason::cost_exceeds_burst);
  EXPECT_FALSE(d.retry_after);
  EXPECT_EQ(guard.peek("window", {{"user", "u"}}).rules()[0].remaining, 3U);
}

TEST_F(GuardTest, ALimitOfZeroBlocks) {
  Guard guard = open();
  const Decision d = guard.check("blocked", {});
  EXPECT_EQ(d.verdict, Verdict::limited);
  EXPECT_EQ(d.reason, Reason::blocked);
  EXPECT_FALSE(d.retry_after);
}

TEST_F(GuardTest, AnUnknownRouteIsRefusedAndSaidAsSuch) {
  Guard guard = open();
  const Decision d = guard.check("nowhere", {});
  EXPECT_EQ(d.verdict, Verdict::refused);
  EXPECT_EQ(d.reason, Reason::unknown_route);
  EXPECT_EQ(d.http_status(), 404);
}

TEST_F(GuardTest, TheDefaultRouteServesUnknownNames) {
  Guard guard = open(std::string(kPolicy) + "default: window\n");
  EXPECT_EQ(guard.check("nowhere", {{"user", "u"}}).route, "window");
}

TEST_F(GuardTest, AbsentIsACounterOfItsOwnAndStrictRefusesIt) {
  Guard guard = open();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(guard.check("window", {}).allowed());
  EXPECT_FALSE(guard.check("window", {}).allowed());
  EXPECT_TRUE(guard.check("window", {{"user", ""}}).allowed()) << "empty is not absent";
  const Decision d = guard.check("strict", {});
  EXPECT_EQ(d.reason, Reason::missing_value);
  EXPECT_EQ(d.http_status(), 400);
}

// A month was told to be 30 days long, and in one of 31 the wait was longer than its window.
TEST_F(GuardTest, TellsAMonthOfTheCalendarAsLongAsItIs) {
  using std::chrono::days;
  using std::chrono::hours;
  Guard guard = open(R"(
inputs: [user]
routes:
  export:
    limits:
      - {requests: 1, per: month, by: [user], algorithm: fixed_window}
      - {requests: 9, per: year, by: [user], algorithm: fixed_window}
      - {requests: 9, per: 3 months, by: [user], algorithm: fixed_window}
      - {requests: 9, per: week, by: [user], algorithm: fixed_window}
    protects: side_effects
  strict:
    limits: [{requests: 1, per: month, by: [user], algorithm: fixed_window, strict: true}]
    protects: side_effects
)");
  const auto lengths = [&](std::chrono::sys_days day) {
    clock_.advance(day + hours(1) - clock_.now());
    const Decision first = guard.check("export", {{"user", "u"}});
    EXPECT_TRUE(first.allowed());
    const Decision denied = guard.check("export", {{"user", "u"}});
    EXPECT_LE(denied.retry_after.value_or(Nanos::max()), denied.rules()[0].period);
    std::vector<std::int64_t> in_days;
    for (const RuleReport& rule : denied.rules()) {
      EXPECT_LE(rule.reset_after.value_or(Nanos::max()), rule.period) << rule.rule;
      in_days.push_back(rule.period / days(1));
    }
    return in_days;
  };
  using Days = std::vector<std::int64_t>;
  EXPECT_EQ(lengths(std::chrono::sys_days{std::chrono::year(2023) / 12 / 1}),
            (Days{31, 365, 92, 7}));
  EXPECT_EQ(lengths(std::chrono::sys_days{std::chrono::year(2024) / 2 / 1}),
            (Days{29, 366, 91, 7}));
  const std::string policy = guard.check("export", {{"user", "v"}}).http_headers()[0].second;
  EXPECT_NE(policy.find("\"1 per month by user\";q=1;w=2505600,"), std::string::npos) << policy;
  // Where nothing was counted, no window is known.
  EXPECT_EQ(guard.check("strict", {}).json().find("period_ms"), std::string::npos);
}

// Of a route with two limits it said "a limit needs a value", and nobody knew which.
TEST_F(GuardTest, AMissingValueIsNamedWithTheRuleThatNeedsIt) {
  Guard guard = open(R"(
inputs: [user]
routes:
  api:
    limits:
      - 100 per hour by user
      - {requests: 3, per: minute, by: [user, 'header:X-Key'], strict: true}
    protects: capacity
)");
  const auto expect_named = [](const Decision& d) {
    EXPECT_EQ(d.reason, Reason::missing_value);
    EXPECT_EQ(d.fault, "header:X-Key");
    ASSERT_EQ(d.rules().size(), 1U);
    EXPECT_EQ(d.rules()[0].rule, "3 per minute by user, header:X-Key");
    EXPECT_EQ(d.rules()[0].limit, 3U);
    EXPECT_FALSE(d.rules()[0].fits);
    EXPECT_FALSE(d.rules()[0].remaining);
  };
  const Decision d = guard.check("api", {{"user", "ann"}});
  expect_named(d);
  guard.check_async("api", {{"user", "ann"}}, {}, expect_named);
  EXPECT_NE(d.json().find(R"("reason":"missing_value","route":"api","lacks":"header:X-Key")"),
            std::string::npos)
      << d.json();
  ASSERT_TRUE(guard.refund(d).has_value()) << "nothing was charged";
  const auto reset = guard.reset("api", {{"user", "ann"}});
  ASSERT_FALSE(reset);
  EXPECT_EQ(reset.error().message,
            "reset: '3 per minute by user, header:X-Key' of route 'api' needs a value of "
            "header:X-Key");
  EXPECT_EQ(guard.peek("api", {{"user", "ann"}, {"header:X-Key", "k"}}).rules()[0].remaining, 100U);
}

TEST_F(GuardTest, WhatIsWrongOutlivesTheReloadOfItsPolicy) {
  const std::string strict =
      "inputs: [user]\nroutes: {api: {limits: [{requests: 3, per: minute, by: user, strict: "
      "true}], protects: capacity}}\n";
  Guard guard = open(strict);
  const Decision d = guard.check("api", {});
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(guard.reload(
        Policy::parse("routes: {api: {limits: [5 per day], protects: capacity}}\n").value()));
  }
  EXPECT_EQ(d.fault, "user");
  EXPECT_EQ(d.rules()[0].rule, "3 per minute by user");
}

// A client that can bring text where the address should be must not have a counter of its own by
// each spelling.
TEST_F(GuardTest, AnIpThatIsNoAddressIsAbsent) {
  Guard guard = open();
  for (const char* text : {"203.0.113.9, 10.0.0.1", "unix:/run/peer"})
    EXPECT_TRUE(guard.check("vip", {{"ip", text}}).allowed()) << text;
  for (const char* text : {"203.0.113.10, 10.0.0.1", "", "1.2.3", "localhost"})
    EXPECT_FALSE(guard.check("vip", {{"ip", text}}).allowed()) << text;
  EXPECT_FALSE(guard.check("vip", {}).allowed()) << "the counter of those without a value";
  EXPECT_TRUE(guard.check("vip", {{"ip", "203.0.113.9"}}).allowed());
  Guard strict = open(
      "routes: {api: {limits: [{requests: 3, per: minute, by: ip, strict: true}], protects: "
      "capacity}}\n");
  EXPECT_EQ(strict.check("api", {{"ip", "localhost"}}).reason, Reason::missing_value);
  EXPECT_TRUE(strict.check("api", {{"ip", "[2001:db8::1]:80"}}).allowed());
}

TEST_F(GuardTest, MoreThanOneCallMayBringIsRefusedAndSaid) {
  Guard guard = open();
  std::vector<Descriptor> values(kMaxDescriptors, {"other", "x"});
  values.front() = {"user", "u"};
  EXPECT_TRUE(guard.check("window", values).allowed());
  values.push_back({"other", "x"});
  EXPECT_EQ(guard.check("window", values).fault, "there are more than 64 values");
  const std::string most(kMaxValueBytes, 'x');
  EXPECT_TRUE(guard.check("window", {{"user", most}}).allowed());
  const Decision refused = guard.check("window", {{"user", most + "x"}});
  EXPECT_EQ(refused.reason, Reason::invalid_request);
  EXPECT_EQ(refused.fault, "a value is above 1 MiB");
  EXPECT_FALSE(guard.reset("window", {{"user", most + "x"}}));
}

TEST_F(GuardTest, AnOverrideOfZeroBlocksThatValueAlone) {
  Guard guard = open();
  const Decision blocked = guard.check("vip", {{"ip", "192.0.2.8"}});
  EXPECT_EQ(blocked.verdict, Verdict::limited);
  EXPECT_EQ(blocked.reason, Reason::blocked);
  EXPECT_FALSE(blocked.retry_after);
  EXPECT_TRUE(guard.check("vip", {{"ip", "192.0.2.7"}}).allowed());
}

// Text is bytes: what looks alike is counted apart, and nothing is folded together.
TEST_F(GuardTest, ComposedAndDecomposedTextAreTwoValues) {
  Guard guard = open();
  const std::string composed = "caf\xc3\xa9";
  const std::string decomposed = "cafe\xcc\x81";
  EXPECT_TRUE(guard.check("window", {{"user", composed}}, {.cost = 3}).allowed());
  EXPECT_TRUE(guard.check("window", {{"user", decomposed}}, {.cost = 3}).allowed());
  EXPECT_FALSE(guard.check("window", {{"user", composed}}).allowed());
  EXPECT_FALSE(guard.check("window", {{"user", decomposed}}).allowed());
}

TEST_F(GuardTest, AReloadThatChangesTheStoreIsRefusedAndNamesTheField) {
  const auto policy = [](const std::string& store) {
    return Policy::parse("store: " + store +
                         "\nroutes: {api: {limits: [5 per day], protects: capacity}}\n")
        .value();
  };
  Guard guard = Guard::open(policy("{url: 'memory:'}"), {.clock = &clock_}).value();
  for (const auto& [store, field] :
       {std::pair{"{url: 'memory:', deadline: 9s}", "store.deadline: "},
        std::pair{"{url: 'memory:', max_keys: 5}", "store.max_keys: "},
        std::pair{"redis://127.0.0.1:1", "store.url: "}}) {
    const auto refused = guard.reload(policy(store));
    ASSERT_FALSE(refused) << store;
    EXPECT_EQ(refused.error().code, ErrorCode::failed_precondition);
    EXPECT_EQ(
        refused.error().message,
        std::string(field) + "a reload cannot change it; put it back, or restart to change it");
  }
  EXPECT_TRUE(guard.reload(policy("'memory:'")));
}

// The second was never called, and who waited for it took a policy that was refused for one in
// force.
TEST_F(GuardTest, AnObserverHearsWhichReloadsAreTakenAndWhichAreNot) {
  struct Listener final : Observer {
    void on_policy_loaded(std::uint64_t generation) override {
      heard.push_back(std::to_string(generation));
      if (guard != nullptr) generation_then = guard->generation();
      // Outside every lock: it may reload in its turn.
      if (again) (void)guard->reload(*std::exchange(again, std::nullopt));
    }
    void on_policy_rejected(std::string_view faults) override { heard.emplace_back(faults); }
    std::vector<std::string> heard;
    std::uint64_t generation_then = 0;
    std::optional<Policy> again;
    Guard* guard = nullptr;
  } listener;
  const Policy plain = Policy::parse(kPolicy).value();
  Guard guard = Guard::open(plain, {.clock = &clock_, .observer = &listener}).value();
  listener.heard.clear();
  listener.guard = &guard;
  EXPECT_FALSE(guard.reload(plain.with_store("redis://127.0.0.1:1").value()));
  listener.again = plain;
  EXPECT_TRUE(guard.reload(plain));
  EXPECT_EQ(listener.heard,
            (std::vector<std::string>{"store.url: a reload cannot change it; put it back, or "
                                      "restart to change it",
                                      "2", "3"}));
  EXPECT_EQ(listener.generation_then, 3U);
}

TEST_F(GuardTest, ExemptAddressesAreLeftAloneAndOverridesHaveNumbersOfTheirOwn) {
  Guard guard = open();
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(guard.check("vip", {{"ip", "10.1.2.3"}}).reason, Reason::no_limit);
  int allowed = 0;
  for (int i = 0; i < 10; ++i)
    allowed += guard.check("vip", {{"ip", "::ffff:192.0.2.9"}}).allowed() ? 1 : 0;
  EXPECT_EQ(allowed, 4);
  allowed = 0;
  for (int i = 0; i < 10; ++i)
    allowed += guard.check("vip", {{"ip", "192.0.2.10"}}).allowed() ? 1 : 0;
  EXPECT_EQ(allowed, 2);
}

TEST_F(GuardTest, AddressesAreCountedInTheirCanonicalFormAndIPv6ByItsNetwork) {
  Guard guard = open();
  EXPECT_TRUE(guard.check("vip", {{"ip", "2001:db8::1"}}).allowed());
  EXPECT_TRUE(guard.check("vip", {{"ip", "2001:DB8:0:0::ffff"}}).allowed());
  EXPECT_FALSE(guard.check("vip", {{"ip", "2001:db8::2"}}).allowed());
  EXPECT_TRUE(guard.check("vip", {{"ip", "2001:db8:0:1::1"}}).allowed());
}

TEST_F(GuardTest, AShadowRouteCountsAndNeverDenies) {
  Guard guard = open();
  Decision last;
  for (int i = 0; i < 5; ++i) {
    last = guard.check("watched", {});
    EXPECT_TRUE(last.allowed());
  }
  ASSERT_EQ(last.rules().size(), 1U);
  EXPECT_FALSE(last.rules()[0].fits);
  EXPECT_TRUE(last.rules()[0].shadow);
}

TEST_F(GuardTest, ReloadKeepsWhatIsUsed) {
  const auto policy = [](int limit) {
    return Policy::parse(
               "inputs: [user]\nroutes:\n  r:\n    limits: [{requests: " + std::to_string(limit) +
               ", per: hour, by: [user], algorithm: fixed_window}]\n    protects: capacity\n")
        .value();
  };
  Guard guard = Guard::open(policy(10), {.clock = &clock_}).value();
  ASSERT_TRUE(guard.check("r", {{"user", "u"}}, {.cost = 8}).allowed());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(guard.reload(policy(10)).has_value());
  EXPECT_EQ(guard.peek("r", {{"user", "u"}}).rules()[0].remaining, 2U);
  ASSERT_TRUE(guard.reload(policy(5)).has_value());
  EXPECT_FALSE(guard.check("r", {{"user", "u"}}).allowed());
  ASSERT_TRUE(guard.reload(policy(20)).has_value());
  EXPECT_EQ(guard.peek("r", {{"user", "u"}}).rules()[0].remaining, 12U);
  EXPECT_EQ(guard.generation(), 8U);
}

TEST_F(GuardTest, WaitReturnsOnceTheCostFits) {
  Guard guard = open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(guard.check("search", {{"user", "u"}}).allowed());
  Decision waited;
  std::thread waiter([&] { waited = guard.wait("search", {{"user", "u"}}, seconds(2)); });
  clock_.wait_for_sleepers(1);
  clock_.advance(milliseconds(100));
  waiter.join();
  EXPECT_TRUE(waited.allowed());
}

TEST_F(GuardTest, WaitGivesUpAtOnceWhenThePatienceCannotReachOrTheCostNeverFits) {
  Guard guard = open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(guard.check("search", {{"user", "u"}}).allowed());
  EXPECT_EQ(guard.wait("search", {{"user", "u"}}, milliseconds(99)).verdict, Verdict::limited);
  EXPECT_EQ(guard.wait("search", {{"user", "v"}}, seconds(60), {.cost = 11}).reason,
            Reason::cost_exceeds_burst);
}

TEST_F(GuardTest, AsyncAnswersExactlyOnce) {
  Guard guard = open();
  int calls = 0;
  guard.check_async("window", {{"user", "u"}}, {}, [&](Decision d) {
    ++calls;
    EXPECT_TRUE(d.allowed());
  });
  EXPECT_EQ(calls, 1);
}

class Unavailable final : public Store {
 public:
  bool decide(std::span<const CounterRequest>, Instant,
              std::span<CounterAnswer>) noexcept override {
    return false;
  }
};

TEST_F(GuardTest, WhereItsOwnStoreCannotDecideThePolicyDoes) {
  const std::string text = R"(
routes:
  closed: {limits: [5 per minute], protects: security}
  open: {limits: [5 per minute], when_store_fails: open}
  shadow: {limits: [5 per minute], protects: security, shadow: true}
  shadows:
    limits: [{requests: 5, per: minute, shadow: true}, {requests: 9, per: hour, shadow: true}]
    protects: capacity
  beside: {limits: [{requests: 5, per: minute, shadow: true}, 9 per hour], protects: security}
)";
  Guard guard = Guard::open(Policy::parse(text).value(),
                            {.clock = &clock_, .store = std::make_unique<Unavailable>()})
                    .value();
  const Decision closed = guard.check("closed", {});
  EXPECT_EQ(closed.verdict, Verdict::refused);
  EXPECT_EQ(closed.reason, Reason::store_unavailable);
  EXPECT_EQ(closed.rung, Rung::policy);
  EXPECT_EQ(closed.http_status(), 503);
  EXPECT_TRUE(guard.check("open", {}).allowed());
  // What is in shadow refuses nobody, and what is in force as ever.
  EXPECT_TRUE(guard.check("shadow", {}).allowed());
  EXPECT_TRUE(guard.check("shadows", {}).allowed());
  EXPECT_EQ(guard.check("beside", {}).verdict, Verdict::refused);
}

TEST_F(GuardTest, AllowAllAndDenyAllShip) {
  Guard all =
      Guard::open(Policy::parse(kPolicy).value(), {.clock = &clock_, .store = Store::allow_all()})
          .value();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(all.check("window", {{"user", "u"}}).allowed());
  Guard none =
      Guard::open(Policy::parse(kPolicy).value(), {.clock = &clock_, .store = Store::deny_all()})
          .value();
  EXPECT_EQ(none.check("window", {{"user", "u"}}).verdict, Verdict::limited);
}

}  // namespace
}  // namespace weir
