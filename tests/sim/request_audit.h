#pragma once

#include <string>
#include <vector>

#include "sim/fleet.h"

namespace weir::sim {

// What a run of a fleet that meters must have kept of requests that name themselves, and of work
// that was reserved and settled:
//   billed once    each name that was told yes is billed, once, whoever was asked how often and
//                  whoever was killed when; none is that nobody was told or left unanswered about
//   replayed       a process that said yes says so again, and to no other request of the name;
//                  and so does every other one that the store answers
//   settled once   a reservation is billed as what it was said to be settled as, or, where nobody
//                  settled it, as what its end is, and nothing where it was refused
//   known          whoever has its name is never told that there is none, and asking again is told
//                  the same
// So the ledger's sum is the sum of what was acknowledged.
std::vector<std::string> audit_requests(const History& history);

}  // namespace weir::sim
