#pragma once

#include "weir/clock.h"

namespace weir::breaker {

// What carries the words of a shared breaker to the store and back. Called under the breaker's
// lock: returns at once, and never calls back from inside.
//
// Threads:     any.
class FleetCarrier {
 public:
  virtual ~FleetCarrier() = default;
  // The breaker has something to say: its fleet_due() is to be asked soon.
  virtual void poke() noexcept = 0;
  // Whether the store has answered lately.
  virtual bool answers() const noexcept = 0;
  // Whether the caller may wait for an answer: not in the thread that brings them.
  virtual bool may_wait() const noexcept = 0;
  // Whether the store tells of changes as they happen; else they are found by looking.
  virtual bool pushed() const noexcept { return false; }
  // How long a call that may be a probe waits for the store.
  virtual Nanos patience() const noexcept = 0;
};

}  // namespace weir::breaker
