// The least that a gRPC server on nghttp2 can do: epoll, one session a connection, every call
// answered with the same bytes once it has come whole. What the rate limit service is measured
// against. Prints "127.0.0.1:PORT" when it listens.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

namespace {

// overall_code OK and one status: as long as a usual answer is.
constexpr std::string_view kAnswer{
    "\0\0\0\0\x14\x08\x01\x12\x10\x08\x01\x12\x06\x08\xe8\x07\x10\x02\x1a\0\x18\xe7\x07\x22\0", 25};

nghttp2_nv field(std::string_view name, std::string_view value) {
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

struct Connection {
  int fd = -1;
  nghttp2_session* http2 = nullptr;
  std::string out;
  std::size_t sent = 0;
};

ssize_t read_answer(nghttp2_session* http2, std::int32_t stream, std::uint8_t* buffer, std::size_t,
                    std::uint32_t* flags, nghttp2_data_source*, void*) {
  std::memcpy(buffer, kAnswer.data(), kAnswer.size());
  *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
  const nghttp2_nv trailer = field("grpc-status", "0");
  nghttp2_submit_trailer(http2, stream, &trailer, 1);
  return static_cast<ssize_t>(kAnswer.size());
}

int on_frame(nghttp2_session* http2, const nghttp2_frame* frame, void*) {
  if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
  if (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) return 0;
  const nghttp2_nv headers[] = {field(":status", "200"), field("content-type", "application/grpc")};
  nghttp2_data_provider provider;
  provider.source.ptr = nullptr;
  provider.read_callback = read_answer;
  return nghttp2_submit_response(http2, frame->hd.stream_id, headers, 2, &provider);
}

bool flush(Connection& connection) {
  const std::uint8_t* data = nullptr;
  for (auto size = nghttp2_session_mem_send(connection.http2, &data); size > 0;
       size = nghttp2_session_mem_send(connection.http2, &data)) {
    connection.out.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(size));
  }
  while (connection.sent < connection.out.size()) {
    const ssize_t count = ::send(connection.fd, connection.out.data() + connection.sent,
                                 connection.out.size() - connection.sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EAGAIN) return true;
    if (count <= 0) return false;
    connection.sent += static_cast<std::size_t>(count);
  }
  connection.out.clear();
  connection.sent = 0;
  return true;
}

bool serve(Connection& connection) {
  static std::array<std::uint8_t, 65536> buffer;
  for (;;) {
    const ssize_t count = ::recv(connection.fd, buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EAGAIN) return flush(connection);
    if (count <= 0) return false;
    if (nghttp2_session_mem_recv(connection.http2, buffer.data(), static_cast<std::size_t>(count)) <
        0) {
      return false;
    }
    if (static_cast<std::size_t>(count) < buffer.size()) return flush(connection);
  }
}

Connection* accept_one(int listening, nghttp2_session_callbacks* callbacks,
                       nghttp2_option* option) {
  const int fd = ::accept4(listening, nullptr, nullptr, SOCK_NONBLOCK);
  if (fd < 0) return nullptr;
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  auto* connection = new Connection;
  connection->fd = fd;
  nghttp2_session_server_new2(&connection->http2, callbacks, connection, option);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1024}};
  nghttp2_submit_settings(connection->http2, 0, settings, 1);
  nghttp2_session_set_local_window_size(connection->http2, 0, 0, 1 << 20);
  return connection;
}

}  // namespace

int main() {
  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::bind(listening, reinterpret_cast<sockaddr*>(&at), sizeof at);
  ::listen(listening, 128);
  socklen_t size = sizeof at;
  ::getsockname(listening, reinterpret_cast<sockaddr*>(&at), &size);
  std::printf("127.0.0.1:%u\n", static_cast<unsigned>(ntohs(at.sin_port)));
  std::fflush(stdout);

  nghttp2_session_callbacks* callbacks = nullptr;
  nghttp2_session_callbacks_new(&callbacks);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
  nghttp2_option* option = nullptr;
  nghttp2_option_new(&option);
  nghttp2_option_set_no_closed_streams(option, 1);
  const int epoll = ::epoll_create1(0);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, listening, &event);
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = ::epoll_wait(epoll, events.data(), events.size(), -1);
    for (int i = 0; i < count; ++i) {
      auto* connection = static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr);
      if (connection == nullptr) {
        connection = accept_one(listening, callbacks, option);
        if (connection == nullptr) continue;
        event.events = EPOLLIN | EPOLLOUT | EPOLLET;
        event.data.ptr = connection;
        ::epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event);
      } else if (!serve(*connection)) {
        ::close(connection->fd);
        nghttp2_session_del(connection->http2);
        delete connection;
      }
    }
  }
}
