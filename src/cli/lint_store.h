#pragma once

#include <string>

#include "cli/environment.h"
#include "policy/model.h"

namespace weir::cli {

// What `weir lint --connect` found at the stores of a policy.
struct StoreVerdict {
  std::size_t faults = 0;
  std::size_t warnings = 0;
  // Which of them could not be asked: "store", "fallback store" or "stores"; empty: none.
  std::string not_asked;
};

// Connects to the policy's store, and to its fallback, and prints what each says of itself and what
// follows from it.
StoreVerdict lint_store(Environment& environment, const std::string& path,
                        const policy::Model& model, bool json);

}  // namespace weir::cli
