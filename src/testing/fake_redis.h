#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "testing/lua_redis.h"
#include "weir/clock.h"

namespace weir::testing {

// A server on a real socket that answers as a LuaRedis would, until the test says otherwise: with
// any bytes, slowly, one at a time, or not at all.
//
// Threads:     its own for the sockets; members may be called from any other.
class FakeRedis {
 public:
  struct Say {
    std::string bytes;       // empty: silence
    bool close = false;      // after them
    Nanos between_bytes{0};  // not 0: each byte by itself
  };
  // What to say to a command; absent: what a LuaRedis says.
  using Script = std::function<std::optional<Say>(const std::vector<std::string>& command)>;

  FakeRedis();
  ~FakeRedis();
  FakeRedis(const FakeRedis&) = delete;
  FakeRedis& operator=(const FakeRedis&) = delete;

  std::uint16_t port() const noexcept { return port_; }
  void script(Script script);
  // Says this to every command of that name.
  void always(const std::string& name, Say say);
  void behave();  // from now on as a LuaRedis again
  // It goes on carrying out what comes, and its replies are on their way until this is over.
  void hold_replies(bool hold) noexcept { holds_ = hold; }
  // Its clock is so far ahead of the machine's from now on; behind where it is negative.
  void set_clock_ahead(Nanos by) noexcept { ahead_ = by.count(); }

  std::uint64_t connections() const noexcept { return connections_.load(); }
  std::uint64_t commands(const std::string& name) const;

 private:
  void run();
  bool answer(int socket, const std::vector<std::string>& command, std::string& held);

  int listener_ = -1;
  int stop_pipe_[2] = {-1, -1};
  std::uint16_t port_ = 0;
  std::atomic<std::uint64_t> connections_{0};
  std::atomic<std::int64_t> ahead_{0};
  std::atomic<bool> holds_{false};
  mutable std::mutex mutex_;
  Script script_;
  LuaRedis redis_;
  std::map<std::string, std::uint64_t> commands_;
  std::thread thread_;
};

}  // namespace weir::testing
