#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/policies.h"
#include "sim/scenario.h"
#include "sim/sim_ledger.h"
#include "sim/worker.h"
#include "testing/sim/sim_loop.h"
#include "testing/sim/sim_redis.h"

namespace weir::sim {

// A fault of Weir's own, planted in its surroundings: an audit that does not find it is worth
// nothing.
enum class Canary : std::uint8_t {
  none,
  owed_twice,          // the store forgets what each worker has told of what it owes
  runs_twice,          // every ask is carried out twice, as by a client that retries
  whole_limits,        // every worker takes the whole limit for its part
  no_expiry,           // keys lose their time to live
  runs_late,           // the store carries out what came after its time
  forgets_the_silent,  // the store drops a member as soon as its lease is over
  seen_unread,         // workers say that they have seen members of whom they have not read
  echoes,              // of callers that ask as one, one asks, and all are told what it was
  fallback_forgets,    // the second store counts nothing
  stays_behind,        // a worker goes on asking the old master when another one took over
  one_for_all,         // with one shard all are taken for dead
  deaf_while_stopped,  // what comes for a worker that is stopped is lost, and its connection stands
  never_demoted,       // a master that was cut off is one again, with what it was told meanwhile
  // Of fleets that meter.
  disk_lies,        // a worker's disk confirms, and keeps nothing
  ledger_swallows,  // the ledger confirms what it does not bill
  ledger_forgets,   // it bills, and forgets that it did
  bills_refused,    // what was refused is recorded all the same
  cap_renewed,      // a process starts as if the one before it had served nothing beyond its part
  names_dropped,    // the ledger is not told the idempotency keys
  names_forgotten,  // a process starts as if the one before it had been asked nothing by name
  settled_unsaid,   // somebody is told that a reservation is settled, and nobody was asked
  ends_forgotten,   // a process knows no reservation of the one before it
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
  // When it was decided without the store: among how many the limits were divided.
  std::uint32_t divided_by = 0;
  // And by rule, the most that its worker's part holds in one window.
  std::array<std::uint64_t, 2> part{};
  bool no_part = false;           // of some rule its worker's part could never hold it
  std::uint64_t part_of_cap = 0;  // metered: of what is served beyond the parts
};

// A reservation whose name was told, and what came of it.
struct Stayed {
  std::size_t record = 0;  // among the records
  std::string id;
  struct Try {
    std::uint64_t units = 0;
    std::uint64_t incarnation = 0;  // that was asked
    enum class What : std::uint8_t {
      asked,
      yes,
      no,       // not now
      other,    // it ended otherwise
      unknown,  // there is none of that name
      void_,    // whoever was asked is gone, and said nothing
    };
    What what = What::asked;
    bool repeated = false;
  };
  std::deque<Try> tries;
  std::vector<std::uint64_t> beats;  // that were kept, in their order
  bool beat_by_another = false;      // process than the one that reserved
};

// One process of a worker that meters, and how it ended.
struct Life {
  std::uint32_t worker = 0;
  std::optional<MonoTime> ended;
  bool crashed = false;
  bool unwell = false;        // its disk was failing then
  std::uint64_t waiting = 0;  // events that it had not recorded
};

// A worker without the store, or perhaps so.
struct Exposed {
  std::uint32_t worker = 0;
  std::size_t shard = 0;
  MonoTime from{};
  MonoTime until{};
};

// A time in which a process was stopped.
struct Pause {
  std::uint64_t incarnation = 0;
  MonoTime from{};
  MonoTime until{};
  bool killed = false;  // then, and never went on
};

// A time in which a store lost data: an instant, or as long as two counted for one.
struct Loss {
  std::size_t shard = 0;
  MonoTime from{};
  MonoTime until{};
};

// A whole run: what happened, for the audit.
struct History {
  Scenario scenario;
  MonoTime began{};
  Instant began_at{};  // the same, by the store's clock while nobody has set it
  std::deque<Record> records;
  std::vector<Exposed> exposed;
  std::vector<Pause> pauses;  // in the order in which they ended
  std::vector<Loss> losses;
  std::vector<std::array<std::vector<Target>, 2>> targets;  // by route and user
  std::vector<std::pair<MonoTime, Nanos>> steps;            // of the store's clock
  std::optional<std::pair<MonoTime, MonoTime>> reload;      // the first worker, and the last
  std::size_t numbers = 0;                                  // at the end
  std::vector<std::uint64_t> unknown;  // asks and charges of a worker whose fate nobody can know
  std::uint64_t over_bound = 0;        // as the scripts found it
  std::vector<std::string> keys_without_expiry;
  std::vector<std::string> not_closed;  // breakers at the end
  std::vector<std::string> over_parts;  // parts that together were above their limit
  bool left_out_above = false;          // with those that the roster leaves out
  std::vector<std::string> no_part;     // workers without one in the end
  std::vector<std::string> late_writes;
  std::map<std::uint64_t, Life> lives;  // by incarnation: of a fleet that meters
  std::vector<SimLedger::Entry> billed;
  std::uint64_t billed_units = 0;  // by the ledger's lines
  std::vector<std::string> not_settled;
  std::deque<Stayed> stayed;
  std::vector<SimLedger::Key> keys;  // idempotency keys that the ledger has
  std::uint64_t put_aside = 0;       // events that it would not take
  std::vector<bool> there;           // by worker: whether somebody was in its place in the end
  std::optional<std::uint64_t> flood_parts;  // units of the flood's limit that were offered
  std::uint64_t events = 0;

  // How long a process was stopped between the two.
  Nanos stopped(std::uint64_t incarnation, MonoTime from, MonoTime until) const;
};

// Runs a scenario to its end.
History run(const Scenario& scenario, Canary canary = Canary::none);

}  // namespace weir::sim
