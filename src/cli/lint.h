#pragma once

#include <string>
#include <vector>

#include "cli/environment.h"

namespace weir::cli {

// `weir lint POLICY…`: every fault and warning of every file.
struct LintCommand {
  std::vector<std::string> policies;
  bool json = false;
};

// Guarantees:  answered_no where any file has a fault; warnings alone are as_asked; usage where a
//              file cannot be read.
ExitCode lint(Environment& environment, const LintCommand& command);

}  // namespace weir::cli
