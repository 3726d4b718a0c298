#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weir/clock.h"

namespace weir::server::grpc {

// How a gRPC call ends, by its number on the wire. UNKNOWN (2) is left out: it is never sent.
enum class Code : std::uint8_t {
  ok = 0,
  cancelled = 1,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
};
inline constexpr std::size_t kCodes = 17;

// The code as the grpc-status trailer spells it: "0" to "16".
std::string_view wire_text(Code code) noexcept;

// A grpc-message: bytes outside printable ASCII, and the percent sign, as %XX.
std::string percent_encode(std::string_view text);

// Reads a grpc-timeout: one to eight digits and one of H M S m u n.
//
// Errors:      absent where the text is anything else.
std::optional<Nanos> parse_timeout(std::string_view text) noexcept;

// Whether a content type is gRPC's: "application/grpc", alone or followed by '+' or ';'.
bool is_grpc_content_type(std::string_view text) noexcept;

}  // namespace weir::server::grpc
