// A session with a node of a cluster.
#include "store/redis/redis_session.h"

#include <gtest/gtest.h>

#include "store/redis/node_of_a_cluster.h"
#include "store/redis/redis_session_rig_test.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using State = RedisSession::State;

TEST(RedisSession, HandsARedirectionOnAndDoesNotHoldItAgainstTheNode) {
  Rope rope({.cluster = true});
  rope.open();
  const SessionRule rule(1, 5);
  const Counter counter = rule.take();
  rope.replies["EVALSHA"] = "-MOVED 3999 127.0.0.1:6381\r\n";
  const auto token = rope.ask({&counter, 1});
  rope.exchange();
  EXPECT_EQ(rope.answers[token].times, 1);
  EXPECT_EQ(rope.answers[token].error, "MOVED");
  EXPECT_FALSE(rope.answers[token].reply_may_follow);
  ASSERT_EQ(rope.votes.size(), 1U);
  EXPECT_FALSE(rope.votes[0].failed);
  EXPECT_EQ(rope.session.state(), State::ready);
  // Behind the URL of a single server it is a mistake of somebody's.
  Rope single;
  single.open();
  single.replies["EVALSHA"] = "-MOVED 3999 127.0.0.1:6381\r\n";
  const auto misplaced = single.ask({&counter, 1});
  single.exchange();
  EXPECT_EQ(single.answers[misplaced].error, "(redirected)");
  EXPECT_TRUE(single.votes[0].failed);
}

// It answers for its own slots, so that a look at it finds nothing wrong.
TEST(RedisSession, SaysThatANodeOfAClusterIsAskedAsIfItWereAlone) {
  const std::string info = "redis_version:7.0.15\r\nrole:master\r\nredis_mode:cluster\r\n";
  const auto opened = [&](Rope& rope) {
    rope.replies["INFO"] = "$" + std::to_string(info.size()) + "\r\n" + info + "\r\n";
    rope.open();
    EXPECT_EQ(rope.session.state(), State::ready) << "it may have all slots";
    return rope.faults;
  };
  Rope single;
  const std::vector<StoreFault> faults = opened(single);
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].severity, Severity::warning);
  EXPECT_EQ(faults[0].text, kNodeOfACluster);
  Rope cluster({.cluster = true});
  EXPECT_TRUE(opened(cluster).empty());
  // Where not even the self-test's keys are its own, it decides nothing, and says why.
  Rope misplaced;
  misplaced.replies["EVALSHA"] = "-MOVED 3999 127.0.0.1:6381\r\n";
  misplaced.open();
  ASSERT_EQ(misplaced.session.state(), State::failed);
  EXPECT_EQ(misplaced.session.failure().pattern, "(redirected)");
}

// Between two masters, for a moment: whoever asked knows what becomes of it.
TEST(RedisSession, LeavesItToWhoAskedWhatASlotThatNobodyHasSays) {
  Rope rope({.shard = "a", .cluster = true});
  rope.open();
  const SessionRule rule(1, 5);
  const Counter counter = rule.take();
  rope.replies["EVALSHA"] = "-CLUSTERDOWN Hash slot not served\r\n";
  const auto token = rope.ask({&counter, 1});
  rope.exchange();
  EXPECT_EQ(rope.answers[token].error, "CLUSTERDOWN");
  EXPECT_TRUE(rope.votes.empty());
  // Of a probe it is a failure, and not the connection's.
  const ErrorRow* probed = nullptr;
  rope.session.probe(
      rope.now() + 20ms, [&](const ErrorRow* error, const StoreReport*) { probed = error; },
      rope.now());
  rope.exchange();
  ASSERT_NE(probed, nullptr);
  EXPECT_EQ(probed->pattern, "CLUSTERDOWN");
  EXPECT_EQ(rope.session.state(), State::ready);
  // A cluster that is down as a whole is another matter.
  rope.replies["EVALSHA"] = "-CLUSTERDOWN The cluster is down\r\n";
  (void)rope.ask({&counter, 1});
  rope.exchange();
  ASSERT_EQ(rope.votes.size(), 1U);
  EXPECT_TRUE(rope.votes[0].failed);
}

TEST(RedisSession, SaysAskingBeforeEachAskThatWasSentHereByOne) {
  Rope rope({.cluster = true});
  rope.open();
  rope.sent.clear();
  const SessionRule rule(1, 5);
  const Counter counter = rule.take();
  rope.replies["ASKING"] = "+OK\r\n";
  AskOptions options = rope.within(20ms);
  options.asking = true;
  rope.session.ask({&counter, 1}, options, rope, 77, rope.now());
  // Its script is gone: asked again, it says so again.
  rope.replies["EVALSHA"] = "-NOSCRIPT No matching script.\r\n";
  rope.execute();
  rope.deliver();
  rope.replies.erase("EVALSHA");
  const auto plain = rope.ask({&counter, 1});
  rope.exchange();
  EXPECT_EQ(rope.sent,
            (std::vector<std::string>{"ASKING", "EVALSHA", "ASKING", "EVAL", "EVALSHA"}));
  EXPECT_TRUE(rope.answers[77].allowed);
  EXPECT_TRUE(rope.answers[plain].allowed);
  EXPECT_EQ(rope.answers[plain].counters[0].finding.step.remaining, 3U);
}

TEST(RedisSession, AsksAgainWhereASlotIsHalfMovedAndGivesUpInTheEnd) {
  Rope rope({.cluster = true});
  rope.open();
  const SessionRule rule(1, 5);
  const Counter counter = rule.take();
  rope.replies["EVALSHA"] = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
  const auto token = rope.ask({&counter, 1});
  rope.execute();
  rope.deliver();
  rope.replies.clear();
  rope.exchange();
  EXPECT_TRUE(rope.answers[token].allowed);
  EXPECT_FALSE(rope.votes.back().failed);

  rope.replies["EVALSHA"] = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
  rope.sent.clear();
  const auto never = rope.ask({&counter, 1});
  rope.exchange();
  EXPECT_EQ(rope.answers[never].error, "TRYAGAIN");
  EXPECT_EQ(rope.answers[never].times, 1);
  EXPECT_FALSE(rope.votes.back().failed) << "it answered, for every other slot";
  EXPECT_LE(rope.sent.size(), 8U);
  EXPECT_EQ(rope.session.state(), State::ready);
}

TEST(RedisSession, KeepsItsShardsOwnKeysWhereItIsToldTo) {
  Rope rope({.shard = "a", .cluster = true});
  rope.open();
  EXPECT_TRUE(rope.redis.keys().contains("weir:1:{!a}epoch"));
  rope.session.name_shard("b");
  rope.session.probe(
      rope.now() + 20ms, [](const ErrorRow*, const StoreReport*) {}, rope.now());
  rope.exchange();
  EXPECT_TRUE(rope.redis.keys().contains("weir:1:{!b}epoch"));
}

TEST(RedisSession, TestsTheShardThatItWasNamedDuringASelfTestBehindIt) {
  for (const char* first : {"", "a"}) {
    SCOPED_TRACE(first);
    Rope rope({.shard = first, .cluster = true});
    rope.session.opened({}, rope.now());
    rope.execute();
    rope.deliver();  // the credentials: the self-test is sent
    rope.execute();
    rope.session.name_shard("b");
    const int before = rope.reports;
    rope.exchange();
    EXPECT_EQ(rope.session.state(), State::ready);
    EXPECT_TRUE(rope.redis.keys().contains("weir:1:{!b}epoch"));
    EXPECT_EQ(rope.reports, before + 2);
    EXPECT_EQ(rope.session.report().shard, "b");
  }
}

}  // namespace
}  // namespace weir::store::redis
