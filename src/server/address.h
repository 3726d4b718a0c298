#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "weir/result.h"

namespace weir::server {

// Where a door listens, as it is written on the command line.
struct Address {
  enum class Kind : std::uint8_t { off, tcp, unix_socket };

  Kind kind = Kind::off;
  std::string host;        // tcp: a name or an address, without brackets
  std::uint16_t port = 0;  // tcp: 0 lets the system pick one
  std::string path;        // unix_socket

  // "127.0.0.1:8080", "[::1]:8080", "unix:/run/weir.sock", "off": what parse() reads.
  std::string text() const;
  // The same as the start of a URL that curl understands ("http://127.0.0.1:8080"); a host that
  // means every interface becomes the loopback address. Empty for a Unix socket and for off.
  std::string url() const;
};

// Reads `host:port`, `[v6]:port`, `unix:PATH` or `off`.
//
// Errors:      invalid_argument; the message names what was given and what is allowed.
Result<Address> parse_address(std::string_view text);

}  // namespace weir::server
