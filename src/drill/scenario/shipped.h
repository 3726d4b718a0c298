#pragma once

#include <span>
#include <string_view>

namespace weir::drill {

// The files of scenarios/, as they were when Weir was built.
struct ShippedText {
  std::string_view name;
  std::string_view text;
};
std::span<const ShippedText> shipped_texts();

}  // namespace weir::drill
