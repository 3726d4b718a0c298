#pragma once

#include <chrono>

namespace weir::testing {

// How long a test waits for what should come soon, on a machine that is busy with something else.
inline constexpr std::chrono::seconds kPatience{20};

}  // namespace weir::testing
