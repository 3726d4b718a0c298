#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "weir/clock.h"

namespace weir::testing {

// As much of a Redis server as Weir's scripts use, in this process: the shipped Lua runs in
// liblua5.1 on a small key space, at a time that the test sets. Takes and gives RESP2, so that what
// talks to a server talks to it unchanged.
//
// Commands: AUTH CLIENT DEL EVAL EVALSHA EXISTS FLUSHALL GET HDEL HGET HGETALL HLEN HSET INFO
// LINDEX
//           LLEN LPUSH LRANGE LREM LSET LTRIM PEXPIRE PERSIST PING PTTL RPOP RPUSH SCRIPT SELECT
//           SET TIME TYPE ZADD ZCARD ZRANGE ZRANGEBYSCORE ZREM, as far as the scripts use them.
// Threads:  one at a time.
class LuaRedis {
 public:
  // `name` tells its runs from those of other servers.
  explicit LuaRedis(Instant now = Instant{std::chrono::seconds(1'700'000'000)},
                    std::string_view name = {});
  ~LuaRedis();
  LuaRedis(const LuaRedis&) = delete;
  LuaRedis& operator=(const LuaRedis&) = delete;

  // Runs one command and returns its reply as RESP bytes.
  std::string execute(const std::vector<std::string>& command);

  Instant now() const noexcept { return now_; }
  void set_now(Instant now) noexcept { now_ = now; }
  void advance(Nanos by) noexcept { now_ += by; }

  // A dump of all keys, and a server that starts from one: with nothing in its script cache.
  struct Value {
    // A string, a list, a hash, or a sorted set by member.
    std::variant<std::string, std::deque<std::string>, std::map<std::string, std::string>,
                 std::map<std::string, double>>
        data;
    std::optional<Instant> expires_at;
  };
  using Keys = std::map<std::string, Value, std::less<>>;
  const Keys& keys() const noexcept { return keys_; }
  void restart_with(Keys keys);

  // Whether keys whose time to live is over are gone. Off: they stay, as if time were short.
  void set_expiry(bool on) noexcept { expiry_ = on; }
  // Every write command from now on fails with this error; empty: none does.
  void fail_writes_with(std::string error) { write_fault_ = std::move(error); }
  // The same of PUBLISH.
  void fail_publish_with(std::string error) { publish_fault_ = std::move(error); }
  std::uint64_t published() const noexcept { return published_; }
  // Hears what is published, and says to how many it went; without it, to nobody.
  std::function<std::int64_t(const std::string& channel, const std::string& text)> on_publish;

  const std::string& run_id() const noexcept { return run_id_; }

 private:
  struct Lua;
  struct Reply;
  using Args = std::vector<std::string>;
  friend struct LuaGlue;

  Reply run(const Args& args);
  Reply run_string(const std::string& name, const Args& args);
  Reply run_list(const std::string& name, const Args& args);
  Reply run_hash(const std::string& name, const Args& args);
  Reply run_sorted(const std::string& name, const Args& args);
  Reply run_script(const Args& args, const std::string& sha, const std::string& text);
  bool push_compiled(const std::string& sha, const std::string& text);
  Reply set(const Args& args);
  Value* find(const std::string& key);
  std::deque<std::string>* list(const std::string& key, Reply& error);

  std::unique_ptr<Lua> lua_;
  Instant now_;
  Keys keys_;
  std::map<std::string, std::string, std::less<>> scripts_;  // by SHA-1
  std::string write_fault_;
  std::string publish_fault_;
  std::uint64_t published_ = 0;
  const std::string name_;
  std::string run_id_;
  std::uint64_t starts_ = 0;
  bool in_script_ = false;
  bool expiry_ = true;
};

}  // namespace weir::testing
