#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace weir::policy {

// Where a text stops being text: the first byte that is not well-formed UTF-8, or is a control
// character other than tab and line end. Absent where all of it is text.
std::optional<std::size_t> first_not_text(std::string_view text);

}  // namespace weir::policy
