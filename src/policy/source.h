#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weir::policy {

// An address block. IPv4 is held as v4-mapped IPv6, so one comparison serves both.
struct CidrBlock {
  std::array<std::uint8_t, 16> network{};
  std::uint8_t prefix = 128;

  friend bool operator==(const CidrBlock&, const CidrBlock&) = default;
};

enum class SourceKind : std::uint8_t { ip, path, method, header, query, cookie, input };

// One thing a rule counts by: `ip`, `path`, `method`, `header:NAME`, `query:NAME`, `cookie:NAME`,
// or a declared input.
struct Source {
  SourceKind kind = SourceKind::input;
  std::string name;  // header (lower case), query, cookie and input: the NAME
  std::string text;  // as callers give it in descriptors: "ip", "header:X-API-Key", "user"

  friend bool operator==(const Source&, const Source&) = default;

  // The one spelling that identities use: as `text`, but header names in lower case.
  std::string canonical() const;
  // Whether callers that name a value so mean this source. Header names in any case.
  bool is_called(std::string_view given) const noexcept;
};

// What is wrong with a piece of text, and what would be right; both read on in a message.
struct Problem {
  std::string what;
  std::string allowed;
};

// Reads one source of `by:`. `inputs` are the declared names.
// Errors:      absent, and `problem` says why.
std::optional<Source> parse_source(std::string_view text, const std::vector<std::string>& inputs,
                                   Problem& problem);

inline constexpr std::size_t kMaxSourceNameBytes = 128;

// Whether a plain name may be declared under `inputs:`: letters, digits, '_', '-' and '.', begun by
// a letter or '_', and not the name of a built-in source.
bool is_input_name(std::string_view name);

}  // namespace weir::policy
