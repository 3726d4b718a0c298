#include "policy/store_url.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "policy/address.h"

namespace weir::policy {
namespace {

constexpr std::size_t kMaxUrlBytes = 2048;
constexpr std::size_t kMaxHosts = 64;

Error wrong(std::string message) {
  return Error{ErrorCode::invalid_argument, std::move(message)};
}

struct Scheme {
  std::string_view prefix;
  StoreKind kind;
  bool tls;
  std::uint16_t port;
};

constexpr Scheme kSchemes[] = {
    {"redis://", StoreKind::redis, false, 6379},
    {"rediss://", StoreKind::redis, true, 6379},
    {"redis+unix://", StoreKind::unix_socket, false, 0},
    {"redis+sentinel://", StoreKind::sentinel, false, 26379},
    {"rediss+sentinel://", StoreKind::sentinel, true, 26379},
    {"redis+cluster://", StoreKind::cluster, false, 6379},
    {"rediss+cluster://", StoreKind::cluster, true, 6379},
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]);
    const int low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

template <class Number>
std::optional<Number> decimal(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_host_name(std::string_view name) {
  if (name.empty() || name.size() > 253 || name.front() == '-' || name.front() == '.') return false;
  for (const char c : name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '.' || c == '_';
    if (!good) return false;
  }
  return true;
}

Result<StoreHost> parse_host(std::string_view text, std::uint16_t default_port) {
  StoreHost out{.host = {}, .port = default_port};
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    const std::string_view inside = text.substr(1, end == text.npos ? 0 : end - 1);
    if (inside.find(':') == inside.npos || !Address::parse(inside))
      return wrong("has a bracket without an IPv6 address in it");
    out.host = inside;
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty() && rest.front() != ':') return wrong("has text after a bracketed address");
    has_port = !rest.empty();
    if (has_port) port = rest.substr(1);
  } else {
    const std::size_t colon = text.find(':');
    out.host = text.substr(0, colon);
    has_port = colon != text.npos;
    if (has_port) port = text.substr(colon + 1);
    if (!is_host_name(out.host)) return wrong("has an empty or impossible host name");
  }
  if (!has_port) return out;
  const auto number = decimal<std::uint16_t>(port);
  if (!number || *number == 0) return wrong("has a port that is no number from 1 to 65535");
  out.port = *number;
  return out;
}

Result<void> take_credentials(std::string_view text, StoreUrl& url) {
  const std::size_t colon = text.find(':');
  const auto user = percent_decoded(text.substr(0, colon));
  const auto password =
      percent_decoded(colon == text.npos ? std::string_view{} : text.substr(colon + 1));
  if (!user || !password) return wrong("has a '%' in its credentials that is no %XX");
  url.username = *user;
  url.password = *password;
  return {};
}

Result<void> take_database(std::string_view text, StoreUrl& url) {
  if (text.empty()) return {};
  const auto number = decimal<std::uint32_t>(text);
  if (!number || *number > 65'535) return wrong("has a database that is no number up to 65535");
  url.database = *number;
  return {};
}

Result<void> take_hosts(std::string_view text, const Scheme& scheme, StoreUrl& url) {
  for (;;) {
    const std::size_t comma = text.find(',');
    auto host = parse_host(text.substr(0, comma), scheme.port);
    if (!host) return std::move(host).error();
    url.hosts.push_back(*std::move(host));
    if (url.hosts.size() > kMaxHosts) return wrong("names more than 64 hosts");
    if (comma == text.npos) break;
    text.remove_prefix(comma + 1);
  }
  if (url.hosts.size() > 1 && url.kind == StoreKind::redis)
    return wrong("names several hosts: that takes redis+sentinel:// or redis+cluster://");
  return {};
}

// What stands after the hosts: a database, a sentinel's master, nothing for a cluster.
Result<void> take_path(std::string_view path, StoreUrl& url) {
  if (url.kind == StoreKind::cluster)
    return path.empty() ? Result<void>{} : wrong("has a database: a cluster knows only one");
  if (url.kind == StoreKind::redis) return take_database(path, url);
  const std::size_t slash = path.find('/');
  url.master = path.substr(0, slash);
  if (url.master.empty()) return wrong("names no master after the sentinels");
  return slash == path.npos ? Result<void>{} : take_database(path.substr(slash + 1), url);
}

bool is_port_or_none(std::string_view text) {
  return text.size() <= 5 && text.find_first_not_of("0123456789") == text.npos;
}

// Where, in the hosts of a URL without '@', begins what may be credentials whose '@' was forgotten;
// the text's length where each host, and each port, may be one. What is left of a path does not
// count.
std::size_t where_no_host_stands(std::string_view text) {
  const std::size_t end = std::min(text.find_first_of("/?#"), text.size());
  for (std::size_t begin = 0; begin < end;) {
    const std::size_t next = std::min(text.find(',', begin), end);
    const std::string_view host = text.substr(begin, next - begin);
    const std::size_t bracket = host.starts_with('[') ? host.find(']') : 0;
    const std::size_t colon = host.find(':', bracket == host.npos ? 0 : bracket);
    if (colon == 0 && host.size() > 1) return begin;
    if (colon != host.npos && !is_port_or_none(host.substr(colon + 1))) return begin + colon + 1;
    begin = next + 1;
  }
  return text.size();
}

}  // namespace

Result<StoreUrl> parse_store_url(std::string_view text) {
  StoreUrl url;
  if (text == "memory:") return url;
  if (text.size() > kMaxUrlBytes) return wrong("is longer than 2048 bytes");
  for (const char c : text)
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f)
      return wrong("holds a space or control character");
  for (const Scheme& scheme : kSchemes) {
    if (!text.starts_with(scheme.prefix)) continue;
    url.kind = scheme.kind;
    url.tls = scheme.tls;
    std::string_view rest = text.substr(scheme.prefix.size());
    const std::size_t at = rest.rfind('@');
    if (at != rest.npos) {
      if (auto done = take_credentials(rest.substr(0, at), url); !done) return done.error();
      rest.remove_prefix(at + 1);
    }
    if (rest.find_first_of("?#") != rest.npos)
      return wrong("has a '?' or '#': options are fields of `store:`");
    if (url.kind == StoreKind::unix_socket) {
      if (!rest.starts_with('/') || rest.size() < 2) return wrong("has no absolute path");
      url.path = rest;
      return url;
    }
    const std::size_t slash = rest.find('/');
    if (auto done = take_hosts(rest.substr(0, slash), scheme, url); !done) return done.error();
    const std::string_view path = slash == rest.npos ? std::string_view{} : rest.substr(slash + 1);
    if (auto done = take_path(path, url); !done) return done.error();
    return url;
  }
  return wrong("is no store that Weir knows");
}

std::string store_identity(std::string_view url) {
  const std::size_t at = url.rfind('@');
  if (at == url.npos) return std::string(url);
  return std::string(url.substr(0, url.find("://") + 3)) + std::string(url.substr(at + 1));
}

std::string redacted(std::string_view text) {
  const std::size_t at = text.rfind('@');
  if (at != text.npos) {
    const std::size_t scheme = text.substr(0, at).find("://");
    if (scheme == text.npos && text.find(':') > at) return std::string(text);
    return std::string(text.substr(0, scheme == text.npos ? 0 : scheme + 3)) + "***" +
           std::string(text.substr(at, text.find_first_of("?#", at) - at));
  }
  const std::size_t colon = text.find(':');
  const std::size_t scheme = text.find("://");
  if (colon == text.npos || (scheme == text.npos && !text.starts_with("redis")))
    return std::string(text);
  // Of a scheme that lacks its slashes, too.
  const std::size_t begin = scheme != text.npos
                                ? scheme + 3
                                : std::min(text.find_first_not_of('/', colon + 1), text.size());
  const std::size_t suspect = begin + where_no_host_stands(text.substr(begin));
  if (suspect < text.size()) return std::string(text.substr(0, suspect)) + "***";
  return std::string(text.substr(0, text.find_first_of("?#", begin)));
}

}  // namespace weir::policy
