#include "testing/redis_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace weir::testing {
namespace {

constexpr int kPatienceMs = 30'000;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

std::string encoded(const std::vector<std::string>& command) {
  std::string out = "*" + std::to_string(command.size()) + "\r\n";
  for (const std::string& argument : command) {
    out += "$" + std::to_string(argument.size()) + "\r\n" + argument + "\r\n";
  }
  return out;
}

std::string fresh_directory() {
  std::string path = (std::filesystem::temp_directory_path() / "weir-redis-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  return path;
}

}  // namespace

std::uint16_t free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

RedisConnection::RedisConnection(std::uint16_t port)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const sockaddr_in address = loopback(port);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    ::close(socket_);
    throw std::runtime_error("nothing listens on port " + std::to_string(port));
  }
  const int on = 1;
  ::setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

RedisConnection::~RedisConnection() {
  ::close(socket_);
}

bool RedisConnection::read_line(std::size_t& at, std::string& line) {
  for (;;) {
    const std::size_t end = input_.find("\r\n", at);
    if (end != std::string::npos) {
      line = input_.substr(at, end - at);
      at = end + 2;
      return true;
    }
    pollfd poll{socket_, POLLIN, 0};
    char chunk[16'384];
    if (::poll(&poll, 1, kPatienceMs) <= 0) return false;
    const ssize_t size = ::read(socket_, chunk, sizeof(chunk));
    if (size <= 0) return false;
    input_.append(chunk, static_cast<std::size_t>(size));
  }
}

bool RedisConnection::read_reply(std::size_t& at) {
  std::string line;
  if (!read_line(at, line) || line.empty()) return false;
  const long count = std::strtol(line.c_str() + 1, nullptr, 10);
  if (line[0] == '$' && count >= 0) {
    const std::size_t end = at + static_cast<std::size_t>(count);
    std::string rest;
    while (input_.size() < end + 2) {
      std::size_t from = input_.size();
      pollfd poll{socket_, POLLIN, 0};
      char chunk[16'384];
      if (::poll(&poll, 1, kPatienceMs) <= 0) return false;
      const ssize_t size = ::read(socket_, chunk, sizeof(chunk));
      if (size <= 0) return false;
      input_.insert(from, chunk, static_cast<std::size_t>(size));
    }
    at = end + 2;
  }
  if (line[0] == '*') {
    for (long i = 0; i < count; ++i) {
      if (!read_reply(at)) return false;
    }
  }
  return true;
}

std::string RedisConnection::execute(const std::vector<std::string>& command) {
  const std::string out = encoded(command);
  if (::send(socket_, out.data(), out.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(out.size())) {
    return {};
  }
  std::size_t at = 0;
  if (!read_reply(at)) return {};
  std::string reply = input_.substr(0, at);
  input_.erase(0, at);
  return reply;
}

RedisServer::RedisServer(Options options)
    : options_(std::move(options)),
      port_(options_.port != 0 ? options_.port : free_port()),
      directory_(options_.directory.empty() ? fresh_directory() : options_.directory),
      owns_directory_(options_.directory.empty()) {
  start();
}

RedisServer::~RedisServer() {
  kill();
  std::error_code ignored;
  if (owns_directory_) std::filesystem::remove_all(directory_, ignored);
}

std::vector<std::string> RedisServer::command_line() {
  const char* const named = std::getenv("WEIR_TEST_REDIS");
  const std::string program = named != nullptr ? named : "redis-server";
  if (!options_.sentinel.empty()) {
    const std::string file = directory_ + "/sentinel.conf";
    if (!std::exchange(configured_, true)) {
      std::ofstream(file) << "port " << port_ << "\nbind 127.0.0.1\ndir " << directory_
                          << "\nlogfile " << directory_ << "/log\n"
                          << options_.sentinel << '\n';
    }
    return {program, file, "--sentinel"};
  }
  std::vector<std::string> arguments = {program,
                                        "--port",
                                        std::to_string(port_),
                                        "--bind",
                                        "127.0.0.1",
                                        "--dir",
                                        directory_,
                                        "--unixsocket",
                                        unix_path(),
                                        "--save",
                                        "",
                                        "--appendonly",
                                        "no",
                                        "--daemonize",
                                        "no",
                                        "--logfile",
                                        directory_ + "/log"};
  arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
  return arguments;
}

void RedisServer::start() {
  // Between the moment when a port was found free and this one somebody else may have taken it.
  const bool may_move = !std::exchange(started_, true) && options_.port == 0;
  for (int tries = may_move ? 3 : 1; tries > 0; --tries) {
    launch();
    if (answers()) return;
    if (is_running()) break;
    if (tries == 1) break;
    admin_.reset();
    port_ = free_port();
    configured_ = false;
  }
  kill();
  throw std::runtime_error("redis-server does not answer; its log is in " + directory_);
}

void RedisServer::launch() {
  std::vector<std::string> arguments = command_line();
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) {
    // A test that is killed leaves no server behind.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, 0);
    ::dup2(null, 1);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
}

bool RedisServer::answers() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (is_running() && std::chrono::steady_clock::now() < until) {
    try {
      admin_ = std::make_unique<RedisConnection>(port_);
      const std::string reply = admin_->execute({"PING"});
      if (reply == "+PONG\r\n" || reply.starts_with("-NOAUTH") ||
          reply.starts_with("-MASTERDOWN")) {
        return is_running();
      }
    } catch (const std::runtime_error&) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

bool RedisServer::is_running() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) != 0) pid_ = -1;
  return pid_ > 0;
}

void RedisServer::pause() {
  if (pid_ <= 0) return;  // of a server that is gone, -1 would be every process
  ::kill(pid_, SIGSTOP);
}
void RedisServer::resume() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGCONT);
}

void RedisServer::kill() {
  if (pid_ <= 0) return;
  admin_.reset();
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::string RedisServer::execute(const std::vector<std::string>& command) {
  if (!admin_) admin_ = std::make_unique<RedisConnection>(port_);
  std::string reply = admin_->execute(command);
  if (reply.empty()) admin_.reset();
  return reply;
}

std::string RedisServer::text(const std::vector<std::string>& command) {
  std::string reply = execute(command);
  if (reply.starts_with("$-1")) return {};
  if (reply.starts_with("$"))
    reply.erase(0, reply.find("\r\n") + 2);
  else if (reply.starts_with(":") || reply.starts_with("+"))
    reply.erase(0, 1);
  if (reply.ends_with("\r\n")) reply.resize(reply.size() - 2);
  return reply;
}

std::vector<std::string> RedisServer::keys(const std::string& pattern) {
  // Two elements: the cursor, and an array of keys.
  std::vector<std::string> found;
  std::string cursor = "0";
  do {
    const std::string reply = execute({"SCAN", cursor, "MATCH", pattern, "COUNT", "1000"});
    std::vector<std::string> texts;
    for (std::size_t at = reply.find('$'); at != std::string::npos;) {
      const std::size_t size = std::stoul(reply.substr(at + 1));
      const std::size_t begin = reply.find("\r\n", at) + 2;
      texts.push_back(reply.substr(begin, size));
      at = reply.find('$', begin + size);
    }
    if (texts.empty()) break;
    cursor = texts.front();
    found.insert(found.end(), texts.begin() + 1, texts.end());
  } while (cursor != "0");
  return found;
}

}  // namespace weir::testing
