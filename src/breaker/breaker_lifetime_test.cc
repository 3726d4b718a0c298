#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "testing/breaker_rig.h"
#include "weir/breaker_call.h"
#include "weir/breaker_registry.h"

// What ends before what: registries, handles, permits and who hears of events.

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::BreakerRig;
using testing::ManualClock;

TEST(BreakerLifetime, APermitOutlivesTheRegistryAndTheHandleItCameFromWhereAnotherHandleLives) {
  ManualClock clock;
  auto registry = std::make_unique<BreakerRegistry>(BreakerOptions{.clock = &clock});
  auto asked = std::make_unique<Breaker>(registry->put("mail", BreakerRig::config()).value());
  Breaker kept = *asked;
  std::vector<Permit> permits;
  for (int i = 0; i < 3; ++i) permits.push_back(std::move(asked->admit().permit()));
  asked.reset();
  registry.reset();
  for (Permit& permit : permits) permit.failure();
  EXPECT_EQ(kept.state(), BreakerState::open) << "they still vote";
  EXPECT_EQ(kept.snapshot().failed, 3U);
}

TEST(BreakerLifetime, AProbeOfABreakerThatWasTakenOffTheListStillGivesItsSlotBack) {
  ManualClock clock;
  BreakerRegistry registry({.clock = &clock});
  Breaker kept = registry.put("mail", BreakerRig::config()).value();
  kept.trip();
  clock.advance(1s);
  {
    Admission probe = kept.admit();
    ASSERT_TRUE(probe && probe.permit().is_probe());
    ASSERT_TRUE(registry.remove("mail"));
    EXPECT_FALSE(registry.find("mail"));
    EXPECT_EQ(kept.snapshot().probes_in_flight, 1U);
  }
  EXPECT_EQ(kept.snapshot().probes_in_flight, 0U);
  // And the one that takes its name begins anew.
  EXPECT_EQ(registry.put("mail", BreakerRig::config()).value().state(), BreakerState::closed);
}

TEST(BreakerLifetime, AListHoldsABreakerWhoseEveryOtherHandleIsGone) {
  ManualClock clock;
  BreakerRegistry registry({.clock = &clock});
  (void)registry.put("mail", BreakerRig::config()).value();
  Permit permit = std::move(registry.find("mail")->admit().permit());
  permit.failure();
  EXPECT_EQ(registry.find("mail")->snapshot().failed, 1U);
}

TEST(BreakerLifetime, ACallUnderWayKeepsItsBreakerWhenTheRegistryAndAllHandlesAreGone) {
  ManualClock clock;
  std::optional<AsyncCall<int>> under_way;
  int answers = 0;
  {
    BreakerRegistry registry({.clock = &clock});
    Breaker breaker = registry.put("mail", BreakerRig::config()).value();
    breaker.trip();
    clock.advance(1s);
    run_async<int>(
        breaker, [&](AsyncCall<int> call) { under_way = std::move(call); },
        [&](Called<int> outcome) { answers += outcome.value(); });
    ASSERT_TRUE(under_way);
  }
  under_way.reset();  // its probe's slot goes back to a breaker that nobody else holds
  EXPECT_EQ(answers, 0) << "it was dropped";
}

// Whoever hears of events may go before the breaker, which keeps what it was given, and not longer.
TEST(BreakerLifetime, WhoHearsOfEventsLivesAsLongAsTheBreakerAndNoLonger) {
  ManualClock clock;
  auto heard = std::make_shared<std::vector<BreakerEvent>>();
  const std::weak_ptr<std::vector<BreakerEvent>> seen = heard;
  auto registry = std::make_unique<BreakerRegistry>(
      BreakerOptions{.clock = &clock,
                     .listener = [heard](const BreakerEvent& event) { heard->push_back(event); }});
  std::optional<Breaker> breaker = registry->put("mail", BreakerRig::config()).value();
  heard.reset();
  registry.reset();
  breaker->trip();
  breaker->close();
  ASSERT_FALSE(seen.expired());
  EXPECT_EQ(seen.lock()->size(), 2U);
  breaker.reset();
  EXPECT_TRUE(seen.expired());
}

// And what was heard may be looked at when the breaker is gone, but for its name.
TEST(BreakerLifetime, WhatAnEventSaysOfAnOrderOutlivesItsBreaker) {
  ManualClock clock;
  std::vector<BreakerEvent> heard;
  {
    Breaker breaker =
        Breaker::make("mail", BreakerRig::config(),
                      {.clock = &clock,
                       .listener = [&](const BreakerEvent& event) { heard.push_back(event); }})
            .value();
    ASSERT_TRUE(breaker
                    .set_mode({.mode = BreakerMode::forced_open,
                               .by = "ada",
                               .reason = "they move",
                               .lasts = 1min})
                    .has_value());
    breaker.set_mode(BreakerMode::automatic);
  }
  ASSERT_EQ(heard.size(), 2U);
  ASSERT_TRUE(heard[0].order);
  EXPECT_EQ(heard[0].order->by, "ada");
  EXPECT_EQ(heard[0].order->reason, "they move");
  EXPECT_EQ(heard[0].order->lasts, Nanos(1min));
}

// A thread that ends takes its counters' stripe with it; what it counted stays.
TEST(BreakerLifetime, WhatThreadsThatAreGoneCountedIsStillCounted) {
  BreakerRig rig;
  for (int i = 0; i < 50; ++i) std::thread([&] { rig.calls(2, Outcome::ok); }).join();
  EXPECT_EQ(rig.breaker.snapshot().ok, 100U);
}

// ---- a call is counted once

TEST(PermitReport, ThatIsMadeAgainByWhoHearsOfItIsCountedOnce) {
  // The listener is told within the report, before the permit has been let go of.
  ManualClock clock;
  Permit last;
  int told = 0;
  Breaker breaker = Breaker::make("mail", BreakerRig::config(),
                                  {.clock = &clock,
                                   .listener =
                                       [&](const BreakerEvent&) {
                                         ++told;
                                         last.failure();
                                       }})
                        .value();
  for (int i = 0; i < 2; ++i) breaker.admit().permit().failure();
  last = std::move(breaker.admit().permit());
  last.failure();
  EXPECT_EQ(told, 1);
  const BreakerSnapshot shot = breaker.snapshot();
  EXPECT_EQ(shot.failed, 3U);
  EXPECT_EQ(shot.late, 0U);
}

TEST(PermitReport, OfAProbeThatIsMadeAgainByWhoHearsOfItIsCountedOnceAndFreesOneSlot) {
  ManualClock clock;
  Permit probe;
  BreakerConfig config = BreakerRig::config();
  config.probe_successes = 1;
  Breaker breaker =
      Breaker::make("mail", config,
                    {.clock = &clock, .listener = [&](const BreakerEvent&) { probe.ok(); }})
          .value();
  breaker.trip();
  clock.advance(1s);
  probe = std::move(breaker.admit().permit());
  ASSERT_TRUE(probe.is_probe());
  probe.ok();
  const BreakerSnapshot shot = breaker.snapshot();
  EXPECT_EQ(shot.state, BreakerState::closed);
  EXPECT_EQ(shot.ok, 1U);
  EXPECT_EQ(shot.late, 0U);
}

TEST(PermitReport, MayEndThePermitThatIsReported) {
  // Whoever keeps its calls in a table and empties it when the breaker opens.
  ManualClock clock;
  std::vector<std::unique_ptr<Permit>> calls;
  Breaker breaker =
      Breaker::make("mail", BreakerRig::config(),
                    {.clock = &clock, .listener = [&](const BreakerEvent&) { calls.clear(); }})
          .value();
  for (int i = 0; i < 3; ++i)
    calls.push_back(std::make_unique<Permit>(std::move(breaker.admit().permit())));
  for (std::size_t i = 0; i < 3; ++i) calls[i]->failure();
  EXPECT_TRUE(calls.empty());
  EXPECT_EQ(breaker.state(), BreakerState::open);
  EXPECT_EQ(breaker.snapshot().failed, 3U);
}

TEST(PermitReport, EveryCallIsInExactlyOneOfTheCountersHoweverItEnds) {
  BreakerRig rig;
  std::uint64_t made = 0;
  const auto call = [&](Outcome outcome) {
    Admission admission = rig.breaker.admit();
    if (!admission) return;
    ++made;
    admission.permit().report(outcome);
    admission.permit().report(outcome);  // ignored
    Permit moved = std::move(admission.permit());
    moved.report(outcome);  // nor has it one to give
  };
  for (int round = 0; round < 20; ++round)
    for (const Outcome outcome :
         {Outcome::ok, Outcome::failure, Outcome::slow, Outcome::ignored, Outcome::cancelled,
          Outcome::local_reject, Outcome::expired, Outcome::failure, Outcome::failure}) {
      call(outcome);
      rig.pass(300ms);
    }
  const BreakerSnapshot shot = rig.breaker.snapshot();
  EXPECT_GT(shot.opened, 0U);
  EXPECT_GT(shot.rejected, 0U);
  EXPECT_EQ(shot.ok + shot.failed + shot.slow_calls + shot.ignored + shot.cancelled +
                shot.local_rejects + shot.late,
            made);
}

}  // namespace
}  // namespace weir
