#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "server/http/bounds.h"
#include "server/http/request.h"

namespace weir::server::http {

// Reads one HTTP/1.x request after another out of a buffer that grows as bytes arrive: Beast's
// parser, and besides it the rules that keep two readers of the same bytes from seeing two
// different requests (RFC 9112 sections 3.2, 5, 6 and 11.2).
//
// Guarantees:  a request is done only when all of it is there. Refused are, with status and detail:
//              both lengths or either twice; a transfer coding other than chunked, or any in
//              HTTP/1.0; a missing, repeated or malformed Host; folded fields; control characters;
//              whatever is over Bounds.
// Threads:     one at a time.
class RequestParser {
 public:
  enum class State {
    start,   // nothing of a request has come
    head,    // within the request line and header
    body,    // the header is whole, the body is not
    done,    // request() is whole
    failed,  // fault() says why; the connection cannot go on
  };

  struct Fault {
    int status = 400;
    std::string_view detail;  // a sentence; static
  };

  explicit RequestParser(const Bounds& bounds);
  ~RequestParser();

  // Forgets the request before it.
  void reset();

  // `bytes`: all that has come since this request began, earlier bytes included; it may stand in
  // another place each time.
  State parse(std::string_view bytes);

  State state() const noexcept;
  // Requires: state() is done.
  const Request& request() const noexcept;
  // Requires: state() is failed.
  Fault fault() const noexcept;
  // How many of `bytes` were this request. Requires: state() is done.
  std::size_t consumed() const noexcept;
  // The client waits for "100 Continue" before it sends the body. Requires: state() is body.
  bool expects_continue() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::server::http
