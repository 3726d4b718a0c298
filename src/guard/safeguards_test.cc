#include "guard/safeguards.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "guard/impl.h"
#include "testing/manual_clock.h"
#include "weir/guard.h"

namespace weir {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kGuarded = R"(
inputs: [account]
breakers:
  payments: {consecutive_failures: 2, failure_rate: off, open_wait: 1s, jitter: 0%, ramp: off}
  mail: {shadow: true}
concurrency:
  reports: {limit: 2, by: account, lease: 2s, max_hold: 10s}
)";

struct Heard final : Observer {
  void on_breaker_event(const BreakerEvent& event) override {
    if (event.breaker == "payments") to.push_back(event.to);
  }
  std::vector<BreakerState> to;
};

Guard guard_of(std::string_view policy, Clock& clock, Observer* observer = nullptr) {
  return Guard::open(Policy::parse(policy).value(), {.clock = &clock, .observer = observer})
      .value();
}

std::string replaced(std::string_view what, std::string_view with) {
  std::string text(kGuarded);
  text.replace(text.find(what), what.size(), with);
  return text;
}

void fail(Breaker& breaker, int times) {
  for (int i = 0; i < times; ++i) {
    Admission admission = breaker.admit();
    if (admission) admission.permit().failure();
  }
}

TEST(GuardBreaker, IsTheOneOfThePolicy) {
  testing::ManualClock clock;
  Heard heard;
  Guard guard = guard_of(kGuarded, clock, &heard);
  Breaker payments = guard.breaker("payments").value();
  fail(payments, 2);
  EXPECT_FALSE(guard.breaker("payments").value().admit());
  EXPECT_EQ(heard.to, std::vector{BreakerState::open});
  EXPECT_EQ(guard.breaker("mail").value().mode(), BreakerMode::shadow);
  const auto no = guard.breaker("male");
  ASSERT_FALSE(no.has_value());
  EXPECT_EQ(no.error().message, "the policy has no breaker 'male'; it has: mail, payments");
}

TEST(GuardBreaker, AReloadKeepsItsState) {
  testing::ManualClock clock;
  Guard guard = guard_of(kGuarded, clock);
  Breaker payments = guard.breaker("payments").value();
  fail(payments, 2);
  ASSERT_TRUE(
      guard.reload(Policy::parse(replaced("open_wait: 1s", "open_wait: 2s")).value()).has_value());
  EXPECT_EQ(payments.state(), BreakerState::open);
  EXPECT_EQ(payments.config().open_wait, Nanos(2s));
  EXPECT_TRUE(guard.breaker("payments").value() == payments);
}

TEST(GuardBreaker, AReloadKeepsWhatAnOperatorSetAndTakesShadowFromThePolicy) {
  testing::ManualClock clock;
  Guard guard = guard_of(kGuarded, clock);
  guard.breaker("payments").value().set_mode(BreakerMode::forced_open);
  ASSERT_TRUE(
      guard.reload(Policy::parse(replaced("shadow: true", "shadow: false")).value()).has_value());
  EXPECT_EQ(guard.breaker("payments").value().mode(), BreakerMode::forced_open);
  EXPECT_EQ(guard.breaker("mail").value().mode(), BreakerMode::automatic);
}

TEST(GuardBreaker, WhatAnOperatorSetOutlivesAnotherWindow) {
  testing::ManualClock clock;
  Guard guard = guard_of(kGuarded, clock);
  guard.breaker("payments").value().set_mode(BreakerMode::forced_open);
  ASSERT_TRUE(guard.reload(Policy::parse(replaced("open_wait: 1s", "window: {calls: 50}")).value())
                  .has_value());
  EXPECT_EQ(guard.breaker("payments").value().mode(), BreakerMode::forced_open);
  EXPECT_FALSE(guard.breaker("payments").value().admit());
}

TEST(GuardBreaker, WhatAReloadDropsIsGone) {
  testing::ManualClock clock;
  Guard guard = guard_of(kGuarded, clock);
  Breaker held = guard.breaker("mail").value();
  ASSERT_TRUE(guard.reload(Policy::parse(replaced("mail: {shadow: true}", "post: {}")).value())
                  .has_value());
  EXPECT_FALSE(guard.breaker("mail").has_value());
  EXPECT_TRUE(guard.breaker("post").has_value());
  EXPECT_TRUE(held.admit()) << "who holds it keeps it";
}

TEST(GuardAcquire, CountsBySourcesAndGivesBack) {
  testing::ManualClock clock;
  Guard guard = guard_of(kGuarded, clock);
  Slot a = guard.acquire("reports", {{"account", "ada"}}).value();
  Slot b = guard.acquire("reports", {{"account", "ada"}}).value();
  EXPECT_TRUE(a && b);
  EXPECT_EQ(guard.acquire("reports", {{"account", "ada"}}).value().refusal(), LeaseRefusal::full);
  EXPECT_TRUE(guard.acquire("reports", {{"account", "bob"}}).value());
  a.release();
  EXPECT_TRUE(guard.acquire("reports", {{"account", "ada"}}).value());
  EXPECT_FALSE(guard.acquire("exports", {}).has_value());
}

TEST(GuardAcquire, ValuesThatAreMissingAreOneCounterAndNotTheEmptyOne) {
  testing::ManualClock clock;
  Guard guard = guard_of(kGuarded, clock);
  Slot a = guard.acquire("reports", std::initializer_list<Descriptor>{}, {.weight = 2}).value();
  EXPECT_TRUE(a);
  EXPECT_FALSE(guard.acquire("reports", std::initializer_list<Descriptor>{}).value());
  const auto misspelt = guard.acquire("reports", {{"other", "x"}});
  ASSERT_FALSE(misspelt.has_value());
  EXPECT_EQ(misspelt.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(misspelt.error().message,
            "concurrency limit 'reports' does not count by 'other'; it counts by: account");
  std::string out;
  guard.impl().metrics().write(out);
  EXPECT_NE(out.find("weir_lease_absent_values_total{name=\"reports\"} 2\n"), std::string::npos);
  EXPECT_TRUE(guard.acquire("reports", {{"account", ""}}).value());
}

TEST(GuardAcquire, AReloadKeepsWhatIsHeld) {
  testing::ManualClock clock;
  Guard guard = guard_of(kGuarded, clock);
  Slot a = guard.acquire("reports", {{"account", "ada"}}).value();
  ASSERT_TRUE(guard.reload(Policy::parse(replaced("limit: 2", "limit: 1")).value()).has_value());
  EXPECT_FALSE(guard.acquire("reports", {{"account", "ada"}}).value());
  a.release();
  EXPECT_TRUE(guard.acquire("reports", {{"account", "ada"}}).value());
}

TEST(GuardAcquire, LeasesAreForHoldersElsewhere) {
  testing::ManualClock clock;
  Guard guard = guard_of(kGuarded, clock);
  const Descriptor ada[] = {{"account", "ada"}};
  const LeaseAnswer lease = guard.lease("reports", ada, {.weight = 2}).value();
  ASSERT_TRUE(lease);
  EXPECT_FALSE(guard.acquire("reports", ada).value()) << "one limit for both";
  EXPECT_TRUE(guard.renew_lease("reports", ada, lease.lease->id).value());
  clock.advance(2s);
  EXPECT_EQ(guard.renew_lease("reports", ada, lease.lease->id).value().refusal, LeaseRefusal::gone);
  EXPECT_FALSE(guard.release_lease("reports", ada, lease.lease->id).value());
}

// It was told under the locks of the load that changed the breaker, and waited for itself.
TEST(GuardBreaker, WhoHearsOfItMayReload) {
  struct Reloader final : Observer {
    void on_breaker_event(const BreakerEvent& event) override {
      if (guard == nullptr) return;
      modes.push_back(event.mode);
      if (!again) return;
      EXPECT_TRUE(guard->reload(*std::exchange(again, std::nullopt)));
    }
    void on_policy_loaded(std::uint64_t generation) override { loaded.push_back(generation); }
    Guard* guard = nullptr;
    std::optional<Policy> again;
    std::vector<BreakerMode> modes;
    std::vector<std::uint64_t> loaded;
  } reloader;
  testing::ManualClock clock;
  Guard guard = guard_of(kGuarded, clock, &reloader);
  reloader.loaded.clear();
  reloader.guard = &guard;
  reloader.again = Policy::parse(kGuarded).value();
  EXPECT_TRUE(guard.reload(Policy::parse(replaced("shadow: true", "shadow: false")).value()));
  EXPECT_EQ(reloader.modes, (std::vector{BreakerMode::automatic, BreakerMode::shadow}));
  EXPECT_EQ(reloader.loaded, (std::vector<std::uint64_t>{3, 2})) << "the highest is in force";
  EXPECT_EQ(guard.breaker("mail").value().mode(), BreakerMode::shadow);

  // An order that another window's breaker takes along is told after the load, too.
  ASSERT_TRUE(guard.breaker("payments")
                  .value()
                  .set_mode({.mode = BreakerMode::disabled, .by = "ada", .reason = ""})
                  .has_value());
  reloader.modes.clear();
  reloader.again = Policy::parse(kGuarded).value();
  EXPECT_TRUE(guard.reload(
      Policy::parse(replaced("failure_rate: off", "failure_rate: 50%, window: {calls: 50}"))
          .value()));
  EXPECT_FALSE(reloader.again);
  EXPECT_EQ(guard.breaker("payments").value().mode(), BreakerMode::disabled);
}

TEST(GuardMetrics, SpeakOfBreakersAndLeases) {
  testing::ManualClock clock;
  Guard guard = guard_of(kGuarded, clock);
  Breaker payments = guard.breaker("payments").value();
  fail(payments, 3);
  Slot a = guard.acquire("reports", {{"account", "ada"}}).value();
  std::string out;
  guard.impl().metrics().write(out);
  for (std::string_view line :
       {"weir_circuit_state{breaker=\"payments\",state=\"open\"} 1\n",
        "weir_circuit_state{breaker=\"payments\",state=\"closed\"} 0\n",
        "weir_circuit_mode{breaker=\"mail\",mode=\"shadow\"} 1\n",
        "weir_circuit_calls_total{breaker=\"payments\",outcome=\"failure\"} 2\n",
        "weir_circuit_rejected_total{breaker=\"payments\"} 1\n",
        "weir_circuit_opened_total{breaker=\"payments\"} 1\n",
        "weir_lease_limit{name=\"reports\"} 2\n", "weir_lease_held{name=\"reports\"} 1\n"})
    EXPECT_NE(out.find(line), std::string::npos) << line << out;
}

TEST(GuardMetrics, SayNothingOfWhatThePolicyDoesNotHave) {
  testing::ManualClock clock;
  Guard guard = guard_of("routes: {a: {limits: [5 per minute], protects: capacity}}", clock);
  std::string out;
  guard.impl().metrics().write(out);
  EXPECT_EQ(out.find("weir_circuit"), std::string::npos);
  EXPECT_EQ(out.find("weir_lease"), std::string::npos);
}

}  // namespace
}  // namespace weir
