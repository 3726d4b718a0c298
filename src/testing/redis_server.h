#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace weir::testing {

// A blocking connection for tests: one command, one reply.
class RedisConnection {
 public:
  // Throws std::runtime_error where nobody listens.
  explicit RedisConnection(std::uint16_t port);
  ~RedisConnection();
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;

  // The reply as RESP bytes; empty once the connection is gone.
  std::string execute(const std::vector<std::string>& command);

 private:
  bool read_reply(std::size_t& at);
  bool read_line(std::size_t& at, std::string& line);

  int socket_ = -1;
  std::string input_;
};

// A real redis-server, or a sentinel, on a free port of 127.0.0.1, in a directory of its own; ended
// by its pid. WEIR_TEST_REDIS names another program of that kind.
class RedisServer {
 public:
  struct Options {
    std::vector<std::string> arguments;  // after the usual ones
    std::uint16_t port = 0;              // 0: a free one
    std::string directory;               // to start on another's data; empty: a fresh one
    std::string sentinel;                // not empty: a sentinel, with this configuration
  };

  // Throws std::runtime_error where no server answers within ten seconds.
  RedisServer() : RedisServer(Options{}) {}
  explicit RedisServer(Options options);
  ~RedisServer();  // kill -9, and the directory is removed unless it was given
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  std::uint16_t port() const noexcept { return port_; }
  std::string url() const { return "redis://127.0.0.1:" + std::to_string(port_); }
  std::string unix_path() const { return directory_ + "/redis.sock"; }
  const std::string& directory() const noexcept { return directory_; }
  pid_t pid() const noexcept { return pid_; }

  void pause();   // SIGSTOP
  void resume();  // SIGCONT
  void kill();    // SIGKILL, and waits until it is gone
  void start();   // again, on the same port and directory

  // On a connection of its own. The reply as RESP bytes.
  std::string execute(const std::vector<std::string>& command);
  // The reply's text or number, without RESP around it; of an error the whole line.
  std::string text(const std::vector<std::string>& command);
  // Every key, by SCAN.
  std::vector<std::string> keys(const std::string& pattern = "*");

 private:
  std::vector<std::string> command_line();

  Options options_;
  std::uint16_t port_ = 0;
  std::string directory_;
  bool owns_directory_ = true;
  void launch();
  bool answers();     // within its patience, while it runs
  bool is_running();  // false also of one that was never started

  bool started_ = false;
  bool configured_ = false;  // a sentinel rewrites its file: what it knows stays
  pid_t pid_ = -1;
  std::unique_ptr<RedisConnection> admin_;
};

// A port of 127.0.0.1 that was free a moment ago.
std::uint16_t free_port();

}  // namespace weir::testing
