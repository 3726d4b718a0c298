#include "drill/run/exchange.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include "drill/load/connect.h"
#include "weir/clock.h"

namespace weir::drill {

using namespace std::chrono_literals;

std::string loopback(std::uint16_t port) {
  return "127.0.0.1:" + std::to_string(port);
}

std::uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  const bool bound = fd >= 0 && ::bind(fd, any, size) == 0 && ::getsockname(fd, any, &size) == 0;
  if (fd >= 0) ::close(fd);
  return bound ? ntohs(address.sin_port) : std::uint16_t{0};
}

std::string exchange(const std::string& address, const std::string& text, std::string_view end) {
  const Result<int> connected = connect_to(address, 1s);
  if (!connected) return {};
  const int fd = *connected;
  std::string answer;
  std::array<char, 64 * 1024> block;
  const MonoTime until = Clock::real().mono() + 2s;
  if (::send(fd, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size())) {
    while (Clock::real().mono() < until && (end.empty() || !answer.ends_with(end))) {
      pollfd waiting{fd, POLLIN, 0};
      if (::poll(&waiting, 1, 100) <= 0) continue;
      const ssize_t count = ::recv(fd, block.data(), block.size(), 0);
      if (count <= 0) break;
      answer.append(block.data(), static_cast<std::size_t>(count));
    }
  }
  ::close(fd);
  return answer;
}

}  // namespace weir::drill
