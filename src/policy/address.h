#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "policy/source.h"

namespace weir::policy {

// A network address, IPv4 as v4-mapped IPv6, so that one comparison serves both.
struct Address {
  std::array<std::uint8_t, 16> bytes{};

  friend bool operator==(const Address&, const Address&) = default;

  // Reads an address alone: "192.0.2.7", "2001:DB8::1", "::ffff:192.0.2.7" (which is the same as
  // "192.0.2.7"), a zone id ("fe80::1%eth0", dropped). Not: ports, brackets, spaces, octets with
  // leading zeros.
  // Cost:        no allocation.
  static std::optional<Address> parse(std::string_view text);

  // Reads an address as peers and proxies write them: with a port ("192.0.2.7:99", "[::1]:5"), in
  // brackets, in quotes, with blanks around.
  static std::optional<Address> parse_hop(std::string_view text);

  bool is_v4() const;
  // RFC 5952, IPv4 dotted.
  std::string text() const;
};

// "10.0.0.0/8", "2001:db8::/32"; an address alone is a block of one. Absent where it is neither, or
// where bits stand after the prefix (see network_of for what to suggest).
std::optional<CidrBlock> parse_cidr(std::string_view text);
// As parse_cidr, with bits after the prefix cleared.
std::optional<CidrBlock> network_of(std::string_view text);
std::string to_text(const CidrBlock& block);

bool contains(const CidrBlock& block, const Address& address);

// What an address is counted under: IPv4 exactly, IPv6 by its first `ipv6_prefix` bits.
Address grouped(const Address& address, std::uint8_t ipv6_prefix);

// The bytes that stand for a grouped address in a key: 4 for IPv4, 16 for IPv6, so the two never
// meet.
// Requires:    the address outlives the view.
std::string_view key_bytes(const Address& grouped);

// The client of a request: the peer, or where the peer is a trusted proxy, the first address from
// the right of X-Forwarded-For that is not one. `forwarded` holds the header's lines in order.
//
// Guarantees:  an untrusted peer's header is never looked at; an item that is no address ends the
//              walk at the last good one, so a client cannot choose its identity by breaking the
//              header. All trusted: the leftmost.
// Errors:      absent where the peer itself is no address.
// Cost:        no allocation; at most kMaxForwardedHops items are walked, further left ones are
//              not reached.
std::optional<Address> client_address(std::string_view peer,
                                      std::span<const std::string_view> forwarded,
                                      std::span<const CidrBlock> trusted);
inline constexpr int kMaxForwardedHops = 64;

}  // namespace weir::policy
