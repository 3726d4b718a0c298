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
  client_.non_blocking(true, ignored);
}

void Relay::start(const Tcp::endpoint& target) {
  settle(requests_);
  settle(replies_);
  if (over_) return;
  const bool silent = std::any_of(
      state_.toxics.begin(), state_.toxics.end(),
      [&](const Toxic& each) { return each.kind == Toxic::Kind::blackhole && struck_by(each); });
  if (silent || state_.faults.door == ProxyFaults::Door::silent) {
    requests_.lost = true;
    replies_.lost = true;
    read(requests_);
    return;
  }
  server_.async_connect(target, [self = shared_from_this()](const error_code& error) {
    if (self->over_) return;
    if (error) {
      self->reset();
      return;
    }
    error_code ignored;
    self->server_.set_option(Tcp::no_delay(true), ignored);
    self->server_.non_blocking(true, ignored);
    self->read(self->requests_);
    self->read(self->replies_);
  });
}

void Relay::changed(bool hasten) {
  for (Way* way : {&requests_, &replies_}) {
    if (over_) return;
    settle(*way);
    if (over_) return;
    if (hasten) hurry(*way);
    pump(*way);
  }
  std::erase_if(drawn_, [this](const auto& drawn) {
    return std::none_of(state_.toxics.begin(), state_.toxics.end(),
                        [&](const Toxic& each) { return each.id == drawn.first; });
  });
}

// Whether this connection is one of those that the toxic strikes: drawn once.
bool Relay::struck_by(const Toxic& toxic) {
  const auto known = std::find_if(drawn_.begin(), drawn_.end(),
                                  [&](const auto& each) { return each.first == toxic.id; });
  if (known != drawn_.end()) return known->second;
  drawn_.emplace_back(toxic.id, state_.random() % Toxic::kAlways < toxic.toxicity);
  return drawn_.back().second;
}

void Relay::settle(Way& way) {
  WayFaults fresh = WayFaults::of(state_.faults, way.replies);
  for (const Toxic& toxic : state_.toxics) {
    if (struck_by(toxic)) add_toxic(toxic, way.replies, fresh);
  }
  way.plain = fresh == WayFaults{};
  const WayFaults before = std::exchange(way.faults, fresh);
  if (!before.most_bytes) way.counted = 0;
  if (before.closes_when_over && !fresh.closes_when_over) return finish(false);
  if (before.close_after != fresh.close_after || before.reset_after != fresh.reset_after) {
    set_end(way);
  }
}

void Relay::set_end(Way& way) {
  way.end_timer.cancel();
  const WayFaults& faults = way.faults;
  if (!faults.close_after && !faults.reset_after) return;
  const bool with_reset =
      !faults.close_after || (faults.reset_after && *faults.reset_after <= *faults.close_after);
  way.end_timer.expires_at(later(std::chrono::steady_clock::now(),
                                 with_reset ? *faults.reset_after : *faults.close_after));
  way.end_timer.async_wait([self = shared_from_this(), with_reset](const error_code& cancelled) {
    if (cancelled || self->over_) return;
    if (with_reset) {
      self->reset();
    } else {
      self->finish(false);
    }
  });
}

void Relay::hurry(Way& way) {
  const SteadyTime latest =
      later(std::chrono::steady_clock::now(), way.faults.delay + way.faults.jitter);
  for (Piece& piece : way.held) piece.due = std::min(piece.due, latest);
  way.last_due = std::min(way.last_due, latest);
  way.not_before = std::min(way.not_before, latest);
  way.timer.cancel();
}

void Relay::reset() {
  if (over_) return;
  ++state_.resets;
  finish(true);
}

void Relay::read(Way& way) {
  if (over_ || way.reading || way.ended || way.held_bytes >= FaultProxy::kMaxHeld) return;
  way.reading = true;
  const std::size_t room = std::min(way.input.size(), FaultProxy::kMaxHeld - way.held_bytes);
  way.from.async_read_some(
      asio::buffer(way.input.data(), room),
      [self = shared_from_this(), &way](const error_code& error, std::size_t size) {
        way.reading = false;
        if (self->over_) return;
        if (error == asio::error::eof || (error && way.replies && way.lost)) {
          way.ended = true;
          way.not_before = std::max(
              way.not_before, later(std::chrono::steady_clock::now(), way.faults.close_delay));
          self->pump(way);
        } else if (error) {
          self->finish(true);
        } else {
          self->on_read(way, size);
        }
      });
}

void Relay::on_read(Way& way, std::size_t size) {
  (way.replies ? state_.reply_bytes : state_.request_bytes)
      .fetch_add(size, std::memory_order_relaxed);
  if (pass_on(way, size)) {
    read(way);
    return;
  }
  std::string bytes(way.input.data(), size);
  if (strike(way, bytes)) {
    if (!over_) read(way);
    return;
  }
  const SteadyTime due =
      later(std::chrono::steady_clock::now(), way.faults.delay + state_.some_of(way.faults.jitter));
  way.last_due = std::max(way.last_due, due);
  way.held_bytes += bytes.size();
  way.held.push_back({std::move(bytes), way.last_due});
  pump(way);
  read(way);
}

// What nothing is to be done to goes on at once, out of the buffer it was read into: no copy, no
// timer, no turn of the loop in between. False where it has to take the long way.
bool Relay::pass_on(Way& way, std::size_t size) {
  const bool free = way.plain && way.held.empty() && !way.writing && !way.waiting && !way.lost &&
                    !way.cut_at_end && !way.full;
  if (!free || way.not_before > std::chrono::steady_clock::now()) return false;
  error_code error;
  const std::size_t sent = way.to.write_some(asio::buffer(way.input.data(), size), error);
  if (error && error != asio::error::would_block) {
    state_.lost_bytes += size;
    finish(true);
    return true;
  }
  if (sent == size) return true;
  way.held_bytes += size - sent;
  way.last_due = std::chrono::steady_clock::now();
  way.held.push_back({std::string(way.input.data() + sent, size - sent), way.last_due});
  pump(way);
  return true;
}

// Drops or cuts; true where nothing of `bytes` is passed on.
bool Relay::strike(Way& way, std::string& bytes) {
  using Flow = ProxyFaults::Flow;
  using Cut = ProxyFaults::Cut;
  const WayFaults& faults = way.faults;
  if (!way.lost && faults.flow == Flow::drop && state_.strikes(faults.percent)) way.lost = true;
  if (way.lost || way.cut_at_end || way.full) {
    state_.lost_bytes += bytes.size();
    return true;
  }
  if (faults.most_bytes) {
    const std::uint64_t left = *faults.most_bytes - std::min(*faults.most_bytes, way.counted);
    way.counted += bytes.size();
    way.full = bytes.size() >= left;
    if (bytes.size() > left) {
      state_.lost_bytes += bytes.size() - left;
      bytes.resize(left);
    }
  }
  if (faults.cut == Cut::never || !state_.strikes(faults.percent)) return false;
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
  if (way.faults.flow == ProxyFaults::Flow::stall) return;
  const bool done = way.held.empty();
  if (done && way.cut_at_end) return reset();
  if (done && way.full) return finish(false);
  if (done && (!way.ended || way.closed)) return;
  const SteadyTime due = done ? way.not_before : std::max(way.held.front().due, way.not_before);
  if (due > std::chrono::steady_clock::now()) return wait(way, due);
  if (done) return end(way);
  write(way, next_size(way));
}

// How much of the first piece is written at once.
std::size_t Relay::next_size(const Way& way) {
  const WayFaults& faults = way.faults;
  const std::size_t whole = way.held.front().bytes.size() - way.sent_of_first;
  std::uint64_t size = whole;
  if (faults.between_bytes > Nanos{0}) size = 1;
  if (faults.slices) {
    const std::uint64_t least =
        faults.slices->average - std::min(faults.slices->average, faults.slices->variation);
    const std::uint64_t most = faults.slices->average + faults.slices->variation;
    size = std::min(size, least + state_.random() % (most - least + 1));
  }
  if (faults.bytes_per_second) {
    constexpr std::uint64_t kTurnsASecond = 50;
    size = std::min(size, *faults.bytes_per_second / kTurnsASecond);
  }
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(size, 1, whole));
}

// How long after so many bytes the next may follow.
Nanos Relay::pause_after(const Way& way, std::size_t size) const {
  Nanos pause = way.faults.between_bytes;
  if (way.faults.slices) pause += way.faults.slices->apart;
  if (const auto& rate = way.faults.bytes_per_second) {
    pause += Nanos{static_cast<std::int64_t>(size * 1'000'000'000 / *rate)};
  }
  return pause;
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
                      if (way.sent_of_first == way.held.front().bytes.size()) {
                        way.held.pop_front();
                        way.sent_of_first = 0;
                      }
                      if (const Nanos pause = self->pause_after(way, size); pause > Nanos{0}) {
                        way.not_before = std::max(way.not_before,
                                                  later(std::chrono::steady_clock::now(), pause));
                      }
                      self->pump(way);
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
  for (Way* way : {&requests_, &replies_}) {
    way->timer.cancel();
    way->end_timer.cancel();
  }
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
