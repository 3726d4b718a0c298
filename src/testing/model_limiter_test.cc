#include "testing/model_limiter.h"

#include <gtest/gtest.h>

#include <vector>

namespace weir::testing {
namespace {

using namespace std::chrono_literals;
using limit::Numbers;
using limit::Outcome;
using store::Counter;
using store::Finding;
using store::Op;

Numbers per_minute(std::uint64_t limit) {
  return Numbers::make(
             {.algorithm = Algorithm::fixed_window, .limit = limit, .period = {Nanos(60s)}})
      .value();
}

class ModelLimiterTest : public ::testing::Test {
 protected:
  bool decide(const std::vector<Counter>& counters) {
    findings_.assign(counters.size(), Finding{});
    return limiter_.decide(counters, now_, findings_).allowed;
  }

  static Counter counter(const Numbers& numbers, std::uint64_t key, std::uint64_t cost = 1) {
    return {.numbers = &numbers, .digest = {0, key}, .cost = cost};
  }

  ModelLimiter limiter_;
  std::vector<Finding> findings_;
  Instant now_{1'700'000'000s};
  const Numbers three_ = per_minute(3);
  const Numbers ten_ = per_minute(10);
};

// The narrow limit denied, and the broad one was drained by what it had denied.
TEST_F(ModelLimiterTest, ADenialChargesNoneOfTheOthers) {
  int allowed = 0;
  for (int i = 0; i < 5; ++i) allowed += decide({counter(ten_, 1), counter(three_, 2)}) ? 1 : 0;
  EXPECT_EQ(allowed, 3);
  EXPECT_EQ(findings_[0].step.outcome, Outcome::allowed);
  EXPECT_EQ(findings_[0].step.remaining, 7U);
  EXPECT_FALSE(findings_[0].charged);
  EXPECT_EQ(findings_[1].step.outcome, Outcome::limited);
  allowed = 0;
  for (int i = 0; i < 10; ++i) allowed += decide({counter(ten_, 1)}) ? 1 : 0;
  EXPECT_EQ(allowed, 7);
}

TEST_F(ModelLimiterTest, AShadowCounterIsChargedWhereItFitsAndDeniesNobody) {
  Counter shadow = counter(three_, 2);
  shadow.shadow = true;
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(decide({counter(ten_, 1), shadow}));
  EXPECT_EQ(findings_[0].step.remaining, 5U);
  EXPECT_EQ(findings_[1].step.outcome, Outcome::limited);
  EXPECT_FALSE(findings_[1].charged);
}

TEST_F(ModelLimiterTest, ADrainTakesWhatIsLeftUnlessTheAskIsDenied) {
  Counter drain = counter(ten_, 1, 50);
  drain.op = Op::drain;
  EXPECT_TRUE(decide({counter(three_, 2, 3)}));
  EXPECT_FALSE(decide({drain, counter(three_, 2)}));
  EXPECT_TRUE(decide({counter(ten_, 1, 0)}));
  EXPECT_EQ(findings_[0].step.remaining, 10U);
  EXPECT_TRUE(decide({drain}));
  EXPECT_TRUE(findings_[0].charged);
  EXPECT_EQ(findings_[0].step.remaining, 0U);
}

TEST_F(ModelLimiterTest, RefundAndResetGiveBack) {
  EXPECT_TRUE(decide({counter(three_, 1, 3)}));
  Counter refund = counter(three_, 1, 2);
  refund.op = Op::refund;
  refund.receipt = findings_[0].step.receipt();
  EXPECT_TRUE(decide({refund}));
  EXPECT_EQ(findings_[0].step.remaining, 2U);
  EXPECT_FALSE(findings_[0].charged);
  Counter reset = counter(three_, 1);
  reset.op = Op::reset;
  EXPECT_TRUE(decide({reset}));
  EXPECT_EQ(findings_[0].step.remaining, 3U);
  EXPECT_EQ(limiter_.keys(), 0U);
}

TEST_F(ModelLimiterTest, TheNewerLoadsNumbersHold) {
  Counter old = counter(three_, 1);
  old.generation = 1;
  Counter newer = counter(ten_, 1);
  newer.generation = 2;
  EXPECT_TRUE(decide({old}));
  EXPECT_TRUE(decide({newer}));
  EXPECT_EQ(findings_[0].step.remaining, 8U);
  EXPECT_TRUE(decide({old}));
  EXPECT_EQ(findings_[0].step.remaining, 7U);
}

}  // namespace
}  // namespace weir::testing
