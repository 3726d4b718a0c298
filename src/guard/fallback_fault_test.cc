// A second store, asked before the policy where the first cannot be asked.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

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
  class Heard final : public Observer {
   public:
    void on_store_event(const StoreEvent& event) override {
      std::lock_guard lock(mutex_);
      events_.push_back(event);
      events_.back().why = {};
    }
    std::ptrdiff_t count(StoreEvent::Kind kind) const {
      std::lock_guard lock(mutex_);
      return std::count_if(events_.begin(), events_.end(),
                           [&](const StoreEvent& each) { return each.kind == kind; });
    }
    // The last of its kind, of which there is one.
    StoreEvent last(StoreEvent::Kind kind) const {
      std::lock_guard lock(mutex_);
      return *std::find_if(events_.rbegin(), events_.rend(),
                           [&](const StoreEvent& each) { return each.kind == kind; });
    }
    bool until(StoreEvent::Kind kind, std::ptrdiff_t times) const {
      const auto give_up = std::chrono::steady_clock::now() + kPatience;
      while (count(kind) < times && std::chrono::steady_clock::now() < give_up) {
        std::this_thread::sleep_for(milliseconds(5));
      }
      return count(kind) == times;
    }

   private:
    mutable std::mutex mutex_;
    std::vector<StoreEvent> events_;
  };

  Guard open(const std::string& more = "", Observer* observer = nullptr) {
    return Guard::open(
               Policy::parse("store: {url: '" + first_.url() + "', fallback: '" + second_.url() +
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
  watched:
    limits: [{requests: 10, per: hour, by: [user], algorithm: fixed_window}]
    protects: capacity
    shadow: true
)")
                   .value(),
               {.observer = observer})
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

// A fallback that is away let what is in shadow through, and was said to have decided it.
TEST_F(Fallback, ThatIsAwayDecidesNothingThatIsInShadow) {
  Guard guard = open();
  first_.kill();
  second_.kill();
  for (int i = 0; i < 30; ++i) {
    const Decision decision = guard.check("watched", {{"user", "u"}});
    EXPECT_TRUE(decision.allowed());
    EXPECT_NE(decision.rung, Rung::fallback);
  }
}

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

// One that is dead, or has another password, is no surprise to the outage that needs it.
TEST_F(Fallback, ThatCannotBeAskedIsSaidOnceThoughNobodyNeedsItAndThatItCanAgain) {
  using Kind = StoreEvent::Kind;
  Heard heard;
  second_.kill();
  Guard guard = open("", &heard);
  ASSERT_TRUE(until_rung(guard, Rung::store));
  EXPECT_TRUE(heard.until(Kind::fallback_away, 1)) << "the first store is well";
  const auto away_seconds = [&guard] {
    std::string metrics;
    guard.impl().metrics().write(metrics);
    const std::size_t at = metrics.find("\nweir_fallback_away_seconds ");
    return at == std::string::npos ? -1 : std::stod(metrics.substr(at + 28));
  };
  EXPECT_GT(away_seconds(), 0);
  EXPECT_FALSE(guard.impl().shared()->fallback()->answers);
  EXPECT_NE(guard.impl().shared()->fallback()->trouble, "");
  second_.start();
  EXPECT_TRUE(heard.until(Kind::fallback_back, 1));
  EXPECT_EQ(away_seconds(), 0);
  EXPECT_TRUE(guard.impl().shared()->fallback()->answers);
  second_.execute({"ACL", "SETUSER", "default", "resetpass", ">another"});
  second_.execute({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no"});
  EXPECT_TRUE(heard.until(Kind::fallback_away, 2));
  EXPECT_EQ(heard.count(Kind::fallback_back), 1);
  EXPECT_EQ(heard.count(Kind::away), 0) << "no word of the first store's";
  EXPECT_EQ(heard.count(Kind::back), 0);
}

TEST_F(Fallback, WhatItDecidedIsToldWhenTheFirstStoreIsBack) {
  using Kind = StoreEvent::Kind;
  Heard heard;
  Guard guard = open("", &heard);
  ASSERT_TRUE(until_rung(guard, Rung::store));
  first_.kill();
  ASSERT_TRUE(until_rung(guard, Rung::fallback));
  ASSERT_TRUE(heard.until(Kind::away, 1));
  std::uint64_t asked = 0;
  for (int i = 0; i < 36; ++i) {
    asked += guard.check("search", {{"user", "e"}}).rung == Rung::fallback ? 1 : 0;
  }
  ASSERT_GT(asked, 0U);
  first_.start();
  ASSERT_TRUE(heard.until(Kind::back, 1));
  EXPECT_GE(heard.last(Kind::back).by_fallback, asked);
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
