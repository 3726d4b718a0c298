#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "server/grpc/deframer.h"
#include "server/grpc/service.h"
#include "server/grpc/status.h"

namespace weir::server::grpc {

// What a session keeps of one call. Reused: reset() keeps the room that its strings have grown.
struct Call {
  static constexpr std::size_t kKeptBytes = 4096;

  CallContext context;
  Service* service = nullptr;
  MethodKind kind = MethodKind::unary;
  Deframer deframer;
  std::string held;          // a unary message that waits for the half-close
  std::size_t partial = 0;   // what this call adds to the session's partial bytes
  std::string out;           // framed messages to send
  std::size_t out_sent = 0;  // of them, handed to HTTP/2
  std::size_t header_bytes = 0;
  MonoTime progress{};  // when it last moved
  Code code = Code::ok;
  std::string message;  // percent-encoded
  Call* next = nullptr;
  Call* previous = nullptr;
  bool headers_done = false;  // the request's
  bool post = false;
  bool grpc_type = false;
  bool bad_timeout = false;
  bool encoded = false;  // grpc-encoding names something other than identity
  bool has_message = false;
  bool half_closed = false;  // by the caller
  bool dispatched = false;
  bool responded = false;  // response headers are submitted
  bool finished = false;   // nothing more is appended
  bool suspended = false;  // HTTP/2 waits for more to send

  void reset();
};

}  // namespace weir::server::grpc
