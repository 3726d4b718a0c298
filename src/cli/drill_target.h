#pragma once

#include <optional>
#include <string>

#include "cli/drill.h"
#include "drill/target/target_drill.h"

namespace weir::cli {

// Reads the words about somebody's API; returns what is wrong with them, if anything.
std::optional<std::string> read_target(const DrillCommand& command, drill::TargetOptions& options);

// Returns which words do not go together, if any: those about a policy and those about an API.
std::optional<std::string> mixed_up(const DrillCommand& command);

}  // namespace weir::cli
