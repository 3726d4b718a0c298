#include "store/redis/topology/node_link.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "store/redis/command_writer.h"

namespace weir::store::redis {

NodeLink::NodeLink(Options options, std::string name, Wire& wire, Clock& clock, Listener& listener)
    : options_(std::move(options)),
      name_(std::move(name)),
      wire_(wire),
      clock_(clock),
      listener_(listener),
      reader_(options_.bounds),
      random_(options_.random_seed) {
  wire_.bind(this);
}

NodeLink::~NodeLink() {
  stop();
  wire_.bind(nullptr);
}

Nanos NodeLink::cut(Nanos length, std::uint64_t part) {
  const auto most = static_cast<std::uint64_t>(length.count()) / part;
  return length - Nanos{static_cast<std::int64_t>(most == 0 ? 0 : next_random(random_) % most)};
}

void NodeLink::wait_until(MonoTime when) {
  due_ = when;
  wire_.wake_at(when);
}

void NodeLink::start() {
  if (phase_ == Phase::stopped) connect(clock_.mono());
}

void NodeLink::stop() {
  if (phase_ == Phase::stopped) return;
  phase_ = Phase::stopped;
  wire_.close();
}

void NodeLink::refresh() {
  if (phase_ == Phase::idle && !options_.listens) ask(clock_.mono());
  if (phase_ == Phase::waiting) connect(clock_.mono());
}

void NodeLink::connect(MonoTime now) {
  phase_ = Phase::connecting;
  reader_.reset();
  with_auth_ = auth_out_ = false;
  skip_ = 0;
  wait_until(now + options_.connect_timeout);
  wire_.open();
}

void NodeLink::on_open() {
  if (phase_ == Phase::connecting) ask(clock_.mono());
}

void NodeLink::ask(MonoTime now) {
  phase_ = Phase::asking;
  place_ = 0;
  std::string out;
  CommandWriter writer(out);
  for (const Command& command : options_.commands) {
    writer.begin(command.size());
    for (const std::string& argument : command) writer.argument(argument);
  }
  wait_until(now + options_.reply_timeout);
  wire_.send(out);
}

void NodeLink::on_bytes(std::string_view bytes) {
  const MonoTime now = clock_.mono();
  heard_ = true;
  reader_.feed(bytes);
  while (phase_ == Phase::asking || phase_ == Phase::idle) {
    const ReplyReader::Next next = reader_.next();
    if (next == ReplyReader::Next::need_more) return;
    if (next == ReplyReader::Next::broken) {
      lose(row_of(LocalFault::malformed), {}, now);
      return;
    }
    take(reader_.reply(), now);
  }
}

// Without the right to ask: what a user with a password would have.
bool NodeLink::wants_password(const Reply& reply) const {
  if (with_auth_ || !options_.credentials || reply.root().type != ReplyType::error) return false;
  return reply.error().starts_with("NOAUTH") || reply.error().starts_with("NOPERM");
}

void NodeLink::log_in(MonoTime now) {
  const Result<Credentials> read = options_.credentials();
  if (!read) {
    lose(classify_reply("WRONGPASS"), read.error().message, now);
    return;
  }
  with_auth_ = auth_out_ = true;
  skip_ = options_.commands.size() - place_ - 1;
  std::string out;
  CommandWriter writer(out);
  if (read->username.empty()) {
    writer.command({"AUTH", read->password});
  } else {
    writer.command({"AUTH", read->username, read->password});
  }
  wire_.send(out);
  ask(now);
}

void NodeLink::take(const Reply& reply, MonoTime now) {
  if (phase_ == Phase::idle) {
    if (options_.listens) {
      listener_.on_message(*this, reply);
    } else {
      lose(row_of(LocalFault::malformed), {}, now);  // nothing was asked
    }
    return;
  }
  if (skip_ > 0) {
    --skip_;
    return;
  }
  if (std::exchange(auth_out_, false)) {
    if (reply.root().type != ReplyType::error) return;
    const ErrorRow& row = classify_reply(reply.error());
    lose(row, std::string(reply.error()), now);
    return;
  }
  if (wants_password(reply)) {
    log_in(now);
    return;
  }
  if (reply.root().type == ReplyType::error) {
    // What no row knows is about what was asked, and the listener's to judge.
    const ErrorRow& row = classify_reply(reply.error());
    if (!row.pattern.empty()) {
      lose(row, std::string(reply.error()), now);
      return;
    }
  }
  listener_.on_reply(*this, place_, reply);
  if (phase_ != Phase::asking || ++place_ < options_.commands.size()) return;
  phase_ = Phase::idle;
  failures_ = 0;
  last_error_ = nullptr;
  last_error_text_.clear();
  if (!options_.listens) wait_until(now + cut(options_.poll, 4));
  if (options_.listens && options_.keepalive > Nanos::zero())
    wait_until(now + cut(options_.keepalive, 4));
  listener_.on_round(*this);
}

void NodeLink::on_closed(LocalFault why, std::string_view text) {
  lose(row_of(why), std::string(text), clock_.mono());
}

void NodeLink::lose(const ErrorRow& why, const std::string& text, MonoTime now) {
  if (phase_ == Phase::stopped || phase_ == Phase::waiting) return;
  phase_ = Phase::waiting;
  last_error_ = &why;
  last_error_text_ = without_arguments(text);
  wire_.close();
  Nanos delay = options_.backoff;
  for (std::uint64_t i = 0; i < failures_ && delay < options_.max_backoff; ++i) delay *= 2;
  ++failures_;
  wait_until(now + cut(std::min(delay, options_.max_backoff), 2));
  listener_.on_down(*this);
}

void NodeLink::keep_alive(MonoTime now) {
  if (options_.keepalive <= Nanos::zero()) return;
  if (!std::exchange(heard_, false)) {
    lose(row_of(LocalFault::deadline), {}, now);
    return;
  }
  std::string out;
  CommandWriter(out).command({"PING"});
  wait_until(now + cut(options_.keepalive, 4));
  wire_.send(out);
}

void NodeLink::on_wake() {
  const MonoTime now = clock_.mono();
  if (now < due_) return;
  switch (phase_) {
    case Phase::stopped:
      return;
    case Phase::connecting:
      return lose(row_of(LocalFault::connect_timeout), {}, now);
    case Phase::asking:
      return lose(row_of(LocalFault::deadline), {}, now);
    case Phase::idle:
      if (options_.listens)
        keep_alive(now);
      else
        ask(now);
      return;
    case Phase::waiting:
      return connect(now);
  }
}

}  // namespace weir::store::redis
