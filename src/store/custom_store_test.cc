#include "store/custom_store.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

namespace weir::store {
namespace {

using std::chrono::seconds;

constexpr Instant kNow{seconds(1'700'000'000)};

limit::Numbers ten_a_minute() {
  return limit::Numbers::make(
             {.algorithm = Algorithm::gcra, .limit = 10, .period = {.length = seconds(60)}})
      .value();
}

// Writes down what it is asked, and answers from a script by the rule's name.
class Scripted final : public Store {
 public:
  struct Log {
    std::vector<std::string> calls;  // "a:2 b:1": the rules and costs of one call
    bool answers = true;
    std::vector<std::string> full;  // rules whose counters do not fit
    CounterAnswer told;             // what is said besides
  };
  explicit Scripted(Log& log) : log_(log) {}

  bool decide(std::span<const CounterRequest> counters, Instant,
              std::span<CounterAnswer> answers) noexcept override {
    std::string call;
    for (std::size_t i = 0; i < counters.size(); ++i) {
      if (i > 0) call += ' ';
      call += std::string(counters[i].rule) + ":" + std::to_string(counters[i].cost);
      answers[i] = log_.told;
      answers[i].fits =
          std::find(log_.full.begin(), log_.full.end(), counters[i].rule) == log_.full.end();
    }
    log_.calls.push_back(call);
    return log_.answers;
  }

 private:
  Log& log_;
};

class CustomStoreTest : public ::testing::Test {
 protected:
  Counter counter(std::string_view rule, std::uint64_t cost, Op op = Op::take,
                  bool shadow = false) {
    Counter made{.numbers = &numbers_, .rule = rule, .key = rule, .cost = cost, .op = op};
    made.shadow = shadow;
    return made;
  }
  LocalAnswer decide(const std::vector<Counter>& counters) {
    findings_.assign(counters.size(), Finding{});
    return store_.decide(counters, kNow, findings_);
  }

  limit::Numbers numbers_ = ten_a_minute();
  Scripted::Log log_;
  CustomStore store_{std::make_unique<Scripted>(log_)};
  std::vector<Finding> findings_;
};

TEST_F(CustomStoreTest, AsksTakesTogetherAndTheOthersAfterwards) {
  const LocalAnswer answer = decide({counter("a", 2), counter("seen", 3, Op::take, true),
                                     counter("b", 1), counter("late", 4, Op::drain)});
  EXPECT_TRUE(answer.allowed);
  EXPECT_EQ(log_.calls, (std::vector<std::string>{"a:2 b:1", "seen:3", "late:4"}));
  for (const Finding& finding : findings_) EXPECT_TRUE(finding.charged);
  EXPECT_EQ(findings_[0].units, 2U);
}

TEST_F(CustomStoreTest, ChargesNoneOfTheOthersWhereATakeIsDenied) {
  log_.full = {"b"};
  const LocalAnswer answer =
      decide({counter("a", 2), counter("b", 1), counter("seen", 3, Op::take, true),
              counter("late", 4, Op::drain)});
  EXPECT_EQ(answer.outcome, LocalOutcome::decided);
  EXPECT_FALSE(answer.allowed);
  EXPECT_EQ(log_.calls, (std::vector<std::string>{"a:2 b:1", "seen:0", "late:0"}));
  for (const Finding& finding : findings_) EXPECT_FALSE(finding.charged);
  EXPECT_EQ(findings_[0].step.outcome, limit::Outcome::allowed);
  EXPECT_EQ(findings_[1].step.outcome, limit::Outcome::limited);
}

TEST_F(CustomStoreTest, SaysUnavailableWhereTheStoreCannotDecide) {
  log_.answers = false;
  const LocalAnswer answer = decide({counter("a", 1), counter("late", 4, Op::drain)});
  EXPECT_EQ(answer.outcome, LocalOutcome::unavailable);
  EXPECT_FALSE(answer.allowed);
  EXPECT_EQ(log_.calls.size(), 1U);
}

TEST_F(CustomStoreTest, AShadowRuleThatDoesNotFitDeniesNothing) {
  log_.full = {"seen"};
  EXPECT_TRUE(decide({counter("a", 1), counter("seen", 1, Op::take, true)}).allowed);
  EXPECT_FALSE(findings_[1].charged);
  EXPECT_EQ(findings_[1].step.outcome, limit::Outcome::limited);
}

TEST_F(CustomStoreTest, KeepsUnknownNumbersUnknown) {
  ASSERT_TRUE(decide({counter("a", 1)}).allowed);
  EXPECT_FALSE(findings_[0].remaining_known);
  EXPECT_FALSE(findings_[0].reset_known);
  log_.full = {"a"};
  (void)decide({counter("a", 1)});
  EXPECT_FALSE(findings_[0].retry_known);
  log_.told = {.remaining = 3, .retry_after = seconds(2)};
  (void)decide({counter("a", 5)});
  EXPECT_TRUE(findings_[0].remaining_known);
  EXPECT_TRUE(findings_[0].retry_known);
  EXPECT_EQ(findings_[0].step.remaining, 3U);
  EXPECT_EQ(findings_[0].step.retry_after_ns, 2'000'000'000);
}

TEST_F(CustomStoreTest, ACostAboveTheBurstNeverFits) {
  log_.full = {"a"};
  (void)decide({counter("a", 11)});
  EXPECT_EQ(findings_[0].step.outcome, limit::Outcome::never_fits);
  EXPECT_EQ(findings_[0].step.retry_after_ns, 0);
}

TEST_F(CustomStoreTest, RefundsAndResetsAskNothing) {
  EXPECT_TRUE(decide({counter("a", 1, Op::refund), counter("b", 1, Op::reset)}).allowed);
  EXPECT_TRUE(log_.calls.empty());
  EXPECT_FALSE(findings_[0].charged);
}

TEST(CustomStore, ShipsOneThatAllowsAllAndOneThatAllowsNothing) {
  const limit::Numbers numbers = ten_a_minute();
  const Counter counter{.numbers = &numbers, .rule = "a", .key = "a"};
  Finding finding;
  CustomStore open(Store::allow_all());
  CustomStore closed(Store::deny_all());
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(open.decide({&counter, 1}, kNow, {&finding, 1}).allowed);
    EXPECT_FALSE(closed.decide({&counter, 1}, kNow, {&finding, 1}).allowed);
  }
}

}  // namespace
}  // namespace weir::store
