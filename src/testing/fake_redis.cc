#include "testing/fake_redis.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <list>
#include <utility>

#include "testing/resp_commands.h"

namespace weir::testing {
namespace {

struct Peer {
  int socket;
  RespCommands commands;
  std::string held = {};  // replies on their way
};

bool send_all(int socket, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

FakeRedis::FakeRedis() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ::bind(listener_, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
  ::listen(listener_, 16);
  if (::pipe(stop_pipe_) != 0) ::abort();
  thread_ = std::thread([this] { run(); });
}

FakeRedis::~FakeRedis() {
  ::close(stop_pipe_[1]);
  thread_.join();
  ::close(stop_pipe_[0]);
  ::close(listener_);
}

void FakeRedis::script(Script script) {
  std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

void FakeRedis::always(const std::string& name, Say say) {
  script([name, say](const std::vector<std::string>& command) -> std::optional<Say> {
    if (command.front() == name) return say;
    return std::nullopt;
  });
}

void FakeRedis::behave() {
  script({});
}

std::uint64_t FakeRedis::commands(const std::string& name) const {
  std::lock_guard lock(mutex_);
  const auto found = commands_.find(name);
  return found == commands_.end() ? 0 : found->second;
}

bool FakeRedis::answer(int socket, const std::vector<std::string>& command, std::string& held) {
  std::optional<Say> say;
  {
    std::lock_guard lock(mutex_);
    ++commands_[command.front()];
    if (script_) say = script_(command);
    if (!say) {
      redis_.set_now(Clock::real().now() + Nanos{ahead_.load()});
      say = Say{redis_.execute(command)};
    }
  }
  if (holds_ || !held.empty()) {
    held += say->bytes;
  } else if (say->between_bytes == Nanos{0}) {
    if (!send_all(socket, say->bytes)) return false;
  } else {
    for (const char& byte : say->bytes) {
      // The stop of the server cuts a slow reply short.
      pollfd stop{stop_pipe_[0], POLLIN, 0};
      const auto ms = std::chrono::ceil<std::chrono::milliseconds>(say->between_bytes).count();
      if (::poll(&stop, 1, static_cast<int>(ms)) != 0 || !send_all(socket, {&byte, 1}))
        return false;
    }
  }
  return !say->close;
}

void FakeRedis::run() {
  std::list<Peer> peers;
  for (;;) {
    std::vector<pollfd> polls{{stop_pipe_[0], POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const Peer& peer : peers) polls.push_back({peer.socket, POLLIN, 0});
    const bool holding = std::any_of(peers.begin(), peers.end(),
                                     [](const Peer& peer) { return !peer.held.empty(); });
    ::poll(polls.data(), polls.size(), holding ? 1 : -1);
    if (polls[0].revents != 0) break;
    std::size_t at = 2;
    for (auto peer = peers.begin(); peer != peers.end(); ++at) {
      bool open = true;
      if (polls[at].revents != 0) {
        char chunk[16'384];
        const ssize_t size = ::read(peer->socket, chunk, sizeof(chunk));
        open = size > 0;
        if (open) peer->commands.feed({chunk, static_cast<std::size_t>(size)});
        while (open) {
          const auto command = peer->commands.next();
          if (!command) break;
          open = answer(peer->socket, *command, peer->held);
        }
      }
      if (open && !holds_ && !peer->held.empty())
        open = send_all(peer->socket, std::exchange(peer->held, {}));
      if (open) {
        ++peer;
      } else {
        ::close(peer->socket);
        peer = peers.erase(peer);
      }
    }
    if (polls[1].revents != 0) {
      const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (socket >= 0) {
        const int on = 1;
        ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        peers.push_back({socket, {}});
        ++connections_;
      }
    }
  }
  for (const Peer& peer : peers) ::close(peer.socket);
}

}  // namespace weir::testing
