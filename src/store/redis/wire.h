#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "store/redis/error_class.h"
#include "store/redis/tls_context.h"
#include "weir/clock.h"

namespace weir::store::redis {

// Where a server listens: a host and port, or a Unix socket.
struct Endpoint {
  std::string host;  // a name or an address
  std::uint16_t port = 6379;
  std::string unix_path;        // not empty: this, and no host
  std::optional<TlsFiles> tls;  // looked at again for each connection
};

// The way to one server and back, and the passing of time: what a RedisClient needs of the world.
// On a real event loop see asio_wire.h; a simulation has its own.
//
// Guarantees:  events come from the loop, never from inside a call of a member.
// Threads:     the loop's alone.
class Wire {
 public:
  class Events {
   public:
    virtual ~Events() = default;
    virtual void on_open() = 0;
    virtual void on_bytes(std::string_view bytes) = 0;
    // The connection, or the attempt at one, is over.
    // `text` says more where there is more to say.
    virtual void on_closed(LocalFault why, std::string_view text = {}) = 0;
    // The server is another one now: what stands is of no use any more, and where nothing does, an
    // attempt at it is worth more than it was a moment ago.
    virtual void on_elsewhere() {}
    // The end of the turn of the loop in which flush_soon() was called.
    virtual void on_flush() = 0;
    // The time of wake_at() has come.
    virtual void on_wake() = 0;
  };

  virtual ~Wire() = default;

  virtual void bind(Events* events) = 0;
  // Resolves the name anew and connects. Ends in on_open() or on_closed(), unless close() comes
  // before.
  virtual void open() = 0;
  // Nothing is heard of the connection after this.
  virtual void close() = 0;
  // Takes the bytes out of `bytes` and sends them in order.
  virtual void send(std::string& bytes) = 0;
  virtual void flush_soon() = 0;
  // One wake-up: a later call replaces an earlier one.
  virtual void wake_at(MonoTime when) = 0;
  // The server that connections go to just now; absent: none is known.
  virtual std::optional<Endpoint> where() const { return std::nullopt; }
};

// A wire that can be turned to another server.
class AimedWire : public Wire {
 public:
  // From the next open() on.
  virtual void aim(Endpoint endpoint) = 0;
};

}  // namespace weir::store::redis
