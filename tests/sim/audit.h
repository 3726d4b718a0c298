#pragma once

#include <string>
#include <vector>

#include "sim/fleet.h"

namespace weir::sim {

// What a run must have kept, whatever went wrong in it:
//   answered       every ask once, by its deadline to the nanosecond
//   by_policy      decided without the store only where a fault may have kept it away, and then as
//                  the route says
//   bounded        no more admitted of a counter in a window than ladder/bound.h says for what
//                  this window went through
//   let through    in an outage in which every worker is offered its part, 95 % of all parts; and
//                  nothing denied for a counter that had room
//   counted once   in the end the store counts what was admitted: nothing twice, nothing lost
//   back           every counter asked at the store again within cooldown and ramp
//   kept tidy      every key of the store has a time to live
// Empty: all of it. Otherwise a line for each fault found.
std::vector<std::string> audit(const History& history);

}  // namespace weir::sim
