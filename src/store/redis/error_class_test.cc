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

// Whatever a server checks before it runs a command says that nothing was done; and of what it
// checks while a script runs, all that it looks at before the first write alone.
TEST(ErrorClass, TellsWhatWasNotCarriedOutFromWhatMayHaveBeen) {
  for (const char* said :
       {"OOM command not allowed when used memory > 'maxmemory'. script: ab12, on @user_script:88.",
        "ERR Error running script (call to f_ab): @user_script:7: @user_script: 7: -OOM command "
        "not allowed when used memory > 'maxmemory'.",
        "LOADING Redis is loading the dataset in memory", "READONLY You can't write against a",
        "MISCONF Redis is configured to save RDB snapshots", "NOREPLICAS Not enough good replicas",
        "CLUSTERDOWN Hash slot not served", "TRYAGAIN Multiple keys request during rehashing",
        "MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381", "NOSCRIPT No matching script.",
        "BUSY Redis is busy running a script.", "MASTERDOWN Link with MASTER is down",
        "NOAUTH Authentication required.",
        "NOPERM this user has no permissions to access one of the keys used as arguments",
        "ERR unknown command 'EVALSHA'", "CROSSSLOT Keys in request don't hash to the same slot"}) {
    EXPECT_FALSE(may_be_carried_out(said)) << said;
  }
  for (const char* said :
       {"NOPERM ACL failure in script: User weir has no permissions to run the 'pexpire' command",
        "ERR The user executing the script can't run this command or subcommand script: ab12, on "
        "@user_script:14.",
        "WRONGTYPE Operation against a key script: ab12, on @user_script:9.",
        "ERR Unknown Redis command called from script script: ab12, on @user_script:9.",
        "ERR user_script:9: attempt to index a nil value script: ab12, on @user_script:9.",
        "ERR upstream failure", ""}) {
    EXPECT_TRUE(may_be_carried_out(said)) << said;
  }
  EXPECT_EQ(row_of(LocalFault::not_connected).carried, Carried::no);
  EXPECT_EQ(row_of(LocalFault::deadline).carried, Carried::perhaps);
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

// What people read, in a log, of `weir check` and of `weir lint --connect`: what it means, what the
// store said, and what to do. Word for word.
TEST(ErrorClass, SaysWhatItMeansWhatTheStoreSaidAndWhatToDo) {
  struct Case {
    std::string said;  // by the store; empty: `fault` is ours
    LocalFault fault;
    std::string told;
  };
  const auto by_store = [](std::string said, std::string told) {
    return Case{std::move(said), LocalFault::closing, std::move(told)};
  };
  const auto ours = [](LocalFault fault, std::string told) {
    return Case{"", fault, std::move(told)};
  };
  const Case cases[] = {
      by_store("NOAUTH Authentication required.",
               "a password is needed: NOAUTH Authentication required.; give `username` and "
               "`password_file`"),
      by_store("WRONGPASS invalid username-password pair or user is disabled.",
               "user or password is wrong: WRONGPASS invalid username-password pair or user is "
               "disabled.; compare the user and the password (`password_file`, or the URL) with "
               "its ACL"),
      by_store("NOPERM this user has no permissions to run the 'pexpire' command",
               "the user may not run a command or touch our keys: NOPERM this user has no "
               "permissions to run the 'pexpire' command; permit what it names"),
      by_store("OOM command not allowed when used memory > 'maxmemory'.",
               "maxmemory reached and nothing may be evicted: OOM command not allowed when used "
               "memory > 'maxmemory'.; raise maxmemory or make room there"),
      by_store("NOREPLICAS Not enough good replicas to write.",
               "too few replicas for min-replicas-to-write: NOREPLICAS Not enough good replicas to "
               "write.; bring its replicas back, or lower min-replicas-to-write"),
      by_store("MISCONF Redis is configured to save RDB snapshots, but it is unable to.",
               "refuses writes because it cannot persist: MISCONF Redis is configured to save RDB "
               "snapshots, but it is unable to.; see in its log why it cannot save, or make room "
               "on its disk"),
      by_store("LOADING Redis is loading the dataset in memory",
               "reading its data set after a start: LOADING Redis is loading the dataset in "
               "memory; wait until it has read its data"),
      by_store("ERR max number of clients reached",
               "no connection left for us: ERR max number of clients reached; raise maxclients, or "
               "find who holds them"),
      by_store("ERR DB index is out of range",
               "no such database: ERR DB index is out of range; name a database that it has; a "
               "cluster has only 0"),
      by_store("MOVED 3999 127.0.0.1:6381",
               "another node owns the slot: MOVED 3999 127.0.0.1:6381"),
      by_store("ERR unknown command 'AUTH', with args beginning with: 'ada' 'hunter2' ",
               "renamed, disabled, or not Redis: ERR unknown command 'AUTH'; give the command its "
               "name back; Redis from version 5 on is needed"),
      by_store("ERR nobody has seen this",
               "any other error reply: ERR nobody has seen this; see "
               "its log"),
      ours(LocalFault::refused, "nothing listens there; is it up, and is the port right?"),
      ours(LocalFault::dns, "no such name now; is the name right, and does this host resolve it?"),
      ours(LocalFault::tls,
           "no trusted session; compare `tls` with the certificate there; a port "
           "without TLS wants redis://"),
      ours(LocalFault::connect_timeout,
           "no connection within connect_timeout; is it up, can this host reach it, and does it "
           "speak TLS where rediss:// says so?"),
      ours(LocalFault::handshake_timeout,
           "connected, and then silent; is it up, and is it Redis or Valkey?"),
      ours(LocalFault::deadline,
           "our own deadline passed without a reply; is it slow, or "
           "`deadline` too short for the way there?"),
      ours(LocalFault::replica, "never decided from a replica; name the primary, or its sentinels"),
      ours(LocalFault::no_cluster,
           "a single server behind a cluster URL; name a server alone as redis://"),
  };
  for (const Case& c : cases) {
    const ErrorRow& row = c.said.empty() ? row_of(c.fault) : classify_reply(c.said);
    EXPECT_EQ(told(row, c.said), c.told);
  }
}

// What somebody has to change says what.
TEST(ErrorClass, HasARemedyForWhateverIsMisconfigured) {
  for (const ErrorRow& row : error_table()) {
    if (row.error_class == ErrorClass::misconfigured) {
      EXPECT_FALSE(row.remedy.empty()) << row.pattern;
    }
  }
}

}  // namespace
}  // namespace weir::store::redis
