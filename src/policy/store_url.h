#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weir/result.h"

namespace weir::policy {

enum class StoreKind : std::uint8_t { memory, redis, unix_socket, sentinel, cluster };

struct StoreHost {
  std::string host;  // a name, an IPv4 address, or an IPv6 address without brackets
  std::uint16_t port = 0;
};

// Where a store is, taken apart.
struct StoreUrl {
  StoreKind kind = StoreKind::memory;
  bool tls = false;
  std::string username;  // decoded
  std::string password;  // decoded; never printed
  std::vector<StoreHost> hosts;
  std::string path;    // unix_socket
  std::string master;  // sentinel
  std::uint32_t database = 0;
};

// The forms of a store URL, as messages name them.
inline constexpr std::string_view kStoreUrlForms =
    "memory:, redis://HOST[:PORT][/DB], rediss://..., redis+unix://PATH, "
    "redis+sentinel://HOST[,HOST...]/MASTER, redis+cluster://HOST[,HOST...]";

// Takes a store URL apart: USER:PASSWORD@ may stand before the hosts.
//
// Errors:      invalid_argument; the message never holds what may be a password.
Result<StoreUrl> parse_store_url(std::string_view url);

// The text with everything that may be a credential taken out: in what looks like a URL, all
// between the scheme and the last '@', and all after a '?' or '#'; where nothing names a host, as
// in "redis://:PASSWORD", or what stands for a port is none, all that follows. Other texts come
// back as they are.
std::string redacted(std::string_view text);

// What tells one store from another wherever that is kept: the scheme, the hosts and the database
// as they stand in the URL, and nothing of who asks. Two spellings of one store may be two. Stays
// what it is in every release: files are named by it, whatever messages come to mask.
//
// Requires:    parse_store_url() takes the URL.
std::string store_identity(std::string_view url);

}  // namespace weir::policy
