// A second store, asked before the policy where the first cannot be asked.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "guard/impl.h"
#include "testing/patience.h"
#include "testing/redis_server.h"
#include "weir/guard.h"

namespace weir {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using testing::kPatience;
using testing::RedisServer;

class Fallback : public ::testing::Test {
 protected:
  Guard open(const std::string& more = "") {
    return Guard::open(Policy::parse("store: {url: '" + first_.url() + "', fallback: '" +
                                     second_.url() +
                                     "', deadline: 500ms, workers: {of: 2, index: 0}" + more +
                                     R"(}
inputs: [user]
routes:
  login:
    limits: [{requests: 5, per: hour, by: [user], algorithm: fixed_window}]
    protects: security
  search:
    limits: [{requests: 10, per: hour, by: [user], algorithm: fixed_window}]
    protects: capacity
)")
                           .value())
        .value();
  }
  // Asks, taking nothing, until `rung` decides.
  static bool until_rung(Guard& guard, Rung rung, const char* route = "login") {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < give_up) {
      if (guard.check(route, {{"user", "looked-at"}}, {.cost = 0}).rung == rung) return true;
      std::this_thread::sleep_for(milliseconds(2));
    }
    return false;
  }
  static int allowed(Guard& guard, const char* route, const char* user, int asked) {
    int count = 0;
    for (int i = 0; i < asked; ++i) count += guard.check(route, {{"user", user}}).allowed();
    return count;
  }

  RedisServer first_;
  RedisServer second_;
};

TEST_F(Fallback, IsNotAskedWhileTheFirstStoreAnswers) {
  Guard guard = open();
  EXPECT_EQ(allowed(guard, "login", "a", 10), 5);
  for (const std::string& key : second_.keys()) EXPECT_THAT(key, ::testing::Not(HasSubstr("a")));
}

TEST_F(Fallback, CountsExactlyInPlaceOfThePolicy) {
  Guard guard = open();
  ASSERT_TRUE(until_rung(guard, Rung::store));
  EXPECT_EQ(allowed(guard, "login", "b", 3), 3);
  first_.kill();
  ASSERT_TRUE(until_rung(guard, Rung::fallback));
  // The whole limit once more, and no part of it: more than that would be the policy's.
  EXPECT_EQ(allowed(guard, "login", "b", 20), 5);
  EXPECT_EQ(allowed(guard, "search", "b", 20), 10);
  const Decision denied = guard.check("search", {{"user", "b"}});
  EXPECT_EQ(denied.verdict, Verdict::limited);
  EXPECT_EQ(denied.rung, Rung::fallback);
  ASSERT_EQ(denied.rules().size(), 1U);
  EXPECT_EQ(denied.rules()[0].remaining, 0U);
  EXPECT_EQ(denied.http_status(), 429);
}

TEST_F(Fallback, GivesWayToThePolicyWhereItIsAwayToo) {
  Guard guard = open();
  ASSERT_TRUE(until_rung(guard, Rung::store));
  first_.kill();
  second_.pause();
  ASSERT_TRUE(until_rung(guard, Rung::policy));
  const Decision closed = guard.check("login", {{"user", "c"}});
  EXPECT_EQ(closed.verdict, Verdict::refused);
  EXPECT_EQ(closed.rung, Rung::policy);
  EXPECT_EQ(allowed(guard, "search", "c", 20), 5);  // its part of ten
  second_.resume();
  EXPECT_TRUE(until_rung(guard, Rung::fallback));
}

TEST_F(Fallback, WhatItAdmittedIsNotOwedAndTheFirstStoreComesBack) {
  Guard guard = open();
  ASSERT_TRUE(until_rung(guard, Rung::store));
  EXPECT_EQ(allowed(guard, "search", "d", 4), 4);
  first_.pause();
  ASSERT_TRUE(until_rung(guard, Rung::fallback, "search"));
  EXPECT_EQ(allowed(guard, "search", "d", 3), 3);
  std::string metrics;
  guard.impl().metrics().write(metrics);
  EXPECT_THAT(metrics, HasSubstr("weir_owed_units{shard=\"0\"} 0\n"));
  EXPECT_THAT(metrics, HasSubstr("weir_fallback_asks_total{result=\"decided\"} "));
  first_.resume();
  ASSERT_TRUE(until_rung(guard, Rung::store, "search"));
  // All its keys are back once the ramp has ended.
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  Decision back;
  do {
    back = guard.check("search", {{"user", "d"}}, {.cost = 0});
  } while (back.rung != Rung::store && std::chrono::steady_clock::now() < give_up);
  ASSERT_EQ(back.rules().size(), 1U);
  EXPECT_EQ(back.rules()[0].remaining, 6U);
}

TEST_F(Fallback, IsRefusedWhereItIsNoServer) {
  const auto problem = [](const std::string& url) {
    const auto opened =
        Guard::open(Policy::parse("store: {url: 'redis://127.0.0.1:1', fallback: '" + url +
                                  "'}\nroutes: {a: {limits: [1 per hour], protects: security}}\n")
                        .value());
    return opened ? std::string("opened") : opened.error().message;
  };
  EXPECT_THAT(problem("redis+cluster://a,b"), HasSubstr("fallback"));
  EXPECT_THAT(problem("memory:"), HasSubstr("fallback"));
}

}  // namespace
}  // namespace weir
