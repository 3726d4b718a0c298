#pragma once

#include <string_view>

namespace weir::drill {

// The shared library that clock_shim.cc becomes, as it was built with this program.
std::string_view clock_shim_bytes() noexcept;

}  // namespace weir::drill
