#include "testing/sim/sim_redis.h"

#include <algorithm>
#include <utility>

namespace weir::testing {

using store::redis::LocalFault;

// ---- The network
// -----------------------------------------------------------------------------------

template <class What>
void SimRedis::tell(const ConnectionPtr& connection, What what) {
  if (connection->events == nullptr) return;
  if (connection->process == nullptr || !connection->process->stopped()) {
    what(*connection->events);
    return;
  }
  connection->process->hear([connection, what = std::move(what)] {
    if (connection->events != nullptr) what(*connection->events);
  });
}

void SimRedis::tell_closed(const ConnectionPtr& connection, LocalFault why) {
  tell(connection, [&of = *connection, why](store::redis::Wire::Events& events) {
    of.events = nullptr;
    events.on_closed(why);
  });
}

Nanos SimRedis::travel(const SimLink& link) {
  return link.latency + random_.between(Nanos{0}, link.jitter);
}

void SimRedis::connect(const ConnectionPtr& connection) {
  const SimLink& link = *connection->link;
  // The answer to a SYN that is lost on either way never comes: the client gives up by itself.
  if (link.cut_up || link.cut_down) return;
  loop_.after(travel(link) + travel(link), [this, connection] {
    if (connection->events == nullptr) return;
    if (!running_ || connection->link->barred) {
      connection->open = false;
      tell_closed(connection, LocalFault::refused);
      return;
    }
    connections_.push_back(connection);
    tell(connection, [](store::redis::Wire::Events& events) { events.on_open(); });
  });
}

void SimRedis::send_up(const ConnectionPtr& connection, std::string bytes) {
  if (connection->link->cut_up) {
    connection->held_up += bytes;
    return;
  }
  connection->up_free = std::max(connection->up_free, loop_.mono() + travel(*connection->link));
  loop_.at(connection->up_free,
           [this, connection, bytes = std::move(bytes)] { arrive(connection, bytes); });
}

void SimRedis::send_down(const ConnectionPtr& connection, std::string bytes) {
  if (connection->link->cut_down) {
    connection->held_down += bytes;
    return;
  }
  connection->down_free = std::max(connection->down_free, loop_.mono() + travel(*connection->link));
  loop_.at(connection->down_free, [connection, bytes = std::move(bytes)]() mutable {
    if (!connection->open) return;
    tell(connection, [bytes = std::move(bytes)](store::redis::Wire::Events& events) {
      events.on_bytes(bytes);
    });
  });
}

void SimRedis::mended(const SimLink& link) {
  for (const ConnectionPtr& connection : connections_) {
    if (connection->link != &link) continue;
    if (!link.cut_up && !connection->held_up.empty()) {
      send_up(connection, std::exchange(connection->held_up, {}));
    }
    if (!link.cut_down && !connection->held_down.empty()) {
      send_down(connection, std::exchange(connection->held_down, {}));
    }
  }
}

void SimRedis::close_all(const SimLink* link) {
  for (const ConnectionPtr& connection : connections_) {
    if (link != nullptr && connection->link != link) continue;
    connection->open = false;
    loop_.after(travel(*connection->link),
                [connection] { tell_closed(connection, LocalFault::reset); });
  }
  std::erase_if(connections_, [](const ConnectionPtr& c) { return !c->open; });
}

void SimRedis::reset(const SimLink& link) {
  close_all(&link);
}

// ---- The server
// ------------------------------------------------------------------------------------

void SimRedis::go_on() {
  hung_ = false;
  const std::vector<ConnectionPtr> all = connections_;
  for (const ConnectionPtr& connection : all) {
    if (!connection->unread.empty()) arrive(connection, std::exchange(connection->unread, {}));
  }
}

void SimRedis::stop() {
  running_ = hung_ = false;
  ++life_;
  close_all(nullptr);
}

void SimRedis::start_with(LuaRedis::Keys keys) {
  if (running_) stop();
  redis_.restart_with(std::move(keys));
  running_ = true;
  busy_until_ = loop_.mono();
}

void SimRedis::arrive(const ConnectionPtr& connection, std::string_view bytes) {
  if (!connection->open) return;
  if (hung_) {
    connection->unread += bytes;
    return;
  }
  connection->commands.feed(bytes);
  while (auto command = connection->commands.next()) {
    if (work_ == Nanos{0} && busy_until_ <= loop_.mono()) {
      execute(connection, std::move(*command));
      continue;
    }
    busy_until_ = std::max(busy_until_, loop_.mono()) + work_;
    loop_.at(busy_until_,
             [this, connection, command = std::move(*command), life = life_]() mutable {
               if (life == life_) execute(connection, std::move(command));
             });
  }
}

void SimRedis::execute(const ConnectionPtr& connection, std::vector<std::string> command) {
  ++executed_;
  redis_.set_now(clock());
  if (on_command) on_command(command);
  std::string reply = subscribed(*connection, command);
  if (reply.empty()) reply = redis_.execute(command);
  if (on_reply) on_reply(command, reply);
  if (connection->open) send_down(connection, std::move(reply));
}

std::string SimRedis::subscribed(Connection& connection, const std::vector<std::string>& command) {
  if (command[0] == "PING" && !connection.channels.empty())
    return "*2\r\n" + bulk("pong") + bulk("");
  if (command[0] != "SUBSCRIBE") return {};
  std::string reply;
  for (std::size_t i = 1; i < command.size(); ++i) {
    connection.channels.push_back(command[i]);
    reply += "*3\r\n" + bulk("subscribe") + bulk(command[i]) + ":" +
             std::to_string(connection.channels.size()) + "\r\n";
  }
  return reply;
}

std::int64_t SimRedis::publish(const std::string& channel, const std::string& text) {
  std::int64_t heard = 0;
  for (const ConnectionPtr& connection : connections_) {
    const auto& channels = connection->channels;
    if (connection->events == nullptr) continue;  // it has gone
    if (std::find(channels.begin(), channels.end(), channel) == channels.end()) continue;
    send_down(connection, "*3\r\n" + bulk("message") + bulk(channel) + bulk(text));
    ++heard;
  }
  return heard;
}

// ---- The client's end
// ------------------------------------------------------------------------------

void SimWire::open() {
  connection_ = std::make_shared<SimRedis::Connection>();
  connection_->link = link_;
  connection_->process = process_;
  connection_->events = events_;
  connected_to_ = server_;
  server_->connect(connection_);
}

void SimWire::close() {
  if (connection_) connection_->events = nullptr;
  connection_.reset();
}

void SimWire::send(std::string& bytes) {
  if (connection_) connected_to_->send_up(connection_, std::exchange(bytes, {}));
  bytes.clear();
}

void SimWire::at(MonoTime when, std::function<void()> what) {
  if (process_ != nullptr) {
    process_->at(when, std::move(what));
  } else {
    loop_.at(when, std::move(what));
  }
}

void SimWire::flush_soon() {
  at(loop_.mono(), [this, alive = watch()] {
    if (!alive.expired() && events_ != nullptr) events_->on_flush();
  });
}

void SimWire::wake_at(MonoTime when) {
  at(when, [this, number = ++wake_, alive = watch()] {
    if (!alive.expired() && number == wake_ && events_ != nullptr) events_->on_wake();
  });
}

}  // namespace weir::testing
