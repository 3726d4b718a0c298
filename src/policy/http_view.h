#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "policy/address.h"
#include "policy/model.h"
#include "policy/path.h"
#include "weir/guard.h"

namespace weir::policy {

// An HTTP request taken apart once: what `match` compares, and the values that rules count by.
//
// Large (about 25 KiB) and made for the caller's stack: it holds every byte that it hands out and
// the request does not.
//
// Cost:        no allocation.
class HttpView {
 public:
  enum class State : std::uint8_t {
    ready,
    bad_method,    // empty, longer than 32 bytes, or no token
    bad_target,    // no path in it, or one that normalise_path() refuses
    bad_host,      // Host headers that differ, or one that is no host
    bad_peer,      // given, but no address
    bad_encoding,  // not UTF-8 is fine; a header name that is empty is not
  };

  HttpView() noexcept {}  // NOLINT: its buffers are written before they are read
  HttpView(const HttpView&) = delete;
  HttpView& operator=(const HttpView&) = delete;

  // Requires:    request and model outlive this.
  // Errors:      any state but ready: the request is malformed, and nothing else may be called.
  State take(const HttpRequest& request, const Model& model) noexcept;

  std::string_view method() const noexcept { return {method_.data(), method_size_}; }  // capitals
  std::string_view host() const noexcept { return {host_.data(), host_size_}; }  // no port, lower
  std::string_view path() const noexcept { return path_; }                       // normalised
  std::string_view query() const noexcept { return query_; }                     // as received
  // The client behind trusted proxies; absent where the request came without a peer.
  const std::optional<Address>& client() const noexcept { return client_; }

  // The value of a source; data() is null where the request lacks it.
  //   ip       the client's address, canonical text
  //   header   its lines, trimmed and joined by ", "
  //   query    decoded; a name that stands more than once with different values is absent: which of
  //            them the server behind takes cannot be known, and a client must not gain by it
  //   cookie   as query, without the quotes around it
  //   input    absent: HTTP requests carry none
  // Valid as long as this. Where the values together outgrow the buffer for them, the value is
  // absent and overflowed() says so.
  std::string_view value(const Source& source) noexcept;
  bool overflowed() const noexcept { return overflowed_; }

 private:
  static constexpr std::size_t kScratchBytes = 16 * 1024;
  static constexpr std::size_t kMaxForwardedLines = 32;

  State take_method(std::string_view method) noexcept;
  State take_target(std::string_view target) noexcept;
  State take_host(std::string_view host) noexcept;
  State take_headers() noexcept;
  State take_client(const Model& model) noexcept;
  std::string_view header(std::string_view name) noexcept;
  std::string_view query_value(std::string_view name) noexcept;
  std::string_view cookie(std::string_view name) noexcept;
  std::string_view address_text() noexcept;
  // Copies bytes into the scratch buffer behind what is there.
  bool keep(std::string_view bytes) noexcept;
  bool decode(std::string_view encoded, std::string_view& out) noexcept;

  const HttpRequest* request_ = nullptr;
  std::string_view path_;
  std::string_view query_;
  std::optional<Address> client_;
  std::size_t method_size_ = 0;
  std::size_t host_size_ = 0;
  std::size_t scratch_used_ = 0;
  bool overflowed_ = false;
  std::array<char, 32> method_;
  std::array<char, 256> host_;
  std::array<char, kMaxPathBytes> path_buffer_;
  std::array<char, kScratchBytes> scratch_;
};

// "the target holds no path that can be matched", and the like.
std::string_view to_string(HttpView::State state);

}  // namespace weir::policy
