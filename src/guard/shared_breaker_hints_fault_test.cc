#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>

#include "guard/circuit_hints.h"
#include "testing/redis_cluster.h"
#include "testing/redis_server.h"
#include "testing/until.h"
#include "weir/guard.h"

// What the store publishes of shared breakers: heard where it may be, and nowhere needed.

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::RedisServer;
using testing::until;

constexpr const char* kChannel = "weir:1:{!}circuits";

class SharedBreakerHints : public ::testing::Test {
 protected:
  Guard open() { return open_at(server_.url()); }
  static Guard open_at(const std::string& url) {
    return Guard::open(Policy::parse("store: {url: '" + url + R"(', deadline: 5s, startup: degrade}
breakers:
  payments: {consecutive_failures: 3, failure_rate: off, window: {calls: 10}, minimum_calls: 4,
             open_wait: 60s, jitter: 0%, ramp: off, shared: true}
)")
                           .value())
        .value();
  }
  static Breaker breaker(Guard& guard) { return guard.breaker("payments").value(); }
  static bool told(const Breaker& breaker, bool pushed = true) {
    return until([&] {
      const BreakerSnapshot shot = breaker.snapshot();
      return shot.tie == FleetTie::follows && shot.pushed == pushed;
    });
  }
  // What one opens the other sees, and what it closes.
  static void go_together(Breaker& one, Breaker& two) {
    one.trip(60s);
    EXPECT_TRUE(until([&] { return two.state() == BreakerState::open; }));
    one.close();
    EXPECT_TRUE(until([&] { return two.state() == BreakerState::closed; }));
  }
  int listeners() {
    const std::string reply = server_.execute({"PUBSUB", "NUMSUB", kChannel});
    const std::size_t at = reply.rfind(':');
    return at == std::string::npos ? -1 : std::stoi(reply.substr(at + 1));
  }
  // Of those that have subscribed to anything, the ids.
  std::set<std::string> connections() {
    const std::string list = server_.execute({"CLIENT", "LIST", "TYPE", "pubsub"});
    std::set<std::string> out;
    for (std::size_t at = list.find("id="); at != std::string::npos;) {
      out.insert(list.substr(at, list.find(' ', at) - at));
      at = list.find("\nid=", at);
      if (at != std::string::npos) ++at;
    }
    return out;
  }

  RedisServer server_;
};

TEST_F(SharedBreakerHints, ComeOnOneConnectionOfEachWorkerThatSharesOne) {
  Guard a = open();
  Guard b = open();
  Breaker one = breaker(a);
  Breaker two = breaker(b);
  ASSERT_TRUE(told(one) && told(two));
  EXPECT_EQ(listeners(), 2);
  go_together(one, two);
  // Who shares none any more listens to nobody.
  ASSERT_TRUE(a.reload(Policy::parse("store: {url: '" + server_.url() +
                                     "', deadline: 5s}\nbreakers: {payments: {}}\n")
                           .value())
                  .has_value());
  EXPECT_TRUE(until([&] { return listeners() == 1; }));
}

TEST_F(SharedBreakerHints, AreNotNeeded) {
  server_.execute({"ACL", "SETUSER", "default", "-subscribe", "-publish"});
  Guard a = open();
  Guard b = open();
  Breaker one = breaker(a);
  Breaker two = breaker(b);
  ASSERT_TRUE(told(one, false) && told(two, false));
  go_together(one, two);
  EXPECT_FALSE(one.snapshot().pushed);
}

TEST_F(SharedBreakerHints, ComeAgainWhereTheirConnectionOrTheServerWasLost) {
  Guard a = open();
  Guard b = open();
  Breaker one = breaker(a);
  Breaker two = breaker(b);
  ASSERT_TRUE(told(one) && told(two));
  const std::set<std::string> before = connections();
  ASSERT_EQ(before.size(), 2U);
  server_.execute({"CLIENT", "KILL", "TYPE", "pubsub"});
  EXPECT_TRUE(until([&] {
    const std::set<std::string> now = connections();
    return now.size() == 2 && std::none_of(now.begin(), now.end(), [&](const std::string& id) {
             return before.contains(id);
           });
  }));
  ASSERT_TRUE(told(one) && told(two));
  go_together(one, two);
  server_.kill();
  ASSERT_TRUE(until([&] { return !one.snapshot().pushed && !two.snapshot().pushed; }));
  server_.start();
  ASSERT_TRUE(told(one) && told(two));
  go_together(one, two);
}

TEST_F(SharedBreakerHints, AFloodOfThemIsNotListenedToAndHarmsNobody) {
  Guard a = open();
  Guard b = open();
  Breaker one = breaker(a);
  Breaker two = breaker(b);
  ASSERT_TRUE(told(one) && told(two));
  // More at once than a second may bring: one script publishes them.
  const std::string flood = "for i = 1, " + std::to_string(4 * guard::CircuitHints::kMost) +
                            " do redis.call('PUBLISH', KEYS[1], 'x') end";
  // Again and again, for a rest could be over before this thread has looked.
  bool one_rested = false;
  bool two_rested = false;
  ASSERT_TRUE(until([&] {
    server_.execute({"EVAL", flood, "1", kChannel});
    one_rested |= !one.snapshot().pushed;
    two_rested |= !two.snapshot().pushed;
    return one_rested && two_rested;
  }));
  go_together(one, two);
  EXPECT_TRUE(told(one) && told(two)) << "after a rest";
}

TEST_F(SharedBreakerHints, OfWhateverBytesAreOnlyHints) {
  Guard a = open();
  Breaker one = breaker(a);
  ASSERT_TRUE(told(one));
  for (const std::string& bytes : {std::string(), std::string("open"), std::string(60'000, '\xff')})
    server_.execute({"PUBLISH", kChannel, bytes});
  // Longer than what is held of a message: the connection is replaced.
  server_.execute({"PUBLISH", kChannel, std::string(1'000'000, 'x')});
  EXPECT_TRUE(told(one));
  EXPECT_EQ(one.state(), BreakerState::closed);
  EXPECT_TRUE(one.admit());
}

TEST_F(SharedBreakerHints, ComeFromTheServerThatASentinelNames) {
  RedisServer sentinel(
      {.sentinel = "sentinel monitor main 127.0.0.1 " + std::to_string(server_.port()) + " 1\n"});
  Guard a = open_at("redis+sentinel://127.0.0.1:" + std::to_string(sentinel.port()) + "/main");
  ASSERT_TRUE(told(breaker(a)));
  EXPECT_EQ(listeners(), 1);
}

TEST(SharedBreakerHintsOnACluster, ComeFromWhereTheRecordIs) {
  testing::RedisCluster cluster;
  Guard a = Guard::open(Policy::parse("store: {url: '" + cluster.url() +
                                      "', deadline: 500ms, startup: degrade}\n"
                                      "breakers: {payments: {shared: true, open_wait: 60s}}\n")
                            .value())
                .value();
  Breaker one = a.breaker("payments").value();
  EXPECT_TRUE(until([&] { return one.snapshot().pushed; }));
}

}  // namespace
}  // namespace weir
