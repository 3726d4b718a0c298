#pragma once

#include <string_view>

namespace weir {

// The version of the library and of every program built with it; CMake and packaging read it from
// here.
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace weir
