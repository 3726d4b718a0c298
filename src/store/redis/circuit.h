#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/reply_reader.h"
#include "store/redis/store_call.h"
#include "weir/breaker_config.h"
#include "weir/clock.h"

namespace weir::store::redis {

// One action on a breaker that a fleet shares: see scripts/circuit.lua.
struct CircuitAction {
  enum class Kind : std::uint8_t {
    read,
    vote,    // what this worker's own window says: enough calls, and good or bad
    trip,    // open, whatever the others say: the dependency said so
    probe,   // may this worker let one call through?
    settle,  // how that call ended
    force,   // an operator
  };
  enum class Flag : std::uint8_t {
    none,
    bad,           // vote
    still_bad,     // vote: by what was seen a while ago, which opens nothing where it is alone
    good,          // vote
    ok,            // settle
    failed,        // settle
    neither,       // settle
    automatic,     // force
    forced_open,   // force
    forced_closed  // force
  };

  Kind kind = Kind::read;
  std::uint64_t who = 0;    // this process: drawn at random
  std::uint64_t epoch = 0;  // the latest it has read; 0: none
  std::uint32_t round = 0;  // settle: of the probe
  Flag flag = Flag::none;
  Nanos lasts{0};                       // vote: how long it counts; force: 0 for good
  std::uint32_t probe = 0;              // settle: its number
  Nanos wanted{0};                      // a wait that the dependency asked for
  std::int32_t jitter_thousandths = 0;  // of the wait, should this open it; -500 to 500
  std::string by{};                     // force: who, and why; at most 64 and 200 bytes
  std::string reason{};
};

struct CircuitRecord {
  enum class State : std::uint8_t { closed, open, half_open, recovering };
  enum class Mode : std::uint8_t { automatic, forced_open, forced_closed };
  struct Vote {
    std::uint64_t who = 0;
    bool bad = false;
    Instant till{};
  };
  struct Probe {
    std::uint64_t who = 0;
    std::uint32_t number = 0;
    Instant till{};
  };

  State state = State::closed;
  std::uint64_t epoch = 0;  // counts the changes; of another record, none of this one's
  std::uint32_t round = 0;  // counts the half-open times
  std::uint32_t openings = 0;
  Instant since{};
  Instant until{};  // open: of the wait; half-open: of the round; recovering: of the ramp
  Mode mode = Mode::automatic;
  Instant mode_until{};  // automatic: when it was set; zero: never
  std::string by;        // of the mode: who set it, and why
  std::string reason;
  std::uint32_t ok = 0;
  std::uint32_t failed = 0;
  std::vector<Vote> votes;
  std::vector<Probe> probes;  // those that are overdue, too, until somebody writes
};

struct CircuitReply {
  enum class Outcome : std::uint8_t { done, probe_may_go, no_probe, stale };
  Outcome outcome = Outcome::done;
  std::uint32_t probe = 0;  // probe_may_go: its number
  bool repaired = false;    // something else stood at the key
  Instant now{};            // the store's clock
  bool kept = false;  // there is a record; without one the breaker is closed, and nobody knows more
  CircuitRecord record;
};

// Of the workers that report, so many thousandths open it, and at least two where there are two.
inline constexpr std::uint32_t kCircuitQuorum = 300;
inline constexpr std::uint32_t kMostVoters = 1'024;

// Requires: check_breaker_config() finds nothing.
std::vector<std::string> circuit_arguments(const CircuitAction& action,
                                           const BreakerConfig& config);
// The keys: the record, and what changes with every change of any breaker's.
StoreCall circuit_call(const CircuitAction& action, const BreakerConfig& config, std::string key,
                       std::string changes_key);
// Reads what stands of several; `keys` begin with the changes' key.
StoreCall circuits_call(std::vector<std::string> keys);

// False: not a reply of the script.
bool read_circuit(const Reply& reply, CircuitReply& out);

// What a reading of several brought: a record that is damaged counts as none.
struct CircuitsReply {
  Instant now{};
  std::string changes;                                // empty: none is kept
  std::vector<std::optional<CircuitRecord>> records;  // as they were asked for
};
bool read_circuits(const Reply& reply, std::size_t records, CircuitsReply& out);

// How long a ramp takes from its first step to closed, where every step holds.
Nanos ramp_length(const BreakerConfig& config);

}  // namespace weir::store::redis
