#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "testing/sim/sim_process.h"
#include "weir/clock.h"
#include "weir/reservation.h"

namespace weir::sim {

// What a seed draws: who asks what when, and what goes wrong meanwhile. Times count from the start
// of the run, when every worker that is there from the start is connected.

enum class FaultKind : std::uint8_t {
  outage,         // the server is gone; it comes back with its data
  hang,           // the server stops, and goes on
  slow,           // each command takes `amount`
  delay,          // one worker's link takes `amount` longer, each way
  cut,            // one worker's link, both ways
  cut_up,         // what it sends
  cut_down,       // what it would be answered
  lose_replies,   // as cut_down, and then the connection is gone with all that was held
  flush,          // the data are gone, under connections that stand
  restart_empty,  // the server comes back with nothing
  restart_old,    // the server comes back with an older dump, or as a replica that was behind
  clock_step,     // the server's clock is set by `amount`
  scripts_gone,   // SCRIPT FLUSH
  restart_worker,
  crash_worker,  // whoever waited for it hears nothing
  reload,        // the workers load other numbers, one after the other
  promote,       // a replica that is `amount` behind takes over; one worker goes on asking the old
                 // master for a while
  // Only of a fleet that reads in the store who is there.
  silence,       // a cut that outlasts a lease
  leave,         // in order; another process takes the place later
  members_gone,  // the list of them is deleted
  // Only where there is a second store.
  fallback_away,
  // Only of a fleet that meters.
  power_cut,    // of one worker, at operation `nth` of its disk
  kill_unsaid,  // one worker's process, when answer `nth` is durable and not told
  disk_full,    // one worker's disk, until it is mended
  disk_fails,   // it fails to sync
  ledger_away,
  ledger_cut,    // the ledger's power, at operation `nth` of its disk
  ledger_words,  // `nth` confirmations get lost
  // By numbers of their own, too.
  pause,  // SIGSTOP of a worker, and SIGCONT; `first` is what it turns to then
  split,  // as promote; but those of `side` stay with the old master, the others are cut off from
          // it, and once it is one of several again, it is a replica
};
inline constexpr std::size_t kFaultKinds = 30;
// Those before it are drawn for every fleet that they fit.
inline constexpr auto kFirstOfMetering = FaultKind::power_cut;
std::string_view to_string(FaultKind kind);

// In place of a shard: the one that has the counter of the flood.
inline constexpr std::size_t kFloodShard = SIZE_MAX;

struct Fault {
  FaultKind kind = FaultKind::outage;
  Nanos start{0};
  Nanos length{0};
  std::uint32_t worker = 0;  // where it is one worker's
  std::size_t shard = 0;     // where it is one shard's
  Nanos amount{0};
  Nanos ahead{0};           // promote: the new master's clock, against the old one's
  std::size_t numbers = 0;  // reload
  std::uint64_t nth = 0;
  testing::SimProcess::First first{};  // pause
  std::uint64_t side = 0;              // split: a bit each

  bool stays(std::uint32_t which) const {
    return kind == FaultKind::split ? (side >> which & 1) != 0 : which == worker;
  }
};

// Whether workers may do without the store because of it.
bool cuts_off(FaultKind kind);
bool is_of_one_worker(FaultKind kind);
// Whether another process takes the worker's place.
bool replaces(FaultKind kind);

// What becomes of a reservation, counted from when its name was told.
struct Stay {
  ReservationTerms terms;
  struct Beat {
    Nanos after{0};
    std::uint64_t so_far = 0;
  };
  std::vector<Beat> beats;
  // Absent: nobody settles it.
  std::optional<Nanos> settled_after;
  std::uint64_t uses = 0;
  // Whoever settles it does not hear of it, and asks again.
  bool asks_again = false;
};

struct Question {
  Nanos at{0};
  std::uint32_t worker = 0;
  std::size_t route = 0;
  std::uint32_t user = 0;
  std::uint64_t cost = 1;
  std::optional<Nanos> patience;
  std::uint32_t name = 0;                // its idempotency key; 0: none
  std::optional<std::size_t> stay = {};  // it reserves: its place among the scenario's stays
};

// One worker of a fleet that reads in the store who is there.
struct Tenure {
  bool lasts = false;  // it has a state folder, and comes back under its name
  Nanos disk{0};       // what a write to it takes
  std::optional<Nanos> joins_at;
};

struct Scenario {
  std::uint64_t seed = 0;
  std::size_t temperament = 0;
  std::size_t shards = 1;
  bool fallback = false;        // a second store is named
  Nanos turn{0};                // until the store's thread comes round
  bool members = false;         // who shares the limits is read in the store, not in the policy
  std::vector<Tenure> tenures;  // members: of each worker
  Nanos warm_up{0};             // before the first question
  std::vector<Fault> faults;
  std::vector<Question> questions;
  std::vector<Stay> stays;
  std::vector<Nanos> walls;  // each worker's clock, against true time
  Nanos jitter{0};
  Nanos length{0};
  bool ends_late = false;  // members: long enough after all that for the gone to be forgotten
  // A whole outage in which every worker is offered its part of the flood route.
  std::optional<Fault> flood;
  // What metered routes use is journalled and settled; what a commit takes on each worker's disk.
  bool meters = false;
  std::vector<Nanos> disks;
  Nanos within{0};

  bool has(FaultKind kind) const;
  bool loses_data() const;
  // Whether another process takes some worker's place.
  bool replaces_somebody() const;
  std::string text() const;
};

Scenario draw(std::uint64_t seed);

// A request's idempotency key.
std::string name_of(std::uint32_t name);

}  // namespace weir::sim
