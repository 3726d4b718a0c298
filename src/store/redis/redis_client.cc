#include "store/redis/redis_client.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/random.h"

namespace weir::store::redis {

using State = RedisSession::State;

RedisClient::RedisClient(ClientOptions options, KeySpace keys, Wire& wire, Clock& clock,
                         ClientEvents& events)
    : options_(std::move(options)),
      wire_(wire),
      clock_(clock),
      events_(events),
      session_(options_.session, std::move(keys), clock, events),
      random_(options_.random_seed ? *options_.random_seed : std::random_device{}()) {
  wire_.bind(this);
}

RedisClient::~RedisClient() {
  stop();
  wire_.bind(nullptr);
}

std::uint64_t RedisClient::random_below(std::uint64_t most) {
  return most == 0 ? 0 : next_random(random_) % most;
}

// ---- The connection's life
// -------------------------------------------------------------------------

void RedisClient::start() {
  if (phase_ != Phase::stopped) return;
  attempts_ = 0;
  connect(clock_.mono());
}

void RedisClient::stop() {
  if (phase_ == Phase::stopped) return;
  phase_ = Phase::stopped;
  wire_.close();
  session_.closed(row_of(LocalFault::closing), clock_.mono());
  end_waiting_probe(&row_of(LocalFault::closing));
}

void RedisClient::connect(MonoTime now) {
  phase_ = Phase::connecting;
  since_ = now;
  phase_deadline_ = now + options_.connect_timeout;
  ++attempts_;
  armed_.reset();
  wire_.open();
  arm(now);
}

std::optional<Credentials> RedisClient::read_credentials(MonoTime now) {
  if (!options_.credentials) return Credentials{};
  Result<Credentials> read = options_.credentials();
  if (read) return *std::move(read);
  lose(classify_reply("WRONGPASS"), read.error().message, now);
  return std::nullopt;
}

void RedisClient::on_open() {
  const MonoTime now = clock_.mono();
  if (phase_ != Phase::connecting) return;
  const auto credentials = read_credentials(now);
  if (!credentials) return;
  phase_ = Phase::greeting;
  since_ = now;
  phase_deadline_ = now + options_.connect_timeout;
  session_.opened(*credentials, now);
  push_out();
  arm(now);
}

void RedisClient::on_bytes(std::string_view bytes) {
  const MonoTime now = clock_.mono();
  handling_ = true;
  session_.received(bytes, now);
  handling_ = false;
  after_input(now);
}

void RedisClient::after_input(MonoTime now) {
  if (phase_ == Phase::stopped || phase_ == Phase::waiting) return;
  if (session_.wants_credentials()) {
    const auto credentials = read_credentials(now);
    if (!credentials) return;
    session_.retry_credentials(*credentials, now);
  }
  if (session_.state() == State::failed) {
    lose(session_.failure(), session_.failure_text(), now);
    return;
  }
  if (phase_ == Phase::greeting && session_.state() == State::ready) {
    phase_ = Phase::ready;
    since_ = now;
    attempts_ = 0;
    ++connections_;
    events_.on_connected();
    end_waiting_probe(nullptr);
  }
  push_out();
  arm(now);
}

void RedisClient::on_closed(LocalFault why, std::string_view text) {
  lose(row_of(why), std::string(text), clock_.mono());
}

void RedisClient::on_elsewhere() {
  const MonoTime now = clock_.mono();
  if (phase_ == Phase::stopped) return;
  lose(row_of(LocalFault::moved), {}, now);
  attempts_ = 0;
  if (phase_ == Phase::waiting) connect(now);
  events_.on_elsewhere();
}

// The connection, or the attempt at one, is over: the next one is due after a while, or almost at
// once where a working one said that the primary is elsewhere.
void RedisClient::lose(const ErrorRow& why, const std::string& text, MonoTime now) {
  if (phase_ == Phase::stopped || phase_ == Phase::waiting) return;
  const bool worked = phase_ == Phase::ready;
  phase_ = Phase::waiting;
  since_ = now;
  last_error_ = &why;
  last_error_text_ = text;
  wire_.close();
  Nanos delay = options_.backoff;
  for (std::uint64_t i = 1; i < attempts_ && delay < options_.max_backoff; ++i) delay *= 2;
  delay = std::min(delay, options_.max_backoff);
  if (worked && why.action == ErrorAction::resolve_again) delay = options_.backoff / 8;
  const auto half = static_cast<std::uint64_t>(delay.count() / 2);
  phase_deadline_ = now + delay - Nanos{static_cast<std::int64_t>(random_below(half + 1))};
  session_.closed(why, now);
  events_.on_disconnected(why, last_error_text_);
  end_waiting_probe(&why);
  armed_.reset();
  arm(now);
}

// ---- Asks
// -------------------------------------------------------------------------------------------

void RedisClient::ask(std::span<const Counter> counters, const AskOptions& options,
                      AskHandler& handler, std::uint64_t token) {
  const MonoTime now = clock_.mono();
  session_.ask(counters, options, handler, token, now);
  flush(now);
}

void RedisClient::probe(Nanos within, RedisSession::ProbeHandler handler) {
  const MonoTime now = clock_.mono();
  if (phase_ == Phase::ready || phase_ == Phase::stopped) {
    session_.probe(now + within, std::move(handler), now);
    flush(now);
    return;
  }
  waiting_probe_ = std::move(handler);
  if (phase_ == Phase::waiting) connect(now);
}

void RedisClient::end_waiting_probe(const ErrorRow* error) {
  const RedisSession::ProbeHandler handler = std::exchange(waiting_probe_, nullptr);
  if (handler) handler(error, error == nullptr ? &session_.report() : nullptr);
}

void RedisClient::beat(const Beat& beat, Nanos within, RedisSession::BeatHandler handler) {
  const MonoTime now = clock_.mono();
  session_.beat(beat, now + within, std::move(handler), now);
  flush(now);
}

void RedisClient::call(StoreCall call, Nanos within, CallHandler handler) {
  const MonoTime now = clock_.mono();
  session_.call(std::move(call), now + within, std::move(handler), now);
  flush(now);
}

void RedisClient::release_waiting() {
  session_.release_waiting(clock_.mono());
}

// Sends at the end of this turn of the loop, so that what is asked in one turn goes out together;
// but never holds back more than a few commands, so that the server does not idle meanwhile.
void RedisClient::flush(MonoTime now) {
  unflushed_ += session_.take_new_commands();
  if (unflushed_ >= options_.early_flush) {
    push_out();
  } else if (unflushed_ > 0 && !flush_wanted_ && !handling_) {
    flush_wanted_ = true;
    wire_.flush_soon();
  }
  if (!handling_) arm(now);
}

void RedisClient::push_out() {
  session_.take_new_commands();
  unflushed_ = 0;
  if (!session_.output().empty()) wire_.send(session_.output());
}

void RedisClient::on_flush() {
  flush_wanted_ = false;
  push_out();
}

// ---- Time
// -------------------------------------------------------------------------------------------

void RedisClient::on_wake() {
  const MonoTime now = clock_.mono();
  armed_.reset();
  if (phase_ == Phase::connecting && now >= phase_deadline_) {
    lose(row_of(LocalFault::connect_timeout), {}, now);
  } else if (phase_ == Phase::greeting && now >= phase_deadline_) {
    lose(row_of(LocalFault::handshake_timeout), {}, now);
  } else if (phase_ == Phase::waiting && now >= phase_deadline_) {
    connect(now);
  } else if (phase_ == Phase::ready) {
    handling_ = true;
    session_.sweep(now);
    handling_ = false;
    after_input(now);
    return;
  }
  arm(now);
}

// One wake-up for everything that is due, and it is only ever moved forward: that most asks are
// answered before their deadline costs no timer each.
void RedisClient::arm(MonoTime) {
  std::optional<MonoTime> next = session_.next_event();
  if (phase_ == Phase::connecting || phase_ == Phase::greeting || phase_ == Phase::waiting) {
    next = next ? std::min(*next, phase_deadline_) : phase_deadline_;
  }
  if (phase_ == Phase::stopped || !next || (armed_ && *armed_ <= *next)) return;
  armed_ = next;
  wire_.wake_at(*next);
}

ClientState RedisClient::state() const {
  return {session_.state(), since_,    last_error_,         last_error_text_,
          connections_,     attempts_, session_.in_flight()};
}

}  // namespace weir::store::redis
