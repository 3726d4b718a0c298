#include "drill/proxy/relay.h"

#include <algorithm>

#include <boost/asio/buffer.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/write.hpp>

#include "drill/proxy/fault_proxy.h"

namespace weir::drill {

namespace asio = boost::asio;
using boost::system::error_code;
using SteadyTime = std::chrono::steady_clock::time_point;

namespace {

SteadyTime later(SteadyTime from, Nanos by) {
  return from + std::chrono::duration_cast<std::chrono::steady_clock::duration>(by);
}

// Without this a close says goodbye; with it, the peer sees a reset.
void close_hard(Relay::Tcp::socket& socket) {
  error_code ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

}  // namespace

Relay::Relay(asio::io_context& io, Tcp::socket client, ProxyState& state)
    : state_(state),
      client_(std::move(client)),
      server_(io),
      requests_(io, client_, server_, false),
      replies_(io, server_, client_, true) {
  error_code ignored;
  client_.set_option(Tcp::no_delay(true), ignored);
}

void Relay::start(const Tcp::endpoint& target) {
  server_.async_connect(target, [self = shared_from_this()](const error_code& error) {
    if (self->over_) return;
    if (error) {
      self->reset();
      return;
    }
    error_code ignored;
    self->server_.set_option(Tcp::no_delay(true), ignored);
    self->read(self->requests_);
    self->read(self->replies_);
  });
}

void Relay::start_silent() {
  requests_.lost = true;
  replies_.lost = true;
  read(requests_);
}

void Relay::changed() {
  if (over_) return;
  pump(requests_);
  pump(replies_);
}

void Relay::reset() {
  if (over_) return;
  ++state_.resets;
  finish(true);
}

void Relay::read(Way& way) {
  if (over_ || way.reading || way.ended || way.held_bytes >= FaultProxy::kMaxHeld) return;
  way.reading = true;
  way.from.async_read_some(asio::buffer(way.input), [self = shared_from_this(), &way](
                                                        const error_code& error, std::size_t size) {
    way.reading = false;
    if (self->over_) return;
    if (error == asio::error::eof || (error && way.replies && way.lost)) {
      way.ended = true;
      self->pump(way);
    } else if (error) {
      self->finish(true);
    } else {
      self->on_read(way, size);
    }
  });
}

void Relay::on_read(Way& way, std::size_t size) {
  (way.replies ? state_.reply_bytes : state_.request_bytes) += size;
  std::string bytes(way.input.data(), size);
  if (strike(way, bytes)) {
    if (!over_) read(way);
    return;
  }
  const Nanos delay = way.replies ? state_.faults.reply_delay : state_.faults.request_delay;
  const SteadyTime due =
      later(std::chrono::steady_clock::now(), delay + state_.some_of(state_.faults.jitter));
  way.last_due = std::max(way.last_due, due);
  way.held_bytes += bytes.size();
  way.held.push_back({std::move(bytes), way.last_due});
  pump(way);
  read(way);
}

// Drops or cuts; true where nothing of `bytes` is passed on.
bool Relay::strike(Way& way, std::string& bytes) {
  using Flow = ProxyFaults::Flow;
  using Cut = ProxyFaults::Cut;
  const ProxyFaults& faults = state_.faults;
  const Flow flow = way.replies ? faults.replies : faults.requests;
  if (!way.lost && flow == Flow::drop && state_.strikes()) way.lost = true;
  if (way.lost || way.cut_at_end) {
    state_.lost_bytes += bytes.size();
    return true;
  }
  if (!way.replies || faults.cut == Cut::never || !state_.strikes()) return false;
  if (faults.cut == Cut::after_reply) {
    way.cut_at_end = true;
    return false;
  }
  const std::size_t kept = faults.cut == Cut::inside_reply ? bytes.size() / 2 : 0;
  state_.lost_bytes += bytes.size() - kept;
  if (kept == 0) {
    reset();
    return true;
  }
  bytes.resize(kept);
  way.cut_at_end = true;
  return false;
}

void Relay::pump(Way& way) {
  if (over_ || way.writing || way.waiting) return;
  const ProxyFaults& faults = state_.faults;
  if ((way.replies ? faults.replies : faults.requests) == ProxyFaults::Flow::stall) return;
  if (way.held.empty()) {
    if (way.cut_at_end) {
      reset();
    } else if (way.ended && !way.closed) {
      end(way);
    }
    return;
  }
  const Piece& first = way.held.front();
  if (first.due > std::chrono::steady_clock::now()) {
    wait(way, first.due);
    return;
  }
  const bool bytewise = way.replies && faults.between_bytes > Nanos{0};
  write(way, bytewise ? 1 : first.bytes.size() - way.sent_of_first);
}

void Relay::write(Way& way, std::size_t size) {
  way.writing = true;
  asio::async_write(way.to, asio::buffer(way.held.front().bytes.data() + way.sent_of_first, size),
                    [self = shared_from_this(), &way, size](const error_code& error, std::size_t) {
                      way.writing = false;
                      if (self->over_) return;
                      if (error) {
                        self->finish(true);
                        return;
                      }
                      way.sent_of_first += size;
                      way.held_bytes -= size;
                      Piece& first = way.held.front();
                      if (way.sent_of_first == first.bytes.size()) {
                        way.held.pop_front();
                        way.sent_of_first = 0;
                      }
                      const Nanos apart = self->state_.faults.between_bytes;
                      if (way.replies && apart > Nanos{0} && !way.held.empty()) {
                        self->wait(way, later(std::chrono::steady_clock::now(), apart));
                      } else {
                        self->pump(way);
                      }
                      self->read(way);
                    });
}

void Relay::wait(Way& way, SteadyTime until) {
  way.waiting = true;
  way.timer.expires_at(until);
  way.timer.async_wait([self = shared_from_this(), &way](const error_code&) {
    way.waiting = false;
    self->pump(way);
  });
}

// One side has closed, and what it had sent is through. A goodbye is lost where bytes are.
void Relay::end(Way& way) {
  way.closed = true;
  error_code ignored;
  if (!way.lost) way.to.shutdown(Tcp::socket::shutdown_send, ignored);
  if (requests_.closed && (replies_.closed || requests_.lost)) finish(false);
}

void Relay::finish(bool with_reset) {
  if (over_) return;
  over_ = true;
  state_.lost_bytes += requests_.held_bytes + replies_.held_bytes;
  requests_.timer.cancel();
  replies_.timer.cancel();
  error_code ignored;
  if (with_reset) {
    close_hard(client_);
    close_hard(server_);
  } else {
    client_.close(ignored);
    server_.close(ignored);
  }
}

}  // namespace weir::drill
