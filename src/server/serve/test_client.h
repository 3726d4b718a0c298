#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace weir::server {

// One HTTP connection of a test: blocking, and every wait ends within kPatience.
class TestClient {
 public:
  static constexpr std::chrono::seconds kPatience{30};

  struct Answer {
    int status = 0;
    std::string head;
    std::string body;

    bool has(std::string_view line) const { return head.find(line) != std::string::npos; }
    // Value of a header; empty without.
    std::string header(const std::string& name) const {
      const std::size_t at = head.find("\r\n" + name + ": ");
      if (at == std::string::npos) return {};
      const std::size_t begin = at + name.size() + 4;
      return head.substr(begin, head.find("\r\n", begin) - begin);
    }
  };

  explicit TestClient(std::uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    ::inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    open(AF_INET, reinterpret_cast<const sockaddr*>(&at), sizeof at);
  }
  explicit TestClient(const std::string& path) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    path.copy(at.sun_path, sizeof at.sun_path - 1);
    open(AF_UNIX, reinterpret_cast<const sockaddr*>(&at), sizeof at);
  }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;
  ~TestClient() { ::close(fd_); }

  bool connected() const { return connected_; }
  int fd() const { return fd_; }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent =
          again([&] { return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); });
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // The next whole answer; nothing where the connection ended before it.
  std::optional<Answer> receive() {
    std::size_t end = 0;
    while ((end = in_.find("\r\n\r\n")) == std::string::npos) {
      if (!more()) return std::nullopt;
    }
    Answer answer;
    answer.head = in_.substr(0, end + 2);
    answer.status = std::atoi(answer.head.c_str() + sizeof "HTTP/1.1");
    const std::string length = answer.header("Content-Length");
    const std::size_t size = length.empty() ? 0 : std::stoul(length);
    while (in_.size() < end + 4 + size) {
      if (!more()) return std::nullopt;
    }
    answer.body = in_.substr(end + 4, size);
    in_.erase(0, end + 4 + size);
    return answer;
  }
  // Everything until the other side closes.
  std::string rest() {
    while (more()) {
    }
    return in_;
  }

  std::optional<Answer> ask(const std::string& method, const std::string& target,
                            const std::string& body = "", const std::string& fields = "") {
    const bool sent = send(method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + fields +
                           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return sent ? receive() : std::nullopt;
  }

 private:
  void open(int family, const sockaddr* at, socklen_t size) {
    fd_ = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    timeval patience{};
    patience.tv_sec = kPatience.count();
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    connected_ = ::connect(fd_, at, size) == 0 || (errno == EINTR && is_there());
  }
  // A connection goes on being made when the wait for it ends early.
  bool is_there() {
    pollfd made{fd_, POLLOUT, 0};
    int error = 0;
    socklen_t size = sizeof error;
    return again([&] { return ::poll(&made, 1, kPatience.count() * 1000); }) == 1 &&
           ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }
  // The kernel never goes on by itself with a call that waits for a limited time: whatever wakes
  // the thread ends it.
  template <typename Call>
  static ssize_t again(Call call) {
    ssize_t result = 0;
    do {
      result = call();
    } while (result < 0 && errno == EINTR);
    return result;
  }
  bool more() {
    char buffer[16 * 1024];
    const ssize_t got = again([&] { return ::recv(fd_, buffer, sizeof buffer, 0); });
    if (got <= 0) return false;
    in_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }

  int fd_ = -1;
  bool connected_ = false;
  std::string in_;
};

}  // namespace weir::server
