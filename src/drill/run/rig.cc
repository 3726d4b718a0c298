#include "drill/run/rig.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "drill/load/connect.h"

namespace weir::drill {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr Nanos kStartPatience = 15s;

std::string loopback(std::uint16_t port) {
  return "127.0.0.1:" + std::to_string(port);
}

// A port of 127.0.0.1 that was free a moment ago; 0 where there is none.
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

// Sends, and takes what comes until the peer closes, it ends in `end`, or patience ends.
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

// The port of a line of the ready text, as "  http   http://127.0.0.1:8080"; 0 without one.
std::uint16_t port_of(const std::string& text, const std::string& door) {
  const std::size_t line = text.find("\n  " + door + " ");
  if (line == std::string::npos) return 0;
  const std::size_t end = text.find('\n', line + 1);
  const std::size_t colon = text.rfind(':', end);
  std::uint16_t port = 0;
  if (end != std::string::npos && colon > line) {
    std::from_chars(text.data() + colon + 1, text.data() + end, port);
  }
  return port;
}

std::string last_lines(const std::string& text) {
  constexpr std::size_t kMost = 600;
  return text.size() <= kMost ? text : "…" + text.substr(text.size() - kMost);
}

}  // namespace

Result<std::unique_ptr<Rig>> Rig::start(const Options& options) {
  std::unique_ptr<Rig> rig(new Rig(options));
  if (auto made = rig->make_folder(); !made) return made.error();
  rig->redis_port_ = free_port();
  if (auto started = rig->start_redis(); !started) return started.error();
  auto proxy = FaultProxy::start({.target = loopback(rig->redis_port_)});
  if (!proxy) return proxy.error();
  rig->proxy_ = std::move(*proxy);
  if (auto started = rig->start_weir(); !started) return started.error();
  return rig;
}

Rig::~Rig() {
  weir_.reset();
  proxy_.reset();
  redis_.reset();
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

Result<void> Rig::make_folder() {
  std::error_code fault;
  std::string name = (fs::temp_directory_path(fault) / "weir-drill-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    return Error{ErrorCode::unavailable, name + ": no folder can be made there"};
  }
  folder_ = name;
  return {};
}

Result<void> Rig::start_redis() {
  auto child =
      ChildProcess::start({options_.redis_program, "--port", std::to_string(redis_port_), "--bind",
                           "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder_},
                          folder_, folder_ + "/redis.log");
  if (!child) {
    return Error{ErrorCode::unavailable, child.error().message + "; install redis-server"};
  }
  redis_ = std::move(*child);
  const MonoTime until = Clock::real().mono() + kStartPatience;
  while (redis_->running() && Clock::real().mono() < until) {
    if (exchange(loopback(redis_port_), "PING\r\n", "+PONG\r\n") == "+PONG\r\n") return {};
    std::this_thread::sleep_for(20ms);
  }
  return Error{ErrorCode::unavailable,
               options_.redis_program + " does not answer: " + last_lines(redis_->output())};
}

Result<void> Rig::start_weir() {
  auto child = ChildProcess::start(
      {options_.weir_program, "serve", fs::absolute(options_.policy).string(), "--store",
       "redis://" + loopback(proxy_->port()) + "/0", "--http", "127.0.0.1:0", "--grpc", "off",
       "--admin", "127.0.0.1:0", "--drain-delay", "0s"},
      folder_, folder_ + "/weir.log");
  if (!child) return child.error();
  weir_ = std::move(*child);
  const MonoTime until = Clock::real().mono() + kStartPatience;
  while (weir_->running() && Clock::real().mono() < until) {
    const std::string text = weir_->output();
    http_port_ = port_of(text, "http");
    admin_port_ = port_of(text, "admin");
    if (http_port_ != 0 && admin_port_ != 0) return {};
    std::this_thread::sleep_for(20ms);
  }
  return Error{ErrorCode::unavailable, "weir serve does not serve: " + last_lines(weir_->output())};
}

Result<void> Rig::act(ServerAct act) {
  if (act == ServerAct::none) return {};
  switch (act) {
    case ServerAct::none:
      break;
    case ServerAct::pause:
      redis_->signal(SIGSTOP);
      break;
    case ServerAct::resume:
      redis_->signal(SIGCONT);
      break;
    case ServerAct::kill:
      redis_->kill();
      break;
    case ServerAct::start:
      return start_redis();
  }
  return {};
}

std::string Rig::metrics() const {
  const std::string answer =
      exchange(loopback(admin_port_),
               "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n", "");
  const std::size_t body = answer.find("\r\n\r\n");
  return body == std::string::npos ? std::string() : answer.substr(body + 4);
}

bool Rig::stop() {
  weir_->signal(SIGTERM);
  return weir_->wait(kStartPatience);
}

}  // namespace weir::drill
