#include "server/address.h"

#include <sys/un.h>

#include <charconv>

#include "policy/store_url.h"

namespace weir::server {
namespace {

constexpr std::string_view kAllowed = "HOST:PORT, [IPV6]:PORT, unix:PATH or off";
constexpr std::size_t kMaxPathBytes = sizeof(sockaddr_un::sun_path) - 1;

Error bad(std::string_view text, std::string_view why) {
  return {ErrorCode::invalid_argument, "'" + policy::redacted(text) + "' " + std::string(why) +
                                           "; allowed: " + std::string(kAllowed)};
}

Result<Address> parse_unix(std::string_view text, std::string_view path) {
  if (path.empty()) return bad(text, "names no socket file");
  if (path.size() > kMaxPathBytes) {
    return bad(text, "is longer than the " + std::to_string(kMaxPathBytes) +
                         " bytes a socket path can have");
  }
  if (path.find('\0') != std::string_view::npos) return bad(text, "holds a zero byte");
  Address address;
  address.kind = Address::Kind::unix_socket;
  address.path = path;
  return address;
}

}  // namespace

std::string Address::text() const {
  switch (kind) {
    case Kind::off:
      return "off";
    case Kind::unix_socket:
      return "unix:" + path;
    case Kind::tcp:
      break;
  }
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string Address::url() const {
  if (kind != Kind::tcp) return {};
  Address shown = *this;
  if (host == "0.0.0.0") shown.host = "127.0.0.1";
  if (host == "::") shown.host = "::1";
  return "http://" + shown.text();
}

Result<Address> parse_address(std::string_view text) {
  if (text == "off") return Address{};
  if (text.starts_with("unix:")) return parse_unix(text, text.substr(5));
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad(text, "has no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[')) {
    if (!host.ends_with(']') || host.size() < 4) return bad(text, "has an unfinished [IPv6] part");
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return bad(text, "has an IPv6 address without brackets");
  }
  if (host.empty()) return bad(text, "names no host (0.0.0.0 is every IPv4 interface)");
  if (host.find_first_of(" \t\r\n[]/\\") != std::string_view::npos ||
      host.find('\0') != std::string_view::npos) {
    return bad(text, "has a host that cannot be one");
  }
  Address address;
  address.kind = Address::Kind::tcp;
  address.host = host;
  const auto [end, fault] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (port.empty() || fault != std::errc{} || end != port.data() + port.size()) {
    return bad(text, "has a port that is not a number from 0 to 65535");
  }
  return address;
}

}  // namespace weir::server
