#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "testing/allocations.h"
#include "testing/manual_clock.h"
#include "weir/breaker.h"
#include "weir/concurrency.h"
#include "weir/guard.h"

namespace weir {
namespace {

using testing::allocations;

constexpr const char* kAllocated = R"(
inputs: [user]
routes:
  login:
    limits:
      - 5 per minute by ip
      - 20 per hour by user
      - {requests: 100, per: second, by: [user, ip]}
      - {requests: 1000, per: day, algorithm: fixed_window}
    protects: capacity
)";

TEST(GuardAllocation, CheckAllocatesNothingAllowedLimitedOrRefused) {
  testing::ManualClock clock;
  Guard guard = Guard::open(Policy::parse(kAllocated).value(), {.clock = &clock}).value();
  const std::string long_user(500, 'u');
  (void)guard.check("login", {{"ip", "192.0.2.1"}, {"user", "ann"}});  // first use of this thread

  const std::uint64_t before = allocations();
  int allowed = 0;
  for (int i = 0; i < 200; ++i) {
    allowed += guard.check("login", {{"ip", "192.0.2.1"}, {"user", "ann"}}).allowed() ? 1 : 0;
    allowed += guard.check("login", {{"ip", "2001:db8::1"}, {"user", long_user}}).allowed() ? 1 : 0;
    (void)guard.check("nowhere", {});
    (void)guard.peek("login", {});
  }
  EXPECT_EQ(allocations() - before, 0U);
  EXPECT_GT(allowed, 0);
  EXPECT_LT(allowed, 400);
}

TEST(GuardAllocation, CheckRequestAllocatesNothingHoweverItIsAnswered) {
  testing::ManualClock clock;
  Guard guard = Guard::open(Policy::parse(R"(
unmatched: refuse
trusted_proxies: [10.0.0.0/8]
routes:
  login:
    match: {method: POST, path: /login}
    limits:
      - 5 per minute by ip
      - 50 per hour by header:X-Key
      - {requests: 90, per: day, by: 'cookie:sid', strict: true}
    protects: capacity
)")
                                .value(),
                            {.clock = &clock})
                    .value();
  const std::string long_key(500, 'k');
  const std::vector<Descriptor> headers = {{"Host", "example.org"},
                                           {"X-Forwarded-For", "198.51.100.7"},
                                           {"X-Key", long_key},
                                           {"Cookie", "a=b; sid=s"}};
  const auto ask = [&](std::string_view method, std::string_view target, bool with_headers = true) {
    return guard.check_request(
        {.method = method,
         .target = target,
         .peer = "10.0.0.1:99",
         .headers = with_headers ? std::span(headers) : std::span<const Descriptor>()});
  };
  (void)ask("POST", "/login");  // first use of this thread

  const std::uint64_t before = allocations();
  int allowed = 0;
  for (int i = 0; i < 100; ++i) {
    allowed += ask("POST", "/x/../%6cogin?q=1").allowed() ? 1 : 0;
    EXPECT_EQ(ask("POST", "/login", false).http_status(), 400);
    EXPECT_EQ(ask("GET", "/login").http_status(), 503);
    EXPECT_EQ(ask("GET", "/%zz").http_status(), 400);
  }
  EXPECT_EQ(allocations() - before, 0U);
  EXPECT_GT(allowed, 0);
  EXPECT_LT(allowed, 100);
}

TEST(ConcurrencyAllocation, TakingUnitsAllocatesNothingGivenOrNot) {
  auto limit = Concurrency::make("reports", {.limit = 2}).value();
  const std::uint64_t before = allocations();
  int given = 0;
  int full = 0;
  for (int i = 0; i < 200; ++i) {
    Slot one = limit.try_acquire();
    Slot moved = std::move(one);
    const Slot two = limit.try_acquire(1 + i % 2);
    const Slot three = limit.try_acquire();
    const Slot never = limit.try_acquire(3);
    given += (moved ? 1 : 0) + (two ? 1 : 0) + (three ? 1 : 0);
    full += never.refusal() == LeaseRefusal::never_fits ? 1 : 0;
  }
  EXPECT_EQ(allocations() - before, 0U);
  EXPECT_EQ(given, 400);
  EXPECT_EQ(full, 200);
}

TEST(ConcurrencyAllocation, TakingUnitsOfAKeyThatIsKnownAllocatesNothing) {
  auto all = KeyedConcurrency::make("reports", {.limit = 2}).value();
  const Slot first = all.try_acquire("account");
  const std::uint64_t before = allocations();
  int given = 0;
  for (int i = 0; i < 200; ++i) given += all.try_acquire("account") ? 1 : 0;
  EXPECT_EQ(allocations() - before, 0U);
  EXPECT_EQ(given, 200);
}

TEST(GuardAllocation, TheCounterOfThisTestWorks) {
  const std::uint64_t before = allocations();
  ::operator delete(::operator new(1));  // a new-expression may be optimised away
  EXPECT_EQ(allocations() - before, 1U);
  constexpr auto kAligned = std::align_val_t(128);
  ::operator delete(::operator new(1, kAligned), kAligned);
  EXPECT_EQ(allocations() - before, 2U);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  void* volatile memory = std::malloc(1);
  memory = std::realloc(memory, 1000);
  std::free(memory);
  memory = std::calloc(1, 1);
  std::free(memory);
  EXPECT_EQ(allocations() - before, 5U);
#endif
}

TEST(GuardAllocation, CopyingADecisionOfFourRulesAllocatesNothing) {
  testing::ManualClock clock;
  Guard guard = Guard::open(Policy::parse(kAllocated).value(), {.clock = &clock}).value();
  const Decision decision = guard.check("login", {{"ip", "192.0.2.1"}, {"user", "ann"}});
  ASSERT_EQ(decision.rules().size(), 4U);
  const std::uint64_t before = allocations();
  Decision copy = decision;
  Decision moved = std::move(copy);
  EXPECT_EQ(allocations() - before, 0U);
  EXPECT_EQ(moved.rules()[3].limit, 1000U);
}

TEST(BreakerAllocation, ACallAllocatesNothingInAnyState) {
  testing::ManualClock clock;
  BreakerConfig config;
  config.jitter_percent = 0;
  config.slow_percent = 80;
  config.slow_call = std::chrono::seconds(2);
  Breaker breaker = Breaker::make("payments", config, {.clock = &clock, .seed = 1}).value();
  const auto calls = [&](Outcome outcome) {
    const std::uint64_t before = allocations();
    int gone = 0;
    for (int i = 0; i < 100; ++i) {
      Admission admission = breaker.admit();
      if (!admission) continue;
      ++gone;
      admission.permit().report(outcome);
    }
    EXPECT_EQ(allocations() - before, 0U) << to_string(breaker.state());
    return gone;
  };
  breaker.admit().permit().ok();  // a thread's first call notes what it has to undo at its end
  EXPECT_EQ(calls(Outcome::ok), 100);
  breaker.trip();
  EXPECT_EQ(calls(Outcome::ok), 0);
  clock.advance(config.open_wait);
  breaker.poll();
  ASSERT_EQ(breaker.state(), BreakerState::half_open);
  EXPECT_EQ(calls(Outcome::cancelled), 100) << "each gives its slot back";
  for (int i = 0; i < 3; ++i) breaker.admit().permit().ok();
  ASSERT_EQ(breaker.state(), BreakerState::recovering);
  const int gone = calls(Outcome::ok);
  EXPECT_GT(gone, 0);
  EXPECT_LT(gone, 100);
}

}  // namespace
}  // namespace weir
