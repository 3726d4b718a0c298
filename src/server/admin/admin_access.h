#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/address.h"
#include "server/http/request.h"
#include "weir/result.h"

namespace weir::server {

// The token that a change through the admin door must bear. Kept as a digest, so that comparing
// takes the same time whatever is offered.
class AdminToken {
 public:
  static constexpr std::size_t kLeastBytes = 16;
  static constexpr std::size_t kMostBytes = 1024;

  // No token: nobody may change anything.
  AdminToken() = default;
  // From `file`, its first line; or, where that is empty, from `environment` (WEIR_ADMIN_TOKEN's
  // value, null where it is not set).
  //
  // Errors:      invalid_argument, not_found: the file cannot be read, the token is too short, too
  //              long, or not printable.
  static Result<AdminToken> read(const std::string& file, const char* environment);

  bool given() const noexcept { return digest_.has_value(); }
  bool matches(std::string_view offered) const noexcept;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest digest_of(std::string_view text) noexcept;

  std::optional<Digest> digest_;
};

// Who may do what at the admin door.
class AdminAccess {
 public:
  // What stands in the way of a request; status 0: nothing.
  struct Refusal {
    int status = 0;
    std::string_view detail;
    std::string_view lines;  // further header lines
  };

  AdminAccess(Address address, AdminToken token);

  // Whether the page may be read. A browser that was led to a loopback address by a foreign name
  // (DNS rebinding) says that name in Host: there only addresses, "localhost" and the name the door
  // listens on are answered.
  Refusal may_read(const http::Request& request) const;
  // Whether something may be changed.
  Refusal may_change(const http::Request& request) const;

 private:
  bool host_is_ours(std::string_view host) const;

  const Address address_;
  const AdminToken token_;
};

}  // namespace weir::server
