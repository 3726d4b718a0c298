#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/policies.h"
#include "sim/scenario.h"
#include "sim/worker.h"
#include "testing/sim/sim_loop.h"
#include "testing/sim/sim_redis.h"

namespace weir::sim {

// A fault of Weir's own, planted in its surroundings: an audit that does not find it is worth
// nothing.
enum class Canary : std::uint8_t {
  none,
  owed_twice,    // the store forgets what each worker has told of what it owes
  runs_twice,    // every ask is carried out twice, as by a client that retries
  whole_limits,  // every worker takes the whole limit for its part
  no_expiry,     // keys lose their time to live
};

// One ask and what came of it.
struct Record {
  Question question;
  bool last = false;              // of the end of the run, when all must be back at the store
  std::uint64_t incarnation = 0;  // of its worker, one number a process
  std::size_t numbers = 0;        // those its worker had loaded
  MonoTime asked_at{};
  std::optional<Decision> decision;
  MonoTime decided_at{};
  int answers = 0;
  bool void_ = false;  // its worker crashed before it answered
};

// A worker without the store, or perhaps so.
struct Exposed {
  std::uint32_t worker = 0;
  MonoTime from{};
  MonoTime until{};
};

// A whole run: what happened, for the audit.
struct History {
  Scenario scenario;
  MonoTime began{};
  std::deque<Record> records;
  std::vector<Exposed> exposed;
  std::vector<MonoTime> losses;
  std::vector<std::pair<MonoTime, Nanos>> steps;        // of the store's clock
  std::optional<std::pair<MonoTime, MonoTime>> reload;  // the first worker, and the last
  std::size_t numbers = 0;                              // at the end
  std::vector<std::uint64_t> unknown;  // asks and charges of a worker whose fate nobody can know
  std::uint64_t over_bound = 0;        // as the scripts found it
  std::vector<std::string> keys_without_expiry;
  std::vector<std::string> not_closed;  // breakers at the end
  std::uint64_t events = 0;
};

// Runs a scenario to its end.
History run(const Scenario& scenario, Canary canary = Canary::none);

}  // namespace weir::sim
