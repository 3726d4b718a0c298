#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "weir/result.h"

struct ssl_ctx_st;

namespace weir::store::redis {

// What OpenSSL complains of in this thread, taken out of its queue so that nobody else finds it
// there.
std::string tls_complaint();

// How a server is trusted, and how we show who we are. Files are PEM; an empty name is none.
struct TlsFiles {
  std::string ca;           // authorities that may vouch for the server; empty: the system's
  std::string cert;         // our certificate, then those that lead to its root
  std::string key;          // its private key, without a pass phrase
  std::string server_name;  // the name or address that the server's certificate must hold
};

// What was read from these files, for any number of connections.
//
// Threads:     any.
class TlsContext {
 public:
  // Reads them, which takes as long as the disk and the number of authorities make it: tens of
  // milliseconds for the system's.
  //
  // Errors:      invalid_argument, naming the file and what is wrong with it. Asks nobody for a
  //              pass phrase.
  static Result<std::shared_ptr<const TlsContext>> read(const TlsFiles& files);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  ssl_ctx_st* get() const noexcept { return context_; }

 private:
  explicit TlsContext(ssl_ctx_st* context) : context_(context) {}

  ssl_ctx_st* context_;
};

// The same for whoever connects again and again: reads files when they are not what they were.
//
// Guarantees:  once files could be used, there is always something to use: files that cannot be, as
//              those of a renewal half way, leave what was read before.
// Threads:     one.
class TlsContexts {
 public:
  Result<std::shared_ptr<const TlsContext>> of(const TlsFiles& files);
  // How often files were read.
  std::uint64_t reads() const noexcept { return reads_; }

 private:
  // What tells one state of a file from another.
  using Stamp = std::tuple<std::uint64_t, std::uint64_t, std::int64_t, std::int64_t, std::int64_t>;
  using Stamps = std::array<Stamp, 4>;
  struct Read {
    Stamps stamps;
    std::shared_ptr<const TlsContext> context;
  };

  static Stamps stamps_of(const TlsFiles& files);

  std::map<std::tuple<std::string, std::string, std::string>, Read> read_;
  std::uint64_t reads_ = 0;
};

}  // namespace weir::store::redis
