#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "weir/clock.h"
#include "weir/result.h"

namespace weir::drill {

// How one call went, as its client saw it.
struct HttpOutcome {
  enum class End : std::uint8_t {
    answered,
    timed_out,  // no whole answer in time
    refused,    // nobody listens
    cut,        // the connection ended before the answer did
    garbled,    // what came is no HTTP/1.1
    untrusted,  // no TLS could be agreed on, or the certificate is not one to be trusted
  };

  std::uint64_t tag = 0;
  MonoTime due{};       // when it was to begin; waiting for a connection counts as waiting
  MonoTime sent{};      // when it did
  MonoTime answered{};  // when its answer was whole, or it was given up
  End end = End::answered;
  int status = 0;         // 0: no answer
  std::string_view rung;  // what Weir-Rung says; empty: the store
  std::string_view why;   // of what is garbled or untrusted, in words; while the outcome is told
};

// How the other side of a TLS connection is known.
struct TlsTrust {
  std::string server_name;  // what its certificate must be for; an IP address, too
  std::string ca_file;      // PEM; empty: the authorities of this machine
  bool unchecked = false;   // whoever answers is believed
};

// Makes calls to one HTTP/1.1 server, each on time whatever becomes of the others: nothing is
// hidden by a server that makes its clients wait. A connection that the server closed while it was
// idle is no fault of the call that finds out: it is made once more, on a new one.
//
// Threads:     one of its own; outcomes are told there.
class HttpLoad {
 public:
  static constexpr std::uint32_t kMostConnections = 2'000;

  struct Options {
    std::string address;  // host:port
    std::uint32_t connections = 64;
    Nanos patience{std::chrono::seconds(5)};  // for one answer; then its connection is cut
    std::optional<TlsTrust> tls = {};         // absent: plain
  };
  // The next call, in the order of their times.
  struct Call {
    MonoTime due{};
    std::uint64_t tag = 0;
    std::string request;  // head and body, as they are sent
  };
  // False: there is none any more.
  using Next = std::function<bool(Call& call)>;
  using OnOutcome = std::function<void(const HttpOutcome& outcome)>;

  explicit HttpLoad(Options options);
  ~HttpLoad();
  HttpLoad(const HttpLoad&) = delete;
  HttpLoad& operator=(const HttpLoad&) = delete;

  // Runs in the calling thread until there are no more calls and every one has its outcome.
  //
  // Errors:      invalid_argument, unavailable: the address; the authorities.
  Result<void> run(const Next& next, const OnOutcome& on_outcome);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::drill
