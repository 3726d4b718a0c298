#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace weir::policy {

// Longest path, after normalisation, that is matched; longer ones are malformed.
inline constexpr std::size_t kMaxPathBytes = 8 * 1024;

// The one spelling of a path that routes are compared with, written into `out`:
//   %XX of a character that needs no escape is that character ("%6Cogin" is "login");
//   other escapes are in capitals, and what needs an escape gets one ("%2f" is "%2F", " " is
//   "%20");
//   "." and ".." are resolved, never above the root; "//" is "/"; a "/" at the end is dropped.
//
// Guarantees:  normalising twice changes nothing; two spellings of one path are the same bytes.
//              A slash written %2F stays escaped: it is part of a name.
// Errors:      absent where it does not begin with '/', holds '?', '#', a control character, a '%'
//              without two digits, %00, or is too long for `out`.
// Cost:        one pass, no allocation.
std::optional<std::string_view> normalise_path(std::string_view path, std::span<char> out);

}  // namespace weir::policy
