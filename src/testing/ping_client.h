#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::testing {

inline constexpr int kPatienceMs = 10'000;
inline constexpr std::string_view kPing = "*1\r\n$4\r\nPING\r\n";
inline constexpr std::string_view kPong = "+PONG\r\n";

// A client that says how its connection ended; after that, sockets say that they are closed.
class PingClient {
 public:
  explicit PingClient(std::uint16_t port)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      connect_error_ = errno;
    }
  }
  ~PingClient() { ::close(socket_); }
  PingClient(const PingClient&) = delete;
  PingClient& operator=(const PingClient&) = delete;

  bool connected() const { return connect_error_ == 0; }
  int connect_error() const { return connect_error_; }
  void ping() { say(kPing); }
  void say(std::string_view text) { (void)::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
  void say_goodbye() { ::shutdown(socket_, SHUT_WR); }

  // Reads until so many bytes are there or the connection ends: then `ended` says how.
  std::string receive(std::size_t size, int patience_ms = kPatienceMs) {
    std::string bytes;
    while (bytes.size() < size) {
      pollfd poll{socket_, POLLIN, 0};
      if (::poll(&poll, 1, patience_ms) <= 0) break;
      char chunk[4096];
      const ssize_t got = ::recv(socket_, chunk, std::min(sizeof chunk, size - bytes.size()), 0);
      if (got <= 0) {
        if (ended.empty()) ended = got == 0 ? "closed" : errno == ECONNRESET ? "reset" : "error";
        break;
      }
      bytes.append(chunk, static_cast<std::size_t>(got));
    }
    return bytes;
  }
  bool silent(int for_ms = 150) { return receive(1, for_ms).empty() && ended.empty(); }
  bool answers() {
    ping();
    return receive(kPong.size()) == kPong;
  }

  std::string ended;

 private:
  int socket_;
  int connect_error_ = 0;
};

}  // namespace weir::testing
