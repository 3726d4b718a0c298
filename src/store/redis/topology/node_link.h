#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/error_class.h"
#include "store/redis/redis_session.h"
#include "store/redis/reply_reader.h"
#include "store/redis/wire.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::store::redis {

// A connection on which a node is asked the same few questions again and again: where the master
// is, who owns which slots. No counter is asked about on it. Kept up; asks at each connection, at
// refresh(), and every `poll` in between.
//
// A password goes only to a node that asks for one: Sentinels commonly have none.
//
// Guarantees:  memory is bounded by what one reply may hold. One round of questions at a time.
// Threads:     the wire's loop alone.
class NodeLink final : private Wire::Events {
 public:
  using Command = std::vector<std::string>;

  struct Options {
    std::vector<Command> commands;  // one round; each has one reply
    bool listens = false;           // `commands` subscribe: what comes later is told too
    ReplyReader::Bounds bounds;
    Nanos poll{std::chrono::seconds(1)};  // cut by a random part of up to a quarter
    // Of one that listens: a server that says nothing for so long is asked whether it is there, and
    // given up after as long again. Zero: never.
    Nanos keepalive{0};
    Nanos connect_timeout{std::chrono::milliseconds(100)};
    Nanos reply_timeout{std::chrono::milliseconds(100)};
    // Between attempts: doubling from the first to the last, each cut by a random part of up to a
    // half.
    Nanos backoff{std::chrono::milliseconds(100)};
    Nanos max_backoff{std::chrono::seconds(2)};
    std::function<Result<Credentials>()> credentials;
    std::uint64_t random_seed = 0;
  };

  class Listener {
   public:
    virtual ~Listener() = default;
    // The reply to a command, by its place in the round. It ends with the call.
    virtual void on_reply(NodeLink& link, std::size_t place, const Reply& reply) = 0;
    // A subscribed message.
    virtual void on_message(NodeLink& link, const Reply& message) {
      (void)link;
      (void)message;
    }
    // A round is complete.
    virtual void on_round(NodeLink& link) { (void)link; }
    // The connection, or the attempt at one, is over.
    virtual void on_down(NodeLink& link) = 0;
  };

  NodeLink(Options options, std::string name, Wire& wire, Clock& clock, Listener& listener);
  ~NodeLink() override;
  NodeLink(const NodeLink&) = delete;
  NodeLink& operator=(const NodeLink&) = delete;

  void start();
  void stop();
  // Asks now, or connects now; nothing where either is under way.
  void refresh();

  // The last attempt failed, and another one is due later.
  bool down() const noexcept { return phase_ == Phase::waiting; }
  const ErrorRow* last_error() const noexcept { return last_error_; }
  const std::string& last_error_text() const noexcept { return last_error_text_; }
  const std::string& name() const noexcept { return name_; }

 private:
  enum class Phase : std::uint8_t { stopped, connecting, asking, idle, waiting };

  void on_open() override;
  void on_bytes(std::string_view bytes) override;
  void on_closed(LocalFault why, std::string_view text) override;
  void on_flush() override {}
  void on_wake() override;

  void connect(MonoTime now);
  void ask(MonoTime now);
  void take(const Reply& reply, MonoTime now);
  bool wants_password(const Reply& reply) const;
  void log_in(MonoTime now);
  void keep_alive(MonoTime now);
  void lose(const ErrorRow& why, const std::string& text, MonoTime now);
  void wait_until(MonoTime when);
  Nanos cut(Nanos length, std::uint64_t part);

  const Options options_;
  const std::string name_;
  Wire& wire_;
  Clock& clock_;
  Listener& listener_;
  ReplyReader reader_;

  Phase phase_ = Phase::stopped;
  MonoTime due_{};  // connecting, asking: given up then; idle, waiting: the next step
  std::size_t place_ = 0;
  std::size_t skip_ = 0;    // replies to what was sent before the password
  bool with_auth_ = false;  // the password was asked for on this connection
  bool auth_out_ = false;   // the next reply is AUTH's
  bool heard_ = false;      // anything since it was last looked at
  std::uint64_t failures_ = 0;
  const ErrorRow* last_error_ = nullptr;
  std::string last_error_text_;
  std::uint64_t random_;
};

}  // namespace weir::store::redis
