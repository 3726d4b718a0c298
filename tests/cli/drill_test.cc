// A drill from beginning to end: a real redis-server, the proxy, `weir serve`, and load.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "program.h"

namespace weir::cli_tests {
namespace {

using ::testing::HasSubstr;

// A deadline that a busy machine does not take for a slow store, and a breaker that is quick.
constexpr const char* kPolicy = R"(
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
  Drill() { folder.write("weir.yaml", kPolicy); }
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
  const Outcome outcome = drill({"weir.yaml", "short.yaml", "--json", "--report", "pages"});
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
  for (const auto& bound : report["bounds"]) EXPECT_TRUE(bound["held"].get<bool>());

  std::ifstream page(folder.path() + "/pages/short.html");
  const std::string html{std::istreambuf_iterator<char>(page), {}};
  EXPECT_THAT(html, HasSubstr("<h1>Drill: short</h1>"));
  EXPECT_THAT(html, HasSubstr("Everything was as the policy says."));
  EXPECT_TRUE(std::filesystem::exists(folder.path() + "/pages/short.json"));
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

TEST_F(Drill, SaysWhatItCannotDo) {
  EXPECT_EQ(drill({}).exit_code, 2);
  const Outcome nowhere = drill({"weir.yaml", "nowhere"});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_THAT(nowhere.err, HasSubstr("weir drill --list"));
  EXPECT_THAT(drill({"weir.yaml", "--rate", "0"}).err, HasSubstr("--rate is '0'"));
  EXPECT_THAT(drill({"none.yaml", "down"}).err, HasSubstr("none.yaml"));
  const Outcome list = drill({"--list"});
  EXPECT_EQ(list.exit_code, 0);
  EXPECT_THAT(list.out, HasSubstr("failover-11s"));
}

}  // namespace
}  // namespace weir::cli_tests
