#include "policy/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace weir::policy {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::optional<Address> parse_v4(std::string_view text) {
  Address out;
  std::copy(kMapped.begin(), kMapped.end(), out.bytes.begin());
  std::size_t at = 0;
  for (std::size_t octet = 0; octet < 4; ++octet) {
    if (octet > 0 && (at >= text.size() || text[at++] != '.')) return std::nullopt;
    const std::size_t begin = at;
    unsigned value = 0;
    while (at < text.size() && is_digit(text[at]) && at - begin < 3)
      value = value * 10 + static_cast<unsigned>(text[at++] - '0');
    const std::size_t digits = at - begin;
    if (digits == 0 || value > 255 || (digits > 1 && text[begin] == '0')) return std::nullopt;
    out.bytes[12 + octet] = static_cast<std::uint8_t>(value);
  }
  if (at != text.size()) return std::nullopt;
  return out;
}

std::optional<Address> parse_v6(std::string_view text) {
  text = text.substr(0, text.find('%'));
  char copy[INET6_ADDRSTRLEN + 1];
  if (text.empty() || text.size() >= sizeof copy) return std::nullopt;
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  if (std::strlen(copy) != text.size()) return std::nullopt;
  Address out;
  if (inet_pton(AF_INET6, copy, out.bytes.data()) != 1) return std::nullopt;
  return out;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && std::all_of(text.begin(), text.end(), is_digit);
}

void clear_after(std::array<std::uint8_t, 16>& bytes, unsigned prefix) {
  for (unsigned i = 0; i < 16; ++i) {
    const unsigned before = i * 8;
    if (prefix >= before + 8) continue;
    const unsigned kept = prefix > before ? prefix - before : 0;
    bytes[i] = static_cast<std::uint8_t>(bytes[i] & (0xff00u >> kept));
  }
}

std::optional<CidrBlock> parse_block(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto address = Address::parse(text.substr(0, slash));
  if (!address) return std::nullopt;
  if (slash == text.npos) return CidrBlock{.network = address->bytes, .prefix = 128};
  const std::string_view digits = text.substr(slash + 1);
  unsigned prefix = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), prefix);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  if (text.substr(0, slash).find(':') == text.npos) {
    if (prefix > 32) return std::nullopt;
    prefix += 96;
  }
  if (prefix > 128) return std::nullopt;
  return CidrBlock{.network = address->bytes, .prefix = static_cast<std::uint8_t>(prefix)};
}

bool is_trusted(const Address& address, std::span<const CidrBlock> trusted) {
  return std::any_of(trusted.begin(), trusted.end(),
                     [&](const CidrBlock& block) { return contains(block, address); });
}

}  // namespace

std::optional<Address> Address::parse(std::string_view text) {
  if (text.find(':') == text.npos) return parse_v4(text);
  return parse_v6(text);
}

std::optional<Address> Address::parse_hop(std::string_view text) {
  text = trimmed(text);
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    text = trimmed(text.substr(1, text.size() - 2));
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == text.npos) return std::nullopt;
    const std::string_view rest = text.substr(end + 1);
    if (!rest.empty() && (rest.front() != ':' || !is_port(rest.substr(1)))) return std::nullopt;
    const std::string_view inside = text.substr(1, end - 1);
    return inside.find(':') == inside.npos ? std::nullopt : parse_v6(inside);
  }
  const std::size_t colon = text.find(':');
  if (colon != text.npos && text.find(':', colon + 1) == text.npos)
    return is_port(text.substr(colon + 1)) ? parse_v4(text.substr(0, colon)) : std::nullopt;
  return parse(text);
}

bool Address::is_v4() const {
  return std::equal(kMapped.begin(), kMapped.end(), bytes.begin());
}

std::string Address::text() const {
  char out[INET6_ADDRSTRLEN] = {};
  if (is_v4())
    inet_ntop(AF_INET, bytes.data() + 12, out, sizeof out);
  else
    inet_ntop(AF_INET6, bytes.data(), out, sizeof out);
  return out;
}

std::optional<CidrBlock> network_of(std::string_view text) {
  auto block = parse_block(text);
  if (block) clear_after(block->network, block->prefix);
  return block;
}

std::optional<CidrBlock> parse_cidr(std::string_view text) {
  const auto block = parse_block(text);
  if (!block || network_of(text) != block) return std::nullopt;
  return block;
}

std::string to_text(const CidrBlock& block) {
  const Address address{block.network};
  if (block.prefix == 128) return address.text();
  const int prefix = address.is_v4() && block.prefix >= 96 ? block.prefix - 96 : block.prefix;
  return address.text() + "/" + std::to_string(prefix);
}

bool contains(const CidrBlock& block, const Address& address) {
  const unsigned whole = block.prefix / 8;
  if (std::memcmp(block.network.data(), address.bytes.data(), whole) != 0) return false;
  const unsigned rest = block.prefix % 8;
  if (rest == 0) return true;
  const unsigned mask = 0xff00u >> rest;
  return ((block.network[whole] ^ address.bytes[whole]) & mask & 0xffu) == 0;
}

Address grouped(const Address& address, std::uint8_t ipv6_prefix) {
  Address out = address;
  if (!out.is_v4()) clear_after(out.bytes, ipv6_prefix);
  return out;
}

std::string_view key_bytes(const Address& grouped) {
  const auto* bytes = reinterpret_cast<const char*>(grouped.bytes.data());
  return grouped.is_v4() ? std::string_view(bytes + 12, 4) : std::string_view(bytes, 16);
}

std::optional<Address> client_address(std::string_view peer,
                                      std::span<const std::string_view> forwarded,
                                      std::span<const CidrBlock> trusted) {
  std::optional<Address> client = Address::parse_hop(peer);
  if (!client || !is_trusted(*client, trusted)) return client;
  int hops = 0;
  for (std::size_t i = forwarded.size(); i-- > 0;) {
    std::string_view line = forwarded[i];
    for (bool more = true; more;) {
      const std::size_t comma = line.rfind(',');
      const std::string_view item = trimmed(comma == line.npos ? line : line.substr(comma + 1));
      more = comma != line.npos;
      if (more) line = line.substr(0, comma);
      if (item.empty()) continue;
      if (++hops > kMaxForwardedHops) return client;
      const auto hop = Address::parse_hop(item);
      if (!hop) return client;
      client = hop;
      if (!is_trusted(*client, trusted)) return client;
    }
  }
  return client;
}

}  // namespace weir::policy
