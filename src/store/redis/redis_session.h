#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/envoy/name_trial.h"
#include "store/redis/ask.h"
#include "store/redis/ask_codec.h"
#include "store/redis/beat.h"
#include "store/redis/error_class.h"
#include "store/redis/physical_key.h"
#include "store/redis/reply_reader.h"
#include "store/redis/store_call.h"
#include "store/redis/store_clock.h"
#include "store/redis/store_report.h"
#include "weir/clock.h"

namespace weir::store::redis {

struct Credentials {
  std::string username;  // empty: the default user
  std::string password;  // empty: none is sent
};

struct SessionOptions {
  std::uint32_t database = 0;
  std::string client_name = "weir";
  // Of the fleet's own keys, see KeySpace; a shard of a cluster is given its own later.
  std::string shard;
  // A node of a cluster: redirections are for whoever asked to follow. As long as its shard has no
  // name it owns no slot that could hold keys of ours: then it is not tested, only asked its time,
  // and nobody is announced there.
  bool cluster = false;
  std::size_t max_in_flight = 4096;  // asks whose reply has not come, answered or not
  // A reply that takes longer means that the connection is dead: it is replaced.
  Nanos hang_after{std::chrono::milliseconds(500)};
  // Absent: drawn from the machine, as it must be where two workers are not to agree by chance.
  std::optional<std::uint64_t> random_seed;
  // Names that the policy gives counters, and not this library: see try_names().
  std::vector<policy::NameTrial> names = {};
};

// How an ask went for the store, told once for each: what its breaker counts.
struct Vote {
  std::uint32_t generation = 0;
  bool failed = false;
  Nanos latency{0};
  const ErrorRow* error = nullptr;  // where it failed
};

// A reply that came after its ask was answered, and decided it. `counters` have all but the rule.
struct LateReply {
  std::uint64_t token = 0;
  std::span<const Counter> counters;
  Answer answer;
};

// What a session tells its owner. Whatever is pointed to ends with the call.
class SessionEvents {
 public:
  virtual ~SessionEvents() = default;
  virtual void on_vote(const Vote& vote) = 0;
  virtual void on_late(const LateReply& late) = 0;
  // No on_late() will come for an ask that was answered with `reply_may_follow`: the store refused
  // it, or the connection is gone.
  virtual void on_lost(std::uint64_t token) { (void)token; }
  // So many asks that were sent will never have a reply: they may have been counted, or not.
  virtual void on_unknown(std::uint64_t asks) = 0;
  // The self-test has passed, on connecting or as a probe.
  virtual void on_report(const StoreReport& report) = 0;
  // The store's clock was set.
  virtual void on_clock_set() {}
};

// One connection's life, without the connection: what to send, and what replies mean.
//
// Bytes to send are appended to output(); bytes that came are given to received(); time passes by
// sweep(). Replies are matched in order, and a late one never shifts onto another ask.
//
// What a node of a cluster answers with is_unserved() does not vote: whoever asked does.
//
// Guarantees:  an ask is answered exactly once, at the latest by the first sweep() at or after its
//              answer_by; it is sent again only where the store said that it executed nothing.
//              Memory is bounded by max_in_flight.
// Threads:     one. Handlers may ask again from inside their calls.
class RedisSession {
 public:
  enum class State : std::uint8_t {
    closed,
    greeting,  // credentials, database, scripts, self-test
    ready,
    failed,  // the owner closes the connection; failure() says why
  };
  using ProbeHandler = std::function<void(const ErrorRow* error, const StoreReport* report)>;
  // What is pointed to ends with the call.
  using BeatHandler = std::function<void(const ErrorRow* error, const FleetReply* fleet)>;

  RedisSession(SessionOptions options, KeySpace keys, Clock& clock, SessionEvents& events);
  ~RedisSession();
  RedisSession(const RedisSession&) = delete;
  RedisSession& operator=(const RedisSession&) = delete;

  // A connection stands: begins the greeting.
  void opened(const Credentials& credentials, MonoTime now);
  // The credentials were refused: whether others may be tried, once.
  bool wants_credentials() const noexcept { return wants_credentials_ && pending_.empty(); }
  void retry_credentials(const Credentials& credentials, MonoTime now);

  void received(std::string_view bytes, MonoTime now);
  // The connection is gone: everything that waits is answered with `why`.
  void closed(const ErrorRow& why, MonoTime now);

  // Requires:    counters.size() in [1, kMaxCounters], no two of one digest; what they and
  //              `options` point to lives until the answer.
  void ask(std::span<const Counter> counters, const AskOptions& options, AskHandler& handler,
           std::uint64_t token, MonoTime now);
  // The fleet's own keys are those of another shard from now on; where a self-test is under way
  // another follows it.
  void name_shard(std::string shard);
  // Under these, too, the self-test finds out from now on whether counters can be kept; where one
  // is under way another follows it. A node of a cluster says of each whether the user has the
  // rights to it, and counts under its own alone.
  void try_names(std::vector<policy::NameTrial> names) { names_ = std::move(names); }
  // Runs the self-test. One at a time.
  void probe(MonoTime deadline, ProbeHandler handler, MonoTime now);
  // Announces this worker. One at a time; what becomes of it never votes.
  void beat(const Beat& beat, MonoTime deadline, BeatHandler handler, MonoTime now);
  // Sends a command beside the asks; see CallHandler.
  void call(StoreCall call, MonoTime deadline, CallHandler handler, MonoTime now);
  // Answers everything that waits: the breaker opened. Replies are still awaited.
  void release_waiting(MonoTime now);

  // Answers what is due. To be called at next_event(), or soon after.
  void sweep(MonoTime now);
  std::optional<MonoTime> next_event() const;

  State state() const noexcept { return state_; }
  // Requires: state() == failed.
  const ErrorRow& failure() const noexcept { return *failure_; }
  const std::string& failure_text() const noexcept { return failure_text_; }

  std::string& output() noexcept { return output_; }
  // Commands appended to output() since the last call.
  std::size_t take_new_commands() noexcept { return std::exchange(new_commands_, 0); }

  std::size_t in_flight() const noexcept { return pending_.size(); }
  const StoreReport& report() const noexcept { return report_; }
  const StoreClock& store_clock() const noexcept { return store_clock_; }

 private:
  enum class Kind : std::uint8_t {
    auth,
    set_name,
    select,
    load,
    info,
    self_test,
    time,  // in place of the self-test
    name_test,
    probe,
    beat,
    call,
    asking,  // allows the ask behind it to a slot that is on its way here
    ask
  };
  struct AskRecord;
  struct Pending {
    Kind kind = Kind::ask;
    bool with_text = false;    // EVAL
    std::uint32_t record = 0;  // ask, call; name_test: the name's place
    MonoTime sent{};
  };
  struct BeatRecord {
    Beat beat;
    MonoTime deadline{};
    BeatHandler handler;
  };
  struct CallRecord {
    StoreCall call;
    MonoTime deadline{};
    CallHandler handler;
    bool answered = false;  // its deadline was told; the reply may still come
  };
  struct ProbeRecord {
    MonoTime deadline{};
    ProbeHandler handler;
  };

  void sent(Kind kind, MonoTime now, bool with_text = false, std::uint32_t record = 0);
  void send_credentials(const Credentials& credentials, MonoTime now);
  void send_scripts(MonoTime now);
  void send_self_test(Kind kind, bool with_text, MonoTime now);
  void send_name_tests(MonoTime now);
  void on_name_test(const Pending& pending, const Reply& reply);
  bool has_own_keys() const noexcept { return !options_.cluster || !shard_.empty(); }
  void note_skew(Instant store_now, Nanos way);
  void on_time(const Pending& pending, const Reply& reply, MonoTime now);
  void fail(const ErrorRow& row, std::string_view text = {});

  void on_reply(const Reply& reply, MonoTime now);
  void on_greeting(const Pending& pending, const Reply& reply, MonoTime now);
  const ErrorRow* judge_self_test(const Pending& pending, const Reply& reply, MonoTime now);
  const ErrorRow* judge_report();
  std::string with_rights(std::string_view error) const;
  void on_refused_credentials(const ErrorRow& row, std::string_view text);
  void send_probe(MonoTime now);
  void test_what_changed(MonoTime now);
  void on_probe(const Pending& pending, const Reply& reply, MonoTime now);
  void finish_probe(const ErrorRow* error);

  void send_beat(const Beat& beat, bool with_text, MonoTime now);
  void on_beat(const Pending& pending, const Reply& reply, MonoTime now);
  void finish_beat(const ErrorRow* error, const FleetReply* fleet = nullptr);

  void send_call(std::uint32_t index, bool with_text, MonoTime now);
  void on_call(const Pending& pending, const Reply& reply, MonoTime now);
  void finish_call(std::uint32_t index, const ErrorRow* error, const Reply* reply);
  void sweep_calls(MonoTime now);

  std::uint32_t take_record();
  void send_ask(std::uint32_t index, bool with_text, MonoTime now);
  void on_ask_reply(const Pending& pending, const Reply& reply, MonoTime now);
  void on_ask_error(const Pending& pending, AskRecord& record, std::string_view text, MonoTime now);
  bool ask_again(const Pending& pending, AskRecord& record, bool with_text, MonoTime now);
  void conclude(AskRecord& record, const Answer& answer, MonoTime now);
  void answer_error(AskRecord& record, const ErrorRow& row, std::string_view text, bool carried_out,
                    MonoTime now);
  void vote(AskRecord& record, const ErrorRow* error, MonoTime now);
  void free_record(std::uint32_t index);
  std::size_t& texts_in_flight(const AskRecord& record);
  void expire(AskRecord& record, MonoTime now);
  void observe(MonoTime sent_at, MonoTime now, Instant store_now);

  const SessionOptions options_;
  std::string shard_;
  const KeySpace keys_;
  std::string trial_;  // see KeySpace::trial(), of shard_
  std::vector<policy::NameTrial> names_;
  std::vector<policy::NameTrial> tried_names_;  // by the last self-test
  Clock& clock_;
  SessionEvents& events_;

  State state_ = State::closed;
  const ErrorRow* failure_ = nullptr;
  std::string failure_text_;
  bool wants_credentials_ = false;
  bool credentials_retried_ = false;
  bool credentials_accepted_ = false;  // the greeting's second part is on its way

  ReplyReader reader_;
  std::string output_;
  std::size_t new_commands_ = 0;
  std::deque<Pending> pending_;
  // Asks sent as EVAL, by their script: those behind them find it loaded.
  std::array<std::size_t, 2> texts_in_flight_{};

  std::vector<std::unique_ptr<AskRecord>> records_;
  std::vector<std::uint32_t> free_records_;
  std::vector<CounterReply> replies_;
  std::optional<MonoTime> next_deadline_;
  std::optional<ProbeRecord> probe_;
  bool self_test_in_flight_ = false;  // `token_` is on its way
  std::optional<BeatRecord> beat_;
  bool beat_in_flight_ = false;
  std::vector<std::unique_ptr<CallRecord>> calls_;
  std::vector<std::uint32_t> free_calls_;
  std::optional<MonoTime> next_call_deadline_;

  StoreClock store_clock_;
  StoreReport report_;
  StoreReport fresh_report_;
  std::string token_;
  std::string tested_shard_;  // whose own keys the last self-test is about
  std::uint64_t random_;
};

}  // namespace weir::store::redis
