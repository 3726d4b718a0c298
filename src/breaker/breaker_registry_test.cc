#include "weir/breaker_registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

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

// What others do to the list while a load changes a window must not be undone by it.
struct ChangedMeanwhile {
  // Others come while somebody looks what time it is: who makes a breaker does, and holds no lock.
  class VisitedClock final : public Clock {
   public:
    explicit VisitedClock(std::function<void()>& visit) : visit_(visit) {}
    Instant now() const noexcept override { return clock_.now(); }
    MonoTime mono() const noexcept override {
      if (visit_) std::exchange(visit_, nullptr)();
      return clock_.mono();
    }
    void sleep_until(MonoTime until) override { clock_.sleep_until(until); }

   private:
    testing::ManualClock clock_;
    std::function<void()>& visit_;
  };

  explicit ChangedMeanwhile(std::size_t most = 10)
      : registry({.clock = &clock,
                  .listener =
                      [this](const BreakerEvent& event) {
                        told.push_back(event);
                        if (when_told) std::exchange(when_told, nullptr)();
                      }},
                 most) {
    Breaker breaker = registry.put("payments", testing::BreakerRig::config()).value();
    breaker.set_mode(BreakerMode::disabled);  // an order, which the next one takes along
  }
  static BreakerConfig by_time(std::chrono::seconds length) {
    BreakerConfig config = testing::BreakerRig::config();
    config.window = LastTime{.length = length};
    return config;
  }

  std::function<void()> meanwhile;  // once the old one was found, and before another one is put
  std::function<void()> when_told;
  VisitedClock clock{meanwhile};
  std::vector<BreakerEvent> told;
  BreakerRegistry registry;
};

TEST(BreakerRegistry, OneThatWasTakenOffMeanwhileDoesNotMakeTheListLongerThanItMayBe) {
  ChangedMeanwhile rig(1);
  rig.meanwhile = [&] {
    EXPECT_TRUE(rig.registry.remove("payments"));
    EXPECT_TRUE(rig.registry.put("mail", testing::BreakerRig::config()).has_value());
  };
  const auto put = rig.registry.put("payments", ChangedMeanwhile::by_time(std::chrono::seconds(5)));
  ASSERT_FALSE(put.has_value());
  EXPECT_EQ(put.error().code, ErrorCode::resource_exhausted);
  ASSERT_EQ(rig.registry.all().size(), 1U);
  EXPECT_EQ(rig.registry.all()[0].name(), "mail");
}

TEST(BreakerRegistry, AnOrderGivenToOneThatTookItsPlaceMeanwhileStands) {
  ChangedMeanwhile rig;
  rig.meanwhile = [&] {
    Breaker other =
        rig.registry.put("payments", ChangedMeanwhile::by_time(std::chrono::seconds(5))).value();
    ASSERT_TRUE(
        other.set_mode({.mode = BreakerMode::forced_open, .by = "eve", .reason = ""}).has_value());
  };
  Breaker put =
      rig.registry.put("payments", ChangedMeanwhile::by_time(std::chrono::seconds(7))).value();
  EXPECT_TRUE(rig.registry.find("payments") == put);
  EXPECT_EQ(put.mode(), BreakerMode::forced_open) << "the later word";
  EXPECT_EQ(put.snapshot().mode_by, "eve");
}

// It was given to the one that was about to go.
TEST(BreakerRegistry, AnOrderGivenByWhoHearsThatOrdersWereTakenAlongStands) {
  ChangedMeanwhile rig;
  rig.when_told = [&] {
    ASSERT_TRUE(rig.registry.find("payments")
                    ->set_mode({.mode = BreakerMode::forced_open, .by = "eve", .reason = ""})
                    .has_value());
  };
  Breaker put =
      rig.registry.put("payments", ChangedMeanwhile::by_time(std::chrono::seconds(5))).value();
  EXPECT_FALSE(rig.when_told);
  EXPECT_EQ(put.mode(), BreakerMode::forced_open);
  EXPECT_EQ(put.snapshot().mode_by, "eve");
}

TEST(BreakerRegistry, OneThatWasMadeAndNeverPutIsNotHeardOf) {
  ChangedMeanwhile rig;
  rig.told.clear();
  rig.meanwhile = [&] {
    EXPECT_TRUE(rig.registry.put("payments", ChangedMeanwhile::by_time(std::chrono::seconds(5)))
                    .has_value());
  };
  EXPECT_TRUE(
      rig.registry.put("payments", ChangedMeanwhile::by_time(std::chrono::seconds(7))).has_value());
  EXPECT_FALSE(rig.meanwhile);
  EXPECT_EQ(rig.told.size(), 2U) << "the order, by each of the two that took a place";
}

// Many threads on few names, with listeners that look for breakers; the thread sanitizer watches.
TEST(BreakerRegistry, ManyThreadsPutFindTakeOffAndListByName) {
  constexpr std::size_t kMost = 6;
  constexpr int kThreads = 6;
  constexpr int kRounds = 400;
  const BreakerRegistry* among = nullptr;
  std::atomic<int> told{0};
  BreakerRegistry registry({.listener =
                                [&](const BreakerEvent& event) {
                                  if (among->find(event.breaker)) ++told;
                                }},
                           kMost);
  among = &registry;
  std::barrier gate(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      gate.arrive_and_wait();
      for (int i = 0; i < kRounds; ++i) {
        const std::string name = "breaker" + std::to_string((t + i) % 8);
        BreakerConfig config = testing::BreakerRig::config();
        if (i % 3 == 1) config.open_wait *= 2;
        if (i % 5 == 2) config.window = LastTime{};
        const Result<Breaker> put = registry.put(name, config);
        if (!put) {
          EXPECT_EQ(put.error().code, ErrorCode::resource_exhausted);
        } else {
          Breaker breaker = *put;
          EXPECT_EQ(breaker.name(), name);
          EXPECT_EQ(breaker.config().window, config.window);
          if (i % 4 == 0) breaker.trip();
          if (Admission admission = breaker.admit()) admission.permit().ok();
        }
        if (const auto found = registry.find(name)) {
          EXPECT_EQ(found->name(), name);
        }
        if (i % 7 == 3) registry.remove(name);
        if (i % 16 == 0) {
          const std::vector<Breaker> all = registry.all();
          EXPECT_LE(all.size(), kMost);
          std::set<std::string_view> names;
          for (const Breaker& each : all) EXPECT_TRUE(names.insert(each.name()).second);
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(told, 0);
  EXPECT_LE(registry.all().size(), kMost);
  for (const Breaker& each : registry.all()) EXPECT_TRUE(registry.find(each.name()) == each);
}

TEST(BreakerRegistry, ManyThreadsThatAskForOneNameAtOnceGetOneBreaker) {
  for (int round = 0; round < 20; ++round) {
    constexpr int kThreads = 8;
    BreakerRegistry registry;
    std::barrier gate(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&] {
        gate.arrive_and_wait();
        Breaker breaker = registry.put("payments", testing::BreakerRig::config()).value();
        breaker.admit().permit().ok();
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(registry.find("payments")->snapshot().ok, std::uint64_t{kThreads});
  }
}

}  // namespace
}  // namespace weir
