#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/redis/redis_session.h"
#include "store/redis/wire.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::store::redis {

struct ClientOptions {
  SessionOptions session;
  // For the connection, and then again for the greeting on it.
  Nanos connect_timeout{std::chrono::milliseconds(200)};
  // Between attempts to connect: doubling from the first to the last, each cut by a random part of
  // up to a half.
  Nanos backoff{std::chrono::milliseconds(50)};
  Nanos max_backoff{std::chrono::seconds(2)};
  std::size_t early_flush = 8;  // commands that are sent without waiting for the turn to end
  // Asked for at every connection, and again where it is refused: passwords rotate.
  std::function<Result<Credentials>()> credentials;
  std::optional<std::uint64_t> random_seed;  // of the backoff; absent: drawn
};

struct ClientState {
  RedisSession::State session = RedisSession::State::closed;
  MonoTime since{};
  const ErrorRow* last_error = nullptr;  // why there is no connection, or why the last one ended
  std::string last_error_text;
  std::uint64_t connections = 0;  // that got through their greeting
  std::uint64_t attempts = 0;     // since the last that did
  std::size_t in_flight = 0;
};

class ClientEvents : public SessionEvents {
 public:
  virtual void on_connected() {}
  // Comes once for each connection or attempt that ended.
  virtual void on_disconnected(const ErrorRow& why, std::string_view text) = 0;
  // Another server took this one's place: to ask it is worth more than it was a moment ago.
  virtual void on_elsewhere() {}
};

// One server and the one connection to it: kept up, replaced when it hangs or misbehaves, spoken
// to in one implicit pipeline.
//
// Guarantees:  as RedisSession. Asks never wait for a connection: without one they are answered at
//              once. The name is resolved for every connection.
// Threads:     the wire's loop alone.
class RedisClient final : private Wire::Events {
 public:
  RedisClient(ClientOptions options, KeySpace keys, Wire& wire, Clock& clock, ClientEvents& events);
  ~RedisClient() override;
  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;

  void start();
  // Answers what waits and closes the connection; start() may follow.
  void stop();

  // See RedisSession.
  void ask(std::span<const Counter> counters, const AskOptions& options, AskHandler& handler,
           std::uint64_t token);
  // Without a connection the next attempt at one is made at once, whatever the backoff says, and
  // its greeting is the probe: it ends with the attempt. One at a time.
  void probe(Nanos within, RedisSession::ProbeHandler handler);
  void beat(const Beat& beat, Nanos within, RedisSession::BeatHandler handler);
  void call(StoreCall call, Nanos within, CallHandler handler);
  void release_waiting();
  // See RedisSession.
  void name_shard(std::string shard) { session_.name_shard(std::move(shard)); }
  void try_names(std::vector<policy::NameTrial> names) { session_.try_names(std::move(names)); }
  // The wire was turned to another server: connects to it at once.
  void elsewhere() { on_elsewhere(); }

  bool ready() const noexcept { return session_.state() == RedisSession::State::ready; }
  ClientState state() const;
  const StoreReport& report() const noexcept { return session_.report(); }
  const StoreClock& store_clock() const noexcept { return session_.store_clock(); }

 private:
  enum class Phase : std::uint8_t { stopped, connecting, greeting, ready, waiting };

  void on_open() override;
  void on_bytes(std::string_view bytes) override;
  void on_closed(LocalFault why, std::string_view text) override;
  void on_elsewhere() override;
  void on_flush() override;
  void on_wake() override;

  void connect(MonoTime now);
  void after_input(MonoTime now);
  void end_waiting_probe(const ErrorRow* error);
  void lose(const ErrorRow& why, const std::string& text, MonoTime now);
  void flush(MonoTime now);
  void push_out();
  void arm(MonoTime now);
  std::optional<Credentials> read_credentials(MonoTime now);
  std::uint64_t random_below(std::uint64_t most);

  const ClientOptions options_;
  Wire& wire_;
  Clock& clock_;
  ClientEvents& events_;
  RedisSession session_;

  Phase phase_ = Phase::stopped;
  MonoTime since_{};
  MonoTime phase_deadline_{};  // connecting and greeting: given up then; waiting: tried again then
  const ErrorRow* last_error_ = nullptr;
  std::string last_error_text_;
  std::uint64_t connections_ = 0;
  std::uint64_t attempts_ = 0;
  std::size_t unflushed_ = 0;
  bool flush_wanted_ = false;
  RedisSession::ProbeHandler waiting_probe_;  // for the attempt to connect that is under way
  bool handling_ = false;                     // inside an event: its end sends what came up
  std::optional<MonoTime> armed_;
  std::uint64_t random_;
};

}  // namespace weir::store::redis
