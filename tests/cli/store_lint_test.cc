// `weir lint --connect` against real servers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "program.h"
#include "testing/redis_cluster.h"
#include "testing/redis_server.h"

namespace weir::cli_tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::weir::testing::RedisServer;

struct StoreLint : ::testing::Test {
  void on(const std::string& url, const std::string& more = "") {
    folder.write("weir.yaml", "store:\n  url: " + url + "\n" + more +
                                  "routes:\n  a: {limits: [5 per minute], protects: security}\n");
  }
  static std::string url_of(const RedisServer& server) {
    return "redis://127.0.0.1:" + std::to_string(server.port());
  }
  Outcome lint(std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"lint", "weir.yaml", "--connect"};
    words.insert(words.end(), more.begin(), more.end());
    return weir(std::move(words), {.folder = folder.path()});
  }
  Folder folder;
};

TEST_F(StoreLint, DescribesAStoreThatIsFit) {
  RedisServer server;
  on(url_of(server));
  const Outcome text = lint();
  EXPECT_EQ(text.exit_code, 0) << text.out << text.err;
  EXPECT_THAT(text.out, HasSubstr("weir.yaml: store " + url_of(server) + ": "));
  EXPECT_THAT(text.out, HasSubstr(", primary, no memory limit, clock "));
  EXPECT_THAT(text.out, HasSubstr("weir.yaml: no faults\n"));
  const Outcome json = lint({"--json"});
  EXPECT_EQ(json.exit_code, 0);
  std::istringstream lines(json.out);
  std::string line;
  std::getline(lines, line);
  const auto store = nlohmann::json::parse(line);
  std::getline(lines, line);
  EXPECT_EQ(line, R"({"file":"weir.yaml","faults":0,"warnings":0,"store_asked":true})");
  EXPECT_EQ(store["store"], url_of(server));
  EXPECT_EQ(store["role"], "primary");
  EXPECT_FALSE(std::string(store["version"]).empty());
  EXPECT_TRUE(store["clock_skew_ms"].is_number());
  // It joins no fleet, and leaves nothing for good.
  for (const std::string& key : server.keys()) {
    EXPECT_NE(server.text({"PTTL", key}), "-1") << key;
    EXPECT_EQ(key.find("fleet"), std::string::npos) << key;
  }
}

TEST_F(StoreLint, WarnsOfAnEvictionPolicyThatDeletesCounters) {
  RedisServer server({.arguments = {"--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"}});
  on(url_of(server));
  const Outcome outcome = lint();
  EXPECT_EQ(outcome.exit_code, 0) << "it can be used";
  EXPECT_THAT(outcome.out, HasSubstr("store: warning: maxmemory-policy volatile-lru deletes"));
  EXPECT_THAT(outcome.out, HasSubstr("weir.yaml: 1 warning, no faults\n"));
}

TEST_F(StoreLint, FindsAReplica) {
  RedisServer primary;
  RedisServer replica;
  replica.execute({"REPLICAOF", "127.0.0.1", std::to_string(primary.port())});
  on(url_of(replica));
  const Outcome outcome = lint();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("store: this is a replica"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("permission"))) << "one fault, said once";
  on(url_of(primary));
  EXPECT_THAT(lint().out, HasSubstr(", primary, 1 replica, "));
}

TEST_F(StoreLint, NamesThePermissionThatIsMissing) {
  RedisServer server;
  const std::string password = folder.path() + "/password";
  std::ofstream(password) << "secret\n";
  server.execute({"ACL", "SETUSER", "weir", "on", ">secret", "~weir:*", "+@all", "-pexpire"});
  on(url_of(server), "  username: weir\n  password_file: " + password + "\n");
  const Outcome outcome = lint({"--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  std::istringstream lines(outcome.out);
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(nlohmann::json::parse(line)["role"], "primary");
  std::getline(lines, line);
  const auto fault = nlohmann::json::parse(line);
  EXPECT_EQ(fault["severity"], "fault");
  EXPECT_EQ(fault["field"], "store");
  EXPECT_THAT(std::string(fault["problem"]), HasSubstr("PEXPIRE"));
}

// With the self-test's own names covered, too.
TEST_F(StoreLint, FindsRightsThatDoNotCoverCounters) {
  RedisServer server;
  const std::string password = folder.path() + "/password";
  std::ofstream(password) << "secret\n";
  on(url_of(server), "  username: weir\n  password_file: " + password + "\n");
  server.execute({"ACL", "SETUSER", "weir", "on", ">secret", "~weir:1:{!*", "+@all"});
  const Outcome none = lint();
  EXPECT_EQ(none.exit_code, 1) << none.out << none.err;
  EXPECT_THAT(none.out, HasSubstr("~weir:1:*"));
  // The name that it tries on connecting is a counter's, but only one.
  server.execute({"ACL", "SETUSER", "weir", "~weir:1:{*}dHN0LXJpZXc"});
  const Outcome part = lint();
  EXPECT_EQ(part.exit_code, 1) << part.out << part.err;
  EXPECT_THAT(part.out, HasSubstr("weir.yaml: store: the user may not write the key 'weir:1:{"));
  EXPECT_THAT(part.out, HasSubstr("~weir:1:*"));
  server.execute({"ACL", "SETUSER", "weir", "~weir:1:*"});
  const Outcome whole = lint();
  EXPECT_EQ(whole.exit_code, 0) << whole.out << whole.err;
  for (const std::string& key : server.keys()) EXPECT_NE(server.text({"PTTL", key}), "-1") << key;
}

// Counters that stand under envoyproxy/ratelimit's names need rights to these.
TEST_F(StoreLint, FindsRightsThatDoNotCoverTheNamesOfAnotherServer) {
  RedisServer server;
  folder.write("weir.yaml", "store: '" + url_of(server) +
                                "'\nroutes: {}\n"
                                "rls: {config: config, protects: capacity, keys: envoyproxy}\n");
  std::filesystem::create_directory(folder.path() + "/config");
  folder.write("config/shop.yaml",
               "domain: shop\ndescriptors:\n  - key: user\n"
               "    rate_limit: {unit: hour, requests_per_unit: 3}\n");
  server.execute({"ACL", "SETUSER", "default", "resetkeys", "~weir:*"});
  const Outcome none = lint();
  EXPECT_EQ(none.exit_code, 1) << none.out << none.err;
  EXPECT_THAT(none.out, HasSubstr("weir.yaml: store: the user may not keep counters under the "
                                  "names that `rls.keys: envoyproxy` gives them, as "
                                  "'shop_user_weir-self-test_0': NOPERM"));
  EXPECT_THAT(none.out, HasSubstr("give it all that begin so: ~shop_*\n"));
  server.execute({"ACL", "SETUSER", "default", "~shop_user_*"});
  const Outcome whole = lint();
  EXPECT_EQ(whole.exit_code, 0) << whole.out << whole.err;
  EXPECT_TRUE(server.keys("shop_*").empty());
}

TEST_F(StoreLint, TakesAWrongPasswordForAFaultAndNeverPrintsIt) {
  RedisServer server;
  server.execute({"ACL", "SETUSER", "default", "resetpass", ">right"});
  on("redis://:hunter2@127.0.0.1:" + std::to_string(server.port()));
  const Outcome outcome = lint();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("WRONGPASS"));
  EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("hunter2")));
}

TEST_F(StoreLint, CannotSayWhereTheStoreIsAway) {
  on("redis://127.0.0.1:" + std::to_string(testing::free_port()));
  const Outcome outcome = lint();
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("nothing listens there; is it up, and is the port right?"));
  EXPECT_THAT(outcome.out,
              HasSubstr("weir.yaml: no faults in the file; its store could not be asked\n"));
  RedisServer server;
  EXPECT_EQ(lint({"--store", url_of(server)}).exit_code, 0) << "the same policy on another store";
  server.pause();
  const Outcome hung = lint({"--store", url_of(server)});
  EXPECT_EQ(hung.exit_code, 3);
  EXPECT_THAT(hung.err, HasSubstr("connected, and then silent"));
  server.resume();
}

// Nobody asks it before the outage in which it is needed.
TEST_F(StoreLint, LooksAtTheFallbackAsAtTheStore) {
  RedisServer first;
  RedisServer second;
  const std::string fallback = "  fallback: redis://:hunter2@127.0.0.1:";
  on(url_of(first), "  fallback: " + url_of(second) + "\n");
  const Outcome both = lint();
  EXPECT_EQ(both.exit_code, 0) << both.out << both.err;
  EXPECT_THAT(both.out, HasSubstr("weir.yaml: store " + url_of(first) + ": "));
  EXPECT_THAT(both.out, HasSubstr("weir.yaml: store.fallback " + url_of(second) + ": "));
  EXPECT_EQ(lint({"--store", url_of(first)}).out.find("fallback"), std::string::npos)
      << "another store than the file's comes without its fallback";

  second.execute({"ACL", "SETUSER", "default", "resetpass", ">right"});
  on(url_of(first), fallback + std::to_string(second.port()) + "\n");
  const Outcome wrong = lint();
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  EXPECT_THAT(wrong.out, HasSubstr("weir.yaml: store.fallback: "));
  EXPECT_THAT(wrong.out, HasSubstr("WRONGPASS"));
  EXPECT_THAT(wrong.out + wrong.err, Not(HasSubstr("hunter2")));
  EXPECT_THAT(lint({"--json"}).out, HasSubstr("\"field\":\"store.fallback\",\"problem\":"));

  on(url_of(first), fallback + std::to_string(testing::free_port()) + "\n");
  const Outcome away = lint();
  EXPECT_EQ(away.exit_code, 3);
  EXPECT_THAT(away.err, HasSubstr("fallback store redis://***@127.0.0.1:"));
  EXPECT_THAT(
      away.out,
      HasSubstr("weir.yaml: no faults in the file; its fallback store could not be asked\n"));
  EXPECT_THAT(lint({"--json"}).out, HasSubstr("\"store_asked\":false"));
}

TEST_F(StoreLint, AsksNobodyWithoutAServerOrWithoutBeingTold) {
  on("\"memory:\"");
  EXPECT_EQ(lint().exit_code, 0);
  on("redis://127.0.0.1:1");
  const Outcome file = weir({"lint", "weir.yaml"}, {.folder = folder.path()});
  EXPECT_EQ(file.exit_code, 0);
  const Outcome odd = weir({"lint", "weir.yaml", "--store", "memory:"}, {.folder = folder.path()});
  EXPECT_EQ(odd.exit_code, 2);
  EXPECT_THAT(odd.err, HasSubstr("--store goes with --connect"));
}

TEST_F(StoreLint, LooksAtEveryMasterOfACluster) {
  testing::RedisCluster cluster({.masters = 2});
  cluster.node(1).execute({"CONFIG", "SET", "maxmemory", "100mb"});
  cluster.node(1).execute({"CONFIG", "SET", "maxmemory-policy", "allkeys-lru"});
  on(cluster.url());
  const Outcome outcome = lint();
  EXPECT_THAT(outcome.out, HasSubstr(", 2 masters, "));
  EXPECT_THAT(outcome.out, HasSubstr("127.0.0.1:" + std::to_string(cluster.node(1).port()) +
                                     ": maxmemory-policy allkeys-lru deletes counters"));
  RedisServer single;
  on("redis+cluster://127.0.0.1:" + std::to_string(single.port()));
  const Outcome no_cluster = lint();
  EXPECT_EQ(no_cluster.exit_code, 1);
  EXPECT_THAT(no_cluster.out, HasSubstr("a single server behind a cluster URL"));
}

// Whichever node it is: also the one that has the slots of whatever is tried on connecting.
TEST_F(StoreLint, FindsANodeOfAClusterThatIsNamedAlone) {
  testing::RedisCluster cluster({.masters = 2});
  for (const std::size_t node : {0U, 1U}) {
    on(url_of(cluster.node(node)));
    const Outcome outcome = lint();
    EXPECT_EQ(outcome.exit_code, 1) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("redis+cluster://"));
    EXPECT_THAT(outcome.out, HasSubstr("weir.yaml: 1 fault\n")) << "said once";
  }
  // One master alone has all slots.
  testing::RedisCluster one({.masters = 1});
  on(url_of(one.node(0)));
  const Outcome outcome = lint();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("store: warning: it is a node of a cluster"));
}

TEST_F(StoreLint, AsksTheSentinelsForTheMaster) {
  RedisServer master;
  RedisServer sentinel(
      {.sentinel = "sentinel monitor main 127.0.0.1 " + std::to_string(master.port()) + " 1"});
  const std::string url = "redis+sentinel://127.0.0.1:" + std::to_string(sentinel.port()) + "/";
  on(url + "main");
  EXPECT_THAT(lint().out, HasSubstr(", primary, "));
  on(url + "mian");
  const Outcome unknown = lint();
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_THAT(unknown.out, HasSubstr("knows no master named 'mian'"));
}

}  // namespace
}  // namespace weir::cli_tests
