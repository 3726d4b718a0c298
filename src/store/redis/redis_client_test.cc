#include "store/redis/redis_client.h"

#include <gtest/gtest.h>

#include <deque>

#include "policy/key.h"
#include "testing/lua_redis.h"
#include "testing/manual_clock.h"
#include "testing/resp_commands.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;

// A world in which nothing happens until the test says so, and a client in it.
class Stage : public Wire, public ClientEvents, public AskHandler {
 public:
  explicit Stage(ClientOptions options = {})
      : redis(clock.now()),
        client(seeded(std::move(options)), KeySpace::make("weir", "").value(), *this, clock,
               *this) {}

  static ClientOptions seeded(ClientOptions options) {
    options.random_seed = 1;
    options.session.random_seed = 1;
    return options;
  }

  // Wire
  void bind(Events* events) override { events_ = events; }
  void open() override {
    ++opens;
    opened_at.push_back(clock.mono());
  }
  void close() override { ++closes; }
  void send(std::string& bytes) override {
    writes.push_back(bytes);
    commands.feed(bytes);
    bytes.clear();
  }
  void flush_soon() override { flush_wanted = true; }
  void wake_at(MonoTime when) override {
    wake = when;
    ++wakes;
  }

  // What happens
  void connect() {
    events_->on_open();
    reply_to_all();
  }
  void refuse() { events_->on_closed(LocalFault::refused); }
  void reply_to_all() {
    redis.set_now(clock.now());
    while (auto command = commands.next()) {
      if (!silent) events_->on_bytes(redis.execute(*command));
    }
  }
  void end_turn() {
    if (!flush_wanted) return;
    flush_wanted = false;
    events_->on_flush();
  }
  // Time passes up to the next wake-up.
  void wake_up() {
    ASSERT_TRUE(wake.has_value());
    const MonoTime when = *wake;
    wake.reset();
    if (when > clock.mono()) clock.advance(when - clock.mono());
    events_->on_wake();
  }
  void say(std::string_view bytes) { events_->on_bytes(bytes); }

  void ask() {
    AskOptions options;
    options.answer_by = options.vote_by = clock.mono() + 20ms;
    client.ask({&counter, 1}, options, *this, ++asked);
  }

  void on_answer(std::uint64_t, const Answer& answer) override {
    ++answered;
    last_error = answer.error != nullptr ? answer.error->pattern : "";
  }
  void on_vote(const Vote&) override {}
  void on_late(const LateReply&) override {}
  void on_unknown(std::uint64_t) override {}
  void on_report(const StoreReport&) override {}
  void on_disconnected(const ErrorRow& why, std::string_view) override {
    disconnects.emplace_back(why.pattern);
  }

  testing::ManualClock clock;
  testing::LuaRedis redis;
  testing::RespCommands commands;
  Events* events_ = nullptr;
  int opens = 0;
  int closes = 0;
  int wakes = 0;
  bool silent = false;
  bool flush_wanted = false;
  std::optional<MonoTime> wake;
  std::vector<MonoTime> opened_at;
  std::vector<std::string> writes;
  std::vector<std::string> disconnects;
  std::uint64_t asked = 0;
  std::uint64_t answered = 0;
  std::string last_error;

  limit::Numbers numbers =
      limit::Numbers::make(
          {.algorithm = Algorithm::gcra, .limit = 1'000, .period = {.length = 3600s}})
          .value();
  std::string key = std::string(8, 'k');
  Counter counter{.numbers = &numbers, .digest = {1, 1}, .key = key};
  RedisClient client;
};

TEST(RedisClient, SendsAtTheEndOfTheTurnButHoldsBackNoMoreThanEight) {
  Stage stage;
  stage.client.start();
  stage.connect();
  ASSERT_TRUE(stage.client.ready());
  stage.writes.clear();
  for (int i = 0; i < 7; ++i) stage.ask();
  EXPECT_TRUE(stage.writes.empty());
  stage.end_turn();
  EXPECT_EQ(stage.writes.size(), 1u);
  for (int i = 0; i < 20; ++i) stage.ask();
  EXPECT_EQ(stage.writes.size(), 3u);
  stage.end_turn();
  EXPECT_EQ(stage.writes.size(), 4u);
  stage.reply_to_all();
  EXPECT_EQ(stage.answered, 27u);
}

TEST(RedisClient, ArmsNoTimerForEachAsk) {
  Stage stage;
  stage.client.start();
  stage.connect();
  const int before = stage.wakes;
  for (int i = 0; i < 1'000; ++i) {
    stage.ask();
    stage.end_turn();
    stage.reply_to_all();
    stage.clock.advance(10us);
  }
  EXPECT_LE(stage.wakes - before, 2);
}

TEST(RedisClient, AnswersAtTheDeadlineByOneWakeUp) {
  Stage stage;
  stage.client.start();
  stage.connect();
  stage.silent = true;
  const MonoTime start = stage.clock.mono();
  for (int i = 0; i < 5; ++i) stage.ask();
  stage.end_turn();
  while (stage.answered < 5) stage.wake_up();
  EXPECT_EQ(stage.last_error, "(deadline)");
  EXPECT_EQ(stage.clock.mono() - start, 20ms);
}

TEST(RedisClient, BacksOffTwiceAsLongEachTimeUpToAMost) {
  ClientOptions options;
  options.backoff = 100ms;
  options.max_backoff = 1s;
  Stage stage(options);
  stage.client.start();
  for (int i = 0; i < 10; ++i) {
    stage.refuse();
    stage.wake_up();
  }
  ASSERT_EQ(stage.opened_at.size(), 11u);
  Nanos nominal = 100ms;
  for (std::size_t i = 1; i < stage.opened_at.size(); ++i) {
    const Nanos waited = stage.opened_at[i] - stage.opened_at[i - 1];
    EXPECT_GE(waited, nominal / 2) << i;
    EXPECT_LE(waited, nominal) << i;
    nominal = std::min<Nanos>(nominal * 2, 1s);
  }
  // A connection that works begins again from the shortest.
  stage.connect();
  ASSERT_TRUE(stage.client.ready());
  stage.refuse();
  stage.wake_up();
  EXPECT_LE(stage.opened_at.back() - *(stage.opened_at.end() - 2), 100ms);
}

TEST(RedisClient, GivesUpAnAttemptToConnectInTime) {
  Stage stage;
  stage.client.start();
  const MonoTime start = stage.clock.mono();
  stage.wake_up();
  EXPECT_EQ(stage.clock.mono() - start, 200ms);
  EXPECT_EQ(stage.disconnects, (std::vector<std::string>{"(connect timeout)"}));
  stage.wake_up();
  EXPECT_EQ(stage.opens, 2);
}

TEST(RedisClient, GivesUpAGreetingInTime) {
  Stage stage;
  stage.silent = true;
  stage.client.start();
  stage.connect();
  const MonoTime start = stage.clock.mono();
  stage.wake_up();
  EXPECT_EQ(stage.clock.mono() - start, 200ms);
  EXPECT_EQ(stage.disconnects, (std::vector<std::string>{"(greeting timeout)"}));
}

// The primary is elsewhere: its name is resolved again almost at once, but not over and over.
TEST(RedisClient, LooksForThePrimaryAtOnceAndThenWithPatience) {
  Stage stage;
  stage.client.start();
  stage.connect();
  stage.ask();
  stage.end_turn();
  const MonoTime lost = stage.clock.mono();
  stage.say("-READONLY You can't write against a read only replica.\r\n");
  EXPECT_EQ(stage.last_error, "READONLY");
  EXPECT_FALSE(stage.client.ready());
  stage.wake_up();
  EXPECT_LE(stage.clock.mono() - lost, 10ms);
  EXPECT_EQ(stage.opens, 2);
  stage.redis.fail_writes_with("READONLY You can't write against a read only replica.");
  stage.commands = {};
  const MonoTime again = stage.clock.mono();
  stage.connect();
  EXPECT_EQ(stage.disconnects.back(), "READONLY");
  stage.wake_up();
  EXPECT_GE(stage.clock.mono() - again, 25ms);
}

TEST(RedisClient, AnswersWhatWaitsWhenItStops) {
  Stage stage;
  stage.client.start();
  stage.connect();
  stage.silent = true;
  for (int i = 0; i < 3; ++i) stage.ask();
  stage.client.stop();
  EXPECT_EQ(stage.answered, 3u);
  EXPECT_EQ(stage.last_error, "(closing)");
  stage.ask();
  EXPECT_EQ(stage.last_error, "(not connected)");
  stage.silent = false;
  stage.commands = {};
  stage.client.start();
  stage.connect();
  EXPECT_TRUE(stage.client.ready());
}

TEST(RedisClient, SaysWhereItStands) {
  Stage stage;
  EXPECT_EQ(stage.client.state().session, RedisSession::State::closed);
  stage.client.start();
  stage.refuse();
  const ClientState away = stage.client.state();
  ASSERT_NE(away.last_error, nullptr);
  EXPECT_EQ(away.last_error->pattern, "(connection refused)");
  EXPECT_EQ(away.attempts, 1u);
  stage.wake_up();
  stage.connect();
  EXPECT_EQ(stage.client.state().connections, 1u);
  EXPECT_EQ(stage.client.state().session, RedisSession::State::ready);
}

}  // namespace
}  // namespace weir::store::redis
