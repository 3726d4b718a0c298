#include "weir/breaker_registry.h"

#include <gtest/gtest.h>

#include "breaker/breaker_core.h"
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

TEST(BreakerRegistry, AnotherWindowKeepsAnOrderWithItsNameItsReasonAndItsEnd) {
  testing::ManualClock clock;
  BreakerRegistry registry({.clock = &clock});
  BreakerConfig config = testing::BreakerRig::config();
  Breaker before = registry.put("payments", config).value();
  ASSERT_TRUE(before
                  .set_mode({.mode = BreakerMode::forced_open,
                             .by = "ada",
                             .reason = "they move",
                             .lasts = std::chrono::seconds(60)})
                  .has_value());
  clock.advance(std::chrono::seconds(20));
  config.window = LastTime{};
  Breaker after = registry.put("payments", config).value();
  ASSERT_FALSE(after == before);
  const BreakerSnapshot shot = after.snapshot();
  EXPECT_EQ(shot.mode, BreakerMode::forced_open);
  EXPECT_EQ(shot.mode_by, "ada");
  EXPECT_EQ(shot.mode_reason, "they move");
  EXPECT_EQ(shot.mode_left, Nanos(std::chrono::seconds(40)));
  clock.advance(std::chrono::seconds(40));
  EXPECT_TRUE(after.admit());
}

TEST(BreakerRegistry, AnotherWindowKeepsWhatStandsUnderAnOrderThatEnds) {
  testing::ManualClock clock;
  BreakerRegistry registry({.clock = &clock});
  BreakerConfig config = testing::BreakerRig::config();
  Breaker before = registry.put("payments", config).value();
  ASSERT_TRUE(
      before.set_mode({.mode = BreakerMode::disabled, .by = "eve", .reason = ""}).has_value());
  ASSERT_TRUE(before
                  .set_mode({.mode = BreakerMode::forced_open,
                             .by = "ada",
                             .reason = "they move",
                             .lasts = std::chrono::seconds(40)})
                  .has_value());
  config.window = LastTime{};
  Breaker after = registry.put("payments", config).value();
  EXPECT_EQ(after.mode(), BreakerMode::forced_open);
  clock.advance(std::chrono::seconds(40));
  after.poll();
  EXPECT_EQ(after.mode(), BreakerMode::disabled);
  EXPECT_EQ(after.snapshot().mode_by, "eve");
}

// They were told under the lock that they then waited for.
TEST(BreakerRegistry, TellsListenersThatLookForBreakers) {
  testing::ManualClock clock;
  const BreakerRegistry* among = nullptr;
  int told = 0;
  BreakerRegistry registry({.clock = &clock, .listener = [&](const BreakerEvent& event) {
                              told += among->find(event.breaker) ? 1 : 0;
                            }});
  among = &registry;
  BreakerConfig config = testing::BreakerRig::config();
  config.ramp = BreakerRamp{};
  Breaker breaker = registry.put("payments", config).value();
  breaker.trip();
  clock.advance(std::chrono::seconds(2));
  for (int probe = 0; probe < 2; ++probe) {
    Admission admission = breaker.admit();
    ASSERT_TRUE(admission);
    admission.permit().ok();
  }
  ASSERT_EQ(breaker.state(), BreakerState::recovering);
  told = 0;
  config.ramp.reset();
  EXPECT_TRUE(registry.put("payments", config).value() == breaker);
  EXPECT_EQ(told, 1) << "it closed";
  ASSERT_TRUE(
      breaker.set_mode({.mode = BreakerMode::disabled, .by = "ada", .reason = ""}).has_value());
  told = 0;
  config.window = LastTime{};
  EXPECT_FALSE(registry.put("payments", config).value() == breaker);
  EXPECT_EQ(told, 1) << "another one is under that order";
}

TEST(BreakerRegistry, AnotherWindowDoesNotTakeThePolicysShadowForAnOrder) {
  BreakerRegistry registry;
  BreakerConfig config = testing::BreakerRig::config();
  Breaker before = registry.put("payments", config).value();
  BreakerCore::of(before)->set_policy_mode(BreakerMode::shadow);
  config.window = LastTime{};
  Breaker after = registry.put("payments", config).value();
  BreakerCore::of(after)->set_policy_mode(BreakerMode::automatic);
  EXPECT_EQ(after.mode(), BreakerMode::automatic);
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
