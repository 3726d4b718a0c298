#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weir/result.h"

struct ssl_ctx_st;
struct ssl_st;

namespace weir::server {

// What a TLS listener is made of. Files are PEM.
struct TlsOptions {
  std::string cert_file;       // the certificate, then those that lead to its root
  std::string key_file;        // its private key, without a passphrase
  std::string client_ca_file;  // given: clients must show a certificate that leads to one of these
  // Protocols to agree on, best first ("h2", "http/1.1"). A client that offers others only is
  // turned away; one that offers none is taken.
  std::vector<std::string> alpn;
};

// Certificates and key as they were read: what new connections begin with. Immutable.
//
// Threads:     any.
class TlsContext {
 public:
  // Reads the files. TLS 1.2 and 1.3; no renegotiation.
  //
  // Errors:      invalid_argument, naming the file and what is wrong with it.
  static Result<std::shared_ptr<const TlsContext>> load(const TlsOptions& options);

  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;
  ~TlsContext();

  // A server's side of one connection; the caller frees it. Null when memory is out.
  ssl_st* new_session() const;

 private:
  explicit TlsContext(const TlsOptions& options);
  Result<void> read_files(const TlsOptions& options);

  ssl_ctx_st* context_;
  std::string alpn_;  // as the protocol writes it: each name after its length
};

}  // namespace weir::server
