#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace weir::server {

class Lane;

// What hears from a Stream. Every member is called in the lane's thread, never from inside a call
// into the stream; Lane::now() is then the time of the event.
class StreamOwner {
 public:
  virtual ~StreamOwner() = default;
  // `bytes` > 0 of them now stand at the start of what read() was given.
  virtual void on_read(std::size_t bytes) = 0;
  // The peer sends nothing more; it may still be reading.
  virtual void on_end() = 0;
  // All that write() was given has been taken.
  virtual void on_written() = 0;
  // The stream is broken: nothing can be read or written. Comes at most once; close() is due.
  virtual void on_failed() = 0;
  // The last call, after close(): no operation is outstanding. The owner may delete itself and the
  // stream.
  virtual void on_closed() = 0;
};

// Who is on the other side.
struct Peer {
  std::string address;    // without port; empty for a Unix socket
  bool loopback = false;  // on this machine: a loopback address or a Unix socket
};

// One connected stream of bytes: a TCP or a Unix socket, with or without TLS.
//
// Threads:     the lane's alone.
// Errors:      all through StreamOwner::on_failed.
class Stream {
 public:
  virtual ~Stream() = default;

  // Requires:    called once, before anything else.
  virtual void set_owner(StreamOwner& owner) = 0;

  // Asks for the next bytes; answered by on_read, on_end or on_failed. One at a time.
  // Requires:    `into` stays valid until then, and until on_closed after a close().
  virtual void read(std::span<char> into) = 0;

  // Sends what can be sent without waiting and returns how many bytes that was. A fault counts as
  // 0 bytes and shows in the next write().
  // Requires:    no write() is outstanding.
  virtual std::size_t write_some(std::span<const char> from) = 0;

  // Sends all of it; answered by on_written or on_failed. One at a time.
  // Requires:    `from` stays valid until then, and until on_closed after a close().
  virtual void write(std::span<const char> from) = 0;

  // Tells the peer that nothing more comes; reading goes on.
  virtual void shutdown_send() = 0;

  // Ends everything outstanding without a further call but on_closed. May be repeated.
  virtual void close() = 0;

  virtual Peer peer() const = 0;
};

// Makes a Stream of an accepted socket. The plain one is plain_transport(); TLS is another.
//
// Threads:     wrap() is called in any lane's thread, several at once.
class Transport {
 public:
  virtual ~Transport() = default;
  // Takes `fd`, a connected non-blocking socket of `family`, over. A handshake, if there is one, is
  // the stream's own matter and happens before the first bytes are read or written.
  virtual std::unique_ptr<Stream> wrap(Lane& lane, int fd, int family) = 0;
};

// Bytes as they are. Lives as long as the process.
Transport& plain_transport();

}  // namespace weir::server
