#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/wire.h"
#include "testing/lua_redis.h"
#include "testing/resp_commands.h"
#include "testing/sim/sim_loop.h"
#include "testing/sim/sim_process.h"
#include "testing/sim/sim_random.h"

namespace weir::testing {

// The way between one worker and the server, and what is wrong with it.
struct SimLink {
  Nanos latency{std::chrono::microseconds(200)};  // one way
  Nanos jitter{0};                                // up to so much more, each way
  // A cut way holds what is sent until it is mended, as TCP does.
  bool cut_up = false;
  bool cut_down = false;
  bool barred = false;  // new connections are refused
};

// A Redis server in simulated time, with the shipped scripts, and the ways to it.
//
// It has one thread, as the real one has: what is slow delays all that comes after. What reached it
// is carried out although the sender has closed the connection since. Connections may subscribe to
// channels, and are sent what is published there.
class SimRedis {
 public:
  // `name` tells its process from those of other servers.
  SimRedis(SimLoop& loop, std::uint64_t seed, std::string_view name = "one")
      : loop_(loop), random_(seed), redis_(loop.now(), name) {
    redis_.on_publish = [this](const std::string& channel, const std::string& text) {
      return publish(channel, text);
    };
  }
  SimRedis(const SimRedis&) = delete;
  SimRedis& operator=(const SimRedis&) = delete;

  // Stops answering, with everything that comes kept, until it goes on.
  void hang() { hung_ = true; }
  void go_on();
  // The process is gone: connections are reset, new ones refused.
  void stop();
  // It is there again, with these keys.
  void start_with(LuaRedis::Keys keys);
  void start_with_what_it_had() { start_with(redis_.keys()); }
  bool running() const noexcept { return running_; }
  // It is another one's replica from now on, under the connections that stand.
  void demote() {
    redis_.fail_writes_with("READONLY You can't write against a read only replica.");
  }

  // Before each command: so much work.
  void set_work(Nanos work) { work_ = work; }
  MonoTime busy_until() const noexcept { return busy_until_; }
  // Its clock, against the loop's.
  void set_ahead(Nanos ahead) { ahead_ = ahead; }
  Nanos ahead() const noexcept { return ahead_; }
  Instant clock() const { return loop_.now() + ahead_; }

  // A way to this server that lives as long as it does: what a process that is gone had sent goes
  // on.
  SimLink& make_link() { return links_.emplace_back(); }
  // Everything that is connected through this link is cut off at once, with whatever is on its way.
  void reset(const SimLink& link);
  // A cut was mended: what it held goes on.
  void mended(const SimLink& link);

  LuaRedis& redis() noexcept { return redis_; }
  const LuaRedis::Keys& keys() const noexcept { return redis_.keys(); }
  std::uint64_t executed() const noexcept { return executed_; }
  // For each command, before it is carried out as it then stands, and after, with the reply.
  std::function<void(std::vector<std::string>& command)> on_command;
  std::function<void(const std::vector<std::string>& command, std::string_view reply)> on_reply;

 private:
  friend class SimWire;
  struct Connection {
    SimLink* link = nullptr;
    SimProcess* process = nullptr;                 // the client's; null: it is never stopped
    store::redis::Wire::Events* events = nullptr;  // null once the client has closed it
    bool open = true;                              // on the server's side
    MonoTime up_free{};                            // what is sent later does not arrive before that
    MonoTime down_free{};
    std::string held_up;
    std::string held_down;
    std::string unread;  // the server hangs
    RespCommands commands;
    std::vector<std::string> channels;  // that it is subscribed to
  };
  using ConnectionPtr = std::shared_ptr<Connection>;

  // The client hears of it, once it can.
  template <class What>
  static void tell(const ConnectionPtr& connection, What what);
  static void tell_closed(const ConnectionPtr& connection, store::redis::LocalFault why);
  Nanos travel(const SimLink& link);
  void connect(const ConnectionPtr& connection);
  void send_up(const ConnectionPtr& connection, std::string bytes);
  void send_down(const ConnectionPtr& connection, std::string bytes);
  void arrive(const ConnectionPtr& connection, std::string_view bytes);
  void execute(const ConnectionPtr& connection, std::vector<std::string> command);
  // The reply to what concerns subscriptions; empty: it does not.
  static std::string subscribed(Connection& connection, const std::vector<std::string>& command);
  std::int64_t publish(const std::string& channel, const std::string& text);
  void close_all(const SimLink* link);

  SimLoop& loop_;
  SimRandom random_;
  LuaRedis redis_;
  bool running_ = true;
  bool hung_ = false;
  Nanos work_{0};
  Nanos ahead_{0};
  MonoTime busy_until_{};
  std::uint64_t executed_ = 0;
  std::uint64_t life_ = 0;  // counts stops: what was to be carried out then is not
  std::vector<ConnectionPtr> connections_;
  std::deque<SimLink> links_;
};

// A client's end of a link, in a process that may be stopped where one is named. The process
// outlives it.
class SimWire final : public store::redis::AimedWire {
 public:
  SimWire(SimLoop& loop, SimRedis& server, SimLink& link, SimProcess* process = nullptr)
      : loop_(loop),
        process_(process),
        server_(&server),
        link_(&link),
        alive_(std::make_shared<bool>(true)) {}
  ~SimWire() override { close(); }

  // To another server, from the next open() on.
  void turn_to(SimRedis& server, SimLink& link) {
    server_ = &server;
    link_ = &link;
  }

  // There is one server to aim at; see turn_to().
  void aim(store::redis::Endpoint) override {}
  void bind(Events* events) override { events_ = events; }
  void open() override;
  void close() override;
  void send(std::string& bytes) override;
  void flush_soon() override;
  void wake_at(MonoTime when) override;

 private:
  std::weak_ptr<bool> watch() const { return alive_; }
  void at(MonoTime when, std::function<void()> what);

  SimLoop& loop_;
  SimProcess* const process_;
  SimRedis* server_;
  SimLink* link_;
  Events* events_ = nullptr;
  SimRedis* connected_to_ = nullptr;
  SimRedis::ConnectionPtr connection_;
  std::uint64_t wake_ = 0;
  std::shared_ptr<bool> alive_;
};

}  // namespace weir::testing
