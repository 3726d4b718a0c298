#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/key_digest.h"
#include "guard/lease_desk.h"
#include "store/redis/lease.h"
#include "weir/concurrency.h"
#include "weir/result.h"

namespace weir::guard {

// A concurrency limit that a fleet shares. Its leases stand in the store; this remembers those that
// it gave or renewed, for the time in which the store does not answer: then it gives out this
// worker's part of the limit, less what it holds already, and tells the store afterwards.
//
// Guarantees:  while the store answers, leases that stand never hold more than the limit in the
//              whole fleet. Without it, this worker's never grow beyond its part; what it gave
//              stands in the store once it is told, whatever the limit says, and is counted once.
//              An answer comes within the store's deadline, but to those that wait. What the store
//              gave too late for its caller is given back, unless he has asked again since. Of
//              those that wait for one counter the first alone asks.
// Threads:     any, where nothing else is said.
class SharedLimit : public std::enable_shared_from_this<SharedLimit> {
 public:
  using Done = std::function<void(LeaseAnswer)>;
  // Most leases that are remembered; more are refused as too_many_keys.
  static constexpr std::size_t kMost = 100'000;

  // One of its counters. `key` is what policy::KeyWriter wrote.
  struct Counter {
    std::string key;
    KeyDigest digest;
  };

  SharedLimit(std::string name, const ConcurrencyConfig& config, Clock& clock)
      : name_(std::move(name)), clock_(clock), config_(config) {}
  // The identity of its counters: the same in the whole fleet.
  static std::uint64_t identity(std::string_view name);

  // Null: there is no store any more.
  void go_by(LeaseDesk* desk);
  void configure(const ConcurrencyConfig& config);
  const std::string& name() const noexcept { return name_; }

  // `done` is called exactly once, perhaps before this returns, perhaps in the store's thread.
  void lease(const Counter& counter, const LeaseRequest& request, Done done);
  // Waits for at most `patience`, behind those of this process that wait for the same counter; also
  // for a store that is away. Not for the store's own thread to await.
  void acquire(const Counter& counter, std::uint32_t weight, Nanos patience, Done done);
  void renew(const Counter& counter, std::string_view id, Done done);
  void release(const Counter& counter, std::string_view id, std::function<void(Result<bool>)> done);
  // The same without the store, at once.
  LeaseAnswer lease_without(const Counter& counter, const LeaseRequest& request);
  LeaseAnswer renew_without(const Counter& counter, std::string_view id);
  Result<bool> release_without(const Counter& counter, std::string_view id);

  // A slot of this process on a lease that was given: it is renewed as long as the slot stands.
  Slot slot(const Counter& counter, const Lease& lease);
  static Slot no_slot(LeaseRefusal why);

  ConcurrencySnapshot snapshot();

  // The loop's alone. What is to be told is told, slots are renewed, and who is the first to wait
  // asks again. When there is more.
  std::optional<MonoTime> turn();

 private:
  struct Renewed;
  // Says whether a slot's lease stands; nothing happens where it ends.
  using Mark = detail::ConcurrencyGate;
  // Leases by the key of their counter, and their id.
  using Id = std::pair<std::string, std::string>;
  struct Ended {
    Counter counter;
    MonoTime till{};  // by then it is over by itself
  };
  struct Held {
    Counter counter;
    std::uint32_t weight = 1;
    std::uint64_t fence = 0;
    MonoTime since{};
    MonoTime ends{};
    bool untold = false;  // given or renewed without the store
    bool anew = false;    // the store may still hold one of that id which is over
    bool out = false;     // it is being told, or renewed
    std::weak_ptr<Mark> slot{};
  };
  struct Asked {
    Counter counter;
    std::string id;
    std::uint32_t weight = 1;
    Done done;
  };
  // An id that is being asked for.
  struct Asking {
    std::uint32_t by = 0;           // asks without an answer, and one that waits
    std::optional<Ended> unheld{};  // the store may hold it: to be told, unless one of them gets it
  };
  struct Waiter {
    std::string id;
    std::uint32_t weight = 1;
    MonoTime give_up{};
    Done done;
    LeaseRefusal last = LeaseRefusal::full;  // why it waits
  };
  // Those that wait for a counter, in their order.
  struct Queue {
    Counter counter;
    std::list<Waiter> waiting;
    MonoTime next{};   // when the first asks
    bool out = false;  // it has asked
  };
  struct Telling {
    std::vector<std::pair<Id, Held>> keep;
    std::vector<std::pair<Id, Held>> renew;
  };

  using Heard = std::function<void(const store::redis::LeaseReply* reply, bool late)>;

  LeaseAnswer counted(LeaseAnswer answer);
  std::optional<LeaseAnswer> wrong_with(const Counter& counter, const LeaseRequest& request);
  // Refusals of these three are not counted.
  void ask(const Counter& counter, const std::string& id, std::uint32_t weight, Done done);
  LeaseAnswer without(const Counter& counter, const std::string& id, std::uint32_t weight);
  LeaseAnswer answered(const Asked& asked, const store::redis::LeaseReply& reply);

  void acquired(const Asked& asked, const store::redis::LeaseReply* reply, bool late);
  LeaseAnswer renewed(const Counter& counter, const std::string& id,
                      const store::redis::LeaseReply& reply);
  void released(const Counter& counter, const std::string& id);
  void tell(const Id& id, const Held& held);
  void told(const Id& id, const Held& held, bool heard);
  void renew_slot(const Id& id, const Held& held);

  void tried(const Counter& counter);
  void wait(const Counter& counter, Waiter waiter);
  // The first of a queue asks, if it is time.
  void ask_for_first(const std::string& key);
  void first_heard(const Counter& counter, const std::string& id, LeaseAnswer answer);
  void give_up(Waiter waiter);
  // One that asked, or waited, does so no more.
  void settle(const Counter& counter, const std::string& id);

  // All below: mutex_ is held.
  // The desk to ask, where the store answers.
  LeaseDesk* desk_locked(const Counter& counter) const;
  // What is called is sent in the order of these calls.
  void call_locked(LeaseDesk& desk, const Counter& counter, const store::redis::LeaseAction& action,
                   Nanos within, Heard heard);
  void send_release_locked(LeaseDesk& desk, const Id& id, const Ended& ended);
  // Forgets it; where the store is to hear of it later, it is kept for that. False: it is unknown.
  bool end_locked(const Counter& counter, const std::string& id, bool tell);
  // The store is told that it is over, unless somebody holds or gets it.
  void end_later_locked(const std::string& id, Ended ended);
  void settle_locked(const Counter& counter, const std::string& id);
  std::optional<MonoTime> look_at_held_locked(LeaseDesk& desk, MonoTime now, Telling& telling);
  // Who has lost his patience, and the queues whose first is to ask.
  std::optional<MonoTime> look_at_queues_locked(MonoTime now, std::vector<Waiter>& over,
                                                std::vector<std::string>& due);
  void tell_ends_locked(LeaseDesk& desk, MonoTime now);
  Nanos step_locked() const;
  void sweep_locked(MonoTime now);
  Lease seen_locked(const std::string& id, const Held& held, MonoTime now) const;
  std::uint32_t part_locked(const Counter& counter) const;
  std::uint64_t units_locked(const std::string& key) const;

  const std::string name_;
  Clock& clock_;

  std::mutex mutex_;
  ConcurrencyConfig config_;
  LeaseDesk* desk_ = nullptr;
  std::map<Id, Held> held_;
  std::map<std::string, std::uint64_t, std::less<>> units_;  // of a counter's leases in held_
  std::map<Id, Ended> ended_;  // released without the store, or given to nobody
  std::map<Id, Asking> asking_;
  std::map<std::string, Queue, std::less<>> queues_;  // none is empty
  MonoTime swept_{};
  MonoTime looked_{};
  std::uint64_t last_fence_ = 0;
  std::uint64_t given_ = 0;
  std::uint64_t given_without_ = 0;
  std::uint64_t expired_ = 0;
  std::uint64_t refused_ = 0;
  // Of a counter, callers that would wait and ask before they do.
  std::map<std::string, std::uint32_t, std::less<>> trying_;
};

}  // namespace weir::guard
