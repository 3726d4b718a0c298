#pragma once

#include <string>
#include <vector>

#include "weir/policy.h"

namespace weir::cli {

// What `weir serve` would refuse of a policy alone, on the store that it is on: each with its place
// in the file at `path`, as far as it has one. A warning is what an option of serve can still say.
std::vector<Fault> serve_faults(const std::string& path, const Policy& policy);

}  // namespace weir::cli
