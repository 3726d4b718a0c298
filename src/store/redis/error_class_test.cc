#include "store/redis/error_class.h"

#include <gtest/gtest.h>

#include <set>

namespace weir::store::redis {
namespace {

TEST(ErrorClass, KnowsEveryReplyOfTheTable) {
  struct Case {
    const char* text;
    ErrorClass error_class;
    ErrorAction action;
    bool votes;
  };
  const Case cases[] = {
      {"NOSCRIPT No matching script. Please use EVAL.", ErrorClass::noscript,
       ErrorAction::load_script, false},
      {"MOVED 3999 127.0.0.1:6381", ErrorClass::redirected, ErrorAction::follow, false},
      {"ASK 3999 127.0.0.1:6381", ErrorClass::redirected, ErrorAction::follow, false},
      {"READONLY You can't write against a read only replica. script: ab12, on @user_script:4.",
       ErrorClass::unavailable, ErrorAction::resolve_again, true},
      {"ERR Error running script (call to f_ab): @user_script:7: -READONLY You can't write against "
       "a read only replica.",
       ErrorClass::unavailable, ErrorAction::resolve_again, true},
      {"ERR Error running script (call to f_ab): @user_script:7: @user_script: 7: -OOM command not "
       "allowed when used memory > 'maxmemory'.",
       ErrorClass::unavailable, ErrorAction::policy, true},
      {"LOADING Redis is loading the dataset in memory", ErrorClass::unavailable,
       ErrorAction::policy, true},
      {"MASTERDOWN Link with MASTER is down", ErrorClass::unavailable, ErrorAction::policy, true},
      {"CLUSTERDOWN Hash slot not served", ErrorClass::unavailable, ErrorAction::policy, true},
      {"TRYAGAIN Multiple keys request during rehashing of slot", ErrorClass::unavailable,
       ErrorAction::policy, false},
      {"BUSY Redis is busy running a script.", ErrorClass::unavailable, ErrorAction::policy, true},
      {"OOM command not allowed when used memory > 'maxmemory'.", ErrorClass::unavailable,
       ErrorAction::policy, true},
      {"MISCONF Redis is configured to save RDB snapshots", ErrorClass::unavailable,
       ErrorAction::policy, true},
      {"NOREPLICAS Not enough good replicas to write.", ErrorClass::unavailable,
       ErrorAction::policy, true},
      {"ERR max number of clients reached", ErrorClass::unavailable, ErrorAction::reconnect, true},
      {"NOAUTH Authentication required.", ErrorClass::misconfigured,
       ErrorAction::reload_credentials, true},
      {"WRONGPASS invalid username-password pair or user is disabled.", ErrorClass::misconfigured,
       ErrorAction::reload_credentials, true},
      {"ERR invalid password", ErrorClass::misconfigured, ErrorAction::reload_credentials, true},
      {"ERR Client sent AUTH, but no password is set", ErrorClass::misconfigured,
       ErrorAction::policy, true},
      {"NOPERM this user has no permissions to access one of the keys", ErrorClass::misconfigured,
       ErrorAction::policy, true},
      {"CROSSSLOT Keys in request don't hash to the same slot", ErrorClass::misconfigured,
       ErrorAction::policy, true},
      {"ERR unknown command 'EVALSHA'", ErrorClass::misconfigured, ErrorAction::policy, true},
      {"DENIED Redis is running in protected mode", ErrorClass::misconfigured, ErrorAction::policy,
       true},
      {"ERR DB index is out of range", ErrorClass::misconfigured, ErrorAction::policy, true},
      {"ERR something nobody has seen", ErrorClass::unavailable, ErrorAction::policy, true},
      {"", ErrorClass::unavailable, ErrorAction::policy, true},
      {"BUSYKEY Target key name already exists.", ErrorClass::unavailable, ErrorAction::policy,
       true},
  };
  for (const Case& c : cases) {
    const ErrorRow& row = classify_reply(c.text);
    EXPECT_EQ(row.error_class, c.error_class) << c.text;
    EXPECT_EQ(row.action, c.action) << c.text;
    EXPECT_EQ(row.votes, c.votes) << c.text;
  }
}

// A client's value can stand in an error text; it must not choose the class.
TEST(ErrorClass, IgnoresCodesInTheMiddleOfAText) {
  EXPECT_EQ(classify_reply("NOPERM no access to key 'weir:1:{a}:READONLY x'").error_class,
            ErrorClass::misconfigured);
  EXPECT_EQ(classify_reply("ERR odd value x READONLY y").action, ErrorAction::policy);
}

TEST(ErrorClass, HasOneRowForEachLocalFault) {
  for (int i = 0; i <= static_cast<int>(LocalFault::closing); ++i) {
    EXPECT_TRUE(row_of(static_cast<LocalFault>(i)).pattern.starts_with("(")) << i;
  }
  EXPECT_FALSE(row_of(LocalFault::released).votes);
  EXPECT_EQ(row_of(LocalFault::hung).action, ErrorAction::resolve_again);
}

TEST(ErrorClass, PrintsEveryRowOnce) {
  const std::string text = error_table_text();
  std::set<std::string_view> patterns;
  for (const ErrorRow& row : error_table()) {
    EXPECT_TRUE(patterns.insert(row.pattern).second) << row.pattern;
    if (!row.pattern.empty()) {
      EXPECT_NE(text.find(row.pattern), std::string::npos);
    }
  }
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')),
            error_table().size() + 1);
}

}  // namespace
}  // namespace weir::store::redis
