#include "server/admin/admin_access.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <fstream>

namespace weir::server {
namespace {

bool is_ipv4(const std::string& text) {
  in_addr ignored{};
  return ::inet_pton(AF_INET, text.c_str(), &ignored) == 1;
}

bool is_ipv6(const std::string& text) {
  in6_addr ignored{};
  return ::inet_pton(AF_INET6, text.c_str(), &ignored) == 1;
}

// The host of "host:port" or "[v6]:port".
std::string_view host_of(std::string_view text) {
  if (text.starts_with('[')) return text.substr(1, text.find(']') - 1);
  return text.substr(0, text.rfind(':'));
}

// Of a longer token no more is read than shows that it is too long.
std::string counted(std::size_t bytes) {
  return bytes <= AdminToken::kMostBytes ? std::to_string(bytes)
                                         : "more than " + std::to_string(AdminToken::kMostBytes);
}

bool is_loopback(const Address& address) {
  return address.kind == Address::Kind::tcp &&
         (address.host == "localhost" || address.host.starts_with("127.") || address.host == "::1");
}

}  // namespace

AdminToken::Digest AdminToken::digest_of(std::string_view text) noexcept {
  Digest digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),  // NOLINT
           digest.data());
  return digest;
}

Result<AdminToken> AdminToken::read(const std::string& file, const char* environment) {
  std::string text;
  std::string origin = "WEIR_ADMIN_TOKEN";
  if (!file.empty()) {
    origin = file;
    std::ifstream in(file, std::ios::binary);
    if (!in) return Error{ErrorCode::not_found, file + ": the admin token cannot be read"};
    text.resize(kMostBytes + 3);  // one byte too many, and CR LF; a device has no end
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    text.resize(std::min(text.size(), text.find('\n')));
    if (text.ends_with('\r')) text.pop_back();
  } else if (environment == nullptr || *environment == '\0') {
    return AdminToken();
  } else {
    text = environment;
  }
  if (text.size() < kLeastBytes || text.size() > kMostBytes) {
    return Error{ErrorCode::invalid_argument,
                 origin + ": the admin token has " + counted(text.size()) +
                     " bytes; allowed: " + std::to_string(kLeastBytes) + " to " +
                     std::to_string(kMostBytes) + " (openssl rand -hex 32 makes one)"};
  }
  if (!std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; })) {
    return Error{ErrorCode::invalid_argument,
                 origin + ": the admin token holds a blank, or a byte that is not printable ASCII"};
  }
  AdminToken token;
  token.digest_ = digest_of(text);
  return token;
}

bool AdminToken::matches(std::string_view offered) const noexcept {
  if (!digest_) return false;
  const Digest other = digest_of(offered);
  return ::CRYPTO_memcmp(digest_->data(), other.data(), other.size()) == 0;
}

AdminAccess::AdminAccess(Address address, AdminToken token)
    : address_(std::move(address)), token_(std::move(token)) {}

bool AdminAccess::host_is_ours(std::string_view host) const {
  const std::string name(host_of(host));
  return http::same_name(name, "localhost") || http::same_name(name, address_.host) ||
         is_ipv4(name) || is_ipv6(name);
}

AdminAccess::Refusal AdminAccess::may_read(const http::Request& request) const {
  const std::string_view host = request.field("Host");
  if (!is_loopback(address_) || host.data() == nullptr || host_is_ours(host)) return {};
  return {403,
          "The Host is a name that this door does not listen on; use its address, or localhost.",
          ""};
}

AdminAccess::Refusal AdminAccess::may_change(const http::Request& request) const {
  if (!token_.given()) {
    return {403, "Nothing can be changed here: the server was started without an admin token.", ""};
  }
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view offered = request.field("Authorization");
  if (request.count("Authorization") == 1 && offered.size() > kScheme.size() &&
      http::same_name(offered.substr(0, kScheme.size()), kScheme) &&
      token_.matches(offered.substr(kScheme.size()))) {
    return {};
  }
  return {401, "This changes something: it needs the admin token, as Authorization: Bearer TOKEN.",
          "WWW-Authenticate: Bearer realm=\"weir admin\"\r\n"};
}

}  // namespace weir::server
