#pragma once

#include <cstdint>

namespace weir::testing {

// How often this thread asked for memory with new, in any of its forms. A program that calls this
// has its operators new and delete replaced by ones that count.
std::uint64_t allocations() noexcept;

}  // namespace weir::testing
