#include "store/redis/redis_session.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "store/local_store.h"
#include "store/redis/ask_record.h"
#include "store/redis/command_writer.h"
#include "store/redis/script.h"

namespace weir::store::redis {
namespace {

// How often an ask may be put again: each time the store has said that it did nothing.
constexpr int kMostAttempts = 8;

}  // namespace

RedisSession::RedisSession(SessionOptions options, KeySpace keys, Clock& clock,
                           SessionEvents& events)
    : options_(std::move(options)),
      shard_(options_.shard),
      keys_(std::move(keys)),
      trial_(keys_.trial(shard_)),
      names_(options_.names),
      clock_(clock),
      events_(events),
      random_(options_.random_seed ? *options_.random_seed : random_number()) {}

RedisSession::~RedisSession() = default;

void RedisSession::name_shard(std::string shard) {
  shard_ = std::move(shard);
  trial_ = keys_.trial(shard_);
}

void RedisSession::sent(Kind kind, MonoTime now, bool with_text, std::uint32_t record) {
  pending_.push_back({kind, with_text, record, now});
  ++new_commands_;
}

void RedisSession::fail(const ErrorRow& row, std::string_view text) {
  if (state_ == State::failed) return;
  state_ = State::failed;
  failure_ = &row;
  failure_text_ = without_arguments(text);
}

// ---- Bytes
// ------------------------------------------------------------------------------------------

void RedisSession::received(std::string_view bytes, MonoTime now) {
  if (state_ == State::closed || state_ == State::failed) return;
  reader_.feed(bytes);
  while (state_ != State::closed && state_ != State::failed) {
    const ReplyReader::Next next = reader_.next();
    if (next == ReplyReader::Next::need_more) return;
    if (next == ReplyReader::Next::broken || pending_.empty()) {
      fail(row_of(LocalFault::malformed));
      return;
    }
    on_reply(reader_.reply(), now);
  }
}

void RedisSession::on_reply(const Reply& reply, MonoTime now) {
  const Pending pending = pending_.front();
  pending_.pop_front();
  if (pending.with_text && pending.kind == Kind::ask) --texts_in_flight(*records_[pending.record]);
  switch (pending.kind) {
    case Kind::ask:
      on_ask_reply(pending, reply, now);
      break;
    case Kind::probe:
      on_probe(pending, reply, now);
      break;
    case Kind::beat:
      on_beat(pending, reply, now);
      break;
    case Kind::call:
      on_call(pending, reply, now);
      break;
    case Kind::name_test:
      on_name_test(pending, reply);
      break;
    case Kind::asking:
      break;  // a node that is no part of a cluster refuses it, and then decides as ever
    default:
      on_greeting(pending, reply, now);
      break;
  }
}

void RedisSession::closed(const ErrorRow& why, MonoTime now) {
  state_ = State::closed;
  wants_credentials_ = false;
  reader_.reset();
  output_.clear();
  new_commands_ = 0;
  texts_in_flight_ = {};
  self_test_in_flight_ = beat_in_flight_ = false;
  const std::deque<Pending> lost = std::exchange(pending_, {});
  std::uint64_t unknown = 0;
  for (const Pending& pending : lost) {
    if (pending.kind == Kind::call) finish_call(pending.record, &why, nullptr);
    if (pending.kind != Kind::ask) continue;
    AskRecord& record = *records_[pending.record];
    ++unknown;
    answer_error(record, why, {}, true, now);
    vote(record, why.votes ? &why : nullptr, now);
    free_record(pending.record);
  }
  finish_probe(&why);
  finish_beat(&why);
  next_deadline_.reset();
  next_call_deadline_.reset();
  if (unknown > 0) events_.on_unknown(unknown);
}

// ---- Asks
// -------------------------------------------------------------------------------------------

std::uint32_t RedisSession::take_record() {
  if (free_records_.empty()) {
    records_.push_back(std::make_unique<AskRecord>());
    return static_cast<std::uint32_t>(records_.size() - 1);
  }
  const std::uint32_t index = free_records_.back();
  free_records_.pop_back();
  return index;
}

std::size_t& RedisSession::texts_in_flight(const AskRecord& record) {
  return texts_in_flight_[record.form == AskForm::envoyproxy ? 1 : 0];
}

void RedisSession::free_record(std::uint32_t index) {
  AskRecord& record = *records_[index];
  if (record.detached && !record.followed) events_.on_lost(record.token);
  record.clear();
  free_records_.push_back(index);
}

void RedisSession::ask(std::span<const Counter> counters, const AskOptions& options,
                       AskHandler& handler, std::uint64_t token, MonoTime now) {
  const std::uint32_t index = take_record();
  AskRecord& record = *records_[index];
  record.begin(counters, options, handler, token, now);
  const auto refuse = [&](LocalFault fault, bool votes) {
    const ErrorRow& row = row_of(fault);
    answer_error(record, row, {}, false, now);
    if (votes) vote(record, &row, now);
    free_record(index);
  };
  if (state_ != State::ready) {
    // What the last connection died of is what is wrong now.
    refuse(LocalFault::not_connected, true);
  } else if (pending_.size() >= options_.max_in_flight) {
    refuse(LocalFault::saturated, true);
  } else if (now >= options.answer_by) {
    refuse(LocalFault::deadline, false);
  } else {
    send_ask(index, false, now);
    const MonoTime due = std::min(options.answer_by, options.vote_by);
    if (!next_deadline_ || due < *next_deadline_) next_deadline_ = due;
  }
}

void RedisSession::send_ask(std::uint32_t index, bool with_text, MonoTime now) {
  AskRecord& record = *records_[index];
  record.times.estimate = store_clock_.earliest(now);
  record.times.not_after =
      record.options.not_after.value_or(record.times.estimate + (record.options.answer_by - now));
  ++record.attempts;
  if (record.options.asking) {
    CommandWriter(output_).command({"ASKING"});
    sent(Kind::asking, now);
  }
  record.form =
      append_ask(record.counters, record.options, record.times, keys_, with_text, output_);
  if (with_text) ++texts_in_flight(record);
  sent(Kind::ask, now, with_text, index);
}

bool RedisSession::ask_again(const Pending& pending, AskRecord& record, bool with_text,
                             MonoTime now) {
  if (record.answered || now >= record.options.answer_by || record.attempts >= kMostAttempts) {
    return false;
  }
  send_ask(pending.record, with_text, now);
  return true;
}

void RedisSession::on_ask_error(const Pending& pending, AskRecord& record, std::string_view text,
                                MonoTime now) {
  const ErrorRow* row = &classify_reply(text);
  if (row->error_class == ErrorClass::noscript) {
    // Behind an EVAL that is on its way the script will be found.
    if (ask_again(pending, record, texts_in_flight(record) == 0, now)) return;
    if (record.answered || now >= record.options.answer_by) {
      vote(record, nullptr, now);  // the store answered; there was no time left to do more
      answer_error(record, row_of(LocalFault::deadline), {}, false, now);
      free_record(pending.record);
      return;
    }
    row = &row_of(LocalFault::script_loop);
  } else if (row == &classify_reply("TRYAGAIN")) {
    // Some of its keys are here and some where the slot goes: soon all are in one place.
    if (ask_again(pending, record, false, now)) return;
  } else if (row->error_class == ErrorClass::redirected && !options_.cluster) {
    row = &row_of(LocalFault::redirect);
  }
  // Whose slot it is may be known in a moment: whoever asked waits for that, or says that it
  // failed.
  if (options_.cluster && is_unserved(text) && !record.answered) record.voted = true;
  vote(record, row->votes ? row : nullptr, now);
  const bool replace = row->action == ErrorAction::reconnect ||
                       row->action == ErrorAction::resolve_again ||
                       row->action == ErrorAction::reload_credentials;
  const std::string kept(text);  // handlers may make the reader move on
  if (replace) fail(*row, kept);
  answer_error(record, *row, kept, may_be_carried_out(kept), now);
  free_record(pending.record);
}

void RedisSession::on_ask_reply(const Pending& pending, const Reply& reply, MonoTime now) {
  AskRecord& record = *records_[pending.record];
  if (!reply.error().empty() || reply.root().type == ReplyType::error) {
    on_ask_error(pending, record, reply.error(), now);
    return;
  }
  const DecodedAsk decoded = decode_ask(reply, record.form, record.counters, record.options,
                                        record.times, store_clock_.earliest(now), replies_);
  if (decoded.told_time) observe(pending.sent, now, decoded.store_now);
  switch (decoded.outcome) {
    case AskOutcome::decided: {
      vote(record, nullptr, now);
      Answer answer;
      answer.allowed = decoded.allowed;
      answer.disagreed = decoded.disagreed;
      answer.counters = replies_;
      answer.store_now = record.options.now.value_or(decoded.store_now);
      answer.latency = now - record.asked_at;
      conclude(record, answer, now);
      break;
    }
    case AskOutcome::late:
    case AskOutcome::astray:
      if (!record.options.not_after && ask_again(pending, record, false, now)) return;
      vote(record, nullptr, now);
      answer_error(
          record,
          row_of(now >= record.options.answer_by ? LocalFault::deadline : LocalFault::unsettled),
          {}, false, now);
      break;
    case AskOutcome::malformed: {
      const ErrorRow& row = row_of(LocalFault::malformed);
      fail(row);
      vote(record, &row, now);
      answer_error(record, row, {}, true, now);
      break;
    }
  }
  free_record(pending.record);
}

void RedisSession::observe(MonoTime sent_at, MonoTime now, Instant store_now) {
  if (store_clock_.observe(sent_at, now, store_now)) events_.on_clock_set();
}

void RedisSession::conclude(AskRecord& record, const Answer& answer, MonoTime) {
  if (record.answered) {
    record.followed = true;
    events_.on_late({record.token, record.counters, answer});
    return;
  }
  record.answered = true;
  // The handler may ask again, and replies_ be used for that answer: not before this one is done.
  std::vector<CounterReply> kept = std::move(replies_);
  replies_ = {};
  Answer own = answer;
  own.counters = kept;
  record.handler->on_answer(record.token, own);
  if (replies_.capacity() < kept.capacity()) replies_ = std::move(kept);
}

void RedisSession::answer_error(AskRecord& record, const ErrorRow& row, std::string_view text,
                                bool carried_out, MonoTime now) {
  if (record.answered) return;
  record.answered = true;
  Answer answer;
  answer.error = &row;
  answer.error_text = text;
  answer.latency = now - record.asked_at;
  answer.reply_may_follow = record.detached;
  answer.may_be_carried_out = carried_out;
  record.handler->on_answer(record.token, answer);
}

void RedisSession::vote(AskRecord& record, const ErrorRow* error, MonoTime now) {
  if (record.voted) return;
  record.voted = true;
  events_.on_vote({record.options.generation, error != nullptr, now - record.asked_at, error});
}

void RedisSession::expire(AskRecord& record, MonoTime now) {
  const ErrorRow& row = row_of(LocalFault::deadline);
  if (!record.answered && now >= record.options.answer_by) {
    record.detach();
    answer_error(record, row, {}, true, now);
  }
  if (!record.voted && now >= record.options.vote_by) vote(record, &row, now);
}

void RedisSession::release_waiting(MonoTime now) {
  const std::size_t count = pending_.size();
  for (std::size_t i = 0; i < count && i < pending_.size(); ++i) {
    if (pending_[i].kind != Kind::ask) continue;
    AskRecord& record = *records_[pending_[i].record];
    if (record.answered) continue;
    record.detach();
    answer_error(record, row_of(LocalFault::released), {}, true, now);
  }
}

// ---- Time
// -------------------------------------------------------------------------------------------

void RedisSession::sweep(MonoTime now) {
  if (next_deadline_ && now >= *next_deadline_) {
    next_deadline_.reset();
    const std::size_t count = pending_.size();
    for (std::size_t i = 0; i < count && i < pending_.size(); ++i) {
      if (pending_[i].kind != Kind::ask) continue;
      AskRecord& record = *records_[pending_[i].record];
      expire(record, now);
      const auto due = record.next_deadline();
      if (due && (!next_deadline_ || *due < *next_deadline_)) next_deadline_ = due;
    }
  }
  if (probe_ && now >= probe_->deadline) finish_probe(&row_of(LocalFault::deadline));
  if (beat_ && now >= beat_->deadline) finish_beat(&row_of(LocalFault::deadline));
  sweep_calls(now);
  if (!pending_.empty() && state_ == State::ready &&
      now - pending_.front().sent >= options_.hang_after) {
    fail(row_of(LocalFault::hung));
  }
}

std::optional<MonoTime> RedisSession::next_event() const {
  std::optional<MonoTime> next = next_deadline_;
  const auto earlier = [&next](MonoTime at) {
    if (!next || at < *next) next = at;
  };
  if (probe_) earlier(probe_->deadline);
  if (beat_) earlier(beat_->deadline);
  if (next_call_deadline_) earlier(*next_call_deadline_);
  if (!pending_.empty() && state_ == State::ready) {
    earlier(pending_.front().sent + options_.hang_after);
  }
  return next;
}

}  // namespace weir::store::redis
