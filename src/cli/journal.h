#pragma once

#include <string>

#include "cli/environment.h"

namespace weir::cli {

// `weir journal ACTION WHERE`: what metered routes served, on its way to the bill. WHERE is the
// journal's folder, or the policy that names it.
struct JournalCommand {
  std::string action;  // status, list, quarantine, verify, export, replay
  std::string where;
  std::string ledger;        // instead of the policy's, or of ledger.db in the folder
  std::string most;          // list, quarantine: so many lines; 50 where not given
  bool quarantined = false;  // replay: what was put aside, too
  bool accept_loss = false;  // replay: into a ledger that lost what it had of this journal
  bool json = false;
};

// The actions, for help and completion.
inline constexpr const char* kJournalActions[] = {"status", "list",   "quarantine",
                                                  "verify", "export", "replay"};

// Guarantees:  all but replay only read, beside a server that writes. answered_no where verify
// finds
//              that something does not balance, and where replay leaves events behind; usage where
//              there is no journal, or the ledger's name is none; undecided where the journal or
//              the ledger cannot be read, or does not hold what it held.
ExitCode journal(Environment& environment, const JournalCommand& command);

}  // namespace weir::cli
