#pragma once

#include <string>

#include "cli/environment.h"
#include "policy/model.h"

namespace weir::cli {

// What `weir lint --connect` found at the store of a policy.
struct StoreVerdict {
  std::size_t faults = 0;
  std::size_t warnings = 0;
  bool undecided = false;  // the store could not be asked
};

// Connects to the policy's store, and prints what it says of itself and what follows from it.
StoreVerdict lint_store(Environment& environment, const std::string& path,
                        const policy::StoreSpec& spec, bool json);

}  // namespace weir::cli
