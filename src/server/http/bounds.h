#pragma once

#include <chrono>
#include <cstddef>

#include "weir/clock.h"

namespace weir::server::http {

// Everything an HTTP client can send or hold open, and the most of it. docs/operating/running.md
// lists the same numbers for operators.
struct Bounds {
  std::size_t target_bytes = 8 * 1024;   // 414
  std::size_t header_bytes = 16 * 1024;  // request line and header fields together; 431
  std::size_t header_fields = 100;       // 431
  std::size_t body_bytes = 1024 * 1024;  // decoded; 413
  // What chunks may add to a body's bytes on the wire; 413.
  std::size_t framing_bytes = 64 * 1024;
  // Requests that were read and not yet answered. More are left in the socket.
  std::size_t pipelined = 64;
  // Answers that the client has not taken. Above it nothing more is read until it has.
  std::size_t unsent_bytes = 256 * 1024;

  Nanos idle{std::chrono::seconds(60)};     // between requests; closed without a word
  Nanos receive{std::chrono::seconds(10)};  // from a request's first byte to its last; 408
  Nanos send{std::chrono::seconds(20)};     // for the client to take what is unsent; closed
  Nanos linger{std::chrono::seconds(2)};    // for the client to close after our last answer
  // While draining: for a request that is on its way on a quiet connection.
  Nanos drain_idle{std::chrono::milliseconds(500)};
};

}  // namespace weir::server::http
