// A fleet in simulated time. `WEIR_SIM_SEED=N weir_sim_tests --gtest_filter='*Seeds'` replays one
// run; WEIR_SIM_SECONDS says for how long seeds are drawn, WEIR_SIM_FIRST where they begin,
// WEIR_SIM_WITH=pause,metered which faults they must have (or that they meter), WEIR_SIM_WORKERS
// how many workers a fleet has.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "sim/audit.h"
#include "sim/fleet.h"
#include "sim/policies.h"
#include "sim/scenario.h"

namespace weir::sim {
namespace {

using WallClock = std::chrono::steady_clock;

// Seeds that once found a fault: of Weir's, of the audit's, or planted to see whether it would be
// found.
constexpr std::array<std::uint64_t, 29> kKept{
    1,      42,     1316,   6228,   20065,  70003,  70004,   70005,   70006,  70012,
    70068,  70105,  70186,  70190,  70246,  70370,  100399,  100494,  100888, 101065,
    101336, 102468, 200556, 200590, 300218, 700317, 2000111, 2000321, 2100077};

std::uint64_t number_of(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

bool is_a_kind(std::string_view word) {
  for (std::size_t i = 0; i < kFaultKinds; ++i)
    if (to_string(static_cast<FaultKind>(i)) == word) return true;
  return word == "metered";
}

// Whether a run has everything that WEIR_SIM_WITH names.
bool is_wanted(std::uint64_t seed) {
  const char* text = std::getenv("WEIR_SIM_WITH");
  if (text == nullptr) return true;
  const Scenario scenario = draw(seed);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view word = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    if (!is_a_kind(word))
      throw std::invalid_argument("WEIR_SIM_WITH: no fault: " + std::string(word));
    const auto named = [word](const Fault& fault) { return to_string(fault.kind) == word; };
    const bool there = std::any_of(scenario.faults.begin(), scenario.faults.end(), named) ||
                       (word == "metered" && scenario.meters);
    if (!there) return false;
  }
  return true;
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
  for (; runs < most && (runs < least || WallClock::now() - began < time) && failed < 5; ++seed) {
    if (!is_wanted(seed)) continue;
    ++runs;
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

// A fault planted, and a seed that shows it in a fleet of four and in one of sixteen.
struct Planted {
  Canary canary;
  const char* name;
  std::uint64_t shown_by_four = 1;
  std::uint64_t shown_by_sixteen = 1;

  friend void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }
};

// A harness that finds nothing of these would find nothing.
class Canaries : public ::testing::TestWithParam<Planted> {};

TEST_P(Canaries, AreFound) {
  constexpr std::uint64_t kRuns = 2'000;  // where what is drawn has changed since
  const auto found = [](std::uint64_t seed) {
    const Canary canary = GetParam().canary;
    if (!can_show(canary, seed) || faults_of(seed, canary).empty()) return false;
    std::printf("shown by seed %llu\n", static_cast<unsigned long long>(seed));
    return true;
  };
  if (found(kWorkers > 4 ? GetParam().shown_by_sixteen : GetParam().shown_by_four)) return;
  for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
    if (found(seed)) return;
  }
  ADD_FAILURE() << "not found in " << kRuns << " runs";
}

INSTANTIATE_TEST_SUITE_P(
    Planted, Canaries,
    ::testing::Values(Planted{Canary::owed_twice, "owed_twice", 74, 4},
                      Planted{Canary::runs_twice, "runs_twice", 1, 1},
                      Planted{Canary::whole_limits, "whole_limits", 1, 3},
                      Planted{Canary::no_expiry, "no_expiry", 1, 1},
                      Planted{Canary::runs_late, "runs_late", 1, 2},
                      Planted{Canary::forgets_the_silent, "forgets_the_silent", 17, 58},
                      Planted{Canary::seen_unread, "seen_unread", 1297, 23},
                      Planted{Canary::echoes, "echoes", 1, 1},
                      Planted{Canary::fallback_forgets, "fallback_forgets", 8, 7},
                      Planted{Canary::stays_behind, "stays_behind", 4, 50},
                      Planted{Canary::one_for_all, "one_for_all", 11, 16},
                      Planted{Canary::deaf_while_stopped, "deaf_while_stopped", 62, 75},
                      Planted{Canary::never_demoted, "never_demoted", 2, 62},
                      Planted{Canary::disk_lies, "disk_lies", 32, 19},
                      Planted{Canary::ledger_swallows, "ledger_swallows", 1, 1},
                      Planted{Canary::ledger_forgets, "ledger_forgets", 5, 4},
                      Planted{Canary::bills_refused, "bills_refused", 1, 1},
                      Planted{Canary::cap_renewed, "cap_renewed", 18, 734},
                      Planted{Canary::names_dropped, "names_dropped", 1, 1},
                      Planted{Canary::names_forgotten, "names_forgotten", 18, 84},
                      Planted{Canary::settled_unsaid, "settled_unsaid", 1, 1},
                      Planted{Canary::ends_forgotten, "ends_forgotten", 12, 4}),
    [](const auto& planted) { return std::string(planted.param.name); });

}  // namespace
}  // namespace weir::sim
