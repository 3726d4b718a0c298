#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/address.h"
#include "server/stream.h"
#include "weir/result.h"

namespace weir::server {

class Door;
class Lane;

// A socket that listens and is not yet accepted on. A Unix socket's file goes with the last of
// them.
class ListenSocket {
 public:
  ListenSocket() = default;
  ListenSocket(int fd, int family, std::shared_ptr<void> file)
      : fd_(fd), family_(family), file_(std::move(file)) {}
  ListenSocket(ListenSocket&& other) noexcept;
  ListenSocket& operator=(ListenSocket&& other) noexcept;
  ~ListenSocket();

  int fd() const noexcept { return fd_; }
  int family() const noexcept { return family_; }

 private:
  int fd_ = -1;
  int family_ = 0;
  std::shared_ptr<void> file_;  // removes the socket file, where there is one
};

// The same address once for each lane.
struct ListenSockets {
  Address address;  // with the port that was picked
  std::vector<ListenSocket> sockets;
};

// Listens on `address` with `count` sockets: TCP by SO_REUSEPORT, so that the kernel spreads
// connections; a Unix socket is one, shared. A socket file that nobody answers on is replaced; one
// that somebody answers on, and any other file, is not touched.
//
// Errors:      unavailable (in use), invalid_argument (no such address, not permitted); the message
//              begins with the address as written.
// Threads:     any; blocks on a name that must be resolved.
Result<ListenSockets> listen_on(const Address& address, std::size_t count,
                                unsigned unix_mode = 0660);

// Accepts on one socket of one lane. Made by Lane::listen.
class Listener {
 public:
  Listener(Lane& lane, ListenSocket socket, std::unique_ptr<Door> door, Transport& transport);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Accepts what waits, then listens no more.
  void close();

 private:
  struct Acceptor;

  void wait();
  void accept_waiting();
  // False once nothing more waits, or nothing can be accepted for lack of descriptors.
  bool accept_one();
  void pause();

  Lane& lane_;
  ListenSocket socket_;
  std::unique_ptr<Door> door_;
  Transport& transport_;
  std::shared_ptr<Acceptor> acceptor_;  // null once it is closed; handlers in flight look
};

}  // namespace weir::server
