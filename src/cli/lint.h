#pragma once

#include <string>
#include <vector>

#include "cli/environment.h"

namespace weir::cli {

// `weir lint POLICY…`: every fault and warning of every file, and of the stores that they name.
struct LintCommand {
  std::vector<std::string> policies;
  std::string store;     // with connect: instead of the policies'
  bool connect = false;  // asks the stores, too
  bool json = false;
};

// Guarantees:  answered_no where any file or store has a fault; warnings alone are as_asked; usage
//              where a file cannot be read; undecided where nothing is wrong so far and a store
//              could not be asked.
ExitCode lint(Environment& environment, const LintCommand& command);

}  // namespace weir::cli
