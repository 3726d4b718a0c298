#pragma once

#include <cstdint>
#include <string_view>

#include "weir/breaker.h"
#include "weir/decision.h"

namespace weir {

// What became of the shared store, the journal of usage and its ledger. Transitions only: one when
// it goes, one when it comes back.
struct StoreEvent {
  enum class Kind : std::uint8_t {
    away_at_start,  // it did not answer when the Guard was opened
    away,           // the breaker opened, and nobody is asked until a probe succeeds; or there was
                    // no connection for two seconds, though nobody asked
    answers_again,  // a probe succeeded: a growing part of the keys is asked about
    back,           // every key is, on a connection that stands
    fault,          // what a check of the server found wrong; decisions go on
    clock_set,      // the store's clock was set
    no_part,        // without the store this worker would have no part of any limit
    part,           // it has one again
    journal_fails,  // usage cannot be recorded
    journal_works,  // it can again
    ledger_fails,   // usage is recorded, but cannot be settled
    ledger_works,   // it can again
    fallback_away,  // the second store is: there is none to take the first one's place
    fallback_back,  // it can be asked again
  };
  Kind kind = Kind::away;
  // A sentence of ours, or what the server said; empty where there is nothing to say.
  std::string_view why;
  Nanos next_probe{0};                // away: until the next probe
  std::uint64_t owed_units = 0;       // back: admitted meanwhile and still to be told
  Nanos away_for{0};                  // back: since it went away
  std::uint64_t decided_without = 0;  // back: requests decided by no store meanwhile
  std::uint32_t workers = 0;          // part: how many share the limits
  std::uint64_t by_fallback = 0;      // back: requests that the fallback store decided meanwhile
  Nanos moved{0};                     // clock_set: how far ahead it was set; negative: back
  Nanos skew{0};                      // clock_set: how far it is ahead of this host's now
};

std::string_view to_string(StoreEvent::Kind kind);

// Hears what a Guard does, after it, in the caller's thread, outside every lock; must not block.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void on_decision(const Decision& decision) { (void)decision; }
  // Comes from the store's thread, the journal's or the settler's.
  virtual void on_store_event(const StoreEvent& event) { (void)event; }
  // A breaker of the policy changed; see BreakerListener.
  virtual void on_breaker_event(const BreakerEvent& event) { (void)event; }
  // Loads that overlap may be told out of order: the highest generation is in force.
  virtual void on_policy_loaded(std::uint64_t generation) { (void)generation; }
  virtual void on_policy_rejected(std::string_view faults) { (void)faults; }
};

}  // namespace weir
