// A real redis-server that is killed, flushed, demoted, full, busy or locked under a Guard.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fault_rig.h"
#include "guard/impl.h"

namespace weir::fault {
namespace {

using testing::RedisServer;
using namespace std::chrono_literals;

class GuardOnAServer : public ::testing::Test {
 protected:
  Guard open(const PolicyOptions& options = {}) {
    return Guard::open(policy_on(server_.port(), options), {.observer = &heard_}).value();
  }
  // What holds after every fault.
  void is_well(Guard& guard) {
    Tally tally;
    EXPECT_TRUE(until_store(guard, "login", "well")) << heard_.all();
    EXPECT_TRUE(check(guard, "login", "well", tally).allowed());
    EXPECT_EQ(immortal_keys(server_), "");
  }
  void is_sound(const Tally& tally) {
    EXPECT_EQ(tally.broken, 0u) << tally.example;
    EXPECT_TRUE(tally.in_time()) << tally.times();
  }

  RedisServer server_;
  Heard heard_;
};

TEST_F(GuardOnAServer, ThatIsKilledUnderLoadIsAnsweredByPolicyAndComesBack) {
  Guard guard = open({.deadline = "500ms"});
  ASSERT_TRUE(until_store(guard, "count", "u"));
  Load load(guard, "count", "u", 4);
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t from = load.asked();
    ASSERT_TRUE(eventually([&] { return load.asked() >= from + 100; }));
    server_.kill();
    const std::uint64_t gone = load.asked();
    ASSERT_TRUE(eventually([&] { return load.asked() >= gone + 100; }));
    server_.start();
    ASSERT_TRUE(until_store(guard, "count", "u"));
  }
  const Tally tally = load.stop();
  is_sound(tally);
  EXPECT_GT(tally.allowed_by_store, 0u);
  EXPECT_GT(tally.verdicts.at(Verdict::refused), 0u);
  EXPECT_EQ(tally.verdicts.count(Verdict::limited), 0u) << "never a 429 for what was not counted";
  EXPECT_LE(heard_.count(StoreEvent::Kind::away), 6) << heard_.all();
  EXPECT_GT(store_errors(guard, "unreachable"), 0);
  is_well(guard);
}

TEST_F(GuardOnAServer, ThatGoesWhileNobodyAsksIsSaidToBeAwayOnceAndBackOnce) {
  Guard guard = open();
  ASSERT_TRUE(until_store(guard, "login", "u"));
  for (int outage = 1; outage <= 2; ++outage) {
    if (outage == 1) server_.kill();
    if (outage == 2) server_.pause();
    EXPECT_TRUE(eventually([&] { return heard_.count(StoreEvent::Kind::away) == outage; }))
        << heard_.all();
    if (outage == 1) server_.start();
    if (outage == 2) server_.resume();
    EXPECT_TRUE(eventually([&] { return heard_.count(StoreEvent::Kind::back) == outage; }))
        << heard_.all();
  }
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 2) << heard_.all();
  is_well(guard);
}

// What a store forgets can be spent again, and no more than that.
TEST_F(GuardOnAServer, ThatComesBackWithAnOlderDumpLosesAtMostWhatTheDumpLacks) {
  server_.execute({"CONFIG", "SET", "dbfilename", "dump.rdb"});
  Guard guard = open({.deadline = "500ms"});
  Tally tally;
  for (int i = 0; i < 3; ++i) (void)check(guard, "audit", "u", tally);
  for (int i = 0; i < 3; ++i) (void)check(guard, "search", "u", tally);
  ASSERT_EQ(server_.text({"SAVE"}), "OK");
  for (int i = 0; i < 4; ++i) (void)check(guard, "audit", "u", tally);
  for (int i = 0; i < 4; ++i) (void)check(guard, "search", "u", tally);
  ASSERT_EQ(tally.allowed_by_store, 14u);
  server_.kill();
  EXPECT_EQ(check(guard, "audit", "u", tally).verdict, Verdict::refused);
  server_.start();
  ASSERT_TRUE(until_store(guard, "audit", "u")) << heard_.all();
  ASSERT_TRUE(until_store(guard, "search", "u"));
  Tally after;
  for (int i = 0; i < 20; ++i) (void)check(guard, "audit", "u", after);
  EXPECT_GE(after.allowed(), 3u);
  EXPECT_LE(after.allowed(), 3u + 4u);
  Tally more;
  for (int i = 0; i < 20; ++i) (void)check(guard, "search", "u", more);
  EXPECT_GE(more.allowed(), 3u);
  EXPECT_LE(more.allowed(), 3u + 4u);
  is_sound(tally);
  is_well(guard);
}

TEST_F(GuardOnAServer, WhoseScriptsAreFlushedUnderLoadCountsExactly) {
  Guard guard = open({.deadline = "5s"});
  ASSERT_TRUE(until_store(guard, "count", "u"));
  Load load(guard, "count", "u", 4);
  for (int i = 0; i < 60; ++i) {
    server_.execute({"SCRIPT", "FLUSH"});
    const std::uint64_t from = load.asked();
    ASSERT_TRUE(eventually([&] { return load.asked() >= from + 10; }));
  }
  const Tally tally = load.stop();
  is_sound(tally);
  EXPECT_EQ(tally.allowed_by_store, tally.asked) << heard_.all();
  EXPECT_EQ(counted(guard, "u"), tally.asked);
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 0) << heard_.all();
}

// The epoch is a key like any other: what is no epoch there is replaced.
TEST_F(GuardOnAServer, WhoseEpochIsAForeignValueIsRepairedAtTheNextConnection) {
  for (const char* kind : {"HSET", "SADD", "RPUSH"}) {
    server_.execute({"DEL", "weir:1:{!}epoch"});
    server_.execute(kind == std::string_view("HSET")
                        ? std::vector<std::string>{kind, "weir:1:{!}epoch", "a", "b"}
                        : std::vector<std::string>{kind, "weir:1:{!}epoch", "a"});
    Guard guard = open({.deadline = "200ms"});
    is_well(guard);
    EXPECT_EQ(server_.execute({"TYPE", "weir:1:{!}epoch"}), "+string\r\n");
  }
}

TEST_F(GuardOnAServer, ThatBecomesAReplicaDecidesNothingMore) {
  RedisServer primary;
  Guard guard = open({.deadline = "200ms"});
  Tally tally;
  ASSERT_EQ(check(guard, "login", "u", tally).rung, Rung::store);
  server_.execute({"REPLICAOF", "127.0.0.1", std::to_string(primary.port())});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(check(guard, "login", "u", tally).verdict, Verdict::refused);
    EXPECT_EQ(check(guard, "search", "u", tally).rung, Rung::share);
  }
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 1) << heard_.all();
  EXPECT_GT(store_errors(guard, "unavailable"), 0);
  server_.execute({"REPLICAOF", "NO", "ONE"});
  is_sound(tally);
  is_well(guard);
}

TEST_F(GuardOnAServer, WhoseMemoryIsFullIsAnsweredByPolicyUntilItIsNot) {
  Guard guard = open({.deadline = "200ms"});
  Tally tally;
  ASSERT_EQ(check(guard, "login", "u", tally).rung, Rung::store);
  server_.execute({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  server_.execute({"CONFIG", "SET", "maxmemory", "1"});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(check(guard, "login", "new", tally).verdict, Verdict::refused);
    EXPECT_EQ(check(guard, "search", "new", tally).rung, Rung::share);
  }
  EXPECT_GT(store_errors(guard, "unavailable"), 0);
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 1) << heard_.all();
  EXPECT_TRUE(heard_.said(StoreEvent::Kind::away, "maxmemory")) << heard_.all();
  const std::string state = guard.impl().shared()->state_json();
  EXPECT_NE(state.find("\"last_error\":\"maxmemory"), std::string::npos) << state;
  server_.execute({"CONFIG", "SET", "maxmemory", "0"});
  is_sound(tally);
  is_well(guard);
}

TEST(GuardOnAServerThatEvicts, SaysSoAndIsNeverBroken) {
  RedisServer server({.arguments = {"--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random"}});
  Heard heard;
  Guard guard =
      Guard::open(policy_on(server.port(), {.deadline = "5s"}), {.observer = &heard}).value();
  EXPECT_TRUE(heard.said(StoreEvent::Kind::fault, "allkeys-random")) << heard.all();
  Tally tally;
  const std::string filler(10'000, 'x');
  for (int i = 0; i < 600; ++i) {
    server.execute({"SET", "filler:" + std::to_string(i), filler});
    (void)check(guard, "search", "u" + std::to_string(i % 20), tally);
  }
  EXPECT_NE(server.text({"INFO", "stats"}).find("evicted_keys:"), std::string::npos);
  EXPECT_EQ(server.text({"INFO", "stats"}).find("evicted_keys:0"), std::string::npos);
  EXPECT_EQ(tally.broken, 0u) << tally.example;
  EXPECT_EQ(tally.rungs[Rung::share], 0u);
  EXPECT_GE(tally.allowed(), 200u) << "eviction forgets, it never denies more";
}

TEST(GuardOnABusyServer, LeavesAtItsDeadlineAndNeverKillsWhatIsNotItsOwn) {
  RedisServer server({.arguments = {"--lua-time-limit", "10"}});
  Heard heard;
  Guard guard =
      Guard::open(policy_on(server.port(), {.deadline = "50ms"}), {.observer = &heard}).value();
  Tally tally;
  ASSERT_TRUE(until_store(guard, "login", "u"));
  std::string ended;
  std::thread foreign([&] {
    testing::RedisConnection connection(server.port());
    // A tenth of a second of a processor: longer than the deadline, and not too long for whoever
    // waits for it on a machine that has little to give.
    ended = connection.execute(
        {"EVAL", "local n = 0 while n < 1e7 do n = n + 1 end return 'done'", "0"});
  });
  std::atomic<bool> over{false};
  std::thread waiter([&] {
    foreign.join();
    over = true;
  });
  while (!over) {
    (void)check(guard, "count", "u", tally);  // of which no denial is known
    std::this_thread::sleep_for(1ms);
  }
  waiter.join();
  EXPECT_EQ(ended, "$4\r\ndone\r\n") << "it was left to end by itself";
  EXPECT_GT(tally.verdicts[Verdict::refused], 0u);
  EXPECT_EQ(tally.broken, 0u) << tally.example;
  EXPECT_TRUE(tally.in_time()) << tally.times();
  EXPECT_TRUE(until_store(guard, "login", "u")) << heard.all();
  EXPECT_EQ(immortal_keys(server), "");
}

TEST_F(GuardOnAServer, WhosePasswordIsRotatedIsReachedByTheNewOneWithoutARestart) {
  const std::string file = server_.directory() + "/password";
  const auto write = [&](const std::string& password) {
    std::ofstream(file + ".new") << password << '\n';
    std::filesystem::rename(file + ".new", file);
  };
  server_.execute({"ACL", "SETUSER", "weir", "on", ">first", "~weir:*", "+@all"});
  write("first");
  Guard guard =
      open({.deadline = "200ms", .store = "  username: weir\n  password_file: " + file + "\n"});
  Tally tally;
  ASSERT_EQ(check(guard, "login", "u", tally).rung, Rung::store) << heard_.all();
  server_.execute({"ACL", "SETUSER", "weir", "<first", ">second"});
  EXPECT_EQ(check(guard, "login", "u", tally).rung, Rung::store) << "what stands is let in";
  server_.execute({"CLIENT", "KILL", "USER", "weir"});
  ASSERT_TRUE(eventually([&] {
    return check(guard, "login", "u", tally).verdict == Verdict::refused &&
           store_errors(guard, "misconfigured") > 0;
  }));
  write("second");
  EXPECT_TRUE(until_store(guard, "login", "u")) << heard_.all();
  is_sound(tally);
  is_well(guard);
}

TEST_F(GuardOnAServer, ThatWantsAPasswordOrForbidsACommandIsSaidSoAtTheStart) {
  server_.execute({"ACL", "SETUSER", "weir", "on", ">right", "~weir:*", "+@all", "-lindex"});
  const std::string file = server_.directory() + "/password";
  std::ofstream(file) << "wrong\n";
  const std::string store = "  username: weir\n  password_file: " + file + "\n";
  {
    Guard guard = open({.store = store});
    EXPECT_TRUE(heard_.said(StoreEvent::Kind::away_at_start, "wrong")) << heard_.all();
    Tally tally;
    EXPECT_EQ(check(guard, "login", "u", tally).verdict, Verdict::refused);
    EXPECT_GT(store_errors(guard, "misconfigured"), 0);
  }
  std::ofstream(file) << "right\n";
  Guard guard = open({.store = store});
  EXPECT_TRUE(heard_.said(StoreEvent::Kind::away_at_start, "LINDEX")) << heard_.all();
  server_.execute({"ACL", "SETUSER", "weir", "+lindex"});
  is_well(guard);
}

// The fleet's own keys are, so that nothing but the asks would fail: away, and said so, in place of
// a breaker that closes with each probe.
TEST_F(GuardOnAServer, WhoseUserMayNotWriteCountersIsAwayAndSaysWhy) {
  server_.execute({"ACL", "SETUSER", "weir", "on", ">right", "~weir:1:{!*", "+@all"});
  const std::string file = server_.directory() + "/password";
  std::ofstream(file) << "right\n";
  Guard guard = open({.store = "  username: weir\n  password_file: " + file + "\n"});
  EXPECT_TRUE(heard_.said(StoreEvent::Kind::away_at_start, "~weir:1:*")) << heard_.all();
  const auto state = [&] { return guard.impl().shared()->state_json(); };
  EXPECT_NE(state().find("~weir:1:*"), std::string::npos) << state();
  EXPECT_NE(state().find("\"connected\":false"), std::string::npos) << state();
  EXPECT_GT(store_errors(guard, "misconfigured"), 0);
  server_.execute({"ACL", "SETUSER", "weir", "~weir:1:*"});
  is_well(guard);
  // Taken away under way, it is the same.
  server_.execute({"ACL", "SETUSER", "weir", "resetkeys", "~weir:1:{!*"});
  Tally tally;
  EXPECT_TRUE(eventually([&] {
    (void)check(guard, "login", "u", tally);
    return state().find("\"connected\":false") != std::string::npos &&
           state().find("~weir:1:*") != std::string::npos;
  })) << state();
  server_.execute({"ACL", "SETUSER", "weir", "~weir:1:*"});
  is_well(guard);
}

// Somebody else's values at our keys: that key's matter alone, and soon repaired.
TEST_F(GuardOnAServer, WithForeignValuesAtOurKeysRepairsThem) {
  Guard guard = open({.deadline = "2s"});
  const auto ask_all = [&](Tally& tally) {
    for (const char* route : {"login", "search", "status", "audit"}) {
      const Decision decision = check(guard, route, "u", tally);
      EXPECT_TRUE(decision.allowed() && decision.rung == Rung::store) << decision.json();
    }
  };
  Tally first;
  ask_all(first);
  std::vector<std::string> ours;
  for (const std::string& key : server_.keys()) {
    if (key.find("{!") == std::string::npos)
      ours.push_back(key);  // the fleet's own are not counters
  }
  ASSERT_EQ(ours.size(), 4u);
  const std::vector<std::vector<std::string>> plants = {
      {"SET", "", "7"},
      {"SET", "", ""},
      {"SET", "", std::string(100'000, '\xff')},
      {"RPUSH", "", "a", "b"},
      {"HSET", "", "field", "value"},
      {"SADD", "", "member"},
      {"ZADD", "", "1", "member"},
      {"XADD", "", "*", "field", "value"},
      {"PFADD", "", "x"},
  };
  for (const std::vector<std::string>& plant : plants) {
    for (const std::string& key : ours) {
      server_.execute({"DEL", key});
      std::vector<std::string> command = plant;
      command[1] = key;
      ASSERT_NE(server_.text(command).substr(0, 1), "-") << plant[0];
    }
    SCOPED_TRACE(plant[0]);
    Tally tally;
    ask_all(tally);
    is_sound(tally);
    EXPECT_EQ(immortal_keys(server_), "") << plant[0];
  }
  EXPECT_EQ(metric(guard, "weir_store_repaired_total{shard=\"0\"}"),
            static_cast<double>(plants.size() * ours.size()));
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 0) << heard_.all();
}

}  // namespace
}  // namespace weir::fault
