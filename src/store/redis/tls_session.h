#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/redis/tls_context.h"
#include "weir/result.h"

struct ssl_st;
struct bio_st;

namespace weir::store::redis {

// The client's side of TLS 1.2 or 1.3 on one connection, without the connection: bytes in, bytes
// out.
//
// Guarantees:  nothing is taken from a server, and nothing sent to it but the handshake, before its
//              certificate has been verified: chain, dates, and `server_name`.
// Threads:     one.
class TlsSession {
 public:
  // Begins: output() holds the first bytes to send.
  //
  // Errors:      invalid_argument, where `server_name` is no name or address.
  static Result<std::unique_ptr<TlsSession>> begin(std::shared_ptr<const TlsContext> context,
                                                   const std::string& server_name);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  enum class State { handshake, open, ended, failed };

  // Bytes from the server; what they say is appended to `plain`. There may be output() to send
  // after it, also where it failed.
  State received(std::string_view bytes, std::string& plain);
  // Requires:    state() == open.
  State send(std::string_view plain);

  State state() const noexcept { return state_; }
  // Why it failed.
  const std::string& problem() const noexcept { return problem_; }
  // Bytes for the server; whoever sends them clears it.
  std::string& output() noexcept { return output_; }

 private:
  TlsSession() = default;
  Result<void> set_up(const std::string& server_name);
  State advance(std::string& plain);
  State fail();
  void collect();

  std::shared_ptr<const TlsContext> context_;
  ssl_st* ssl_ = nullptr;
  bio_st* in_ = nullptr;   // ssl_'s
  bio_st* out_ = nullptr;  // ssl_'s
  State state_ = State::handshake;
  std::string problem_;
  std::string output_;
};

}  // namespace weir::store::redis
