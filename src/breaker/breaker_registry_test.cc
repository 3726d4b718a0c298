#include "weir/breaker_registry.h"

#include <gtest/gtest.h>

#include "testing/breaker_rig.h"

namespace weir {
namespace {

TEST(BreakerRegistry, OneNameIsOneBreaker) {
  BreakerRegistry registry;
  Breaker first = registry.put("payments", testing::BreakerRig::config()).value();
  Breaker second = registry.put("payments", testing::BreakerRig::config()).value();
  EXPECT_TRUE(first == second);
  EXPECT_TRUE(registry.find("payments") == first);
  EXPECT_FALSE(registry.find("mail"));
}

TEST(BreakerRegistry, OtherNumbersKeepTheState) {
  BreakerRegistry registry;
  BreakerConfig config = testing::BreakerRig::config();
  Breaker breaker = registry.put("payments", config).value();
  breaker.trip();
  config.open_wait *= 2;
  EXPECT_TRUE(registry.put("payments", config).value() == breaker);
  EXPECT_EQ(breaker.state(), BreakerState::open) << "a reload during an outage closes nothing";
  EXPECT_EQ(breaker.config(), config);
}

TEST(BreakerRegistry, AnotherWindowIsAnotherBreaker) {
  BreakerRegistry registry;
  BreakerConfig config = testing::BreakerRig::config();
  Breaker breaker = registry.put("payments", config).value();
  config.window = LastTime{};
  EXPECT_FALSE(registry.put("payments", config).value() == breaker);
  EXPECT_EQ(registry.all().size(), 1U);
}

TEST(BreakerRegistry, TellsNonsenseFromTooMany) {
  BreakerRegistry registry({}, 2);
  BreakerConfig config = testing::BreakerRig::config();
  config.probes = 0;
  EXPECT_EQ(registry.put("a", config).error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(registry.find("a"));
  config = testing::BreakerRig::config();
  EXPECT_TRUE(registry.put("a", config).has_value());
  EXPECT_TRUE(registry.put("b", config).has_value());
  EXPECT_EQ(registry.put("c", config).error().code, ErrorCode::resource_exhausted);
  EXPECT_TRUE(registry.put("a", config).has_value());
  EXPECT_TRUE(registry.remove("a"));
  EXPECT_FALSE(registry.remove("a"));
  EXPECT_TRUE(registry.put("c", config).has_value());
}

}  // namespace
}  // namespace weir
