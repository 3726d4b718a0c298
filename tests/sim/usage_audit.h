#pragma once

#include <string>
#include <vector>

#include "sim/fleet.h"

namespace weir::sim {

// What a run of a fleet that meters must have kept of what it billed:
//   acknowledged   what was served without the store is in the ledger, whoever lost power when; and
//                  so is what the store admitted, but for what a process had still to write when it
//                  was killed: of its last moments, or of a disk that failed
//   nothing else   in the ledger is what was told, and besides at most what a process that was
//                  killed was asked and never answered
//   once           no event twice, and the ledger's lines add up to its events
//   capped         nothing is served beyond the parts and their cap, whoever started anew meanwhile
//   settled        nothing is left over or put aside, and journals and ledger agree with themselves
std::vector<std::string> audit_usage(const History& history);

}  // namespace weir::sim
