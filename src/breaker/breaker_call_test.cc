#include "weir/breaker_call.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "testing/breaker_rig.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::BreakerRig;

[[noreturn]] int broken() {
  throw std::runtime_error("refused");
}

TEST(BreakerRun, GivesTheValueTheExceptionOrTheRejection) {
  BreakerRig rig;
  EXPECT_EQ(run(rig.breaker, [] { return 7; }).value(), 7);
  for (int i = 0; i < 3; ++i) {
    auto failed = run(rig.breaker, broken);
    EXPECT_FALSE(failed);
    EXPECT_THROW((void)failed.value(), std::runtime_error);
    EXPECT_EQ(failed.rejected(), nullptr);
  }
  bool ran = false;
  auto rejected = run(rig.breaker, [&] { ran = true; });
  EXPECT_FALSE(ran);
  ASSERT_NE(rejected.rejected(), nullptr);
  EXPECT_EQ(rejected.rejected()->reason, RejectReason::open);
  EXPECT_THROW((void)rejected.value(), BadResultAccess);
}

TEST(BreakerRun, MovesWhatCannotBeCopied) {
  BreakerRig rig;
  auto made = run(rig.breaker, [] { return std::make_unique<int>(3); });
  ASSERT_TRUE(made);
  EXPECT_EQ(**made, 3);
}

TEST(BreakerRun, AResultWithAnErrorVotesByWhoIsToBlame) {
  BreakerRig rig;
  const auto failing = [&](ErrorCode code) {
    return run(rig.breaker, [code]() -> Result<int> { return Error{code, "x"}; });
  };
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(failing(ErrorCode::not_found)) << "it is a value";
  EXPECT_EQ(rig.breaker.snapshot().ignored, 10U);
  for (int i = 0; i < 3; ++i) (void)failing(ErrorCode::unavailable);
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(BreakerRun, AClassifierJudgesValues) {
  BreakerRig rig;
  const auto by_status = [](int status) -> CallVerdict {
    if (status == 429) return CallVerdict::open_for(30s);
    return status >= 500 ? Outcome::failure : Outcome::ok;
  };
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(run(
                  rig.breaker, [] { return 503; }, by_status)
                  .value(),
              503);
  EXPECT_EQ(rig.breaker.snapshot().consecutive_failures, 2U);
  (void)run(
      rig.breaker, [] { return 429; }, by_status);
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(30s));
}

TEST(BreakerRun, AClassifierJudgesExceptions) {
  BreakerRig rig;
  const auto cancelled = [](const std::exception_ptr&) -> CallVerdict {
    return Outcome::cancelled;
  };
  for (int i = 0; i < 10; ++i) (void)run(rig.breaker, broken, cancelled);
  EXPECT_EQ(rig.breaker.snapshot().cancelled, 10U);
  EXPECT_EQ(rig.state(), BreakerState::closed);
}

TEST(BreakerRun, WhatAClassifierThrowsIsAFailure) {
  BreakerRig rig;
  const auto bad = [](int) -> CallVerdict { throw std::logic_error("bad"); };
  for (int i = 0; i < 3; ++i)
    EXPECT_THROW((void)run(
                     rig.breaker, [] { return 1; }, bad)
                     .value(),
                 std::logic_error);
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(BreakerRun, FallsBackOnFailureAndOnRejection) {
  BreakerRig rig;
  int rejections = 0;
  const auto instead = [&](const Called<int>& outcome) {
    rejections += outcome.rejected() != nullptr ? 1 : 0;
    return -1;
  };
  EXPECT_EQ(run_with_fallback(
                rig.breaker, [] { return 5; }, instead),
            5);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run_with_fallback(rig.breaker, broken, instead), -1);
  EXPECT_EQ(rejections, 0);
  EXPECT_EQ(run_with_fallback(rig.breaker, broken, instead), -1);
  EXPECT_EQ(rejections, 1);
}

TEST(BreakerRun, AnAsyncCallReportsWhenItIsDone) {
  BreakerRig rig;
  std::optional<AsyncCall<std::string>> under_way;
  std::string heard;
  run_async<std::string>(
      rig.breaker, [&](AsyncCall<std::string> call) { under_way = std::move(call); },
      [&](Called<std::string> outcome) { heard = outcome.value(); });
  EXPECT_EQ(rig.breaker.snapshot().ok, 0U);
  std::thread([&] { under_way->value("done"); }).join();
  EXPECT_EQ(heard, "done");
  EXPECT_EQ(rig.breaker.snapshot().ok, 1U);
}

TEST(BreakerRun, AnAsyncCallThatIsDroppedFreesItsSlotAndAnswers) {
  // tower-resilience 382: a future that is dropped must give its probe back
  BreakerRig rig;
  rig.half_open();
  int answers = 0;
  for (int i = 0; i < 5; ++i) {
    run_async<int>(
        rig.breaker, [](AsyncCall<int> call) { (void)call; },
        [&](Called<int> outcome) {
          ++answers;
          EXPECT_THROW((void)outcome.value(), AbandonedCall);
        });
  }
  EXPECT_EQ(answers, 5);
  EXPECT_EQ(rig.state(), BreakerState::half_open);
  EXPECT_TRUE(rig.breaker.admit());
}

TEST(BreakerRun, AnAsyncCallThatIsRejectedIsNotStarted) {
  BreakerRig rig;
  rig.open();
  int answers = 0;
  run_async<int>(
      rig.breaker, [](AsyncCall<int>) { FAIL() << "started"; },
      [&](Called<int> outcome) {
        ++answers;
        EXPECT_NE(outcome.rejected(), nullptr);
      });
  EXPECT_EQ(answers, 1);
}

TEST(BreakerRun, AnAsyncCallFallsBackOnFailureRejectionAndBeingDropped) {
  BreakerRig rig;
  std::vector<int> heard;
  int rejections = 0;
  // A fallback that can only be moved.
  const auto start = [&](auto how) {
    run_async_with_fallback<int>(
        rig.breaker, how,
        [&, instead = std::make_unique<int>(-1)](const Called<int>& outcome) {
          rejections += outcome.rejected() != nullptr ? 1 : 0;
          return *instead;
        },
        [&](Called<int> outcome) { heard.push_back(outcome.value()); });
  };
  start([](AsyncCall<int> call) { call.value(5); });
  start([](AsyncCall<int> call) { (void)call; });
  for (int i = 0; i < 4; ++i)
    start([](AsyncCall<int> call) {
      call.fail(std::make_exception_ptr(std::runtime_error("broken")));
    });
  EXPECT_EQ(heard, (std::vector<int>{5, -1, -1, -1, -1, -1}));
  EXPECT_EQ(rejections, 1) << "open after three";
}

TEST(BreakerRun, WhatAnAsyncFallbackThrowsIsTheOutcome) {
  BreakerRig rig;
  rig.open();
  int answers = 0;
  run_async_with_fallback<void>(
      rig.breaker, [](AsyncCall<void>) { FAIL() << "started"; },
      [](const Called<void>&) { throw std::domain_error("no fallback either"); },
      [&](Called<void> outcome) {
        ++answers;
        EXPECT_THROW((void)outcome.value(), std::domain_error);
      });
  EXPECT_EQ(answers, 1);
}

TEST(BreakerRun, AnAsyncCallThatItsStartThrowsOutOfAnswersOnceAndFreesItsSlot) {
  BreakerRig rig;
  rig.half_open();
  int answers = 0;
  run_async<int>(
      rig.breaker, [](AsyncCall<int>) { throw std::runtime_error("broken"); },
      [&](Called<int> outcome) {
        ++answers;
        EXPECT_THROW((void)outcome.value(), AbandonedCall);
      });
  EXPECT_EQ(answers, 1);
  EXPECT_TRUE(rig.breaker.admit());
}

TEST(BreakerRun, AnAsyncCallsClassifierMaySayForHowLongToOpen) {
  BreakerRig rig;
  run_async<int>(
      rig.breaker, [](AsyncCall<int> call) { call.value(503); }, [](Called<int>) {},
      [](int status) {
        return status == 503 ? CallVerdict::open_for(7s) : CallVerdict(Outcome::ok);
      });
  EXPECT_EQ(rig.state(), BreakerState::open);
  EXPECT_GE(rig.breaker.snapshot().until_probe, Nanos(7s));
}

TEST(BreakerRun, AnAsyncCallKeepsItsBreaker) {
  testing::ManualClock clock;
  std::optional<AsyncCall<int>> under_way;
  {
    Breaker breaker = Breaker::make("gone", BreakerRig::config(), {.clock = &clock}).value();
    run_async<int>(
        breaker, [&](AsyncCall<int> call) { under_way = std::move(call); }, [](Called<int>) {});
  }
  under_way->value(1);
}

}  // namespace
}  // namespace weir
