#include "cli/number.h"

#include <charconv>

namespace weir::cli {

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, failed] = std::from_chars(text.data(), end, value);
  if (text.empty() || failed != std::errc() || stopped != end) return std::nullopt;
  return value;
}

}  // namespace weir::cli
