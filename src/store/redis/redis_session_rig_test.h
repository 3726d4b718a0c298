#pragma once

// For tests of RedisSession: a session with a server at its other end, and a rule to ask about.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "policy/key.h"
#include "store/redis/redis_session.h"
#include "testing/lua_redis.h"
#include "testing/manual_clock.h"
#include "testing/resp_commands.h"

namespace weir::store::redis {

// A session and a server with a rope between them: what is sent is executed when the test says so,
// and replies arrive when it says so.
class Rope : public AskHandler, public SessionEvents {
 public:
  explicit Rope(SessionOptions options = {})
      : redis(clock.now()),
        session(std::move(options), KeySpace::make("weir", "").value(), clock, *this) {}

  struct Got {
    bool decided = false;
    bool allowed = false;
    std::string error;  // the row's pattern
    std::vector<CounterReply> counters;
    int times = 0;
    bool reply_may_follow = false;
    bool may_be_carried_out = false;
  };

  MonoTime now() const { return clock.mono(); }

  void open(const Credentials& credentials = {}) {
    session.opened(credentials, now());
    exchange();
  }

  // The server executes what was sent; its replies wait.
  void execute() {
    redis.set_now(clock.now() + store_ahead);
    commands.feed(session.output());
    session.output().clear();
    while (auto command = commands.next()) {
      sent.push_back(
          command->front() +
          (command->front() == "EVAL" || command->front() == "EVALSHA" || command->size() < 2
               ? ""
               : " " + (*command)[1]));
      const auto canned = replies.find(command->front());
      waiting.push_back(canned != replies.end() ? canned->second : redis.execute(*command));
    }
  }
  void deliver(std::size_t count = 1'000) {
    for (; count > 0 && !waiting.empty(); --count) {
      const std::string bytes = waiting.front();
      waiting.pop_front();
      session.received(bytes, now());
    }
  }
  void exchange() {
    while (!session.output().empty() || !waiting.empty()) {
      execute();
      deliver();
    }
  }

  AskOptions within(Nanos deadline) {
    AskOptions options;
    options.answer_by = now() + deadline;
    options.vote_by = now() + std::max<Nanos>(deadline, std::chrono::milliseconds(20));
    return options;
  }
  std::uint64_t ask(std::span<const Counter> counters,
                    Nanos deadline = std::chrono::milliseconds(20)) {
    session.ask(counters, within(deadline), *this, ++last_token, now());
    return last_token;
  }

  void on_answer(std::uint64_t token, const Answer& answer) override {
    Got& got = answers[token];
    ++got.times;
    got.decided = answer.decided();
    got.allowed = answer.allowed;
    got.error = answer.error != nullptr ? answer.error->pattern : "";
    got.reply_may_follow = answer.reply_may_follow;
    got.may_be_carried_out = answer.may_be_carried_out;
    got.counters.assign(answer.counters.begin(), answer.counters.end());
    EXPECT_FALSE(answer.disagreed);
  }
  void on_vote(const Vote& vote) override { votes.push_back(vote); }
  void on_late(const LateReply& reply) override {
    late.push_back(reply.token);
    late_allowed.push_back(reply.answer.allowed);
    late_key = reply.counters[0].key;
    EXPECT_NE(reply.counters[0].numbers, nullptr);
  }
  void on_lost(std::uint64_t token) override { lost.push_back(token); }
  void on_unknown(std::uint64_t asks) override { unknown += asks; }
  void on_report(const StoreReport& report) override {
    ++reports;
    faults = report.faults;
  }
  void on_clock_set() override { ++clock_sets; }

  testing::ManualClock clock;
  testing::LuaRedis redis;
  testing::RespCommands commands;
  RedisSession session;
  Nanos store_ahead{0};
  std::map<std::string, std::string> replies;  // canned, by command
  std::vector<std::string> sent;
  std::deque<std::string> waiting;
  std::map<std::uint64_t, Got> answers;
  std::vector<Vote> votes;
  std::vector<std::uint64_t> late;
  std::vector<bool> late_allowed;
  std::string late_key;
  std::vector<std::uint64_t> lost;
  std::uint64_t last_token = 0;
  std::uint64_t unknown = 0;
  int reports = 0;
  std::vector<StoreFault> faults;
  int clock_sets = 0;
};

// A counter of its own rule.
struct SessionRule {
  limit::Numbers numbers;
  std::string key;
  std::uint64_t id;

  SessionRule(std::uint64_t identity, std::uint64_t limit, Algorithm algorithm = Algorithm::gcra,
              Nanos period = std::chrono::seconds(60))
      : numbers(make(limit, algorithm, period)), id(identity) {
    std::vector<char> buffer(policy::KeyWriter::kMaxKeyBytes);
    key = std::string(policy::KeyWriter(buffer.data(), identity).view());
  }
  static limit::Numbers make(std::uint64_t limit, Algorithm algorithm, Nanos period) {
    limit::Request request;
    request.algorithm = algorithm;
    request.limit = limit;
    request.period.length = period;
    return limit::Numbers::make(request).value();
  }
  Counter take(std::uint64_t cost = 1) const {
    Counter counter;
    counter.numbers = &numbers;
    counter.key = key;
    counter.identity = id;
    counter.digest = {id, id};
    counter.cost = cost;
    return counter;
  }
};

}  // namespace weir::store::redis
