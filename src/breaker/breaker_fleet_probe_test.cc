#include <gtest/gtest.h>

#include <algorithm>

#include "testing/fleet_breaker_rig.h"
#include "weir/breaker_call.h"

// The probes of a fleet, and what becomes of their results.

namespace weir {
namespace {

using namespace std::chrono_literals;
using Kind = store::redis::CircuitAction::Kind;
using testing::BreakerRig;
using testing::CircuitRig;
using Rig = testing::FleetBreakerRig;

TEST(FleetBreaker, TheProbesAreThoseOfTheWholeFleet) {
  Rig rig(10);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  std::vector<std::optional<Permit>> going;
  for (const auto& worker : rig.workers) going.push_back(worker->admit());
  EXPECT_EQ(std::count_if(going.begin(), going.end(), [](const auto& p) { return p.has_value(); }),
            1);
  EXPECT_TRUE(going[0]->is_probe());
  going[0]->ok();
  rig[0].talk();
  rig.pass(150ms);
  EXPECT_TRUE(rig[7].call(Outcome::ok)) << "the second of two that must succeed";
  rig.look();
  for (const auto& worker : rig.workers) {
    EXPECT_EQ(worker->state(), BreakerState::closed);
    EXPECT_TRUE(worker->call(Outcome::ok));
  }
}

TEST(FleetBreaker, AFailedProbeOpensItForAllAndDoublesTheWait) {
  Rig rig(3);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  EXPECT_TRUE(rig[1].call(Outcome::failure));
  rig.pass(150ms);
  EXPECT_TRUE(rig[2].call(Outcome::failure));
  rig.look();
  for (const auto& worker : rig.workers) {
    EXPECT_EQ(worker->state(), BreakerState::open);
    EXPECT_EQ(worker->breaker.snapshot().until_probe, Nanos(2s));
  }
}

TEST(FleetBreaker, AWorkerThatDiesInItsProbeCostsItsDeadline) {
  Rig rig(2);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  {
    auto probe = rig[0].admit();
    ASSERT_TRUE(probe);
    rig[0].up = false;  // and it never says anything again
    rig.clock.advance(9900ms);
    EXPECT_FALSE(rig[1].call(Outcome::ok));
    rig.pass(200ms);
    EXPECT_TRUE(rig[1].call(Outcome::ok));
  }
}

TEST(FleetBreaker, AResultOfAnEarlierRoundSaysNothing) {
  Rig rig(2);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  auto early = rig[0].admit();
  ASSERT_TRUE(early);
  rig.pass(11s);
  EXPECT_TRUE(rig[1].call(Outcome::failure)) << "with the one that expired it fails";
  rig.look();
  ASSERT_EQ(rig[0].state(), BreakerState::open);
  rig.pass(2s);
  auto now = rig[1].admit();
  ASSERT_TRUE(now);
  early->ok();
  rig[0].talk();
  EXPECT_EQ(rig.store.read().record.ok, 0U);
  EXPECT_EQ(rig[0].breaker.snapshot().late, 1U);
  EXPECT_EQ(rig[0].breaker.snapshot().expired_probes, 1U);
}

// Three probes at once, of which two must succeed.
BreakerConfig three_at_once() {
  BreakerConfig config = BreakerRig::config();
  config.probes_in_flight = 3;
  return config;
}

TEST(FleetBreaker, ADirectiveOfARoundThatIsOverOpensNobody) {
  Rig rig(2, three_at_once());
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  std::optional<Permit> probes[] = {rig[0].admit(), rig[0].admit(), rig[0].admit()};
  ASSERT_TRUE(probes[2] && probes[2]->is_probe());
  probes[0]->ok();
  probes[1]->ok();
  rig[0].talk();
  rig.look();
  ASSERT_EQ(rig[0].state(), BreakerState::closed);
  const std::uint64_t epoch = rig.store.read().record.epoch;
  probes[2]->report(CallVerdict::open_for(5s));
  rig[0].talk();
  rig.look();
  for (const auto& worker : rig.workers) EXPECT_EQ(worker->state(), BreakerState::closed);
  EXPECT_EQ(rig.store.read().record.epoch, epoch);
  EXPECT_EQ(rig[0].breaker.snapshot().late, 1U);
  EXPECT_EQ(rig[0].breaker.snapshot().ok, 2U);
}

TEST(FleetBreaker, ADirectiveOfAProbeWhoseRoundOthersEndedOpensNobodyElse) {
  Rig rig(2, three_at_once());
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  auto late = rig[0].admit();
  ASSERT_TRUE(late);
  EXPECT_TRUE(rig[1].call(Outcome::ok));
  EXPECT_TRUE(rig[1].call(Outcome::ok));
  const std::uint64_t epoch = rig.store.read().record.epoch;
  // This one has not looked since, and opens by what it knows; nobody else does.
  late->report(CallVerdict::open_for(5s));
  rig[0].talk();
  rig.look();
  EXPECT_EQ(rig.store.read().record.epoch, epoch);
  EXPECT_EQ(rig[0].state(), BreakerState::open);
  EXPECT_EQ(rig[1].state(), BreakerState::closed);
  EXPECT_EQ(rig[0].breaker.snapshot().late, 1U);
  EXPECT_EQ(rig[0].breaker.snapshot().failed, 3U);
}

TEST(FleetBreaker, ADirectiveOfAProbeInItsRoundOpensForAllAsLongAsItSays) {
  Rig rig(2);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  EXPECT_TRUE(rig[1].call(CallVerdict::open_for(9s)));
  rig.look();
  for (const auto& worker : rig.workers) {
    EXPECT_EQ(worker->state(), BreakerState::open);
    EXPECT_GE(worker->breaker.snapshot().until_probe, Nanos(8900ms));
  }
}

TEST(FleetBreaker, AnOldPermitDoesNotSettleANewProbeOfItsNumber) {
  Rig rig(1);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  auto old = rig[0].admit();
  ASSERT_TRUE(old);
  rig.store.redis.execute({"DEL", CircuitRig::kKey});
  rig.store.run({.kind = Kind::trip, .who = 99});
  rig.pass(1100ms);
  auto fresh = rig[0].admit();
  ASSERT_TRUE(fresh && fresh->is_probe());
  old->ok();
  rig[0].talk();
  EXPECT_EQ(rig.store.read().record.ok, 0U);
  fresh->ok();
  rig[0].talk();
  EXPECT_EQ(rig.store.read().record.ok, 1U);
  EXPECT_EQ(rig[0].breaker.snapshot().late, 1U);
}

TEST(FleetBreaker, AnOldPermitDoesNotSettleANewProbeAfterAFailoverThatForgotIt) {
  Rig rig(1);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  ASSERT_TRUE(rig[0].admit()) << "dropped at once: the round has begun";
  rig[0].talk();
  const testing::LuaRedis::Keys before = rig.store.redis.keys();
  rig.clock.advance(150ms);
  auto old = rig[0].admit();
  ASSERT_TRUE(old);
  rig.store.redis.restart_with(before);
  rig.clock.advance(150ms);
  auto fresh = rig[0].admit();
  ASSERT_TRUE(fresh && fresh->is_probe());
  old->ok();
  rig[0].talk();
  EXPECT_EQ(rig.store.read().record.ok, 0U);
  fresh->ok();
  rig[0].talk();
  EXPECT_EQ(rig.store.read().record.ok, 1U);
}

TEST(FleetBreaker, AProbesResultIsCountedOnceTheStoreHasSaidWhetherItCounted) {
  Rig rig(2, three_at_once());
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  auto probe = rig[0].admit();
  auto lost = rig[0].admit();
  ASSERT_TRUE(probe && lost);
  probe->ok();
  EXPECT_EQ(rig[0].breaker.snapshot().ok, 0U);
  rig[0].talk();
  EXPECT_EQ(rig[0].breaker.snapshot().ok, 1U);
  // One that the store never hears of did not vote.
  lost->ok();
  rig[0].core().share(nullptr, 0);
  EXPECT_EQ(rig[0].breaker.snapshot().ok, 1U);
  EXPECT_EQ(rig[0].breaker.snapshot().late, 1U);
}

TEST(FleetBreaker, AnAsyncCallIsTheProbe) {
  Rig rig(2);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  // In a thread that must not wait, as the rig's: admit() would never be the probe.
  EXPECT_FALSE(rig[0].breaker.admit());
  int answers = 0;
  for (int i = 0; i < 2; ++i) {
    run_async<int>(
        rig[0].breaker, [](AsyncCall<int> call) { call.value(7); },
        [&](Called<int> outcome) {
          ++answers;
          EXPECT_EQ(outcome.value(), 7);
        });
    rig[0].talk();
    rig.pass(150ms);
  }
  EXPECT_EQ(answers, 2);
  EXPECT_EQ(rig[0].state(), BreakerState::closed);
  EXPECT_EQ(rig[1].state(), BreakerState::closed);
}

TEST(FleetBreaker, ACallThatIsDroppedGivesTheSlotBack) {
  Rig rig(2);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  ASSERT_TRUE(rig[0].admit()) << "dropped at once";
  rig[0].talk();
  rig.pass(150ms);
  EXPECT_TRUE(rig[1].call(Outcome::ok));
  EXPECT_EQ(rig.store.read().record.failed, 0U);
}

TEST(FleetBreaker, ASlotThatComesTooLateForItsCallerGoesBack) {
  Rig rig(2);
  rig[0].calls(3, Outcome::failure);
  rig.pass(1s);
  std::optional<bool> admitted;
  rig[0].breaker.admit_async([&](Admission a) { admitted = a.admitted(); });
  const auto due = rig[0].core().fleet_due(true, rig.clock.mono());
  ASSERT_EQ(due.size(), 1U);
  rig[0].core().fleet_heard(due[0].ticket, nullptr, false, rig.clock.mono());
  EXPECT_EQ(admitted, std::optional(false)) << "the deadline is kept";
  rig.store.redis.set_now(rig.clock.now());
  const auto reply = rig.store.run(due[0].action);
  rig[0].core().fleet_heard(due[0].ticket, &reply, true, rig.clock.mono());
  rig[0].talk();
  rig.pass(150ms);
  EXPECT_TRUE(rig[1].call(Outcome::ok));
}

}  // namespace
}  // namespace weir
