// The part of a session by which breakers and leases that a fleet shares are told and asked about:
// beside the asks, and no business of the store's own breaker.

#include <algorithm>
#include <utility>

#include "store/redis/command_writer.h"
#include "store/redis/redis_session.h"

namespace weir::store::redis {

void RedisSession::call(StoreCall call, MonoTime deadline, CallHandler handler, MonoTime now) {
  if (state_ != State::ready || pending_.size() >= options_.max_in_flight || now >= deadline) {
    const LocalFault fault = state_ != State::ready ? LocalFault::not_connected
                             : now >= deadline      ? LocalFault::deadline
                                                    : LocalFault::saturated;
    handler(&row_of(fault), nullptr, false);
    return;
  }
  if (free_calls_.empty()) {
    calls_.push_back(std::make_unique<CallRecord>());
    free_calls_.push_back(static_cast<std::uint32_t>(calls_.size() - 1));
  }
  const std::uint32_t index = free_calls_.back();
  free_calls_.pop_back();
  *calls_[index] = {std::move(call), deadline, std::move(handler), false};
  send_call(index, false, now);
  if (!next_call_deadline_ || deadline < *next_call_deadline_) next_call_deadline_ = deadline;
}

void RedisSession::send_call(std::uint32_t index, bool with_text, MonoTime now) {
  const StoreCall& call = calls_[index]->call;
  CommandWriter writer(output_);
  if (call.script == nullptr) {
    writer.begin(call.arguments.size());
  } else {
    writer.begin(3 + call.keys.size() + call.arguments.size());
    writer.argument(with_text ? "EVAL" : "EVALSHA");
    writer.argument(with_text ? call.script->text : call.script->sha);
    writer.number(call.keys.size());
  }
  for (const std::string& key : call.keys) writer.argument(key);
  for (const std::string& argument : call.arguments) writer.argument(argument);
  sent(Kind::call, now, with_text, index);
}

void RedisSession::on_call(const Pending& pending, const Reply& reply, MonoTime now) {
  const CallRecord& record = *calls_[pending.record];
  if (reply.root().type != ReplyType::error) {
    finish_call(pending.record, nullptr, &reply);
    return;
  }
  const ErrorRow& row = classify_reply(reply.error());
  const bool again = row.error_class == ErrorClass::noscript && record.call.script != nullptr &&
                     !pending.with_text && !record.answered && now < record.deadline;
  if (again) {
    send_call(pending.record, true, now);
    return;
  }
  if (row.action == ErrorAction::reconnect || row.action == ErrorAction::resolve_again ||
      row.action == ErrorAction::reload_credentials) {
    fail(row, reply.error());
  }
  finish_call(pending.record, &row, nullptr);
}

// The record is free before the handler runs, which may call again.
void RedisSession::finish_call(std::uint32_t index, const ErrorRow* error, const Reply* reply) {
  CallRecord done = std::move(*calls_[index]);
  *calls_[index] = {};
  free_calls_.push_back(index);
  if (!done.answered || error == nullptr) done.handler(error, reply, done.answered);
}

void RedisSession::sweep_calls(MonoTime now) {
  if (!next_call_deadline_ || now < *next_call_deadline_) return;
  next_call_deadline_.reset();
  std::vector<CallHandler> overdue;
  for (const Pending& pending : pending_) {
    if (pending.kind != Kind::call) continue;
    CallRecord& record = *calls_[pending.record];
    if (record.answered) continue;
    if (now >= record.deadline) {
      record.answered = true;
      overdue.push_back(record.handler);
    } else if (!next_call_deadline_ || record.deadline < *next_call_deadline_) {
      next_call_deadline_ = record.deadline;
    }
  }
  for (const CallHandler& handler : overdue) handler(&row_of(LocalFault::deadline), nullptr, false);
}

}  // namespace weir::store::redis
