#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weir::store::redis {

// Where a node says that it, or another one, listens.
struct HostPort {
  std::string host;  // a name or an address, IPv6 without brackets
  std::uint16_t port = 0;

  friend bool operator==(const HostPort&, const HostPort&) = default;
  // "h:1", "[::1]:1"
  std::string text() const {
    const bool bare = host.find(':') == std::string::npos;
    return (bare ? host : '[' + host + ']') + ':' + std::to_string(port);
  }
};

// A port in decimal; absent: it is none, or 0.
inline std::optional<std::uint16_t> port_in(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (fault != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

}  // namespace weir::store::redis
