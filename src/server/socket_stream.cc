#include <utility>  // Boost 1.74 needs it first

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "server/lane.h"
#include "server/stream.h"

namespace weir::server {
namespace {

namespace asio = boost::asio;
// The io_context's own executor: the type-erased default costs on every operation.
using Socket =
    asio::basic_stream_socket<asio::generic::stream_protocol, asio::io_context::executor_type>;

class SocketStream final : public Stream {
 public:
  SocketStream(Lane& lane, int fd, int family)
      : lane_(lane),
        socket_(lane.io().get_executor(), asio::generic::stream_protocol(family, 0), fd) {
    if (family == AF_INET || family == AF_INET6) {
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
  }

  void set_owner(StreamOwner& owner) override { owner_ = &owner; }

  void read(std::span<char> into) override {
    ++outstanding_;
    socket_.async_read_some(asio::buffer(into.data(), into.size()),
                            [this](const boost::system::error_code& fault, std::size_t bytes) {
                              if (!still_open()) return;
                              if (!fault) return owner_->on_read(bytes);
                              if (fault == asio::error::eof) return owner_->on_end();
                              fail();
                            });
  }

  std::size_t write_some(std::span<const char> from) override {
    const ssize_t sent =
        ::send(socket_.native_handle(), from.data(), from.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent > 0 ? static_cast<std::size_t>(sent) : 0;
  }

  void write(std::span<const char> from) override {
    ++outstanding_;
    socket_.async_write_some(
        asio::buffer(from.data(), from.size()),
        [this, from](const boost::system::error_code& fault, std::size_t bytes) {
          if (!still_open()) return;
          if (fault) return fail();
          if (bytes == from.size()) return owner_->on_written();
          write(from.subspan(bytes));
        });
  }

  void shutdown_send() override { ::shutdown(socket_.native_handle(), SHUT_WR); }

  void close() override {
    if (closing_) return;
    closing_ = true;
    boost::system::error_code ignored;
    socket_.close(ignored);
    if (outstanding_ != 0) return;
    asio::post(lane_.io(), [this] { owner_->on_closed(); });
  }

  Peer peer() const override;

 private:
  // Ends an operation. False when the stream is being closed, and then perhaps no longer there.
  bool still_open() {
    --outstanding_;
    if (closing_) {
      if (outstanding_ == 0) owner_->on_closed();
      return false;
    }
    lane_.begin_event();
    return true;
  }

  void fail() {
    if (std::exchange(failed_, true)) return;
    owner_->on_failed();
  }

  Lane& lane_;
  Socket socket_;
  StreamOwner* owner_ = nullptr;
  int outstanding_ = 0;
  bool closing_ = false;
  bool failed_ = false;
};

Peer SocketStream::peer() const {
  // Room enough for IPv6; what a Unix socket has besides is cut off, and not looked at.
  sockaddr_in6 from{};
  socklen_t size = sizeof from;
  auto* generic = reinterpret_cast<sockaddr*>(&from);  // NOLINT: the socket API's own way
  if (::getpeername(const_cast<Socket&>(socket_).native_handle(), generic, &size) != 0) return {};
  char text[INET6_ADDRSTRLEN] = "";
  if (generic->sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);  // NOLINT
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return {text, (ntohl(v4.sin_addr.s_addr) >> 24) == 127};
  }
  if (generic->sa_family == AF_INET6) {
    ::inet_ntop(AF_INET6, &from.sin6_addr, text, sizeof text);
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&from.sin6_addr);
    return {text,
            IN6_IS_ADDR_LOOPBACK(&from.sin6_addr) || (mapped && from.sin6_addr.s6_addr[12] == 127)};
  }
  return {"", generic->sa_family == AF_UNIX};
}

class PlainTransport final : public Transport {
 public:
  std::unique_ptr<Stream> wrap(Lane& lane, int fd, int family) override {
    return std::make_unique<SocketStream>(lane, fd, family);
  }
};

}  // namespace

Transport& plain_transport() {
  static PlainTransport transport;
  return transport;
}

}  // namespace weir::server
