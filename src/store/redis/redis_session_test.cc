#include "store/redis/redis_session.h"

#include <gtest/gtest.h>

#include "store/redis/redis_session_rig_test.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using State = RedisSession::State;

TEST(RedisSession, GreetsAndIsReadyAfterTheSelfTest) {
  Rope rope;
  rope.open();
  EXPECT_EQ(rope.session.state(), State::ready);
  EXPECT_EQ(rope.reports, 1);
  EXPECT_EQ(rope.session.report().version, "7.0.15");
  EXPECT_FALSE(rope.session.report().epoch.empty());
  EXPECT_TRUE(rope.session.report().faults.empty());
  EXPECT_EQ(rope.sent, (std::vector<std::string>{"CLIENT SETNAME", "SELECT 0", "SCRIPT LOAD",
                                                 "SCRIPT LOAD", "SCRIPT LOAD", "INFO", "EVALSHA"}));
}

TEST(RedisSession, DecidesWhatTheStoreDecided) {
  Rope rope;
  rope.open();
  const SessionRule rule(1, 2);
  for (const bool allowed : {true, true, false}) {
    const Counter counter = rule.take();
    const auto token = rope.ask({&counter, 1});
    rope.exchange();
    EXPECT_EQ(rope.answers[token].times, 1);
    EXPECT_TRUE(rope.answers[token].decided);
    EXPECT_EQ(rope.answers[token].allowed, allowed);
  }
  ASSERT_EQ(rope.votes.size(), 3u);
  for (const Vote& vote : rope.votes) EXPECT_FALSE(vote.failed);
}

TEST(RedisSession, MatchesRepliesInOrderAndLateOnesNeverShift) {
  Rope rope;
  rope.open();
  const SessionRule first(1, 1);
  const SessionRule second(2, 5);
  const Counter a = first.take();
  const Counter b = second.take(3);
  const auto late = rope.ask({&a, 1}, 10ms);
  rope.execute();
  rope.clock.advance(10ms);
  rope.session.sweep(rope.now());
  EXPECT_EQ(rope.answers[late].error, "(deadline)");
  const auto next = rope.ask({&b, 1});
  rope.execute();
  rope.deliver();
  // The first reply belongs to the first ask, though that was answered already.
  EXPECT_EQ(rope.answers[late].times, 1);
  ASSERT_EQ(rope.late, (std::vector<std::uint64_t>{late}));
  EXPECT_TRUE(rope.late_allowed[0]);
  ASSERT_TRUE(rope.answers[next].decided);
  EXPECT_EQ(rope.answers[next].counters[0].finding.step.remaining, 2u);
}

TEST(RedisSession, VotesOnceByTheReplyOrByItsOwnDeadline) {
  Rope rope;
  rope.open();
  const SessionRule rule(1, 100);
  const Counter counter = rule.take();
  // A caller that grants 1 ms says nothing about a store that takes 2.
  const auto hasty = rope.ask({&counter, 1}, 1ms);
  rope.execute();
  rope.clock.advance(2ms);
  rope.session.sweep(rope.now());
  EXPECT_EQ(rope.answers[hasty].error, "(deadline)");
  EXPECT_TRUE(rope.votes.empty());
  rope.deliver();
  ASSERT_EQ(rope.votes.size(), 1u);
  EXPECT_FALSE(rope.votes[0].failed);
  EXPECT_EQ(rope.votes[0].latency, 2ms);
  // Though every caller grants less than our deadline, silence beyond it is a failure.
  rope.ask({&counter, 1}, 1ms);
  rope.execute();
  rope.clock.advance(20ms);
  rope.session.sweep(rope.now());
  ASSERT_EQ(rope.votes.size(), 2u);
  EXPECT_TRUE(rope.votes[1].failed);
  rope.deliver();
  EXPECT_EQ(rope.votes.size(), 2u);
}

TEST(RedisSession, LoadsALostScriptOnceForAWholePipelineAndChargesNothingTwice) {
  Rope rope;
  rope.open();
  const SessionRule rule(1, 100);
  const Counter counter = rule.take();
  rope.redis.execute({"SCRIPT", "FLUSH"});
  rope.sent.clear();
  for (int i = 0; i < 20; ++i) rope.ask({&counter, 1});
  rope.exchange();
  for (std::uint64_t token = 1; token <= 20; ++token) {
    EXPECT_TRUE(rope.answers[token].allowed) << rope.answers[token].error;
  }
  EXPECT_EQ(std::count(rope.sent.begin(), rope.sent.end(), "EVAL"), 1);
  EXPECT_EQ(std::count(rope.sent.begin(), rope.sent.end(), "EVALSHA"), 20 + 19);
  const auto probe = [&] {
    const Counter look = rule.take(0);
    const auto token = rope.ask({&look, 1});
    rope.exchange();
    return rope.answers[token].counters[0].finding.step.remaining;
  };
  EXPECT_EQ(probe(), 80u);
  for (const Vote& vote : rope.votes) EXPECT_FALSE(vote.failed);
}

TEST(RedisSession, AsksAgainWhereTheStoresClockRanAhead) {
  Rope rope;
  rope.open();
  const SessionRule rule(1, 10);
  const Counter counter = rule.take();
  rope.store_ahead = 1s;  // a failover to a host whose clock is a second ahead
  const auto token = rope.ask({&counter, 1});
  rope.exchange();
  EXPECT_TRUE(rope.answers[token].allowed);
  EXPECT_EQ(rope.answers[token].counters[0].finding.step.remaining, 9u);
  EXPECT_EQ(rope.clock_sets, 1);
  ASSERT_EQ(rope.votes.size(), 1u);
  EXPECT_FALSE(rope.votes[0].failed);
}

TEST(RedisSession, ChargesNothingOnceTheCallerHasLeft) {
  Rope rope;
  rope.open();
  const SessionRule rule(1, 10);
  const Counter counter = rule.take();
  const auto token = rope.ask({&counter, 1}, 10ms);
  rope.clock.advance(15ms);
  rope.session.sweep(rope.now());
  rope.exchange();  // the server was slow to read it
  EXPECT_EQ(rope.answers[token].error, "(deadline)");
  EXPECT_TRUE(rope.late.empty());
  const Counter look = rule.take(0);
  const auto probe = rope.ask({&look, 1});
  rope.exchange();
  EXPECT_EQ(rope.answers[probe].counters[0].finding.step.remaining, 10u);
}

TEST(RedisSession, SendsTheWindowsAgainWhereTheyWereThoseOfAnotherTime) {
  Rope rope;
  rope.open();
  const SessionRule rule(1, 10, Algorithm::fixed_window, 1s);
  const Counter counter = rule.take();
  rope.store_ahead = -10s;
  const auto token = rope.ask({&counter, 1});
  rope.exchange();
  EXPECT_TRUE(rope.answers[token].allowed);
}

TEST(RedisSession, AnswersEverythingWhenTheConnectionIsLost) {
  Rope rope;
  rope.open();
  const SessionRule rule(1, 10);
  const Counter counter = rule.take();
  for (int i = 0; i < 3; ++i) rope.ask({&counter, 1});
  rope.session.closed(row_of(LocalFault::reset), rope.now());
  for (std::uint64_t token = 1; token <= 3; ++token) {
    EXPECT_EQ(rope.answers[token].error, "(connection reset)");
    EXPECT_EQ(rope.answers[token].times, 1);
  }
  EXPECT_EQ(rope.unknown, 3u);
  EXPECT_EQ(rope.votes.size(), 3u);
  const auto token = rope.ask({&counter, 1});
  EXPECT_EQ(rope.answers[token].error, "(not connected)");
}

TEST(RedisSession, BoundsWhatIsInFlight) {
  SessionOptions options;
  options.max_in_flight = 8;
  Rope rope(options);
  rope.open();
  const SessionRule rule(1, 100);
  const Counter counter = rule.take();
  for (int i = 0; i < 20; ++i) rope.ask({&counter, 1}, 5ms);
  EXPECT_EQ(rope.session.in_flight(), 8u);
  EXPECT_EQ(rope.answers[9].error, "(saturated)");
  // Answered or not, what is in flight is: a silent server cannot make us remember more.
  rope.clock.advance(5ms);
  rope.session.sweep(rope.now());
  EXPECT_EQ(rope.answers[1].error, "(deadline)");
  const auto token = rope.ask({&counter, 1});
  EXPECT_EQ(rope.answers[token].error, "(saturated)");
}

TEST(RedisSession, GivesUpAConnectionThatHangs) {
  Rope rope;
  rope.open();
  const SessionRule rule(1, 100);
  const Counter counter = rule.take();
  rope.ask({&counter, 1});
  rope.clock.advance(499ms);
  rope.session.sweep(rope.now());
  EXPECT_EQ(rope.session.state(), State::ready);
  ASSERT_TRUE(rope.session.next_event().has_value());
  EXPECT_EQ(*rope.session.next_event(), rope.now() + 1ms);
  rope.clock.advance(1ms);
  rope.session.sweep(rope.now());
  EXPECT_EQ(rope.session.state(), State::failed);
  EXPECT_EQ(rope.session.failure().pattern, "(hung)");
}

TEST(RedisSession, ReleasesAllThatWaitWithoutAVote) {
  Rope rope;
  rope.open();
  const SessionRule rule(1, 100);
  const Counter counter = rule.take();
  for (int i = 0; i < 3; ++i) rope.ask({&counter, 1});
  rope.execute();
  rope.session.release_waiting(rope.now());
  for (std::uint64_t token = 1; token <= 3; ++token) {
    EXPECT_EQ(rope.answers[token].error, "(released)");
  }
  EXPECT_TRUE(rope.votes.empty());
  rope.deliver();
  EXPECT_EQ(rope.late.size(), 3u);
  EXPECT_EQ(rope.votes.size(), 3u);
}

// Every reply that is not one: unavailable, never "under the limit".
TEST(RedisSession, SaysOnceHowAnAskEndedThatWasAnsweredBefore) {
  Rope rope;
  rope.open();
  SessionRule rule(1, 100);
  const std::string key = rule.key;
  const Counter counter = rule.take();
  const auto late = rope.ask({&counter, 1}, 5ms);
  rope.execute();
  rope.clock.advance(5ms);
  rope.session.sweep(rope.now());
  EXPECT_TRUE(rope.answers[late].reply_may_follow);
  rule.key.assign(rule.key.size(), 'x');  // the asker's memory is its own again
  rope.deliver();
  EXPECT_EQ(rope.late, std::vector{late});
  EXPECT_EQ(rope.late_key, key);
  EXPECT_TRUE(rope.lost.empty());

  // The store was late, and did nothing; and a connection that ends with a reply outstanding.
  const auto refused = rope.ask({&counter, 1}, 5ms);
  rope.clock.advance(6ms);
  rope.session.sweep(rope.now());
  rope.exchange();
  EXPECT_EQ(rope.lost, std::vector{refused});
  const auto gone = rope.ask({&counter, 1}, 5ms);
  rope.session.release_waiting(rope.now());
  EXPECT_TRUE(rope.answers[gone].reply_may_follow);
  EXPECT_TRUE(rope.answers[gone].may_be_carried_out);
  rope.session.closed(row_of(LocalFault::eof), rope.now());
  EXPECT_EQ(rope.lost, (std::vector{refused, gone}));

  // What was never sent has no reply to come.
  const auto unsent = rope.ask({&counter, 1});
  EXPECT_FALSE(rope.answers[unsent].reply_may_follow);
  EXPECT_FALSE(rope.answers[unsent].may_be_carried_out);
  EXPECT_EQ(rope.late.size() + rope.lost.size(), 3U);
}

TEST(RedisSession, TakesNonsenseForAFailure) {
  for (const char* nonsense :
       {"$-1\r\n", ":1\r\n", "+OK\r\n", "$2\r\nOK\r\n", "*0\r\n", "*-1\r\n", "*2\r\n:1\r\n:2\r\n",
        "*3\r\n$1\r\na\r\n$1\r\n0\r\n:1\r\n", "*3\r\n$10\r\n1700000000\r\n$1\r\n0\r\n:7\r\n",
        "*3\r\n$10\r\n1700000000\r\n$7\r\n1000000\r\n:1\r\n",
        "*4\r\n$1\r\n1\r\n$1\r\n0\r\n$-1\r\n:0\r\n",
        "*4\r\n$1\r\n1\r\n$1\r\n0\r\n$1\r\nx\r\n:1\r\n", "*3\r\n$1\r\n1\r\n$1\r\n0\r\n$-1\r\n",
        "*1\r\n*1\r\n:1\r\n", "$33\r\n012345678901234567890123456789012\r\n",
        "HTTP/1.1 200 OK\r\n"}) {
    Rope rope;
    rope.open();
    rope.replies["EVALSHA"] = nonsense;
    const SessionRule rule(1, 100);
    const Counter counter = rule.take();
    const auto token = rope.ask({&counter, 1});
    rope.exchange();
    EXPECT_EQ(rope.session.state(), State::failed) << nonsense;
    rope.session.closed(rope.session.failure(), rope.now());
    EXPECT_FALSE(rope.answers[token].decided) << nonsense;
    EXPECT_EQ(rope.answers[token].error, "(malformed reply)") << nonsense;
    ASSERT_EQ(rope.votes.size(), 1u) << nonsense;
    EXPECT_TRUE(rope.votes[0].failed) << nonsense;
  }
}

TEST(RedisSession, AnswersEveryErrorOfTheTableByItsRow) {
  for (const ErrorRow& row : error_table()) {
    if (row.pattern.starts_with("(") || row.error_class == ErrorClass::noscript) continue;
    Rope rope;
    rope.open();
    const bool is_code =
        !row.pattern.empty() &&
        row.pattern.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string_view::npos;
    rope.replies["EVALSHA"] =
        (is_code ? "-" : "-ERR ") + std::string(row.pattern) + " and so on\r\n";
    const SessionRule rule(1, 100);
    const Counter counter = rule.take();
    const auto token = rope.ask({&counter, 1});
    rope.exchange();
    EXPECT_EQ(rope.answers[token].times, 1) << row.pattern;
    EXPECT_FALSE(rope.answers[token].decided) << row.pattern;
    ASSERT_EQ(rope.votes.size(), 1u) << row.pattern;
    const bool redirected = row.error_class == ErrorClass::redirected;
    EXPECT_EQ(rope.answers[token].error, redirected ? "(redirected)" : row.pattern);
    EXPECT_EQ(rope.votes[0].failed, redirected || row.votes) << row.pattern;
    EXPECT_EQ(rope.answers[token].may_be_carried_out, row.carried == Carried::perhaps)
        << row.pattern;
    const bool replaced = row.action == ErrorAction::reconnect ||
                          row.action == ErrorAction::resolve_again ||
                          row.action == ErrorAction::reload_credentials;
    EXPECT_EQ(rope.session.state() == State::failed, replaced) << row.pattern;
  }
}

// Whatever ends a connection says nothing of the asks that it ends with.
TEST(RedisSession, KnowsNotWhatBecameOfAsksBehindTheOneThatEndedTheConnection) {
  Rope rope;
  rope.open();
  const SessionRule rule(1, 100);
  const Counter counter = rule.take();
  rope.replies["EVALSHA"] = "-READONLY You can't write against a read only replica.\r\n";
  const auto first = rope.ask({&counter, 1});
  const auto second = rope.ask({&counter, 1});
  rope.execute();
  rope.deliver(1);
  ASSERT_EQ(rope.session.state(), State::failed);
  rope.session.closed(rope.session.failure(), rope.now());
  EXPECT_EQ(rope.answers[second].error, "READONLY");
  EXPECT_FALSE(rope.answers[first].may_be_carried_out);
  EXPECT_TRUE(rope.answers[second].may_be_carried_out);
}

TEST(RedisSession, ReadsARefusedPasswordAgainOnceAConnection) {
  Rope rope;
  rope.replies["AUTH"] = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
  rope.replies["CLIENT"] = rope.replies["SELECT"] = "-NOAUTH Authentication required.\r\n";
  rope.open({"weir", "old"});
  EXPECT_TRUE(rope.session.wants_credentials());
  EXPECT_EQ(rope.session.state(), State::greeting);
  rope.session.retry_credentials({"weir", "older"}, rope.now());
  rope.exchange();
  EXPECT_FALSE(rope.session.wants_credentials());
  EXPECT_EQ(rope.session.state(), State::failed);
  EXPECT_EQ(rope.session.failure().pattern, "WRONGPASS");
  rope.session.closed(rope.session.failure(), rope.now());

  rope.session.opened({"weir", "old"}, rope.now());
  rope.exchange();
  rope.replies.clear();
  rope.session.retry_credentials({"weir", "new"}, rope.now());
  rope.exchange();
  EXPECT_EQ(rope.session.state(), State::ready);
}

TEST(RedisSession, RefusesAServerThatCannotHoldCounters) {
  {
    Rope rope;
    rope.replies["INFO"] = "$32\r\nredis_version:7.0.15\r\nrole:slave\r\n";
    rope.open();
    EXPECT_EQ(rope.session.failure().pattern, "(replica)");
  }
  {
    Rope rope;
    rope.redis.fail_writes_with("MISCONF Redis is configured to save RDB snapshots");
    rope.open();
    EXPECT_EQ(rope.session.state(), State::failed);
    EXPECT_EQ(rope.session.failure().pattern, "MISCONF");
  }
  {
    Rope rope;
    rope.replies["INFO"] = "$20\r\nredis_version:4.0.1\n\r\n";
    rope.open();
    EXPECT_EQ(rope.session.failure().pattern, "(self-test failed)");
    EXPECT_NE(rope.session.failure_text().find("4.0.1"), std::string::npos);
  }
}

TEST(RedisSession, TellsWhatTheStoreHasAlreadyDecided) {
  Rope rope;
  const std::string info =
      "redis_version:7.0.15\r\nrole:master\r\nmaxmemory:1000000\r\nmaxmemory_policy:allkeys-"
      "lru\r\n";
  rope.replies["INFO"] = "$" + std::to_string(info.size()) + "\r\n" + info + "\r\n";
  rope.store_ahead = 3s;
  rope.open();
  EXPECT_EQ(rope.session.state(), State::ready);
  ASSERT_EQ(rope.session.report().faults.size(), 2u);
  EXPECT_NE(rope.session.report().faults[0].text.find("allkeys-lru"), std::string::npos);
  EXPECT_NE(rope.session.report().faults[1].text.find("3000 ms ahead"), std::string::npos);
  EXPECT_EQ(rope.session.report().skew, 3s);
}

// A store that hung for three seconds was said to have a clock that is 1.5 s ahead.
TEST(RedisSession, SaysNothingOfAClockThatTheWayOfTheReplyLeavesUncertain) {
  // The server had it at once, or as late as could be: nobody here can tell which.
  for (const bool at_once : {true, false}) {
    for (const Nanos ahead : {Nanos(0), Nanos(5s)}) {
      Rope rope;
      rope.store_ahead = ahead;
      rope.session.opened({}, rope.now());
      while (!rope.session.output().empty()) {
        if (!at_once) rope.clock.advance(3s);
        rope.execute();
        if (at_once) rope.clock.advance(3s);
        rope.deliver();
      }
      ASSERT_EQ(rope.session.state(), State::ready);
      const auto& faults = rope.session.report().faults;
      EXPECT_EQ(faults.size(), ahead > Nanos(0) ? 1U : 0U) << "five seconds are more than that";
    }
  }
}

TEST(RedisSession, ProbesWithTheSelfTest) {
  Rope rope;
  rope.open();
  const std::string epoch = rope.session.report().epoch;
  int answered = 0;
  const auto handler = [&](const ErrorRow* error, const StoreReport* report) {
    ++answered;
    ASSERT_EQ(error, nullptr);
    EXPECT_EQ(report->epoch, epoch);
  };
  rope.session.probe(rope.now() + 20ms, handler, rope.now());
  rope.redis.execute({"SCRIPT", "FLUSH"});
  rope.exchange();
  EXPECT_EQ(answered, 1);
  // Another epoch: the data were lost.
  rope.redis.execute({"FLUSHALL"});
  rope.session.probe(
      rope.now() + 20ms,
      [&](const ErrorRow*, const StoreReport* report) {
        ++answered;
        EXPECT_NE(report->epoch, epoch);
      },
      rope.now());
  rope.exchange();
  EXPECT_EQ(answered, 2);
  // Silence is a failure, and the reply that comes after all belongs to no later probe.
  std::string said;
  const auto keep = [&](const ErrorRow* error, const StoreReport*) {
    said = error != nullptr ? error->pattern : "";
  };
  rope.session.probe(rope.now() + 20ms, keep, rope.now());
  rope.execute();
  rope.clock.advance(20ms);
  rope.session.sweep(rope.now());
  EXPECT_EQ(said, "(deadline)");
  rope.deliver();
  rope.session.probe(rope.now() + 20ms, keep, rope.now());
  rope.exchange();
  EXPECT_EQ(said, "");
  EXPECT_EQ(rope.session.state(), State::ready);
}

// A reload that falls between the old names' tests and their replies.
TEST(RedisSession, TriesNamesThatCameDuringASelfTestBehindIt) {
  for (const bool greeting : {true, false}) {
    Rope rope({.names = {{"d_old_0", "d_"}}});
    // Somebody's: LuaRedis cannot count as that server does.
    for (const char* name : {"d_old_0", "d_new_0"}) rope.redis.execute({"SET", name, "7"});
    if (greeting) {
      rope.session.opened({}, rope.now());
      rope.execute();
      rope.deliver();  // the credentials: the self-test is sent
    } else {
      rope.open();
      rope.session.probe(
          rope.now() + 20ms, [](const ErrorRow*, const StoreReport*) {}, rope.now());
    }
    ASSERT_NE(rope.session.output().find("d_old_0"), std::string::npos);
    rope.execute();
    rope.session.try_names({{"d_new_0", "d_"}});
    const int before = rope.reports;
    rope.deliver();
    EXPECT_EQ(rope.session.state(), State::ready);
    EXPECT_NE(rope.session.output().find("d_new_0"), std::string::npos) << greeting;
    rope.exchange();
    EXPECT_EQ(rope.reports, before + 2);
    EXPECT_EQ(rope.session.state(), State::ready);
    // Once: and the next probe is as ever.
    bool answered = false;
    rope.session.probe(
        rope.now() + 20ms, [&](const ErrorRow* error, const StoreReport*) { answered = !error; },
        rope.now());
    rope.exchange();
    EXPECT_TRUE(answered);
    EXPECT_EQ(rope.reports, before + 3);
  }
}

}  // namespace
}  // namespace weir::store::redis
