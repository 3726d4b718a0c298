#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "drill/run/tally.h"
#include "drill/scenario/scenario.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::drill {

struct DrillOptions {
  std::string policy;  // path
  std::string weir_program;
  double rate = 50;            // calls a second, of each route
  std::uint32_t clients = 12;  // of each route; the first asks twenty times as often as another
  std::uint64_t cost = 1;      // units that each call takes
  std::uint64_t seed = 1;
  // A Redis that is there already, redis://…; empty: one is started. Only keys of a prefix of the
  // drill's own are touched there.
  std::string store;
};

// How the calls to one route went: all, and those of each kind of client.
struct RouteTally {
  Tally all;
  std::array<Tally, kClientKinds> kinds;
  const Tally& of(ClientKind kind) const { return kinds[static_cast<std::size_t>(kind)]; }
};

// One counter's rule against what it may admit.
struct BoundCheck {
  std::string route;
  std::string rule;
  bool spared = false;         // of keys on masters that the faults do not strike
  std::uint64_t admitted = 0;  // the most that one key was admitted in one window
  // Of that key, each moment: what it was admitted in the window that stands then, so far.
  std::vector<std::uint64_t> timeline;
  std::uint64_t limit = 0;            // while the store answers
  std::optional<std::uint64_t> most;  // by the policy, over this scenario; absent: unbounded
  bool held() const noexcept { return !most || admitted <= *most; }
};

struct Expectation {
  std::string text;
  bool met = false;
  std::string found;  // what was, in words
};

// What `weir explain --outage` says of the scenario's faults, beside what was.
struct Forecast {
  struct Row {
    std::string what;
    std::optional<std::uint64_t> predicted;  // at most; absent: unbounded
    std::uint64_t measured = 0;
    bool is_time = false;  // milliseconds
    bool is_bound = true;  // else what is predicted is what to expect, and no most
    bool held() const noexcept { return !is_bound || !predicted || measured <= *predicted; }
  };
  std::vector<Row> rows;  // none where nothing was predicted
};

// What one metered rule's calls came to, on both sides, in units.
struct UsageCheck {
  std::string route;
  std::string rule;
  std::uint64_t served = 0;          // as the callers saw it
  std::uint64_t unanswered = 0;      // what became of these their callers do not know
  std::uint64_t billed = 0;          // units in the ledger
  std::uint64_t overspent = 0;       // of these, beyond this worker's part
  std::uint64_t most_overspent = 0;  // of one key in one window
  std::optional<std::uint64_t> cap;  // on that; absent: none
  bool nothing_lost() const noexcept { return billed >= served; }
  bool nothing_more() const noexcept { return billed <= served + unanswered; }
  bool capped() const noexcept { return !cap || most_overspent <= *cap; }
};

// What became of the usage of metered rules.
struct UsageReport {
  std::vector<UsageCheck> rules;
  std::uint64_t of_nobody = 0;   // units in the ledger of no rule that was asked
  std::uint64_t journalled = 0;  // events
  std::uint64_t settled = 0;
  std::uint64_t unsettled = 0;
  std::uint64_t put_aside = 0;
  std::optional<Nanos> settled_after;  // the last call; absent: not while the drill looked
  std::string fault;                   // of journal or ledger, if they do not agree
};

struct DrillReport {
  Scenario scenario;
  std::string subject;        // what was drilled: the policy's path, or the address of the API
  std::string policy_text;    // without credentials; empty where it is no one file
  std::string store_version;  // empty: not known
  std::string machine;
  std::string began;
  std::uint64_t cost = 1;  // units of each call; what is admitted, served and billed is in units
  std::vector<std::string> routes;
  std::vector<std::vector<RouteTally>> tallies;  // [phase][route]
  // Calls a tenth of a second, of all routes, by verdict, and the longest wait.
  struct Moment {
    std::uint32_t allowed = 0, limited = 0, refused = 0, failed = 0, degraded = 0;
    std::map<std::string, std::uint32_t> rungs;
    Nanos slowest{0};
  };
  std::vector<Moment> moments;
  static constexpr Nanos kMoment{std::chrono::milliseconds(100)};

  // What an API of somebody's turned out to do in each phase, in words; of Weir's own: none.
  std::vector<std::string> findings;
  std::vector<BoundCheck> bounds;
  Forecast forecast;
  std::optional<UsageReport> usage;  // of a policy that meters
  // From the first fault: until an answer was given without the store, and until a breaker of
  // Weir's had opened, so that nobody waited for it any more. Absent where it did not happen.
  std::optional<Nanos> first_degraded;
  std::optional<Nanos> breaker_opened;
  bool came_back = false;         // the store decided at the end
  std::optional<Nanos> recovery;  // from the end of the faults until the store decided again
  std::optional<std::uint64_t> breaker_openings;  // of Weir
  std::optional<std::size_t> log_lines;
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
