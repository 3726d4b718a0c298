#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "guard/circuit_desk.h"
#include "guard/fleet_seat.h"
#include "guard/lease_desk.h"
#include "guard/shared_ask.h"
#include "ladder/shard_ladder.h"
#include "policy/envoy/name_trial.h"
#include "policy/model.h"
#include "render/metrics.h"
#include "store/counter.h"
#include "weir/clock.h"
#include "weir/observer.h"
#include "weir/result.h"

namespace weir::guard {

// A fleet's counters on one Redis, and what happens while it does not answer.
//
// The one that open() makes has a thread of its own, which speaks to the server over one pipelined
// connection; callers hand it their asks through a bounded queue. What can be decided without the
// server is decided in the caller's thread. A simulation has another.
//
// Threads:     any number at once.
class SharedStore {
 public:
  // Most asks between the callers and the connection; more are decided without the store.
  static constexpr std::size_t kMaxQueued = 8'192;

  // Connects, and waits for the first answer no longer than the spec's connect timeout and deadline
  // together.
  //
  // Errors:      invalid_argument (the URL, the prefix, the password file); failed_precondition
  // (what this release does
  //              not do on a shared store); under `startup: require` also what the server said, or
  //              that it did not answer.
  static Result<std::unique_ptr<SharedStore>> open(const policy::Model& model, Clock& clock,
                                                   render::Metrics& metrics, Observer* observer,
                                                   FleetRole role);
  virtual ~SharedStore() = default;
  // Ends its thread, and decides whatever waits; what is asked from then on is decided without the
  // server. Comes before the end of it, so that callbacks may still ask.
  virtual void close() noexcept = 0;

  // Decides; see SharedAsk.
  virtual void decide(SharedAsk& ask) noexcept = 0;
  // Decides without the server: for a caller whose patience ended while its ask was still on the
  // way.
  virtual ladder::LadderVerdict decide_without(const ladder::LadderRequest& request,
                                               std::span<store::Finding> findings) noexcept = 0;

  // Where a counter lies: what one call reaches together. A single server is one slot.
  virtual std::uint16_t slot(const store::Counter& counter) const noexcept {
    (void)counter;
    return 0;
  }

  // What is told instead of `served`, whose usage could not be recorded: see
  // ShardLadder::not_recorded().
  virtual ladder::LadderVerdict not_recorded(const ladder::LadderRequest& request,
                                             std::span<store::Finding> findings,
                                             const ladder::LadderVerdict& served) noexcept = 0;

  // An earlier process served so many units of a counter beyond its part; see
  // ShardLadder::restore_overspend(). A store that meters nothing has nothing to remember.
  virtual void restore_overspend(const KeyDigest& counter, Instant window, std::uint64_t units) {
    (void)counter, (void)window, (void)units;
  }

  // Whether the caller is in the thread that answers asks, and so must not wait for one.
  virtual bool in_its_thread() const noexcept = 0;

  // What breakers that the fleet shares go through; null: there is none here, and they are this
  // process's own. As long as the store lives.
  virtual CircuitDesk* circuits() noexcept { return nullptr; }
  // The same of leases.
  virtual LeaseDesk* leases() noexcept { return nullptr; }

  // What the store says against counters of these names, before a policy brings them. Absent:
  // nothing, or nobody can say just now. Waits for it, but not in the store's own thread.
  virtual std::optional<std::string> objection_to(std::vector<policy::NameTrial> names) {
    (void)names;
    return std::nullopt;
  }
  // A reload names counters otherwise: whether they can be kept is found out now, and with each
  // connection from here on.
  virtual void try_names(std::vector<policy::NameTrial> names) { (void)names; }

  // Whether the policy's routes can be held on this store: asked at open and at every reload.
  static Result<void> check(const policy::Model& model);

  // The store's time now, as well as it is known here.
  virtual ladder::Moment moment() const noexcept = 0;
  virtual Nanos deadline() const noexcept = 0;
  virtual bool answering() const noexcept = 0;
  // Whether a connection to it stands; without traffic nobody may have noticed that it answers no
  // more.
  virtual bool connected() const = 0;
  // Whether some counters can be asked about: of a cluster's, those of the masters that are there.
  virtual bool reachable() const { return answering() && connected(); }
  // The second store, where the policy names one: whether it could take the first one's place now.
  struct Fallback {
    bool answers = false;
    std::string trouble;  // why it does not, where that is known
  };
  virtual std::optional<Fallback> fallback() const { return std::nullopt; }
  // What this process could decide by itself.
  virtual WorkerPart part() const = 0;
  // Counters whose last known state is kept here.
  virtual std::uint64_t known_keys() const = 0;
  // The state for people and machines: one JSON object.
  virtual std::string state_json() const = 0;

 protected:
  SharedStore() = default;
  SharedStore(const SharedStore&) = delete;
  SharedStore& operator=(const SharedStore&) = delete;
};

}  // namespace weir::guard
