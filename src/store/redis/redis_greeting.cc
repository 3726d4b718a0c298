// The part of a session that comes before the first ask, and the probe, which is its last step
// again: credentials, database, scripts, and whether this server can hold counters at all.

#include <utility>

#include "base/hex.h"
#include "base/random.h"
#include "store/redis/ask_record.h"
#include "store/redis/command_writer.h"
#include "store/redis/node_of_a_cluster.h"
#include "store/redis/redis_session.h"
#include "store/redis/script.h"

namespace weir::store::redis {
namespace {

constexpr std::int64_t kProbeMs = 5'000;
// Longer than any worker stays without connecting or probing.
constexpr std::int64_t kEpochMs = std::int64_t{8} * 24 * 3'600 * 1'000;

}  // namespace

void RedisSession::opened(const Credentials& credentials, MonoTime now) {
  state_ = State::greeting;
  failure_ = nullptr;
  failure_text_.clear();
  wants_credentials_ = credentials_retried_ = credentials_accepted_ = false;
  reader_.reset();
  store_clock_.reset();
  fresh_report_ = {};
  send_credentials(credentials, now);
}

void RedisSession::retry_credentials(const Credentials& credentials, MonoTime now) {
  wants_credentials_ = false;
  credentials_retried_ = true;
  send_credentials(credentials, now);
}

void RedisSession::send_credentials(const Credentials& credentials, MonoTime now) {
  CommandWriter writer(output_);
  if (!credentials.username.empty()) {
    writer.command({"AUTH", credentials.username, credentials.password});
    sent(Kind::auth, now);
  } else if (!credentials.password.empty()) {
    writer.command({"AUTH", credentials.password});
    sent(Kind::auth, now);
  }
  writer.command({"CLIENT", "SETNAME", options_.client_name});
  sent(Kind::set_name, now);
  // Always: a connection that begins on another database would count there.
  writer.command({"SELECT", std::to_string(options_.database)});
  sent(Kind::select, now);
}

void RedisSession::send_scripts(MonoTime now) {
  credentials_accepted_ = true;
  CommandWriter writer(output_);
  for (const Script* script : {&kAskScript, &kSelfTestScript, &kBeatScript}) {
    writer.command({"SCRIPT", "LOAD", script->text});
    sent(Kind::load, now);
  }
  writer.command({"INFO"});
  sent(Kind::info, now);
  send_name_tests(now);
  if (has_own_keys()) {
    send_self_test(Kind::self_test, false, now);
  } else {
    tested_shard_.clear();
    writer.command({"TIME"});
    sent(Kind::time, now);
  }
}

void RedisSession::send_self_test(Kind kind, bool with_text, MonoTime now) {
  token_ = hex(next_random(random_));
  tested_shard_ = shard_;
  CommandWriter writer(output_);
  writer.command({with_text ? "EVAL" : "EVALSHA",
                  with_text ? kSelfTestScript.text : kSelfTestScript.sha, "2", trial_,
                  keys_.meta(shard_, "epoch"), token_, hex(next_random(random_)),
                  std::to_string(kProbeMs), std::to_string(kEpochMs)});
  sent(kind, now, with_text);
  self_test_in_flight_ = true;
}

// Before the self-test, whose reply ends it.
void RedisSession::send_name_tests(MonoTime now) {
  fresh_report_.name_fault.clear();
  tried_names_ = names_;
  for (std::size_t i = 0; i < tried_names_.size(); ++i) {
    CommandWriter(output_).command({"EVAL", kNameTestScript.text, "1", tried_names_[i].name,
                                    std::to_string(kNameTestSeconds)});
    sent(Kind::name_test, now, false, static_cast<std::uint32_t>(i));
  }
}

void RedisSession::on_name_test(const Pending& pending, const Reply& reply) {
  if (!read_name_test(reply, tried_names_[pending.record], fresh_report_))
    fail(row_of(LocalFault::malformed));
}

// A refused password may have been changed meanwhile: it is read again, once a connection.
void RedisSession::on_refused_credentials(const ErrorRow& row, std::string_view text) {
  if (credentials_retried_) {
    fail(row, text);
  } else {
    wants_credentials_ = true;
  }
}

void RedisSession::on_greeting(const Pending& pending, const Reply& reply, MonoTime now) {
  const bool is_error = reply.root().type == ReplyType::error;
  const ErrorRow* row = is_error ? &classify_reply(reply.error()) : nullptr;
  if (is_error && row->action == ErrorAction::reload_credentials) {
    on_refused_credentials(*row, reply.error());
    return;
  }
  switch (pending.kind) {
    case Kind::auth:
    case Kind::select:
      if (is_error && !wants_credentials_) fail(*row, reply.error());
      break;
    case Kind::set_name:
      break;  // only a name
    case Kind::load:
      if (is_error) {
        fail(*row, reply.error());
      } else if (reply.root().type != ReplyType::string) {
        fail(row_of(LocalFault::malformed));
      }
      break;
    case Kind::info:
      if (is_error && row->error_class != ErrorClass::misconfigured) {
        fail(*row, reply.error());
      } else if (is_error) {
        fresh_report_.info_denied = true;  // the self-test must do
      } else if (!read_info(reply, fresh_report_)) {
        fail(row_of(LocalFault::malformed));
      }
      break;
    case Kind::time:
      on_time(pending, reply, now);
      break;
    default:
      row = judge_self_test(pending, reply, now);
      if (row == nullptr && state_ == State::greeting) {
        state_ = State::ready;
        events_.on_report(report_);
        test_what_changed(now);
      }
      return;
  }
  const bool first_part_done = pending.kind == Kind::select && state_ == State::greeting;
  if (first_part_done && !wants_credentials_ && !credentials_accepted_) send_scripts(now);
}

void RedisSession::note_skew(Instant store_now, Nanos way) {
  fresh_report_.skew = store_now - (clock_.now() - way / 2);
  fresh_report_.skew_doubt = way / 2;
}

void RedisSession::on_time(const Pending& pending, const Reply& reply, MonoTime now) {
  Instant store_now{};
  if (reply.root().type == ReplyType::error) {
    fail(classify_reply(reply.error()), reply.error());
  } else if (!read_time(reply, store_now)) {
    fail(row_of(LocalFault::malformed));
  } else {
    observe(pending.sent, now, store_now);
    note_skew(store_now, now - pending.sent);
    if (judge_report() != nullptr || state_ != State::greeting) return;
    state_ = State::ready;
    events_.on_report(report_);
    test_what_changed(now);
  }
}

// A server that denies a key does not say which rights are wanted.
std::string RedisSession::with_rights(std::string_view error) const {
  std::string text(error);
  if (error.starts_with("NOPERM") && error.find(" key") != std::string_view::npos)
    text += "; needed are all that begin with '" + keys_.root() + "': ~" + keys_.root() + "*";
  return text;
}

// Fails the session where this server cannot hold counters. Returns why not.
const ErrorRow* RedisSession::judge_self_test(const Pending& pending, const Reply& reply,
                                              MonoTime now) {
  self_test_in_flight_ = false;
  if (reply.root().type == ReplyType::error) {
    const ErrorRow& said = classify_reply(reply.error());
    const bool misplaced = said.error_class == ErrorClass::redirected && !options_.cluster;
    const ErrorRow& row = misplaced ? row_of(LocalFault::redirect) : said;
    if (row.error_class == ErrorClass::noscript && !pending.with_text) {
      send_self_test(pending.kind, true, now);
      return &row;
    }
    // That is no matter of the connection's, where one stands.
    const bool unserved = options_.cluster && is_unserved(reply.error());
    if (!unserved || state_ != State::ready) fail(row, with_rights(reply.error()));
    return &row;
  }
  Instant store_now{};
  if (!read_self_test(reply, token_, std::chrono::milliseconds(kProbeMs), fresh_report_,
                      store_now)) {
    fail(row_of(LocalFault::malformed));
    return failure_;
  }
  observe(pending.sent, now, store_now);
  fresh_report_.shard = tested_shard_;
  note_skew(store_now, now - pending.sent);
  return judge_report();
}

// What the server said, all together.
const ErrorRow* RedisSession::judge_report() {
  judge(fresh_report_);
  if (fresh_report_.cluster && !options_.cluster) {
    fresh_report_.faults.push_back({Severity::warning, std::string(kNodeOfACluster)});
  }
  report_ = fresh_report_;
  if (!report_.fatal()) return nullptr;
  const ErrorRow* row = &row_of(LocalFault::unsuitable);
  if (report_.replica) {
    row = &row_of(LocalFault::replica);
  } else if (report_.loading) {
    row = &classify_reply("LOADING");
  } else if (const ErrorRow& said = classify_reply(report_.permission_fault);
             !report_.permission_fault.empty() && !said.pattern.empty()) {
    row = &said;
  } else if (const ErrorRow& denied = classify_reply(report_.name_fault);
             !report_.name_fault.empty() && !denied.pattern.empty()) {
    row = &denied;
  }
  std::string text;
  for (const StoreFault& fault : report_.faults) {
    if (fault.severity == Severity::fatal) text += (text.empty() ? "" : "; ") + fault.text;
  }
  fail(*row, text);
  return row;
}

// ---- Probes
// -----------------------------------------------------------------------------------------

void RedisSession::probe(MonoTime deadline, ProbeHandler handler, MonoTime now) {
  if (state_ != State::ready || self_test_in_flight_) {
    // The reply to the last one is still to come: this store is silent.
    const bool silent = state_ == State::ready;
    handler(&row_of(silent ? LocalFault::deadline : LocalFault::not_connected), nullptr);
    return;
  }
  if (!has_own_keys()) {
    handler(nullptr, &report_);
    return;
  }
  probe_.emplace(deadline, std::move(handler));
  send_probe(now);
}

void RedisSession::send_probe(MonoTime now) {
  fresh_report_ = report_;
  send_name_tests(now);
  send_self_test(Kind::probe, false, now);
}

// The shard, or the names to be tried, became others before the reply came: a probe that nobody
// waits for.
void RedisSession::test_what_changed(MonoTime now) {
  const bool can = state_ == State::ready && !self_test_in_flight_ && has_own_keys();
  if (can && (shard_ != tested_shard_ || names_ != tried_names_)) send_probe(now);
}

void RedisSession::on_probe(const Pending& pending, const Reply& reply, MonoTime now) {
  const ErrorRow* row = judge_self_test(pending, reply, now);
  if (row != nullptr && row->error_class == ErrorClass::noscript && state_ == State::ready) return;
  if (row == nullptr) events_.on_report(report_);
  finish_probe(row);
  if (row == nullptr) test_what_changed(now);
}

void RedisSession::finish_probe(const ErrorRow* error) {
  if (!probe_) return;
  const ProbeHandler handler = std::move(probe_->handler);
  probe_.reset();
  handler(error, error == nullptr ? &report_ : nullptr);
}

}  // namespace weir::store::redis
