#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/fleet.h"
#include "sim/roster.h"
#include "sim/servers.h"

namespace weir::sim {

// A run under way: its servers, its workers, and what happens to them.
class Fleet {
 public:
  Fleet(const Scenario& scenario, Canary canary);
  ~Fleet();
  History run();

 private:
  // After a disk works again, until its journal has noticed.
  static constexpr Nanos kHealing = std::chrono::seconds(1);

  struct Seat {
    std::unique_ptr<testing::SimProcess> process;
    std::unique_ptr<Worker> worker;  // null: nobody is there
    std::string name;
    bool leaving = false;
    std::uint64_t incarnation = 0;
    std::optional<MonoTime> stopped_at;
    std::size_t on_disk = 0;  // the numbers that a new process loads
    std::size_t numbers = 0;
    std::uint64_t unknown = 0;  // of those before
    std::uint64_t over_bound = 0;
    std::vector<Folder> folders;
    // Where the fleet meters.
    std::unique_ptr<UsagePlace> place;
    bool dying = false;                         // its process is gone, and still to be cleared away
    bool power_cut = false;                     // it is the machine's power that went
    std::optional<std::uint64_t> answers_left;  // before it is killed
    MonoTime unwell_until{};                    // its disk
  };

  const policy::StoreSpec& spec() const;

  // ---- Workers.
  bool joins_later(std::uint32_t index) const;
  void join_later(std::uint32_t index);
  StoreSetup setup(std::uint32_t index);
  void start_worker(std::uint32_t index);
  void count(Seat& seat);
  void end_worker(std::uint32_t index, bool crash);
  // In order: it is asked no more, and tells the others where it may.
  void leave(const Fault& fault);
  void restart(std::uint32_t index);
  void pause(std::uint32_t index);
  void go_on(const Fault& fault);
  // A pause is over: its process goes on, or was killed in it.
  void note_pause(Seat& seat, bool killed);
  // Those that live, as one shard's fleet has them.
  std::vector<Holder> holders(std::size_t shard);

  // ---- Questions.
  void find_targets();
  void ask(const Question& question, bool last);
  // What its worker could have decided by itself.
  void note_part(Record& record, Seat& seat);
  // The most of a part, of the cap as well, that it has had so far.
  void note_what_it_has(Record& record, Seat& seat);
  // Every worker about every counter that was ever asked: all are back at the store, and tell it
  // what they still owe; and then one of them, what it has come to.
  void ask_for_the_last_time();

  // ---- Metering.
  void open_places();
  void meter(std::uint32_t index);
  // The process is gone this moment; nothing that it does from now on counts.
  void die(std::uint32_t index, bool power);
  void note_end(std::uint32_t index, bool crash);
  void close_usage(Seat& seat);
  void clear_away(Seat& seat);
  // Whether an answer is never told, for its process is killed now.
  bool killed_before_telling(std::uint32_t index, const Record& record, const Decision& decision);
  void record_refused(std::uint32_t index, const Record& record);
  void begin_metering(const Fault& fault);
  void mend_metering(const Fault& fault);
  std::uint64_t part_of_cap(const Record& record, Seat& seat, std::size_t rule);
  // Until nothing is left to settle, or too long.
  void settle_all();

  // ---- Reservations.
  // What goes with a question; null: nothing.
  std::shared_ptr<guard::MeteredCall> call_of(const Question& question) const;
  // Its name was told: what is to become of it is on its way.
  void stay(std::size_t record, const std::string& id);
  void beat(Stayed& stayed, std::uint32_t index, std::uint64_t so_far);
  // Asks whoever is there now, and again where nobody is, or could.
  void try_to_settle(Stayed& stayed, std::uint32_t index, std::uint64_t units, int tries);
  // Nobody hears any more from a process that is gone.
  void void_tries(std::uint64_t incarnation);
  // The canaries.
  void forget_notes(UsagePlace& place, char whose);

  // ---- Parts.
  // All who live, by shard.
  using Sights = std::vector<Roster::Sight>;
  Sights look();
  void look_at_parts(const Sights& sights, std::size_t place, std::size_t user);
  void look_again();
  // Once all is well nobody is left without a part; and once the gone are forgotten, the parts are
  // the whole limit again.
  void everybody_has_a_part();
  void note_flood();

  // ---- The end.
  void finish();
  void look_at_breaker(const SimShard& shard);

  // ---- Faults.
  std::size_t shard_of(const Fault& fault) const;
  void expose(std::uint32_t worker, std::size_t shard, Nanos start, Nanos length);
  void expose(std::uint32_t worker, Nanos start, Nanos length);
  void schedule(const Fault& fault);
  void cut(const Fault& fault, bool up, bool down);
  void mend_cut(const Fault& fault);
  // What the shard lost, it lost until now.
  void note_loss(std::size_t shard, MonoTime from);
  void list_lost(std::size_t shard);
  testing::SimRedis& target(const Fault& fault);
  void begin(const Fault& fault);
  void mend(const Fault& fault);

  // ---- A replica takes over.
  // The master is gone for all but one, which does not hear of it.
  void shut_out(const Fault& fault);
  // The same, where nobody refuses anything: what is sent is held.
  void split(const Fault& fault);
  void demote(const Fault& fault);
  void take_over(const Fault& fault);
  void end_old_master(const Fault& fault);
  void turn(std::uint32_t worker, std::size_t shard);
  void reload(const Fault& fault, std::uint32_t worker);

  const Scenario& scenario_;
  const Canary canary_;
  testing::SimLoop loop_;
  History history_;
  Servers servers_;
  std::vector<Roster> rosters_;
  std::vector<Seat> seats_{kWorkers};
  std::map<const Fault*, testing::LuaRedis::Keys> dumps_;
  std::map<const Fault*, testing::SimRedis*> targets_;
  std::uint64_t incarnations_ = 0;
  Nanos back_within_{0};
  MonoTime looked_until_{};
  std::unique_ptr<SimLedger> ledger_;  // null: nothing is metered
  std::string folder_;                 // of the locks
};

}  // namespace weir::sim
