// A store that answers every ask with an error: each row of the one table, through the whole Guard.

#include <gtest/gtest.h>

#include "fault_rig.h"
#include "store/redis/error_class.h"
#include "store/redis/script.h"
#include "testing/fake_redis.h"

namespace weir::fault {
namespace {

using store::redis::ErrorAction;
using store::redis::ErrorClass;
using store::redis::ErrorRow;
using testing::FakeRedis;

// Other scripts must pass, for the connection to stand and its worker to have a part.
bool is_ask(const std::vector<std::string>& command) {
  using store::redis::kAskScript;
  return command.size() > 2 && ((command[0] == "EVALSHA" && command[1] == kAskScript.sha) ||
                                (command[0] == "EVAL" && command[1] == kAskScript.text));
}

void answer_asks_with(FakeRedis& fake, const std::string& bytes) {
  fake.script([bytes](const std::vector<std::string>& command) -> std::optional<FakeRedis::Say> {
    if (is_ask(command)) return FakeRedis::Say{bytes};
    return std::nullopt;
  });
}

class GuardOnAStoreThatSays : public ::testing::Test {
 protected:
  // Every verdict by policy, the class counted, one line heard where it is an outage, and back
  // again.
  void is_handled(const std::string& reply, ErrorClass error_class, bool an_outage = true) {
    SCOPED_TRACE(reply);
    FakeRedis fake;
    Heard heard;
    Guard guard =
        Guard::open(policy_on(fake.port(), {.deadline = "500ms"}), {.observer = &heard}).value();
    Tally tally;
    ASSERT_EQ(check(guard, "login", "u", tally).rung, Rung::store) << heard.all();
    answer_asks_with(fake, reply);
    const double before = store_errors(guard, to_string(error_class));
    for (int i = 0; i < 12; ++i) {
      const Decision login = check(guard, "login", "u", tally);
      EXPECT_EQ(login.verdict, Verdict::refused) << login.json();
      EXPECT_EQ(login.http_status(), 503);
      EXPECT_EQ(login.reason, Reason::store_unavailable);
      EXPECT_EQ(check(guard, "search", "u", tally).rung, Rung::share);
      EXPECT_TRUE(check(guard, "status", "u", tally).allowed());
    }
    EXPECT_EQ(tally.broken, 0u) << tally.example;
    EXPECT_TRUE(tally.in_time()) << tally.times();
    EXPECT_GT(store_errors(guard, to_string(error_class)), before);
    EXPECT_EQ(heard.count(StoreEvent::Kind::away) >= 1, an_outage) << heard.all();
    fake.behave();
    EXPECT_TRUE(until_store(guard, "login", "u")) << heard.all();
    EXPECT_TRUE(until_store(guard, "login", "v"));
    EXPECT_TRUE(check(guard, "login", "v", tally).allowed());
    if (!an_outage) return;
    EXPECT_TRUE(eventually([&] { return heard.count(StoreEvent::Kind::back) >= 1; }));
  }
};

TEST_F(GuardOnAStoreThatSays, EveryErrorOfTheTableIsAnsweredByPolicyAndComesBack) {
  int rows = 0;
  for (const ErrorRow& row : store::redis::error_table()) {
    if (row.pattern.starts_with('(')) continue;            // not said by a server
    if (row.action == ErrorAction::load_script) continue;  // its own test
    const bool code = row.pattern.find_first_of("abcdefghijklmnopqrstuvwxyz ") == std::string::npos;
    const std::string text = row.pattern.empty() ? "ERR something else"
                             : code              ? std::string(row.pattern) + " it says"
                                                 : "ERR " + std::string(row.pattern);
    // One server was named, so there is nobody to follow to: it is not the server that was meant.
    const bool redirected = row.error_class == ErrorClass::redirected;
    is_handled("-" + text + "\r\n", redirected ? ErrorClass::misconfigured : row.error_class,
               redirected || row.votes);
    ++rows;
  }
  EXPECT_GE(rows, 25);
}

// Silence is a failure, and so is nonsense: never "under the limit".
TEST_F(GuardOnAStoreThatSays, NonsenseIsAnsweredByPolicyAndComesBack) {
  for (const char* reply :
       {"$-1\r\n", "*-1\r\n", ":1\r\n", "+OK\r\n", "*0\r\n", "*2\r\n$1\r\n1\r\n$1\r\n1\r\n",
        "*4\r\n$-1\r\n$-1\r\n$-1\r\n$-1\r\n", "*4\r\n$1\r\nx\r\n$1\r\ny\r\n$-1\r\n:1\r\n",
        "*4\r\n$20\r\n99999999999999999999\r\n$1\r\n1\r\n$-1\r\n:1\r\n", "$3\r\nabc\r\n",
        "!garbage\r\n"}) {
    is_handled(reply, ErrorClass::unavailable);
  }
}

// A server that loses its scripts as soon as it has them.
TEST_F(GuardOnAStoreThatSays, NoScriptForEverIsAnsweredByPolicyAndComesBack) {
  is_handled("-NOSCRIPT No matching script. Please use EVAL.\r\n", ErrorClass::unavailable);
}

}  // namespace
}  // namespace weir::fault
