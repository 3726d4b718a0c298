// A real server that is flushed, killed, stopped, demoted, full, busy or locked: every ask is
// answered, nothing is charged twice, and it works again by itself.

#include "store/redis/redis_client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "testing/fake_redis.h"
#include "testing/redis_rig.h"
#include "testing/redis_server.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using testing::FakeRedis;
using testing::RedisRig;
using testing::RedisServer;
using testing::RigRule;

constexpr Nanos kDay = 86'400s;
// An answer, on a machine that is busy with something else.
constexpr Nanos kAnswered = 3s;

std::uint64_t allowed_in(const RedisRig& rig, std::size_t first = 1) {
  std::uint64_t allowed = 0;
  for (std::uint64_t token = first; token <= rig.asked(); ++token) {
    allowed += rig.result(token).allowed;
  }
  return allowed;
}

std::uint32_t used(RedisRig& rig, const RigRule& rule) {
  const MonoTime patient = Clock::real().mono() + 5s;
  const auto result = rig.ask({rule.counter(0)}, {.answer_by = patient, .vote_by = patient});
  EXPECT_TRUE(result.decided) << result.error;
  return rule.numbers().limit - result.counters.at(0).finding.step.remaining;
}

bool lost_by(const RedisRig& rig, std::string_view why) {
  return std::find(rig.disconnects.begin(), rig.disconnects.end(), why) != rig.disconnects.end();
}

// ---- Scripts
// ----------------------------------------------------------------------------------------

TEST(RedisClientFaults, CountsExactlyWhileTheScriptCacheIsFlushed) {
  RedisServer server;
  auto options = RedisRig::on_port(server.port());
  options.deadline = 5s;  // nothing is late here
  options.client.session.hang_after = 5s;
  RedisRig rig(options);
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 1'000'000, kDay, Algorithm::fixed_window);
  const Counter counter = rule.counter();
  for (int round = 0; round < 60; ++round) {
    for (int i = 0; i < 40; ++i) rig.ask_async({&counter, 1});
    server.execute({"SCRIPT", "FLUSH"});
    ASSERT_TRUE(rig.run_until([&] { return rig.asked() == rig.answered(); }));
  }
  for (std::uint64_t token = 1; token <= rig.asked(); ++token) {
    ASSERT_TRUE(rig.result(token).allowed) << rig.result(token).error;
  }
  EXPECT_EQ(used(rig, rule), 60u * 40u);
  EXPECT_EQ(rig.failures, 0u);
  EXPECT_TRUE(rig.disconnects.empty());
}

TEST(RedisClientFaults, LoadsTheScriptsAgainAfterARestart) {
  RedisServer server;
  RedisRig rig(RedisRig::on_port(server.port()));
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 1'000, kDay);
  ASSERT_TRUE(rig.ask(rule.counter()).allowed);
  const std::string epoch = rig.client().report().epoch;
  const std::string run = rig.client().report().run_id;
  server.kill();
  // At once or when the end of the stream is seen: answered, never an exception.
  const auto during = rig.ask(rule.counter());
  EXPECT_FALSE(during.decided);
  ASSERT_TRUE(rig.run_until([&] { return !rig.client().ready(); }));
  EXPECT_EQ(rig.ask(rule.counter()).error, "(not connected)");
  server.start();
  ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); }));
  EXPECT_TRUE(rig.ask(rule.counter()).allowed);
  // What was counted is gone, and the report says so.
  EXPECT_NE(rig.client().report().epoch, epoch);
  EXPECT_NE(rig.client().report().run_id, run);
  EXPECT_GE(rig.client().state().connections, 2u);
}

// ---- Silence
// ----------------------------------------------------------------------------------------

TEST(RedisClientFaults, AnswersByTheDeadlineWhileTheServerIsStopped) {
  RedisServer server;
  auto options = RedisRig::on_port(server.port());
  options.deadline = 30ms;
  options.client.session.hang_after = 10s;  // the connection stays
  RedisRig rig(options);
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 1'000, kDay, Algorithm::fixed_window);
  const Counter counter = rule.counter();
  ASSERT_TRUE(rig.ask(counter).allowed);
  server.pause();
  for (int i = 0; i < 20; ++i) rig.ask_async({&counter, 1});
  ASSERT_TRUE(rig.run_until([&] { return rig.asked() == rig.answered(); }));
  for (std::uint64_t token = 2; token <= rig.asked(); ++token) {
    EXPECT_EQ(rig.result(token).error, "(deadline)");
    EXPECT_GE(rig.result(token).latency, 29ms);
    EXPECT_LT(rig.result(token).latency, kAnswered);
  }
  EXPECT_EQ(rig.failures, 20u);
  // Nobody waits any more: the store's clock is past not-after, and it writes nothing.
  server.resume();
  const MonoTime patient = Clock::real().mono() + 5s;
  const auto after = rig.ask({counter}, {.answer_by = patient, .vote_by = patient});
  EXPECT_TRUE(after.allowed) << after.error;
  EXPECT_EQ(rig.late, 0u);
  EXPECT_EQ(used(rig, rule), 2u);
}

TEST(RedisClientFaults, ReplacesAConnectionThatHangs) {
  RedisServer server;
  auto options = RedisRig::on_port(server.port());
  options.deadline = 20ms;
  options.client.connect_timeout = 100ms;
  options.client.session.hang_after = 150ms;
  RedisRig rig(options);
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 1'000, kDay);
  server.pause();
  EXPECT_EQ(rig.ask(rule.counter()).error, "(deadline)");
  ASSERT_TRUE(rig.run_until([&] { return !rig.client().ready(); }));
  EXPECT_TRUE(lost_by(rig, "(hung)"));
  EXPECT_EQ(rig.unknown, 1u);
  // The kernel accepts for a stopped server; its greeting does not come.
  ASSERT_TRUE(rig.run_until([&] { return lost_by(rig, "(greeting timeout)"); }));
  server.resume();
  ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); }));
  EXPECT_TRUE(rig.run_until([&] { return rig.ask(rule.counter()).allowed; }));
}

TEST(RedisClientFaults, TakesAByteASecondForSilence) {
  FakeRedis fake;
  auto options = RedisRig::on_port(fake.port());
  options.deadline = 20ms;
  options.client.session.hang_after = 100ms;
  RedisRig rig(options);
  ASSERT_TRUE(rig.connect());
  fake.always("EVALSHA",
              {.bytes = "*4\r\n$1\r\n1\r\n$1\r\n1\r\n$-1\r\n:1\r\n", .between_bytes = 1s});
  const RigRule rule(1, 10, 60s);
  EXPECT_EQ(rig.ask(rule.counter()).error, "(deadline)");
  ASSERT_TRUE(rig.run_until([&] { return lost_by(rig, "(hung)"); }));
}

TEST(RedisClientFaults, GivesUpAServerThatNeverGreets) {
  FakeRedis fake;
  fake.script([](const auto&) { return FakeRedis::Say{}; });
  auto options = RedisRig::on_port(fake.port());
  options.client.connect_timeout = 50ms;
  RedisRig rig(options);
  rig.client().start();
  ASSERT_TRUE(rig.run_until([&] { return lost_by(rig, "(greeting timeout)"); }));
  const RigRule rule(1, 10, 60s);
  EXPECT_EQ(rig.ask(rule.counter()).error, "(not connected)");
}

TEST(RedisClientFaults, IsAnsweredWhereTheStreamEndsInsideAReply) {
  FakeRedis fake;
  RedisRig rig(RedisRig::on_port(fake.port()));
  ASSERT_TRUE(rig.connect());
  fake.always("EVALSHA", {.bytes = "*4\r\n$10\r\n17000", .close = true});
  const RigRule rule(1, 10, 60s);
  const auto result = rig.ask(rule.counter());
  EXPECT_FALSE(result.decided);
  EXPECT_TRUE(result.error == "(end of stream)" || result.error == "(connection reset)")
      << result.error;
  EXPECT_EQ(rig.unknown, 1u);
  fake.behave();
  ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); }));
  EXPECT_TRUE(rig.ask(rule.counter()).allowed);
}

TEST(RedisClientFaults, ComesBackAfterEveryErrorReply) {
  FakeRedis fake;
  auto options = RedisRig::on_port(fake.port());
  options.client.backoff = 1ms;
  RedisRig rig(options);
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 1'000, kDay);
  for (const char* error :
       {"LOADING Redis is loading the dataset in memory", "READONLY You can't write",
        "MASTERDOWN Link with MASTER is down", "CLUSTERDOWN The cluster is down",
        "TRYAGAIN Multiple keys", "BUSY Redis is busy", "OOM command not allowed",
        "MISCONF errors writing", "NOREPLICAS Not enough good replicas",
        "ERR max number of clients reached", "NOAUTH Authentication required.", "WRONGPASS invalid",
        "NOPERM no permission", "CROSSSLOT Keys", "ERR unknown command", "MOVED 1 127.0.0.1:1",
        "ASK 1 127.0.0.1:1", "WRONGTYPE Operation", "ERR anything"}) {
    fake.always("EVALSHA", {.bytes = std::string("-") + error + "\r\n"});
    const auto result = rig.ask(rule.counter());
    EXPECT_TRUE(result.answered && !result.decided) << error;
    fake.behave();
    ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); })) << error;
    EXPECT_TRUE(rig.ask(rule.counter()).allowed) << error;
  }
}

// ---- Refusals
// ---------------------------------------------------------------------------------------

TEST(RedisClientFaults, LeavesAServerThatWasDemotedUnderItsConnection) {
  RedisServer primary;
  RedisServer server;
  auto options = RedisRig::on_port(server.port());
  RedisRig rig(options);
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 1'000, kDay);
  ASSERT_TRUE(rig.ask(rule.counter()).allowed);
  server.execute({"REPLICAOF", "127.0.0.1", std::to_string(primary.port())});
  const auto demoted = rig.ask(rule.counter());
  EXPECT_FALSE(demoted.decided);
  ASSERT_TRUE(rig.run_until([&] { return !rig.client().ready(); }));
  EXPECT_TRUE(lost_by(rig, "READONLY") || lost_by(rig, "MASTERDOWN") || lost_by(rig, "UNBLOCKED"))
      << rig.disconnects.at(0);
  // No decision comes from it while it is one.
  ASSERT_TRUE(rig.run_until([&] { return rig.disconnects.size() >= 3; }));
  EXPECT_FALSE(rig.client().ready());
  server.execute({"REPLICAOF", "NO", "ONE"});
  ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); }));
  EXPECT_TRUE(rig.ask(rule.counter()).allowed);
}

TEST(RedisClientFaults, SaysThatMemoryIsFullAndWhenItIsNoLonger) {
  RedisServer server;
  RedisRig rig(RedisRig::on_port(server.port()));
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 1'000, kDay);
  server.execute({"CONFIG", "SET", "maxmemory", "1"});
  const auto full = rig.ask(rule.counter());
  EXPECT_FALSE(full.decided);
  EXPECT_EQ(full.error, "OOM");
  EXPECT_GE(rig.failures, 1u);
  server.execute({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_TRUE(rig.ask(rule.counter()).allowed);
}

TEST(RedisClientFaults, WarnsOfAStoreThatMayDeleteCounters) {
  RedisServer server(
      {.arguments = {"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-random"}});
  RedisRig rig(RedisRig::on_port(server.port()));
  ASSERT_TRUE(rig.connect());
  ASSERT_EQ(rig.client().report().faults.size(), 1u);
  EXPECT_EQ(rig.client().report().faults[0].severity, Severity::warning);
  EXPECT_NE(rig.client().report().faults[0].text.find("allkeys-random"), std::string::npos);
}

TEST(RedisClientFaults, LeavesAtTheDeadlineWhileAForeignScriptRuns) {
  RedisServer server({.arguments = {"--lua-time-limit", "50"}});
  auto options = RedisRig::on_port(server.port());
  options.deadline = 30ms;
  RedisRig rig(options);
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 1'000'000, kDay);
  std::thread foreign([&] {
    testing::RedisConnection connection(server.port());
    connection.execute({"EVAL", "while true do end", "0"});
  });
  std::vector<std::string> errors;
  const MonoTime until = Clock::real().mono() + 400ms;
  while (Clock::real().mono() < until) {
    const auto result = rig.ask(rule.counter());
    EXPECT_LT(result.latency, kAnswered);
    if (!result.decided) errors.push_back(result.error);
  }
  EXPECT_FALSE(errors.empty());
  // It is not ours to kill; it ends because this test does it.
  server.execute({"SCRIPT", "KILL"});
  foreign.join();
  ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); }));
  ASSERT_TRUE(rig.run_until([&] { return rig.ask(rule.counter()).allowed; }));
}

TEST(RedisClientFaults, IsBackAfterItsConnectionsWereKilled) {
  RedisServer server;
  RedisRig rig(RedisRig::on_port(server.port()));
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 1'000'000, kDay);
  for (int i = 0; i < 5; ++i) {
    server.execute({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    ASSERT_TRUE(
        rig.run_until([&] { return rig.disconnects.size() > static_cast<std::size_t>(i); }));
    ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); }));
    EXPECT_TRUE(rig.ask(rule.counter()).allowed);
  }
}

TEST(RedisClientFaults, ConnectsOnceTheServerIsThere) {
  const std::uint16_t port = testing::free_port();
  RedisRig rig(RedisRig::on_port(port));
  rig.client().start();
  ASSERT_TRUE(rig.run_until([&] { return rig.disconnects.size() >= 2; }));
  EXPECT_EQ(rig.disconnects[0], "(connection refused)");
  RedisServer server({.port = port});
  ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); }));
}

TEST(RedisClientFaults, SaysThatANameDoesNotResolve) {
  auto options = RedisRig::on_port(1);
  options.endpoint.host = "no-such-host.invalid";
  RedisRig rig(options);
  rig.client().start();
  ASSERT_TRUE(rig.run_until([&] { return !rig.disconnects.empty(); }));
  EXPECT_TRUE(rig.disconnects[0] == "(name not resolved)" ||
              rig.disconnects[0] == "(connect timeout)")
      << rig.disconnects[0];
}

// ---- Credentials
// ------------------------------------------------------------------------------------

TEST(RedisClientFaults, ReadsThePasswordAgainWhenItWasRotated) {
  RedisServer server;
  const std::string file = server.directory() + "/password";
  const auto write = [&](const std::string& password) { std::ofstream(file) << password; };
  server.execute({"ACL", "SETUSER", "weir", "on", ">first", "~weir:*", "+@all"});
  server.execute({"ACL", "SETUSER", "default", "resetpass", ">admin"});
  auto options = RedisRig::on_port(server.port());
  options.client.credentials = [&]() -> Result<Credentials> {
    std::ifstream in(file);
    std::string password;
    std::getline(in, password);
    return Credentials{"weir", password};
  };
  write("first");
  RedisRig rig(options);
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 1'000, kDay);
  EXPECT_TRUE(rig.ask(rule.counter()).allowed);
  // A wrong one is loud, and does not stop the client from trying.
  server.execute({"ACL", "SETUSER", "weir", "<first", ">second"});
  server.execute({"CLIENT", "KILL", "USER", "weir"});
  ASSERT_TRUE(rig.run_until([&] { return lost_by(rig, "WRONGPASS"); }));
  EXPECT_EQ(rig.ask(rule.counter()).error, "(not connected)");
  write("second");
  ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); }));
  EXPECT_TRUE(rig.ask(rule.counter()).allowed);
}

TEST(RedisClientFaults, SaysThatAPasswordIsNeeded) {
  RedisServer server;
  server.execute({"ACL", "SETUSER", "default", "resetpass", ">admin"});
  RedisRig rig(RedisRig::on_port(server.port()));
  rig.client().start();
  ASSERT_TRUE(rig.run_until([&] { return !rig.disconnects.empty(); }));
  EXPECT_EQ(rig.disconnects[0], "NOAUTH");
}

TEST(RedisClientFaults, FindsAMissingPermissionOnConnecting) {
  RedisServer server;
  server.execute({"ACL", "SETUSER", "default", "-lindex"});
  RedisRig rig(RedisRig::on_port(server.port()));
  rig.client().start();
  ASSERT_TRUE(rig.run_until([&] { return !rig.disconnects.empty(); }));
  EXPECT_FALSE(rig.client().ready());
  const std::string text = rig.client().state().last_error_text;
  EXPECT_NE(text.find("LINDEX"), std::string::npos) << text;
}

// Rights to the names of the fleet's own keys are none to those of counters.
TEST(RedisClientFaults, FindsOnConnectingThatCountersMayNotBeWritten) {
  RedisServer server;
  server.execute({"ACL", "SETUSER", "default", "resetkeys", "~weir:1:{!*"});
  RedisRig rig(RedisRig::on_port(server.port()));
  rig.client().start();
  ASSERT_TRUE(rig.run_until([&] { return !rig.disconnects.empty(); }));
  EXPECT_EQ(rig.disconnects[0], "NOPERM");
  EXPECT_FALSE(rig.client().ready());
  const std::string text = rig.client().state().last_error_text;
  EXPECT_NE(text.find("~weir:1:*"), std::string::npos) << text;
  server.execute({"ACL", "SETUSER", "default", "~*"});
  ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); }));
  EXPECT_EQ(server.keys().size(), 1u) << "the epoch: what was tried is gone";
}

// A policy that keeps counters under another server's names needs rights to those as well.
TEST(RedisClientFaults, FindsOnConnectingThatNamesOfThePolicyMayNotBeWritten) {
  RedisServer server;
  server.execute({"ACL", "SETUSER", "default", "resetkeys", "~weir:*"});
  auto options = RedisRig::on_port(server.port());
  options.client.session.names = {{"d_user_weir-self-test_0", "d_"}};
  RedisRig rig(options);
  const auto told = [&] { return rig.client().state().last_error_text; };
  rig.client().start();
  ASSERT_TRUE(rig.run_until([&] { return !rig.disconnects.empty(); }));
  EXPECT_EQ(rig.disconnects[0], "NOPERM");
  EXPECT_NE(told().find("'d_user_weir-self-test_0'"), std::string::npos) << told();
  EXPECT_NE(told().find("~d_*"), std::string::npos) << told();
  // The key, and not the command that counts there.
  server.execute({"ACL", "SETUSER", "default", "~d_*", "-incrby"});
  EXPECT_TRUE(rig.run_until([&] { return told().find("INCRBY") != std::string::npos; })) << told();
  server.execute({"ACL", "SETUSER", "default", "+incrby"});
  ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); })) << told();
  EXPECT_EQ(server.keys().size(), 1u) << "the epoch: what was tried is gone";
}

// What stands where a name is tried is somebody's.
TEST(RedisClientFaults, LeavesAloneWhatStandsWhereANameIsTried) {
  RedisServer server;
  server.execute({"SET", "d_text_weir-self-test_0", "7"});
  server.execute({"RPUSH", "d_list_weir-self-test_0", "element"});
  auto options = RedisRig::on_port(server.port());
  options.client.session.names = {{"d_text_weir-self-test_0", "d_"},
                                  {"d_list_weir-self-test_0", "d_"}};
  RedisRig rig(options);
  ASSERT_TRUE(rig.connect());
  EXPECT_EQ(server.text({"GET", "d_text_weir-self-test_0"}), "7");
  EXPECT_EQ(server.text({"LLEN", "d_list_weir-self-test_0"}), "1");
}

TEST(RedisClientFaults, TakesAwayWhatATestLeftWhereANameIsTried) {
  RedisServer server;
  server.execute({"SET", "d_text_weir-self-test_0", "1"});
  auto options = RedisRig::on_port(server.port());
  options.client.session.names = {{"d_text_weir-self-test_0", "d_"}};
  RedisRig rig(options);
  ASSERT_TRUE(rig.connect());
  EXPECT_EQ(server.keys().size(), 1u) << "the epoch";
}

TEST(RedisClientFaults, RunsWithoutInfoAndSaysSo) {
  RedisServer server;
  server.execute({"ACL", "SETUSER", "default", "-info"});
  RedisRig rig(RedisRig::on_port(server.port()));
  ASSERT_TRUE(rig.connect());
  ASSERT_EQ(rig.client().report().faults.size(), 1u);
  EXPECT_TRUE(rig.client().report().info_denied);
}

// ---- Kept apart
// -------------------------------------------------------------------------------------

TEST(RedisClientFaults, KeepsDatabasesOfOneServerApart) {
  RedisServer server;
  auto options = RedisRig::on_port(server.port());
  options.client.session.database = 1;
  RedisRig one(options);
  options.client.session.database = 2;
  RedisRig two(options);
  ASSERT_TRUE(one.connect());
  ASSERT_TRUE(two.connect());
  const RigRule first(1, 1'000, kDay);
  const RigRule second(2, 1'000, kDay);
  for (int i = 0; i < 50; ++i) {
    EXPECT_TRUE(one.ask(first.counter()).allowed);
    EXPECT_TRUE(two.ask(second.counter()).allowed);
  }
  const KeySpace keys = KeySpace::make("weir", "").value();
  const auto holds = [&](const char* database, const RigRule& rule) {
    testing::RedisConnection connection(server.port());
    connection.execute({"SELECT", database});
    return connection.execute({"EXISTS", keys.counter(rule.key())}) == ":1\r\n";
  };
  EXPECT_TRUE(holds("1", first));
  EXPECT_FALSE(holds("1", second));
  EXPECT_TRUE(holds("2", second));
  EXPECT_FALSE(holds("2", first));
  EXPECT_TRUE(server.keys().empty()) << "database 0 is nobody's";
}

TEST(RedisClientFaults, KeepsPrefixesOfOneServerApart) {
  RedisServer server;
  auto options = RedisRig::on_port(server.port());
  options.prefix = "staging";
  RedisRig staging(options);
  options.prefix = "production";
  RedisRig production(options);
  ASSERT_TRUE(staging.connect());
  ASSERT_TRUE(production.connect());
  const RigRule rule(1, 1, kDay);
  EXPECT_TRUE(staging.ask(rule.counter()).allowed);
  EXPECT_TRUE(production.ask(rule.counter()).allowed);
  EXPECT_FALSE(staging.ask(rule.counter()).allowed);
  EXPECT_NE(staging.client().report().epoch, production.client().report().epoch);
}

TEST(RedisClientFaults, SaysThatThereIsNoSuchDatabase) {
  RedisServer server;
  auto options = RedisRig::on_port(server.port());
  options.client.session.database = 99;
  RedisRig rig(options);
  rig.client().start();
  ASSERT_TRUE(rig.run_until([&] { return !rig.disconnects.empty(); }));
  EXPECT_EQ(rig.disconnects[0], "DB index");
  EXPECT_TRUE(server.keys().empty());
}

TEST(RedisClientFaults, SpeaksOverAUnixSocket) {
  RedisServer server;
  auto options = RedisRig::on_port(0);
  options.endpoint = {"", 0, server.unix_path()};
  RedisRig rig(options);
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 2, kDay);
  EXPECT_TRUE(rig.ask(rule.counter()).allowed);
  server.kill();
  ASSERT_TRUE(rig.run_until([&] { return !rig.client().ready(); }));
  server.start();
  ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); }));
  EXPECT_TRUE(rig.ask(rule.counter()).allowed);
}

// The load under which all of it happens at once: every ask is answered exactly once, and what the
// store counted is what was answered plus at most what nobody can know.
TEST(RedisClientFaults, AccountsForEveryAskAmongAllFaults) {
  RedisServer server;
  auto options = RedisRig::on_port(server.port());
  options.deadline = 300ms;
  options.client.session.hang_after = 5s;  // the connection stays
  options.client.backoff = 5ms;
  options.client.connect_timeout = 2s;
  RedisRig rig(options);
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 1'000'000, kDay, Algorithm::fixed_window);
  const Counter counter = rule.counter();
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 30; ++i) rig.ask_async({&counter, 1});
    if (round % 5 == 1) server.execute({"SCRIPT", "FLUSH"});
    if (round % 5 == 2) server.execute({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    if (round % 5 == 3) server.pause();
    ASSERT_TRUE(rig.run_until([&] { return rig.asked() == rig.answered(); }));
    if (round % 5 == 3) server.resume();
    ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); }));
  }
  ASSERT_TRUE(rig.run_until([&] { return rig.client().state().in_flight == 0; }));
  const std::uint64_t allowed = allowed_in(rig);
  const std::uint64_t counted = used(rig, rule);
  EXPECT_GE(counted, allowed);
  EXPECT_LE(counted, allowed + rig.late_allowed + rig.unknown);
  EXPECT_GT(allowed, 0u);
  EXPECT_EQ(rig.votes, rig.asked());
}

}  // namespace
}  // namespace weir::store::redis
