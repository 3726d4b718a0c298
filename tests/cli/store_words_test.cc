// What `weir check` says of a store that it could not ask: on standard error, in one line, and
// never a secret. Against real servers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "program.h"
#include "testing/redis_server.h"

namespace weir::cli_tests {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::weir::testing::RedisServer;

struct CheckedStore : ::testing::Test {
  // A policy on that store, asked once; patient, since machines are busy.
  Outcome check(const std::string& url, const std::string& more = "") {
    folder.write("weir.yaml", "store:\n  url: " + url +
                                  "\n  deadline: 5s\n  connect_timeout: 5s\n" + more +
                                  "routes:\n  a: {limits: [5 per minute], protects: security}\n");
    const Outcome outcome = weir({"check", "weir.yaml", "a"}, {.folder = folder.path()});
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err + outcome.out, Not(HasSubstr("hunter2")));
    return outcome;
  }
  void expect_refused(const Outcome& outcome, const std::string& said, const std::string& to_do) {
    EXPECT_EQ(outcome.exit_code, 3);
    EXPECT_THAT(outcome.out, HasSubstr("refused  a  the store could not be asked"));
    EXPECT_THAT(outcome.err, HasSubstr("weir: store redis"));
    EXPECT_THAT(outcome.err, HasSubstr(said));
    EXPECT_THAT(outcome.err, HasSubstr("; " + to_do));
  }
  static std::string at(const RedisServer& server, const std::string& scheme = "redis://",
                        const std::string& credentials = "") {
    return "'" + scheme + credentials + "127.0.0.1:" + std::to_string(server.port()) + "'";
  }
  Folder folder;
};

TEST_F(CheckedStore, SaysWhoeverIsNotLetIn) {
  RedisServer server;
  server.execute({"ACL", "SETUSER", "weir", "on", ">right", "~weir:*", "+@all", "-pexpire"});
  server.execute({"ACL", "SETUSER", "default", "resetpass", ">right"});
  expect_refused(check(at(server)), "NOAUTH", "give `username` and `password_file`");
  expect_refused(check(at(server, "redis://", ":hunter2@")), "WRONGPASS",
                 "compare the user and the password");
  expect_refused(check(at(server, "redis://", "weir:right@")), "PEXPIRE", "permit what it names");
}

TEST_F(CheckedStore, SaysWhatItRunsShortOf) {
  RedisServer server;
  server.execute({"CONFIG", "SET", "maxmemory", "1"});
  const Outcome full = check(at(server));
  expect_refused(full, "OOM", "raise maxmemory or make room there");
  EXPECT_THAT(full.err, Not(HasSubstr("permission")));
  server.execute({"CONFIG", "SET", "maxmemory", "0"});
  server.execute({"CONFIG", "SET", "min-replicas-to-write", "1"});
  const Outcome alone = check(at(server));
  expect_refused(alone, "NOREPLICAS", "bring its replicas back, or lower min-replicas-to-write");
  EXPECT_THAT(alone.err, Not(HasSubstr("permission")));
}

TEST_F(CheckedStore, SaysThatNobodyIsThereOrNobodyIsTrusted) {
  expect_refused(check("redis://127.0.0.1:" + std::to_string(testing::free_port())),
                 "nothing listens there", "is it up, and is the port right?");
  RedisServer server;
  expect_refused(check(at(server, "rediss://")), "no connection within connect_timeout",
                 "is it up, can this host reach it, and does it speak TLS");
}

// It answers with what it was sent.
TEST_F(CheckedStore, DoesNotRepeatThePasswordThatAServerRepeats) {
  RedisServer server({.arguments = {"--rename-command", "AUTH", "HTUA"}});
  expect_refused(check(at(server, "redis://", "ada:hunter2@")), "unknown command",
                 "give the command its name back");
}

// A guest has no part, whatever the route protects.
TEST_F(CheckedStore, SaysSoForEveryPolicyThatDecidesInItsPlace) {
  const std::string url = "redis://127.0.0.1:" + std::to_string(testing::free_port());
  folder.write("weir.yaml",
               "store: " + url +
                   "\nroutes:\n  closed: {limits: [5 per minute], protects: security}\n"
                   "  bounded: {limits: [5 per minute], protects: capacity}\n"
                   "  open: {limits: [5 per minute], protects: nothing}\n");
  for (const std::string route : {"closed", "bounded", "open"}) {
    const Outcome outcome = weir({"check", "weir.yaml", route}, {.folder = folder.path()});
    EXPECT_EQ(outcome.exit_code, route == "open" ? 0 : 3) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr("nothing listens there; is it up")) << route;
  }
}

TEST_F(CheckedStore, SaysNothingOfOneThatAnswers) {
  RedisServer server;
  folder.write("weir.yaml", "store: " + at(server) +
                                "\nroutes:\n  a: {limits: [1 per minute], protects: nothing}\n");
  const Outcome outcome =
      weir({"check", "weir.yaml", "a", "--times", "2"}, {.folder = folder.path()});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "");
}

}  // namespace
}  // namespace weir::cli_tests
