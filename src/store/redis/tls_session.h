#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "weir/result.h"

struct ssl_ctx_st;
struct ssl_st;
struct bio_st;

namespace weir::store::redis {

// How a server is trusted, and how we show who we are. Files are PEM; an empty name is none.
struct TlsFiles {
  std::string ca;           // authorities that may vouch for the server; empty: the system's
  std::string cert;         // our certificate, then those that lead to its root
  std::string key;          // its private key, without a passphrase
  std::string server_name;  // the name or address that the server's certificate must hold
};

// The client's side of TLS 1.2 or 1.3 on one connection, without the connection: bytes in, bytes
// out.
//
// Guarantees:  nothing is taken from a server, and nothing sent to it but the handshake, before its
//              certificate has been verified: chain, dates, and `server_name`.
// Threads:     one.
class TlsSession {
 public:
  // Reads the files and begins: output() holds the first bytes to send.
  //
  // Errors:      invalid_argument, naming the file and what is wrong with it.
  static Result<std::unique_ptr<TlsSession>> begin(const TlsFiles& files);
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
  Result<void> set_up(const TlsFiles& files);
  State advance(std::string& plain);
  State fail();
  void collect();

  ssl_ctx_st* context_ = nullptr;
  ssl_st* ssl_ = nullptr;
  bio_st* in_ = nullptr;   // ssl_'s
  bio_st* out_ = nullptr;  // ssl_'s
  State state_ = State::handshake;
  std::string problem_;
  std::string output_;
};

}  // namespace weir::store::redis
