// The part of a session by which a worker announces itself: beside the asks, and no business of
// the breaker.

#include <utility>

#include "store/redis/redis_session.h"

namespace weir::store::redis {

void RedisSession::beat(const Beat& beat, MonoTime deadline, BeatHandler handler, MonoTime now) {
  if (state_ != State::ready || beat_in_flight_ || !has_own_keys()) {
    const bool silent = state_ == State::ready && has_own_keys();
    handler(&row_of(silent ? LocalFault::deadline : LocalFault::not_connected), nullptr);
    return;
  }
  beat_.emplace(BeatRecord{beat, deadline, std::move(handler)});
  send_beat(beat, false, now);
}

void RedisSession::send_beat(const Beat& beat, bool with_text, MonoTime now) {
  append_beat(beat, keys_.meta(shard_, "members"), with_text, output_);
  sent(Kind::beat, now, with_text);
  beat_in_flight_ = true;
}

// A reply that comes after its time is thrown away: the next one says more.
void RedisSession::on_beat(const Pending& pending, const Reply& reply, MonoTime now) {
  beat_in_flight_ = false;
  if (!reply.error().empty() || reply.root().type == ReplyType::error) {
    const ErrorRow& row = classify_reply(reply.error());
    if (row.error_class == ErrorClass::noscript && !pending.with_text && beat_) {
      send_beat(beat_->beat, true, now);
      return;
    }
    if (row.action == ErrorAction::reconnect || row.action == ErrorAction::resolve_again ||
        row.action == ErrorAction::reload_credentials) {
      fail(row, reply.error());
    }
    finish_beat(&row);
    return;
  }
  FleetReply fleet;
  if (!read_beat(reply, fleet)) {
    fail(row_of(LocalFault::malformed));
    finish_beat(&row_of(LocalFault::malformed));
    return;
  }
  observe(pending.sent, now, fleet.now);
  finish_beat(nullptr, &fleet);
}

void RedisSession::finish_beat(const ErrorRow* error, const FleetReply* fleet) {
  if (!beat_) return;
  const BeatHandler handler = std::move(beat_->handler);
  beat_.reset();
  handler(error, fleet);
}

}  // namespace weir::store::redis
