#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "ladder/membership_keeper.h"
#include "ladder/shard_ladder.h"
#include "store/redis/redis_client.h"
#include "weir/clock.h"
#include "weir/guard.h"
#include "weir/observer.h"

namespace weir::guard {

// What this worker could decide by itself, for people.
struct WorkerPart {
  std::string worker;  // its name; empty: a guest, which has none
  bool has_part = false;
  std::uint32_t workers = 0;  // that share the limits
  std::string why_none;       // where it has no part
};

// A worker's seat in the fleet of one shard: announces it by the shard's connection, divides the
// limits by what comes back, has views written, and says what it knows.
//
// Threads:     the loop's alone, where nothing else is said.
class FleetSeat {
 public:
  struct Options {
    FleetRole role = FleetRole::guest;
    std::string name;                 // a worker's
    bool name_lasts = false;          // a restart will come back under it
    bool writes = false;              // there is a state folder
    std::uint64_t process = 0;        // random: tells this process from others of its name
    std::optional<std::uint32_t> of;  // the policy says how many there are
    std::optional<std::uint32_t> index;
    bool matters = true;  // some route would use a part
  };
  // Where it says things to.
  struct Ports {
    std::function<void(const StoreEvent&)> tell;
    // The text is to be written to the state folder; written() when it is there, or could not be.
    std::function<void(std::string text, std::uint64_t epoch)> write;
    // next_event() has changed.
    std::function<void()> rearm;
    // The store has lost what it knew of the fleet.
    std::function<void()> lost;
  };

  // How long a reply may take. Nobody waits for it.
  static constexpr Nanos kPatience = std::chrono::seconds(1);

  FleetSeat(Options options, Ports ports, store::redis::RedisClient& client,
            ladder::ShardLadder& ladder, Clock& clock);

  // What the state folder holds; before anything else.
  void start_from(const ladder::MembershipView& view);
  // The store did not answer at the start: says so where that leaves this worker without a part.
  void started_without();

  // See MembershipKeeper::set_origin().
  void set_origin(std::uint64_t origin) noexcept { keeper_.set_origin(origin); }
  void store_there();
  void store_away();
  std::optional<MonoTime> next_event() const { return keeper_.next_beat(); }
  void poll();
  // `fault` is empty where it was written.
  void written(std::uint64_t epoch, const std::string& fault);
  // From here on this worker spends nothing. Whether its leaving is announced, in which case
  // `done` is called once: not where a restart is to find its part, not where something is owed,
  // nor where the store does not answer. Then its part is kept for ten minutes. A beat that is out
  // is waited for first: all of it takes at most twice kPatience.
  bool leave(bool owes, std::function<void()> done);

  // From any thread.

  // Whether there is nothing to wait for: the first beat was answered, or failed.
  bool settled() const noexcept { return settled_.load(std::memory_order_acquire); }
  WorkerPart part() const;
  // The fleet as it was last read; absent: it never was.
  std::optional<ladder::MembershipView> view() const;
  // The fields of /store, with a comma before each.
  void append_json(std::string& out) const;

 private:
  // Whether the store can be told of this worker's leaving: it knows the worker, and answers.
  bool may_say_leave() const;
  void say_leave(std::function<void()> done);
  void say_leave_after_beat();
  void heard(const store::redis::ErrorRow* error, const store::redis::FleetReply* fleet);
  void apply(bool changed);
  void remember(const store::redis::FleetReply* fleet, std::string_view fault);
  void say_part(const ladder::Division& division);

  const Options options_;
  const Ports ports_;
  store::redis::RedisClient& client_;
  ladder::ShardLadder& ladder_;
  Clock& clock_;
  ladder::MembershipKeeper keeper_;
  bool said_no_part_ = false;
  bool said_too_many_ = false;
  bool left_ = false;
  std::function<void()> leaves_;  // to be said once the beat that is out has come back
  std::atomic<bool> settled_{false};

  // What is shown.
  mutable std::mutex mutex_;
  std::optional<ladder::MembershipView> shown_;
  bool from_folder_ = false;
  MonoTime read_{};
  std::string last_fault_;
};

}  // namespace weir::guard
