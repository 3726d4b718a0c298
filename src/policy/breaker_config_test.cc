#include "weir/breaker_config.h"

#include <gtest/gtest.h>

#include <functional>

namespace weir {
namespace {

using namespace std::chrono_literals;

std::string faults_of(const std::function<void(BreakerConfig&)>& change) {
  BreakerConfig config;
  change(config);
  std::string all;
  for (const ConfigFault& fault : check_breaker_config(config))
    all += (all.empty() ? "" : "\n") + fault.text();
  return all;
}

TEST(BreakerConfig, TheDefaultsAreSound) {
  EXPECT_TRUE(check_breaker_config({}).empty());
}

TEST(BreakerConfig, MoreSuccessesThanProbesCouldNeverClose) {
  EXPECT_EQ(faults_of([](BreakerConfig& c) { c.probe_successes = 5; }),
            "probe_successes: 5 exceeds probes of 3: it could never close; allowed: 1 to 3");
}

TEST(BreakerConfig, AMinimumAboveTheWindowCouldNeverOpen) {
  EXPECT_EQ(
      faults_of([](BreakerConfig& c) {
        c.window = LastCalls{10};
        c.minimum_calls = 11;
      }),
      "minimum_calls: 11 is more than the window of 10 calls ever holds; allowed: at most the "
      "window");
}

TEST(BreakerConfig, NoRuleIsRefused) {
  EXPECT_EQ(faults_of([](BreakerConfig& c) { c.failure_percent.reset(); }),
            "failure_percent: absent leaves no rule that could open the breaker; allowed: "
            "consecutive_failures, failure_percent or slow_percent");
}

TEST(BreakerConfig, SlownessNeedsBothItsNumbers) {
  EXPECT_EQ(faults_of([](BreakerConfig& c) { c.slow_percent = 50; }),
            "slow_percent: 50 says how many calls may be slow, but not what slow is; allowed: "
            "slow_call beside it");
  EXPECT_EQ(faults_of([](BreakerConfig& c) { c.slow_call = 1s; }),
            "slow_call: 1s stands without slow_percent; allowed: slow_percent beside it");
}

TEST(BreakerConfig, WaitsMustFitEachOther) {
  EXPECT_EQ(faults_of([](BreakerConfig& c) { c.max_open_wait = 1s; }),
            "max_open_wait: 1s is less than open_wait of 5s; allowed: at least open_wait");
  EXPECT_EQ(faults_of([](BreakerConfig& c) { c.max_half_open = 1s; }),
            "max_half_open: 1s is less than probe_deadline of 10s; allowed: at least "
            "probe_deadline");
}

TEST(BreakerConfig, EveryNumberHasItsRange) {
  const std::vector<std::function<void(BreakerConfig&)>> nonsense = {
      [](BreakerConfig& c) { c.consecutive_failures = 0; },
      [](BreakerConfig& c) { c.failure_percent = 0; },
      [](BreakerConfig& c) { c.failure_percent = 101; },
      [](BreakerConfig& c) { c.window = LastCalls{10'001}; },
      [](BreakerConfig& c) {
        c.window = LastTime{999ms, 10};
      },
      [](BreakerConfig& c) {
        c.window = LastTime{10s, 1};
      },
      [](BreakerConfig& c) {
        c.window = LastTime{10s, 61};
      },
      [](BreakerConfig& c) { c.minimum_calls = 0; },
      [](BreakerConfig& c) { c.open_wait = 0ns; },
      [](BreakerConfig& c) { c.open_wait = -1s; },
      [](BreakerConfig& c) { c.jitter_percent = 51; },
      [](BreakerConfig& c) { c.forget_after = 0ns; },
      [](BreakerConfig& c) { c.max_retry_after = 25h; },
      [](BreakerConfig& c) { c.probes = c.probe_successes = 1'001; },
      [](BreakerConfig& c) { c.probes_in_flight = 0; },
      [](BreakerConfig& c) { c.probes_in_flight = 4; },
      [](BreakerConfig& c) { c.probe_deadline = 0ns; },
      [](BreakerConfig& c) { c.ramp->start_percent = 0; },
      [](BreakerConfig& c) { c.ramp->growth_percent = 100; },
      [](BreakerConfig& c) { c.ramp->step = 0ns; },
      [](BreakerConfig& c) { c.ramp->minimum_calls = 0; },
      [](BreakerConfig& c) { c.ramp->strikes = 0; },
  };
  for (std::size_t i = 0; i < nonsense.size(); ++i) {
    const std::string text = faults_of(nonsense[i]);
    EXPECT_NE(text.find("; allowed: "), std::string::npos) << "case " << i << ": " << text;
  }
}

TEST(BreakerConfig, AllFaultsComeTogether) {
  BreakerConfig config;
  config.probes = 0;
  config.jitter_percent = 99;
  config.ramp->strikes = 0;
  EXPECT_GE(check_breaker_config(config).size(), 3U);
}

}  // namespace
}  // namespace weir
