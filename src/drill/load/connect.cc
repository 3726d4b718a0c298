#include "drill/load/connect.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace weir::drill {
namespace {

Error cannot(const std::string& address, const std::string& why) {
  return {ErrorCode::unavailable, address + ": cannot connect: " + why};
}

Result<int> finish_connect(int fd, int outcome, const std::string& address, Nanos patience) {
  if (outcome == 0) return fd;
  int error = errno;
  if (error == EINPROGRESS) {
    pollfd waiting{fd, POLLOUT, 0};
    const auto ms = std::chrono::ceil<std::chrono::milliseconds>(patience).count();
    if (::poll(&waiting, 1, static_cast<int>(ms)) <= 0) {
      ::close(fd);
      return cannot(address, "no answer in time");
    }
    socklen_t size = sizeof error;
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return fd;
  }
  ::close(fd);
  return cannot(address, std::strerror(error));
}

Result<int> connect_unix(const std::string& path, const std::string& address, Nanos patience) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path) return cannot(address, "the path is too long");
  path.copy(at.sun_path, path.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return finish_connect(fd, ::connect(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at),
                        address, patience);
}

}  // namespace

Result<int> connect_to(const std::string& address, Nanos patience) {
  constexpr std::string_view kUnix = "unix:";
  if (address.starts_with(kUnix)) {
    return connect_unix(address.substr(kUnix.size()), address, patience);
  }
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return Error{ErrorCode::invalid_argument,
                 "'" + address + "' is no address; it must be host:port or unix:PATH"};
  }
  std::string host = address.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int fault = ::getaddrinfo(host.c_str(), address.c_str() + colon + 1, &hints, &found);
  if (fault != 0) return cannot(address, ::gai_strerror(fault));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  Result<int> last = cannot(address, "no such host");
  for (const addrinfo* each = found; each != nullptr && !last; each = each->ai_next) {
    const int fd = ::socket(each->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    last = finish_connect(fd, ::connect(fd, each->ai_addr, each->ai_addrlen), address, patience);
  }
  return last;
}

}  // namespace weir::drill
