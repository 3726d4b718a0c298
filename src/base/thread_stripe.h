#pragma once

#include <cstddef>

namespace weir {

// A small number of this thread's own, handed out in order of first use: spreads threads over
// striped counters.
std::size_t thread_stripe() noexcept;

}  // namespace weir
