// No key without a time to live, none that lives too short, and none that a foreign value can lock:
// what users of limiters on Redis have reported, on a real server.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

#include "testing/lua_redis.h"
#include "testing/redis_rig.h"
#include "testing/redis_server.h"
#include "testing/script_store.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using testing::RedisRig;
using testing::RedisServer;
using testing::RigRule;

constexpr Algorithm kAll[] = {Algorithm::gcra, Algorithm::fixed_window, Algorithm::sliding_window,
                              Algorithm::sliding_log};

std::string name_of(const RigRule& rule) {
  return KeySpace::make("weir", "").value().counter(rule.key());
}

std::int64_t pttl(RedisServer& server, const std::string& key) {
  return std::stoll(server.text({"PTTL", key}));
}

// Our own keys, but the self-test's list, which lives for seconds.
std::vector<std::string> keys_without_expiry(RedisServer& server) {
  std::vector<std::string> found;
  for (const std::string& key : server.keys("weir:*")) {
    if (pttl(server, key) == -1) found.push_back(key);
  }
  return found;
}

class Expiry : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(rig.connect()); }

  RedisServer server;
  RedisRig rig{RedisRig::on_port(server.port())};
};

TEST_F(Expiry, StandsAfterTheFirstCallWhateverItCosts) {
  std::uint64_t id = 0;
  for (const Algorithm algorithm : kAll) {
    for (const std::uint64_t cost : {1, 5, 1000}) {
      const RigRule rule(++id, 1000, 60s, algorithm);
      ASSERT_TRUE(rig.ask(rule.counter(cost)).allowed);
      EXPECT_GT(pttl(server, name_of(rule)), 0) << to_string(algorithm) << ' ' << cost;
    }
    const RigRule probed(++id, 1000, 60s, algorithm);
    ASSERT_TRUE(rig.ask(probed.counter(0)).decided);
    EXPECT_EQ(pttl(server, name_of(probed)), -2) << "a probe never writes";
  }
}

TEST_F(Expiry, LastsUntilTheStateIsFreshAndLittleLonger) {
  std::uint64_t id = 0;
  for (const Algorithm algorithm : kAll) {
    for (const Nanos period : {Nanos{10s}, Nanos{3600s}}) {
      const RigRule rule(++id, 10, period, algorithm);
      const auto result = rig.ask(rule.counter(4));
      ASSERT_TRUE(result.allowed);
      const Nanos fresh_in{result.counters[0].finding.step.reset_after_ns};
      const Nanos lives = std::chrono::milliseconds(pttl(server, name_of(rule)));
      EXPECT_GT(lives, fresh_in) << to_string(algorithm);
      EXPECT_LT(lives, fresh_in + 2s) << to_string(algorithm);
    }
  }
}

// 0.1 a second without a burst: state that vanishes sooner would admit one a second.
TEST_F(Expiry, OutlastsASlowDrain) {
  const RigRule rule(1, 1, 10s);
  EXPECT_TRUE(rig.ask(rule.counter()).allowed);
  EXPECT_GT(pttl(server, name_of(rule)), 10'000 - 500);
  EXPECT_FALSE(rig.ask(rule.counter()).allowed);
}

// A foreign value is that key's matter: fresh, repaired, counted, no error.
TEST_F(Expiry, RepairsForeignAndDamagedValues) {
  const std::vector<std::vector<std::string>> plants = {
      {"SET", "", "7"},
      {"SET", "", ""},
      {"SET", "", std::string(33, 'g')},
      {"SET", "", std::string(24, 'f')},
      {"SET", "", std::string(28, 'w')},
      {"SET", "", std::string(100'000, 'x')},
      {"RPUSH", "", "a", "b"},
      {"RPUSH", "", std::string(25, 'l'), "b"},
      {"HSET", "", "a", "b"},
      {"SADD", "", "a"},
      {"ZADD", "", "1", "a"},
      {"XADD", "", "*", "a", "b"},
  };
  std::uint64_t id = 0;
  for (const Algorithm algorithm : kAll) {
    for (auto plant : plants) {
      const RigRule rule(++id, 3, 60s, algorithm);
      plant[1] = name_of(rule);
      server.execute(plant);
      const auto result = rig.ask(rule.counter());
      ASSERT_TRUE(result.decided) << plant[0] << ' ' << to_string(algorithm) << result.error;
      EXPECT_TRUE(result.allowed) << plant[0] << ' ' << to_string(algorithm);
      EXPECT_TRUE(result.counters[0].repaired) << plant[0] << ' ' << to_string(algorithm);
      EXPECT_EQ(result.counters[0].finding.step.remaining, 2u) << plant[0];
      EXPECT_GT(pttl(server, name_of(rule)), 0) << plant[0] << ' ' << to_string(algorithm);
      const auto next = rig.ask(rule.counter());
      EXPECT_FALSE(next.counters[0].repaired) << plant[0];
      EXPECT_EQ(next.counters[0].finding.step.remaining, 1u) << plant[0];
    }
  }
  EXPECT_EQ(rig.failures, 0u);
}

// A counter far in the future, as a clock that was wrong leaves it, locks nobody for long.
TEST_F(Expiry, BringsBackATimeOutOfReach) {
  const RigRule rule(1, 10, 1s);
  ASSERT_TRUE(rig.ask(rule.counter()).allowed);
  std::string value = server.text({"GET", name_of(rule)});
  ASSERT_EQ(value.size(), 33u);
  value[24] = 1;  // 2^32 seconds later
  server.execute({"SET", name_of(rule), value});
  const auto denied = rig.ask(rule.counter());
  ASSERT_TRUE(denied.decided);
  EXPECT_FALSE(denied.allowed);
  EXPECT_LE(denied.counters[0].finding.step.retry_after_ns, 1'000'000'000);
  EXPECT_GT(pttl(server, name_of(rule)), 0);
  EXPECT_TRUE(rig.run_until([&] { return rig.ask(rule.counter()).allowed; }));
}

TEST_F(Expiry, ComesBackWhereItWasLost) {
  std::uint64_t id = 0;
  for (const Algorithm algorithm : kAll) {
    // Written to: at once.
    const RigRule charged(++id, 10, 60s, algorithm);
    rig.ask(charged.counter());
    server.execute({"PERSIST", name_of(charged)});
    rig.ask(charged.counter());
    EXPECT_GT(pttl(server, name_of(charged)), 0) << to_string(algorithm);
    // Only ever denied: one ask in sixteen looks.
    const RigRule full(++id, 1, 600s, algorithm);
    rig.ask(full.counter());
    server.execute({"PERSIST", name_of(full)});
    int asks = 0;
    while (asks < 500 && pttl(server, name_of(full)) < 0) {
      EXPECT_FALSE(rig.ask(full.counter()).allowed);
      ++asks;
    }
    EXPECT_LT(asks, 500) << to_string(algorithm);
  }
}

TEST_F(Expiry, IsOnEveryKeyAfterTenThousandMixedCalls) {
  std::mt19937_64 random(11);
  std::deque<RigRule> rules;
  for (std::uint64_t id = 0; id < 200; ++id) {
    rules.emplace_back(id, 1 + random() % 20, std::chrono::seconds(1 + random() % 600),
                       kAll[random() % 4]);
  }
  std::deque<std::vector<Counter>> asks;
  std::vector<std::pair<std::size_t, Instant>> receipts;
  for (int i = 0; i < 10'000; ++i) {
    std::vector<Counter> counters;
    const std::size_t first = random() % rules.size();
    for (std::size_t k = 0; k <= random() % 3; ++k) {
      const RigRule& rule = rules[(first + k) % rules.size()];
      const std::uint64_t kind = random() % 20;
      counters.push_back(rule.counter(random() % 4));
      if (kind == 0) counters.back().op = Op::drain;
      if (kind == 1) counters.back().op = Op::reset;
      if (kind == 2) {
        counters.back().op = Op::refund;
        counters.back().receipt = Clock::real().now();
      }
    }
    asks.push_back(std::move(counters));
    rig.ask_async(asks.back());
    // As deep a pipeline as a busy lane has.
    if (rig.asked() - rig.answered() >= 64) {
      ASSERT_TRUE(rig.run_until([&] { return rig.asked() - rig.answered() < 32; }));
    }
  }
  ASSERT_TRUE(rig.run_until([&] { return rig.asked() == rig.answered(); }));
  std::size_t decided = 0;
  for (std::uint64_t token = 1; token <= rig.asked(); ++token) {
    decided += rig.result(token).decided;
    EXPECT_FALSE(rig.result(token).disagreed);
  }
  EXPECT_EQ(decided, 10'000u);
  EXPECT_TRUE(keys_without_expiry(server).empty());
  EXPECT_GT(server.keys("weir:*").size(), 50u);
}

TEST_F(Expiry, EmptiesTheServerInTheEnd) {
  std::deque<RigRule> rules;
  for (std::uint64_t id = 0; id < 1'000; ++id) {
    rules.emplace_back(id, 5, 50ms, kAll[id % 4]);
    EXPECT_TRUE(rig.ask(rules.back().counter()).decided);
  }
  EXPECT_TRUE(rig.run_until([&] { return server.keys("weir:1:{*}*/v").empty(); }));
}

// Twenty clients at once over fresh keys: only one of them finds the key missing.
TEST(ExpiryUnderConcurrency, IsSetByWhoeverComesFirst) {
  RedisServer server;
  std::deque<RigRule> rules;
  for (std::uint64_t id = 0; id < 200; ++id) rules.emplace_back(id, 3, 600s, kAll[id % 4]);
  std::atomic<std::uint64_t> admitted{0};
  std::vector<std::thread> clients;
  for (unsigned t = 0; t < 20; ++t) {
    clients.emplace_back([&, t] {
      testing::RedisConnection connection(server.port());
      testing::ScriptStore store([&](const std::vector<std::string>& command, Instant) {
        return connection.execute(command);
      });
      for (std::size_t i = 0; i < rules.size(); ++i) {
        const Counter counter = rules[(i * 7 + t) % rules.size()].counter();
        Finding finding;
        if (store.decide({&counter, 1}, Instant{1'700'000'000s}, {&finding, 1}).allowed) ++admitted;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(admitted.load(), 600u);
  EXPECT_TRUE(keys_without_expiry(server).empty());
  EXPECT_EQ(server.keys("weir:*").size(), 200u);
}

// Time told by the test from here on.

struct Shelf {
  testing::LuaRedis redis;
  testing::ScriptStore store{[this](const std::vector<std::string>& command, Instant now) {
                               redis.set_now(now);
                               return redis.execute(command);
                             },
                             1'000};
  bool take(const RigRule& rule, Instant now) {
    const Counter counter = rule.counter();
    Finding finding;
    return store.decide({&counter, 1}, now, {&finding, 1}).allowed;
  }
};

// Each hit pushing the expiry forward would ban a client that stays well under its limit.
TEST(ExpiryOverTime, DoesNotSlideForASteadyClient) {
  for (const Algorithm algorithm : kAll) {
    Shelf shelf;
    // Two weighted windows count up to one more than there is.
    const RigRule rule(1, algorithm == Algorithm::sliding_window ? 4 : 3, 2s, algorithm);
    for (int i = 0; i < 25; ++i) {
      EXPECT_TRUE(shelf.take(rule, Instant{1'700'000'000s} + i * 900ms))
          << to_string(algorithm) << ' ' << i;
    }
  }
}

// A health checker that always hits the very instant of expiry.
TEST(ExpiryOverTime, HoldsForCallsAtTheVeryEndOfAWindow) {
  for (const Algorithm algorithm : kAll) {
    Shelf shelf;
    const RigRule rule(1, 2, 1s, algorithm);
    for (int i = 0; i < 60; ++i) {
      for (const Nanos off : {Nanos{-2ms}, Nanos{2ms}}) {
        if (i % 2 == 0) {
          EXPECT_TRUE(shelf.take(rule, Instant{1'700'000'000s} + i * 1s + off));
        }
        for (const auto& [key, value] : shelf.redis.keys()) EXPECT_TRUE(value.expires_at);
      }
    }
  }
}

// A window of an hour is not one of the store's default expiry.
TEST(ExpiryOverTime, KeepsAnHourForAnHour) {
  for (const Algorithm algorithm : kAll) {
    Shelf shelf;
    const RigRule rule(1, 5, 3600s, algorithm);
    const Instant start{1'700'002'800s};  // the beginning of an hour
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(shelf.take(rule, start));
    EXPECT_FALSE(shelf.take(rule, start + 301s)) << to_string(algorithm);
  }
}

}  // namespace
}  // namespace weir::store::redis
