// What drawn seeds once found, as short scenarios by hand: they keep their meaning when what is
// drawn changes.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "sim/audit.h"
#include "sim/fleet.h"
#include "sim/policies.h"
#include "sim/scenario.h"

namespace weir::sim {
namespace {

using namespace std::chrono_literals;

// Workers that divide by their numbers, on one store, with clocks that agree. Its first route is
// `hourly`: a hundred units, and a part of them without the store.
Scenario quiet_scenario() {
  Scenario scenario;
  scenario.seed = 1;
  scenario.length = 8s;
  scenario.warm_up = 100ms;
  scenario.walls.assign(kWorkers, 0ns);
  return scenario;
}

std::string all_of(const std::vector<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += fault + "\n";
  return text;
}

std::size_t decided_by(const History& history, Rung rung) {
  return static_cast<std::size_t>(std::count_if(
      history.records.begin(), history.records.end(),
      [rung](const Record& record) { return record.decision && record.decision->rung == rung; }));
}

// Worker 3 hears no replies: what the store charges is admitted from its part as well, and owed,
// and told with the next ask. It gives back what was too much once it hears of it. Meanwhile worker
// 1 has read the higher count, and brings it back to the store when that has lost its data: it
// cannot know of what was given back. That is on the safe side, and
// docs/concepts/failure.md says so.
TEST(PinnedScenario, WhatWasGivenBackMayComeBackWhereTheStoreLostItsData) {
  Scenario scenario = quiet_scenario();
  scenario.faults.push_back(
      {.kind = FaultKind::cut_down, .start = 2000ms, .length = 60ms, .worker = 3});
  scenario.faults.push_back({.kind = FaultKind::restart_empty, .start = 3000ms, .length = 100ms});
  for (const Nanos at : {2001ms, 2022ms, 2043ms})
    scenario.questions.push_back({.at = at, .worker = 3});
  scenario.questions.push_back({.at = 2050ms, .worker = 1});
  scenario.questions.push_back({.at = 5000ms, .worker = 1});
  const History history = run(scenario);
  EXPECT_EQ(decided_by(history, Rung::share), 2U) << "the third is heard of as all is mended";
  EXPECT_EQ(history.unknown[3], 0U) << "its connection stood";
  EXPECT_EQ(all_of(audit(history)), "");
  const Decision& last = *history.records.back().decision;
  ASSERT_EQ(last.rung, Rung::store);
  EXPECT_LT(last.rules()[0].remaining.value(), 95U) << "five were admitted, and two came back";
}

// Callers that ask alike go to the store as one; where not all fit, those who do ask once more. To
// a caller whose patience ends on the way the store was not there, however well it is.
TEST(PinnedScenario, WhoAsksInCompanyMayNeedMoreThanOneRoundTrip) {
  Scenario scenario = quiet_scenario();
  scenario.jitter = 3ms;
  scenario.length = 60s;
  for (Nanos at = 1s; at < 50s; at += 2500ms) {
    for (std::uint32_t caller = 0; caller < 4 * kWorkers; ++caller) {
      for (const std::size_t route : {1, 3, 4, 5}) {
        scenario.questions.push_back({.at = at,
                                      .worker = caller % kWorkers,
                                      .route = route,
                                      .cost = route == 5 ? 1U : 5U,
                                      .patience = 10ms});
      }
    }
  }
  const History history = run(scenario);
  EXPECT_GT(decided_by(history, Rung::share), 0U);
  EXPECT_EQ(all_of(audit(history)), "");
}

// Its timer and the store's answer have both come when it goes on, and it may turn to either first.
// Its unit is counted once all the same.
TEST(PinnedScenario, WhoeverIsStoppedAnswersAsItGoesOnAndWhatItHeardMeanwhileCountsOnce) {
  using First = testing::SimProcess::First;
  for (const First first : {First::longest_due, First::what_came, First::timers}) {
    SCOPED_TRACE(static_cast<int>(first));
    Scenario scenario = quiet_scenario();
    scenario.faults.push_back({.kind = FaultKind::pause,
                               .start = 2000ms + 100us,
                               .length = 100ms,
                               .worker = 1,
                               .first = first});
    scenario.questions.push_back({.at = 2000ms, .worker = 1});
    scenario.questions.push_back({.at = 2050ms, .worker = 1});
    const History history = run(scenario);
    EXPECT_EQ(all_of(audit(history)), "");
    const MonoTime goes_on = history.began + 2100ms + 100us;
    EXPECT_EQ(history.records[0].decided_at, goes_on);
    EXPECT_EQ(history.records[0].decision->rung,
              first == First::timers ? Rung::share : Rung::store);
    EXPECT_EQ(history.records[1].asked_at, goes_on) << "nobody was there to hear it before";
    EXPECT_EQ(history.records[1].decision->rung, Rung::store);
    EXPECT_EQ(history.unknown[1], 0U);
    EXPECT_EQ(history.records.back().decision->rules()[0].remaining, 98U);
  }
}

// A worker is asked to leave while it is stopped: it does as it goes on, and then another takes its
// place and settles what it had served, although the time at which that was to come has passed.
TEST(PinnedScenario, WhoIsToLeaveWhileItIsStoppedIsReplacedOnceItHasLeft) {
  Scenario scenario = quiet_scenario();
  scenario.meters = true;
  scenario.within = 20ms;
  scenario.disks.assign(kWorkers, 1ms);
  scenario.members = true;
  scenario.tenures.assign(kWorkers, {.lasts = true, .disk = 1ms, .joins_at = {}});
  scenario.warm_up = 12s;
  scenario.length = 14s;
  scenario.faults.push_back({.kind = FaultKind::outage, .start = 1s, .length = 8s});
  scenario.faults.push_back({.kind = FaultKind::pause, .start = 2s, .length = 4s, .worker = 2});
  scenario.faults.push_back({.kind = FaultKind::leave, .start = 3s, .length = 500ms, .worker = 2});
  scenario.faults.push_back({.kind = FaultKind::ledger_away, .start = 1s, .length = 9s});
  for (Nanos at = 1500ms; at < 2s; at += 100ms)
    scenario.questions.push_back({.at = at, .worker = 2, .route = flood_route() + 1});
  const History history = run(scenario);
  EXPECT_EQ(all_of(audit(history)), "");
  EXPECT_TRUE(history.there[2]);
  EXPECT_GT(decided_by(history, Rung::share) + decided_by(history, Rung::journal), 2U);
  EXPECT_GT(history.billed.size(), 2U);
}

// A process is stopped between its answer and the disk, and killed there: what it was to write
// within 20 ms it had no time to.
TEST(PinnedScenario, WhoIsKilledWhileItIsStoppedHadNoTimeToWrite) {
  Scenario scenario = quiet_scenario();
  scenario.meters = true;
  scenario.within = 20ms;
  scenario.disks.assign(kWorkers, 1ms);
  scenario.faults.push_back({.kind = FaultKind::pause, .start = 2s, .length = 4s, .worker = 1});
  scenario.faults.push_back(
      {.kind = FaultKind::crash_worker, .start = 4s, .length = 1s, .worker = 1});
  scenario.questions.push_back({.at = 2s - 10ms, .worker = 1, .route = flood_route() + 1});
  scenario.questions.push_back({.at = 3s, .worker = 1, .route = flood_route() + 1});
  const History history = run(scenario);
  EXPECT_EQ(all_of(audit(history)), "");
  EXPECT_EQ(history.records[0].decision->rung, Rung::store);
  EXPECT_TRUE(history.billed.empty());
  ASSERT_EQ(history.pauses.size(), 1U);
  EXPECT_TRUE(history.pauses[0].killed);
}

// A master that is cut off with workers 0 and 1, which go on asking it: from half of the time on a
// replica counts for the others, from three quarters on the old one is its replica, and at the end
// its workers hear of it.
Scenario split_scenario() {
  Scenario scenario = quiet_scenario();
  scenario.length = 14s;
  scenario.faults.push_back(
      {.kind = FaultKind::split, .start = 2000ms, .length = 2000ms, .side = 0b11});
  const auto ask_all_of_the_window = [&](Nanos at, std::uint32_t worker) {
    for (int i = 0; i < 12; ++i)
      scenario.questions.push_back({.at = at + i * 10ms, .worker = worker, .route = 1});
  };
  ask_all_of_the_window(2100ms, 0);
  ask_all_of_the_window(3100ms, 2);
  ask_all_of_the_window(8000ms, 2);
  ask_all_of_the_window(8000ms, 0);
  ask_all_of_the_window(11s, 0);  // the next window
  ask_all_of_the_window(11s, 2);
  return scenario;
}

std::uint64_t admitted_between(const History& history, Nanos from, Nanos until) {
  std::uint64_t sum = 0;
  for (const Record& record : history.records) {
    const Nanos at = record.asked_at - history.began;
    if (at >= from && at < until && record.decision->allowed()) sum += record.question.cost;
  }
  return sum;
}

TEST(PinnedScenario, AMasterThatIsCutOffAndCountsOnIsOneLoss) {
  const History history = run(split_scenario());
  EXPECT_EQ(all_of(audit(history)), "");
  EXPECT_EQ(admitted_between(history, 2s, 3s), 12U) << "on the old master's side";
  EXPECT_EQ(admitted_between(history, 2s, 10s), 24U) << "and as much on the other, and no more";
  EXPECT_EQ(admitted_between(history, 11s, 14s), 12U) << "one master, one limit";
}

TEST(PinnedScenario, AMasterThatIsNeverToldOfAnotherIsSeen) {
  const History history = run(split_scenario(), Canary::never_demoted);
  EXPECT_EQ(admitted_between(history, 11s, 14s), 24U);
  EXPECT_NE(all_of(audit(history)), "");
}

}  // namespace
}  // namespace weir::sim
