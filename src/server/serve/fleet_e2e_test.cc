// Several servers, each a process of its own, that keep one limit on one Redis: exactly while it
// answers, and within the bound that is printed while it does not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "ladder/bound.h"
#include "limit/numbers.h"
#include "server/serve/served_process.h"
#include "testing/redis_server.h"

namespace weir::server {
namespace {

using testing::RedisServer;

constexpr std::uint32_t kLimit = 40;

class FleetOfServers : public ::testing::Test {
 protected:
  static std::string policy(const RedisServer& redis) {
    return "store: {url: 'redis://127.0.0.1:" + std::to_string(redis.port()) +
           R"(', deadline: 500ms, breaker: {cooldown: 5s, max_cooldown: 10s}}
inputs: [user]
routes:
  search:
    limits: [{requests: )" +
           std::to_string(kLimit) + R"(, per: day, by: [user], algorithm: fixed_window}]
    protects: capacity
  once:
    limits: [{requests: 1, per: day, by: [user], algorithm: fixed_window}]
    protects: capacity
)";
  }

  enum class Wait { until_ready, until_parts };
  void begin(std::size_t servers, Wait wait = Wait::until_parts) {
    for (std::size_t i = 0; i < servers; ++i) {
      servers_.push_back(std::make_unique<ServedProcess>(policy(redis_)));
      ASSERT_TRUE(servers_.back()->ready()) << servers_.back()->err();
      clients_.push_back(std::make_unique<TestClient>(servers_.back()->http()));
    }
    if (wait == Wait::until_ready) return;
    // Each has its part, and knows of all the others.
    const std::string all = "\"workers\":" + std::to_string(servers) + ",\"has_part\":true";
    for (const auto& server : servers_) {
      ASSERT_TRUE(ServedProcess::within([&] {
        return server->admin("GET", "/store").body.find(all) != std::string::npos;
      })) << server->admin("GET", "/store").body;
    }
  }
  // Whether that server let one request of that user through.
  bool asks(std::size_t server, const std::string& route, const std::string& user) {
    const auto answer = clients_[server]->ask(
        "POST", "/v1/check",
        R"({"route":")" + route + R"(","descriptors":{"user":")" + user + R"("}})");
    EXPECT_TRUE(answer) << "no answer";
    if (!answer) return false;
    EXPECT_THAT(answer->status, ::testing::AnyOf(200, 429, 503)) << answer->body;
    return answer->status == 200;
  }
  // Redis is gone, and every server has noticed.
  void lose_the_store() {
    redis_.kill();
    for (std::size_t i = 0; i < servers_.size(); ++i) {
      for (int n = 0; n < 8; ++n) (void)asks(i, "once", "noticing" + std::to_string(n));
      ASSERT_TRUE(ServedProcess::within([&] {
        return servers_[i]->admin("GET", "/store").body.find("\"state\":\"open\"") !=
               std::string::npos;
      }));
    }
  }

  RedisServer redis_;
  std::vector<std::unique_ptr<ServedProcess>> servers_;
  std::vector<std::unique_ptr<TestClient>> clients_;
};

TEST_F(FleetOfServers, IsExactInSumWhileTheStoreAnswers) {
  begin(4, Wait::until_ready);
  std::atomic<int> admitted{0};
  std::atomic<int> once{0};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 25; ++n) admitted += asks(i, "search", "u") ? 1 : 0;
      for (int n = 0; n < 3; ++n) once += asks(i, "once", "u") ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admitted, static_cast<int>(kLimit));
  EXPECT_EQ(once, 1);
}

// Twenty users, each asked for by the servers as chance has it, before and after the store is lost.
TEST_F(FleetOfServers, StaysWithinTheBoundWhateverTheTrafficWhenTheStoreIsLost) {
  begin(4);
  constexpr int kSeeds = 20;
  const auto numbers = limit::Numbers::make({.algorithm = Algorithm::fixed_window,
                                             .limit = kLimit,
                                             .period = {.length = std::chrono::hours(24)}})
                           .value();
  const auto bound = ladder::most_admitted(numbers, FailurePolicy::bounded,
                                           {.workers = 4, .cut_off = 4, .store_answered = true});
  ASSERT_TRUE(bound);
  ASSERT_EQ(*bound, 2 * kLimit);
  const auto name = [](int seed) { return "seed" + std::to_string(seed); };
  // Skewed: each server has half the traffic of the one before it, in an order of chance.
  const auto server_of = [](std::mt19937& random, const std::vector<std::size_t>& order) {
    const auto draw = random() % 15;
    return order[draw < 8 ? 0 : draw < 12 ? 1 : draw < 14 ? 2 : 3];
  };
  std::vector<int> admitted(kSeeds);
  std::vector<std::mt19937> randoms;
  std::vector<std::vector<std::size_t>> orders;
  for (int seed = 0; seed < kSeeds; ++seed) {
    std::mt19937& random = randoms.emplace_back(static_cast<std::uint32_t>(seed + 1));
    std::vector<std::size_t>& order = orders.emplace_back(std::vector<std::size_t>{0, 1, 2, 3});
    std::shuffle(order.begin(), order.end(), random);
    // Something of the window is used already: nothing, some, or all of it.
    const auto before = random() % (kLimit + 10);
    for (unsigned long n = 0; seed % 4 != 0 && n < before; ++n) {
      admitted[seed] += asks(server_of(random, order), "search", name(seed)) ? 1 : 0;
    }
    EXPECT_LE(admitted[seed], static_cast<int>(kLimit)) << "seed " << seed;
  }
  lose_the_store();
  for (int seed = 0; seed < kSeeds; ++seed) {
    int away = 0;
    if (seed % 4 == 0) {
      // Each is offered more than its part: all parts are used, and no more.
      for (std::size_t i = 0; i < 4; ++i) {
        for (std::uint32_t n = 0; n < kLimit / 4 + 2; ++n) {
          away += asks(i, "search", name(seed)) ? 1 : 0;
        }
      }
      EXPECT_GE(away, static_cast<int>(kLimit * 95 / 100)) << "seed " << seed;
      EXPECT_LE(away, static_cast<int>(kLimit)) << "seed " << seed;
    } else {
      for (std::uint32_t n = 0; n < 2 * kLimit; ++n) {
        away += asks(server_of(randoms[seed], orders[seed]), "search", name(seed)) ? 1 : 0;
      }
    }
    EXPECT_LE(admitted[seed] + away, static_cast<int>(*bound)) << "seed " << seed;
  }
}

TEST_F(FleetOfServers, OfThreeOneHasALimitOfOne) {
  begin(3);
  lose_the_store();
  for (int key = 0; key < 12; ++key) {
    int admitted = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      for (int n = 0; n < 2; ++n) admitted += asks(i, "once", "k" + std::to_string(key)) ? 1 : 0;
    }
    EXPECT_EQ(admitted, 1) << key;
  }
}

// One joins, one leaves and comes back, one dies, all while the store is away: each spends its own
// part, and nobody another's.
TEST_F(FleetOfServers, SpendTheirOwnPartsThoughWorkersComeAndGoInAnOutage) {
  const auto root =
      std::filesystem::path(::testing::TempDir()) / ("weir_fleet_" + std::to_string(::getpid()));
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root);
  const auto serve = [&](const std::string& name) {
    return std::make_unique<ServedProcess>(policy(redis_), [&](ServeOptions& options) {
      options.state_folder = (root / name).string();
    });
  };
  const auto add = [&](const std::string& name) {
    servers_.push_back(serve(name));
    ASSERT_TRUE(servers_.back()->ready()) << servers_.back()->err();
    clients_.push_back(std::make_unique<TestClient>(servers_.back()->http()));
  };
  for (const char* name : {"a", "b", "c"}) add(name);
  for (const auto& server : servers_) {
    ASSERT_TRUE(ServedProcess::within([&] {
      return server->admin("GET", "/store").body.find("\"workers\":3,\"has_part\":true") !=
             std::string::npos;
    })) << server->admin("GET", "/store").body;
  }
  const auto spends = [&](std::size_t server, const std::string& user, std::uint32_t offered) {
    std::uint32_t admitted = 0;
    for (std::uint32_t n = 0; n < offered; ++n) admitted += asks(server, "search", user) ? 1 : 0;
    return admitted;
  };
  lose_the_store();
  EXPECT_EQ(spends(0, "u", 5), 5u);
  // Whoever comes now knows of nobody, and has no part.
  add("d");
  EXPECT_EQ(spends(3, "u", 2 * kLimit), 0u);
  EXPECT_THAT(servers_[3]->admin("GET", "/store").body, ::testing::HasSubstr("\"has_part\":false"));
  // Who leaves takes its part along.
  servers_[0]->signal(SIGTERM);
  EXPECT_EQ(servers_[0]->wait(), 0);
  const std::uint32_t others = spends(1, "u", 2 * kLimit) + spends(2, "u", 2 * kLimit);
  EXPECT_GE(others, kLimit - kLimit / 3 - 1);
  EXPECT_LE(others, kLimit - kLimit / 3);
  // It comes back, and has it again: what it had spent in this outage is told by nobody.
  servers_[0] = serve("a");
  ASSERT_TRUE(servers_[0]->ready()) << servers_[0]->err();
  clients_[0] = std::make_unique<TestClient>(servers_[0]->http());
  EXPECT_EQ(spends(0, "u", 2 * kLimit), kLimit - others);
  const auto numbers = limit::Numbers::make({.algorithm = Algorithm::fixed_window,
                                             .limit = kLimit,
                                             .period = {.length = std::chrono::hours(24)}})
                           .value();
  const auto bound =
      ladder::most_admitted(numbers, FailurePolicy::bounded,
                            {.workers = 3, .cut_off = 3, .store_answered = false, .replaced = 1});
  ASSERT_TRUE(bound);
  EXPECT_LE(5 + kLimit, *bound);
  // One that dies is missed by nobody while the store is away.
  servers_[1]->signal(SIGKILL);
  EXPECT_EQ(servers_[1]->wait(), 128 + SIGKILL);
  const std::uint32_t left = spends(0, "v", 2 * kLimit) + spends(2, "v", 2 * kLimit);
  EXPECT_GE(left, kLimit - kLimit / 3 - 1);
  EXPECT_LE(left, kLimit - kLimit / 3);
  // The store is back: all three are exact again, in sum.
  redis_.start();
  for (const std::size_t server : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) {
    EXPECT_TRUE(ServedProcess::within([&] {
      return servers_[server]->admin("GET", "/store").body.find("\"state\":\"closed\"") !=
             std::string::npos;
    })) << servers_[server]->admin("GET", "/store").body;
  }
  EXPECT_EQ(spends(0, "w", kLimit) + spends(2, "w", kLimit) + spends(3, "w", kLimit), kLimit);
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace weir::server
