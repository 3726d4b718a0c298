#pragma once

#include "drill/proxy/fault_proxy.h"
#include "drill/scenario/scenario.h"
#include "weir/result.h"

namespace weir::drill {

// A store that a scenario can be acted out on: something behind a fault proxy.
class Stage {
 public:
  virtual ~Stage() = default;
  Stage() = default;
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  virtual FaultProxy& proxy() noexcept = 0;
  // Does it to the store's server, when a phase begins.
  //
  // Errors:      unavailable: a server that does not start again, or does not do what it is told.
  virtual Result<void> act(const Phase& phase) = 0;
};

// Does to a server that is not ours what its proxy can: while it would be paused everything is
// held, while it would be dead nothing listens.
//
// Requires:    the scenario needs no server of its own.
void act_by_proxy(FaultProxy& proxy, const Phase& phase);

}  // namespace weir::drill
