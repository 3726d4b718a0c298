// A fleet in simulated time. `WEIR_SIM_SEED=N weir_sim_tests --gtest_filter='*Seeds'` replays one
// run; WEIR_SIM_SECONDS says for how long seeds are drawn, WEIR_SIM_FIRST where they begin,
// WEIR_SIM_WORKERS how many workers a fleet has.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "sim/audit.h"
#include "sim/fleet.h"
#include "sim/policies.h"
#include "sim/scenario.h"

namespace weir::sim {
namespace {

using WallClock = std::chrono::steady_clock;

// Seeds that once found a fault: of Weir's, of the audit's, or planted to see whether it would be
// found.
constexpr std::array<std::uint64_t, 26> kKept{
    1,      42,     1316,   6228,   20065,  70003,  70004,  70005,  70006,
    70012,  70068,  70105,  70186,  70190,  70246,  70370,  100399, 100494,
    100888, 101065, 101336, 102468, 200556, 200590, 300218, 700317};

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

// Empty: the run kept everything.
std::string faults_of(std::uint64_t seed, Canary canary = Canary::none) {
  const Scenario scenario = draw(seed);
  const auto faults = audit(run(scenario, canary));
  if (faults.empty()) return {};
  std::string text = scenario.text();
  for (const std::string& fault : faults) text += "    " + fault + "\n";
  return text + "  replay: WEIR_SIM_WORKERS=" + std::to_string(kWorkers) +
         " WEIR_SIM_SEED=" + std::to_string(seed) +
         " weir_sim_tests --gtest_filter='Fleet.KeepsItsPromisesUnderDrawnSeeds'\n";
}

TEST(Fleet, KeepsItsPromisesUnderDrawnSeeds) {
  if (const char* seed = std::getenv("WEIR_SIM_SEED"); seed != nullptr) {
    EXPECT_EQ(faults_of(std::strtoull(seed, nullptr, 10)), "");
    return;
  }
  const std::chrono::seconds time(number_of("WEIR_SIM_SECONDS", 12));
  const std::uint64_t most = number_of("WEIR_SIM_RUNS", 1'000'000'000);
  std::uint64_t seed = number_of("WEIR_SIM_FIRST", 5'000);
  const auto began = WallClock::now();
  std::uint64_t runs = 0;
  int failed = 0;
  // However slow the machine is, so many.
  const std::uint64_t least = std::min<std::uint64_t>(most, kWorkers > 4 ? 5 : 20);
  for (; runs < most && (runs < least || WallClock::now() - began < time) && failed < 5;
       ++runs, ++seed) {
    const std::string faults = faults_of(seed);
    EXPECT_EQ(faults, "");
    if (!faults.empty()) ++failed;
  }
  const double seconds = std::chrono::duration<double>(WallClock::now() - began).count();
  std::printf("%u workers: %llu runs, %.0f a minute\n", kWorkers,
              static_cast<unsigned long long>(runs), static_cast<double>(runs) * 60 / seconds);
  EXPECT_TRUE(runs >= least || failed > 0) << runs;
}

TEST(Fleet, KeepsItsPromisesUnderKeptSeeds) {
  for (const std::uint64_t seed : kKept) EXPECT_EQ(faults_of(seed), "");
}

TEST(Fleet, RunsTheSameForTheSameSeed) {
  const History one = run(draw(42));
  const History two = run(draw(42));
  EXPECT_EQ(one.events, two.events);
  ASSERT_EQ(one.records.size(), two.records.size());
  for (std::size_t i = 0; i < one.records.size(); ++i) {
    EXPECT_EQ(one.records[i].decided_at, two.records[i].decided_at);
    EXPECT_EQ(one.records[i].decision->rung, two.records[i].decision->rung);
    EXPECT_EQ(one.records[i].decision->verdict, two.records[i].decision->verdict);
  }
}

TEST(Fleet, DrawsWhatIsWorthRunning) {
  std::array<int, kFaultKinds> drawn{};
  for (std::uint64_t seed = 0; seed < 1'000; ++seed) {
    const Scenario scenario = draw(seed);
    EXPECT_GE(scenario.questions.size(), 300U);
    std::size_t kinds = 0;
    for (std::size_t kind = 0; kind < kFaultKinds; ++kind) {
      if (!scenario.has(static_cast<FaultKind>(kind))) continue;
      ++kinds;
      ++drawn[kind];
    }
    EXPECT_GE(kinds, 2U) << seed;
  }
  for (std::size_t kind = 0; kind < kFaultKinds; ++kind) {
    EXPECT_GE(drawn[kind], 20) << to_string(static_cast<FaultKind>(kind));
  }
}

// Some faults can show in few of the runs alone; the others need not be run.
bool can_show(Canary canary, std::uint64_t seed) {
  switch (canary) {
    case Canary::deaf_while_stopped:
      return draw(seed).has(FaultKind::pause);
    case Canary::never_demoted:
      return draw(seed).has(FaultKind::split);
    default:
      return true;
  }
}

// A harness that finds nothing of these would find nothing.
class Canaries : public ::testing::TestWithParam<Canary> {};

TEST_P(Canaries, AreFound) {
  constexpr std::uint64_t kRuns = 2'000;  // most are found in the first ten
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    if (can_show(GetParam(), seed) && !faults_of(seed, GetParam()).empty()) return;
  }
  ADD_FAILURE() << "not found in " << kRuns << " runs";
}

INSTANTIATE_TEST_SUITE_P(
    Planted, Canaries,
    ::testing::Values(Canary::owed_twice, Canary::runs_twice, Canary::whole_limits,
                      Canary::no_expiry, Canary::runs_late, Canary::forgets_the_silent,
                      Canary::seen_unread, Canary::echoes, Canary::fallback_forgets,
                      Canary::stays_behind, Canary::one_for_all, Canary::deaf_while_stopped,
                      Canary::never_demoted, Canary::disk_lies, Canary::ledger_swallows,
                      Canary::ledger_forgets, Canary::bills_refused, Canary::cap_renewed,
                      Canary::names_dropped, Canary::names_forgotten, Canary::settled_unsaid,
                      Canary::ends_forgotten));

}  // namespace
}  // namespace weir::sim
