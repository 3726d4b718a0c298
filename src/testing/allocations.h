#pragma once

#include <cstdint>

namespace weir::testing {

// How often this thread asked for memory: with new in any of its forms, and with malloc, calloc and
// realloc as C libraries do. A program that calls this has these replaced by ones that count. Under
// a sanitizer, whose allocator must not be taken from it, new alone counts.
std::uint64_t allocations() noexcept;

}  // namespace weir::testing
