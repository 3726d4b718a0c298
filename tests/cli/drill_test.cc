// A drill from beginning to end: a real redis-server, the proxy, `weir serve`, and load.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "program.h"
#include "testing/redis_server.h"

namespace weir::cli_tests {
namespace {

using ::testing::HasSubstr;

// A deadline that a busy machine does not take for a slow store, and a breaker that is quick.
constexpr const char* kDrilled = R"(
store:
  url: redis://127.0.0.1:1
  deadline: 1s
  workers: {of: 1, index: 0}
  breaker: {failures: 3, cooldown: 100ms, max_cooldown: 200ms}
  recovery: {steps: 2, step: 50ms}
inputs: [user]
routes:
  login:
    limits: [{requests: 20, per: hour, by: [user]}]
    protects: security
  search:
    limits: [{requests: 20, per: hour, by: [user]}]
    protects: capacity
)";

struct Drill : ::testing::Test {
  Drill() { folder.write("weir.yaml", kDrilled); }
  Outcome drill(std::vector<std::string> words) {
    words.insert(words.begin(), "drill");
    return weir(std::move(words), {.folder = folder.path()});
  }
  Folder folder;
};

TEST_F(Drill, SaysWhatThePolicyDidAndComesBack) {
  folder.write("short.yaml", R"(
about: Away, and back.
phases:
  - {name: before, for: 1s}
  - {name: away, for: 1s, store: refuse, reset: true}
  - {name: after, for: 5s}
)");
  const Outcome outcome =
      drill({"weir.yaml", "short.yaml", "--cost", "3", "--json", "--report", "pages"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const auto report = nlohmann::json::parse(outcome.out);
  EXPECT_TRUE(report["good"].get<bool>());
  ASSERT_EQ(report["phases"].size(), 3U);
  const auto& away = report["phases"][1]["routes"];
  EXPECT_EQ(away[0]["route"], "login");
  EXPECT_EQ(away[0]["allowed"], 0);
  EXPECT_GT(away[0]["refused"].get<int>(), 0);
  EXPECT_GT(away[1]["rungs"]["share"].get<int>(), 0);
  EXPECT_EQ(away[1]["refused"], 0);
  EXPECT_EQ(report["breaker_openings"], 1);
  EXPECT_EQ(report["cost"], 3);
  for (const auto& bound : report["bounds"]) {
    EXPECT_TRUE(bound["held"].get<bool>());
    // Of twenty six calls of three; one unit each would be all twenty.
    EXPECT_GE(bound["admitted"].get<int>(), 18) << bound;
    EXPECT_EQ(bound["admitted"].get<int>() % 3, 0) << bound;
  }

  std::ifstream page(folder.path() + "/pages/short.html");
  const std::string html{std::istreambuf_iterator<char>(page), {}};
  // The page is long: only what is missing is to be told.
  EXPECT_NE(html.find("<h1>Drill: short</h1>"), html.npos);
  EXPECT_NE(html.find("Everything was as expected."), html.npos);
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/pages/short.json"));
}

TEST_F(Drill, OfAClusterTheMastersThatDoNotFailStayExact) {
  folder.write("shards.yaml", R"(
shards: 3
phases:
  - {name: before, for: 1s}
  - {name: away, for: 2s, store: refuse, reset: true}
  - {name: after, for: 4s}
)");
  const Outcome outcome = drill({"weir.yaml", "shards.yaml", "--clients", "30", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const auto report = nlohmann::json::parse(outcome.out);
  const auto& login = report["phases"][1]["routes"][0];
  EXPECT_GT(login["refused"].get<int>(), 0) << "the master that fails has some of the keys";
  EXPECT_GT(login["rungs"]["store"].get<int>(), login["refused"].get<int>());
  int spared = 0;
  for (const auto& bound : report["bounds"]) {
    EXPECT_TRUE(bound["held"].get<bool>());
    if (!bound["spared"].get<bool>()) continue;
    ++spared;
    EXPECT_EQ(bound["most"], bound["limit"]);
  }
  EXPECT_EQ(spared, 2) << "one for each route";
  EXPECT_EQ(report["breaker_openings"], 1);
  EXPECT_THAT(outcome.out, HasSubstr("masters that the faults leave alone"));

  const Outcome elsewhere = drill({"weir.yaml", "shards.yaml", "--store", "redis://127.0.0.1:1"});
  EXPECT_EQ(elsewhere.exit_code, 2);
  EXPECT_THAT(elsewhere.err, HasSubstr("changes the server itself"));
}

TEST_F(Drill, MeasuresHowSoonTheFailureIsNoticed) {
  std::string policy = kDrilled;
  policy.replace(policy.find("deadline: 1s"), 12, "deadline: 500ms");
  folder.write("quick.yaml", policy);
  folder.write("silent.yaml", R"(
phases:
  - {name: before, for: 3s}
  - {name: silent, for: 3s, store: blackhole}
  - {name: after, for: 4s}
)");
  const Outcome outcome = drill({"quick.yaml", "silent.yaml", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const auto report = nlohmann::json::parse(outcome.out);
  const double first = report["first_degraded_ms"];
  const double opened = report["breaker_opened_after_ms"];
  // Nobody can know before the deadline of a call that was on its way.
  EXPECT_GE(first, 100);
  EXPECT_LE(first, 3'000);
  EXPECT_GE(opened, 100);
  EXPECT_LE(opened, 3'000);
  const auto& rows = report["forecast"];
  const auto row = [&](const std::string& what) {
    return *std::find_if(rows.begin(), rows.end(),
                         [&](const auto& each) { return each["what"] == what; });
  };
  EXPECT_GE(row("until the breaker opened")["predicted"].get<int>(), 500);
  EXPECT_LE(row("until the breaker opened")["predicted"].get<int>(), 600);
  EXPECT_FALSE(row("until an answer without the store")["bound"].get<bool>());
}

TEST_F(Drill, EndsInOneWhereItWasNotAsExpected) {
  // The store is back for too short a time to be asked again.
  folder.write("cut.yaml", R"(
phases:
  - {name: before, for: 1s}
  - {name: away, for: 2s, store: stall}
  - {name: after, for: 100ms}
)");
  const Outcome outcome = drill({"weir.yaml", "cut.yaml"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("FAILED  the store decides again within"));
}

TEST_F(Drill, UndoesWhateverItDoesToTheServer) {
  folder.write("acts.yaml", R"(
phases:
  - {name: before, for: 1s}
  - {name: readonly, for: 1s, server: readonly}
  - {name: writable, for: 2s, server: writable}
  - {name: full, for: 1s, server: full}
  - {name: freed, for: 2s, server: freed}
  - {name: loading, for: 2s, server: loading}
  - {name: loaded, for: 2s, server: loaded}
  - {name: ahead, for: 1s, clock: 30m}
  - {name: after, for: 2s, clock: 0s}
)");
  const Outcome outcome = drill({"weir.yaml", "acts.yaml", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const auto report = nlohmann::json::parse(outcome.out);
  for (const auto& phase : report["phases"]) {
    const std::string name = phase["phase"];
    const bool away = name == "readonly" || name == "full" || name == "loading";
    if (away) {
      EXPECT_GT(phase["routes"][0]["refused"].get<int>(), 0) << name;
    }
    EXPECT_EQ(phase["calm"].get<bool>(), !away && name != "ahead") << name;
    if (name != "ahead") continue;
    EXPECT_EQ(phase["routes"][0]["refused"], 0) << "a clock that jumps is no outage";
    EXPECT_GT(phase["routes"][0]["rungs"]["store"].get<int>(), 0);
  }
}

TEST_F(Drill, OnAStoreThatIsThereItTouchesNothingThatIsSomebodys) {
  testing::RedisServer redis;
  redis.execute({"SET", "weir:somebodys", "1"});
  std::string policy = kDrilled;
  policy.replace(policy.find("{of: 1, index: 0}"), 17, "{state: live-state}");
  folder.write("live.yaml", policy);
  folder.write("short.yaml", R"(
phases:
  - {name: before, for: 1s}
  - {name: gone, for: 1s, server: kill}
  - {name: after, for: 5s, server: start}
)");
  const std::string url = "redis://127.0.0.1:" + std::to_string(redis.port()) + "/0";
  const Outcome outcome = drill({"live.yaml", "short.yaml", "--store", url, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const auto report = nlohmann::json::parse(outcome.out);
  EXPECT_GT(report["phases"][1]["routes"][0]["refused"].get<int>(), 0);
  EXPECT_EQ(redis.execute({"PING"}), "+PONG\r\n") << "nobody killed it";
  EXPECT_EQ(redis.execute({"GET", "weir:somebodys"}), "$1\r\n1\r\n");
  const std::string left = redis.execute(
      {"EVAL",
       "local n = 0 for _, k in ipairs(redis.call('KEYS', '*')) do if string.find(k, "
       "'weir%-drill%-') == nil and k ~= 'weir:somebodys' then n = n + 1 end end return n",
       "0"});
  EXPECT_EQ(left, ":0\r\n") << "every key is under the drill's prefix";
  EXPECT_GT(redis.execute({"DBSIZE"}).size(), 4U);
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/live-state"));

  EXPECT_THAT(drill({"live.yaml", "readonly", "--store", url}).err,
              HasSubstr("changes the server itself"));
  for (const char* other :
       {"memory:", "rediss://127.0.0.1:1", "redis+cluster://127.0.0.1:1", "x"}) {
    const Outcome refused = drill({"live.yaml", "short.yaml", "--store", other});
    EXPECT_EQ(refused.exit_code, 2) << other;
    EXPECT_THAT(refused.err, HasSubstr("redis://HOST")) << other;
  }
}

TEST_F(Drill, SaysWhatItCannotDo) {
  EXPECT_EQ(drill({}).exit_code, 2);
  const Outcome nowhere = drill({"weir.yaml", "nowhere"});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("weir drill --list"));
  EXPECT_THAT(drill({"weir.yaml", "--rate", "0"}).err, HasSubstr("--rate is '0'"));
  EXPECT_THAT(drill({"weir.yaml", "--cost", "0"}).err, HasSubstr("--cost is '0'"));
  EXPECT_THAT(drill({"weir.yaml", "--length", "101"}).err,
              HasSubstr("--length is '101'; it must be a whole number from 1 to 100"));
  EXPECT_THAT(drill({"none.yaml", "down"}).err, HasSubstr("none.yaml"));
  const Outcome list = drill({"--list"});
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_THAT(list.out, HasSubstr("failover-11s"));
}

}  // namespace
}  // namespace weir::cli_tests
