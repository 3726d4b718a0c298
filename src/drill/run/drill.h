#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "drill/load/histogram.h"
#include "drill/scenario/scenario.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::drill {

struct DrillOptions {
  std::string policy;  // path
  std::string weir_program;
  double rate = 50;            // calls a second, of each route
  std::uint32_t clients = 12;  // of each route; the first asks twenty times as often as another
  std::uint64_t seed = 1;
};

// How the calls of some stretch went.
struct Tally {
  std::uint64_t calls = 0;
  std::uint64_t allowed = 0;
  std::uint64_t limited = 0;
  std::uint64_t refused = 0;
  std::uint64_t other = 0;                     // any other status
  std::uint64_t unanswered = 0;                // no answer at all
  std::map<std::string, std::uint64_t> rungs;  // of those answered with a verdict
  Histogram latency;                           // from when the call was due

  void add(const Tally& more);
};

// One counter's rule against what it may admit.
struct BoundCheck {
  std::string route;
  std::string rule;
  std::uint64_t admitted = 0;         // the most that one key was admitted in one window
  std::uint64_t limit = 0;            // while the store answers
  std::optional<std::uint64_t> most;  // by the policy, over this scenario; absent: unbounded
  bool held() const noexcept { return !most || admitted <= *most; }
};

struct Expectation {
  std::string text;
  bool met = false;
  std::string found;  // what was, in words
};

struct DrillReport {
  Scenario scenario;
  std::vector<std::string> routes;
  std::vector<std::vector<Tally>> tallies;  // [phase][route]
  // Calls a tenth of a second, of all routes, by verdict, and the longest wait.
  struct Moment {
    std::uint32_t allowed = 0, limited = 0, refused = 0, failed = 0, degraded = 0;
    Nanos slowest{0};
  };
  std::vector<Moment> moments;
  static constexpr Nanos kMoment{std::chrono::milliseconds(100)};

  std::vector<BoundCheck> bounds;
  bool came_back = false;         // the store decided at the end
  std::optional<Nanos> recovery;  // from the end of the faults until the store decided again
  std::uint64_t breaker_openings = 0;
  std::size_t log_lines = 0;
  std::vector<Expectation> expectations;
  bool good() const noexcept;
};

using OnPhase = std::function<void(const Phase& phase, Nanos passed, Nanos whole)>;

// Runs a scenario against a server of its own under load, and says what became of it.
//
// Errors:      invalid_argument (the policy; a policy with no route to ask); unavailable (what
// could
//              not be started).
Result<DrillReport> run_drill(const DrillOptions& options, const Scenario& scenario,
                              const OnPhase& on_phase = {});

std::string to_text(const DrillReport& report);
std::string to_json(const DrillReport& report);
// One page that needs nothing else: timelines as pictures, figures beneath.
std::string to_html(const DrillReport& report);

}  // namespace weir::drill
