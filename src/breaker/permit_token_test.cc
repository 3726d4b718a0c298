#include "breaker/permit_token.h"

#include <gtest/gtest.h>

#include "testing/breaker_rig.h"

namespace weir::breaker {
namespace {

using namespace std::chrono_literals;
using testing::BreakerRig;

TEST(PermitToken, ReportsAsItsPermitWould) {
  BreakerRig rig;
  for (int i = 0; i < 3; ++i) {
    const std::string token = PermitToken::of(rig.breaker, rig.admitted());
    EXPECT_EQ(rig.breaker.snapshot().failed, static_cast<std::uint64_t>(i));
    auto permit = PermitToken::read(rig.breaker, token);
    ASSERT_TRUE(permit) << token;
    permit->failure();
  }
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(PermitToken, OfAProbeHoldsItsSlotAndReportsOnce) {
  BreakerRig rig;
  rig.half_open();
  const std::string token = PermitToken::of(rig.breaker, rig.admitted());
  EXPECT_EQ(rig.breaker.snapshot().probes_in_flight, 1U);
  EXPECT_FALSE(rig.breaker.admit());
  for (int i = 0; i < 2; ++i) PermitToken::read(rig.breaker, token)->ok();
  EXPECT_EQ(rig.breaker.snapshot().calls, 1U);
  EXPECT_EQ(rig.breaker.snapshot().late, 1U);
}

TEST(PermitToken, OfAProbeThatIsNeverReportedExpires) {
  BreakerRig rig;
  rig.half_open();
  (void)PermitToken::of(rig.breaker, rig.admitted());
  rig.pass(10s);
  EXPECT_TRUE(rig.breaker.admit());
}

TEST(PermitToken, MeasuresTheTimeBetween) {
  BreakerConfig config = BreakerRig::config();
  config.slow_percent = 50;
  config.slow_call = 100ms;
  config.minimum_calls = 1;
  BreakerRig rig(config);
  const std::string token = PermitToken::of(rig.breaker, rig.admitted());
  rig.pass(101ms);
  PermitToken::read(rig.breaker, token)->ok();
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(PermitToken, OfAnotherBreakerOrAnotherLifeIsNone) {
  BreakerRig one;
  BreakerRig two;
  const std::string token = PermitToken::of(one.breaker, one.admitted());
  EXPECT_FALSE(PermitToken::read(two.breaker, token));
  EXPECT_TRUE(PermitToken::read(one.breaker, token));
}

TEST(PermitToken, WhatIsNoTokenIsRefused) {
  BreakerRig rig;
  const std::string good = PermitToken::of(rig.breaker, rig.admitted());
  for (std::string bad : {std::string(), std::string("2"), std::string("2-1-2-3"), good + "-1",
                          good + "x", good.substr(1), "1" + good.substr(1),
                          good.substr(0, good.rfind('-')), good.substr(0, good.rfind('-')) + "-9",
                          std::string("2-------"), std::string("2-ffffffffffffffffff-0-0-0-0-0-0")})
    EXPECT_FALSE(PermitToken::read(rig.breaker, bad)) << bad;
}

TEST(PermitToken, ThatWasAlteredAnywhereIsNone) {
  BreakerRig rig;
  rig.half_open();
  const std::string good = PermitToken::of(rig.breaker, rig.admitted());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = bad[i] == '0' ? '1' : '0';
    EXPECT_FALSE(PermitToken::read(rig.breaker, bad)) << bad;
  }
  EXPECT_TRUE(PermitToken::read(rig.breaker, good));
}

TEST(PermitToken, OfADisabledBreakerIsNoOtherBreakers) {
  BreakerRig one;
  BreakerRig two;
  one.breaker.set_mode(BreakerMode::disabled);
  two.breaker.set_mode(BreakerMode::disabled);
  EXPECT_FALSE(PermitToken::read(two.breaker, PermitToken::of(one.breaker, one.admitted())));
}

TEST(PermitToken, OfADisabledBreakerSaysNothing) {
  BreakerRig rig;
  rig.breaker.set_mode(BreakerMode::disabled);
  const std::string token = PermitToken::of(rig.breaker, rig.admitted());
  rig.breaker.set_mode(BreakerMode::automatic);
  auto permit = PermitToken::read(rig.breaker, token);
  ASSERT_TRUE(permit);
  permit->failure();
  EXPECT_EQ(rig.breaker.snapshot().failed, 0U);
}

}  // namespace
}  // namespace weir::breaker
