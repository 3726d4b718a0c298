#pragma once

#include <string_view>

// Internal to the page: its parts, as they were when Weir was built.
namespace weir::drill {

std::string_view page_style() noexcept;
std::string_view page_script() noexcept;
// Chart.js, whose licence stands at its beginning.
std::string_view chart_script() noexcept;

}  // namespace weir::drill
