#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "server/listener.h"

namespace weir::server {
namespace {

std::string reason(int number) {
  return std::strerror(number);
}

// An address that is one, but not for us, now, here.
Error failed(const Address& address, const std::string& why,
             ErrorCode code = ErrorCode::unavailable) {
  return {code, address.text() + ": " + why};
}

Error in_use(const Address& address) {
  if (address.kind == Address::Kind::unix_socket) {
    return failed(address, "another process answers on this socket; end it or choose another path");
  }
  return failed(address,
                "port " + std::to_string(address.port) +
                    " is in use by another process; end it, choose another port, or port 0 for any "
                    "free one");
}

Error refused(const Address& address, int number) {
  if (number == EADDRINUSE) return in_use(address);
  if (number == EACCES) {
    return failed(address, "not permitted here (ports below 1024 need CAP_NET_BIND_SERVICE)");
  }
  if (number == EADDRNOTAVAIL) return failed(address, "no interface has this address");
  return failed(address, "cannot listen: " + reason(number));
}

void set_option(int fd, int option) {
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, option, &on, sizeof on);
}

// One resolved TCP address.
struct Endpoint {
  sockaddr_storage at{};
  socklen_t size = 0;
  int family() const { return at.ss_family; }
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&at); }  // NOLINT
};

Result<Endpoint> resolve(const Address& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int fault = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (fault != 0 || found == nullptr) {
    return failed(address, "no such host: " + std::string(::gai_strerror(fault)));
  }
  // A name with both kinds of address listens on the IPv4 one: what most clients try.
  const addrinfo* chosen = found;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    if (each->ai_family == AF_INET) {
      chosen = each;
      break;
    }
  }
  Endpoint endpoint;
  std::memcpy(&endpoint.at, chosen->ai_addr, chosen->ai_addrlen);
  endpoint.size = chosen->ai_addrlen;
  ::freeaddrinfo(found);
  return endpoint;
}

std::uint16_t bound_port(int fd) {
  sockaddr_in6 at{};
  socklen_t size = sizeof at;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size);  // NOLINT
  return ntohs(at.sin6_port);                                  // where IPv4 has it too
}

// SO_REUSEPORT would let a second server of the same user share the port in silence, so the port is
// tried without it first.
Result<void> check_free(const Address& address, const Endpoint& endpoint) {
  const int fd = ::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return refused(address, errno);
  const ListenSocket closes(fd, endpoint.family(), nullptr);
  set_option(fd, SO_REUSEADDR);
  if (::bind(fd, endpoint.raw(), endpoint.size) != 0) return refused(address, errno);
  return {};
}

Result<ListenSocket> listen_tcp(const Address& address, const Endpoint& endpoint) {
  const int fd = ::socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return refused(address, errno);
  ListenSocket socket(fd, endpoint.family(), nullptr);
  set_option(fd, SO_REUSEADDR);
  set_option(fd, SO_REUSEPORT);
  if (::bind(fd, endpoint.raw(), endpoint.size) != 0 || ::listen(fd, SOMAXCONN) != 0) {
    return refused(address, errno);
  }
  return socket;
}

Result<ListenSockets> listen_tcp(const Address& address, std::size_t count) {
  Result<Endpoint> endpoint = resolve(address);
  if (!endpoint) return std::move(endpoint).error();
  ListenSockets made;
  made.address = address;
  if (address.port != 0) {
    if (const auto unused = check_free(address, *endpoint); !unused) return unused.error();
  }
  for (std::size_t i = 0; i < count; ++i) {
    Result<ListenSocket> socket = listen_tcp(made.address, *endpoint);
    if (!socket) return std::move(socket).error();
    if (made.address.port == 0) {
      made.address.port = bound_port(socket->fd());
      // Where IPv4 has it too.
      reinterpret_cast<sockaddr_in6&>(endpoint->at).sin6_port =  // NOLINT
          htons(made.address.port);
    }
    made.sockets.push_back(std::move(*socket));
  }
  return made;
}

sockaddr_un unix_address(const std::string& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path, path.data(), path.size());  // parse_address has seen to the length
  return at;
}

const sockaddr* raw(const sockaddr_un& at) {
  return reinterpret_cast<const sockaddr*>(&at);  // NOLINT: the socket API's own way
}

// Removes a socket file that nobody listens on any more; what a killed server leaves behind.
Result<void> clear_stale(const Address& address) {
  struct stat found {};
  if (::lstat(address.path.c_str(), &found) != 0) return {};
  if (!S_ISSOCK(found.st_mode)) {
    return failed(address, "the file exists and is not a socket; it is left alone");
  }
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return refused(address, errno);
  const ListenSocket closes(fd, AF_UNIX, nullptr);
  const sockaddr_un at = unix_address(address.path);
  const int connected = ::connect(fd, raw(at), sizeof at);
  if (connected == 0 || errno == EAGAIN) return in_use(address);
  if (errno != ECONNREFUSED) {
    return failed(address, "cannot tell whether the socket is in use: " + reason(errno));
  }
  if (::unlink(address.path.c_str()) != 0 && errno != ENOENT) {
    return failed(address, "cannot remove the stale socket: " + reason(errno));
  }
  return {};
}

// Removes the file when the last socket goes, unless another one has taken its place.
std::shared_ptr<void> file_owner(const std::string& path) {
  struct stat made {};
  if (::lstat(path.c_str(), &made) != 0) return nullptr;
  auto* remembered = new struct stat(made);
  return {remembered, [path](void* pointer) {
            const std::unique_ptr<struct stat> before(static_cast<struct stat*>(pointer));
            struct stat current {};
            if (::lstat(path.c_str(), &current) != 0) return;
            if (current.st_ino == before->st_ino && current.st_dev == before->st_dev) {
              ::unlink(path.c_str());
            }
          }};
}

Result<ListenSockets> listen_unix(const Address& address, std::size_t count, unsigned mode) {
  if (const auto cleared = clear_stale(address); !cleared) return cleared.error();
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return refused(address, errno);
  ListenSocket first(fd, AF_UNIX, nullptr);
  ::fchmod(fd, mode);  // before bind: the file never exists with wider permissions
  const sockaddr_un at = unix_address(address.path);
  if (::bind(fd, raw(at), sizeof at) != 0) return refused(address, errno);
  const std::shared_ptr<void> file = file_owner(address.path);
  if (::chmod(address.path.c_str(), mode) != 0 || ::listen(fd, SOMAXCONN) != 0) {
    return refused(address, errno);
  }
  ListenSockets made;
  made.address = address;
  for (std::size_t i = 0; i < count; ++i) {
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) return refused(address, errno);
    made.sockets.emplace_back(copy, AF_UNIX, file);
  }
  return made;
}

}  // namespace

Result<ListenSockets> listen_on(const Address& address, std::size_t count, unsigned unix_mode) {
  switch (address.kind) {
    case Address::Kind::off:
      return ListenSockets{};
    case Address::Kind::tcp:
      return listen_tcp(address, count);
    case Address::Kind::unix_socket:
      return listen_unix(address, count, unix_mode);
  }
  return failed(address, "unknown kind of address", ErrorCode::internal);
}

}  // namespace weir::server
