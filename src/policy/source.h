#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

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
};

}  // namespace weir::policy
