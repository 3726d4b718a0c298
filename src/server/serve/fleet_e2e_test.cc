// Several servers, each a process of its own, that keep one limit on one Redis: exactly while it
// answers, and within the bound that is printed while it does not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
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

constexpr std::uint32_t kFleetLimit = 40;

class FleetOfServers : public ::testing::Test {
 protected:
  FleetOfServers()
      : root_(std::filesystem::path(::testing::TempDir()) /
              ("weir_fleet_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~FleetOfServers() override {
    servers_.clear();  // they write there until they end
    std::filesystem::remove_all(root_);
  }

  std::string policy(const RedisServer& redis) const {
    return "store: {url: 'redis://127.0.0.1:" + std::to_string(redis.port()) +
           "', deadline: " + deadline_ + ", breaker: {cooldown: " + cooldown_ +
           ", max_cooldown: " + cooldown_ + R"(}}
inputs: [user]
routes:
  search:
    limits: [{requests: )" +
           std::to_string(kFleetLimit) + R"(, per: day, by: [user], algorithm: fixed_window}]
    protects: capacity
  once:
    limits: [{requests: 1, per: day, by: [user], algorithm: fixed_window}]
    protects: capacity
  log:
    limits: [{requests: )" +
           std::to_string(kFleetLimit) + R"(, per: day, by: [user], algorithm: sliding_log}]
    protects: capacity
  bucket:
    limits: [{requests: )" +
           std::to_string(kFleetLimit) + R"(, per: day, by: [user], algorithm: gcra}]
    protects: capacity
  guarded:
    limits: [{requests: 1, per: day, by: [user], algorithm: fixed_window}]
    protects: security
)";
  }

  enum class Wait { until_ready, until_parts };
  void begin(std::size_t servers, Wait wait = Wait::until_parts) {
    for (std::size_t i = 0; i < servers; ++i) {
      servers_.push_back(std::make_unique<ServedProcess>(policy(redis_)));
      ASSERT_TRUE(servers_.back()->ready()) << servers_.back()->err();
      clients_.push_back(std::make_unique<TestClient>(servers_.back()->http()));
    }
    if (wait == Wait::until_parts) until_parts();
  }
  // Each has its part, and knows of all the others.
  void until_parts() {
    const std::string all = "\"workers\":" + std::to_string(servers_.size()) + ",\"has_part\":true";
    for (const auto& server : servers_) {
      ASSERT_TRUE(until_it_says(*server, all)) << server->admin("GET", "/store").body;
    }
  }
  static bool until_it_says(ServedProcess& server, const std::string& text) {
    return ServedProcess::within(
        [&] { return server.admin("GET", "/store").body.find(text) != std::string::npos; });
  }
  // One that comes back under its name: it has a state folder.
  std::unique_ptr<ServedProcess> named(const std::string& name) {
    return std::make_unique<ServedProcess>(policy(redis_), [&](ServeOptions& options) {
      options.state_folder = (root_ / name).string();
    });
  }
  void add(std::unique_ptr<ServedProcess> server) {
    servers_.push_back(std::move(server));
    clients_.emplace_back();
    ASSERT_NO_FATAL_FAILURE(meet(servers_.size() - 1));
  }
  void replace(std::size_t i, std::unique_ptr<ServedProcess> server) {
    servers_[i] = std::move(server);
    ASSERT_NO_FATAL_FAILURE(meet(i));
  }
  void meet(std::size_t i) {
    ASSERT_TRUE(servers_[i]->ready()) << servers_[i]->err();
    clients_[i] = std::make_unique<TestClient>(servers_[i]->http());
  }
  std::uint32_t spends(std::size_t server, const std::string& user, std::uint32_t offered) {
    std::uint32_t admitted = 0;
    for (std::uint32_t n = 0; n < offered; ++n) admitted += asks(server, "search", user) ? 1 : 0;
    return admitted;
  }
  static std::optional<std::uint64_t> bound(const ladder::Exposure& exposure) {
    const auto numbers = limit::Numbers::make({.algorithm = Algorithm::fixed_window,
                                               .limit = kFleetLimit,
                                               .period = {.length = std::chrono::hours(24)}})
                             .value();
    return ladder::most_admitted(numbers, FailurePolicy::bounded, exposure);
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
    for (std::size_t i = 0; i < servers_.size(); ++i) notices(i);
  }
  // By asks that are refused, of which nothing is owed.
  void notices(std::size_t i) {
    for (int n = 0; n < 8; ++n) (void)asks(i, "guarded", "noticing" + std::to_string(n));
    ASSERT_TRUE(until_it_says(*servers_[i], "\"state\":\"open\""));
  }
  // Each call waits for a store that hangs.
  void both_notice() {
    std::thread first([this] { notices(0); });
    notices(1);
    first.join();
  }
  void until_the_store_decides() {
    for (const auto& server : servers_) {
      ASSERT_TRUE(until_it_says(*server, "\"state\":\"closed\""))
          << server->admin("GET", "/store").body;
    }
  }

  RedisServer redis_;
  // So long that a busy machine does not look like a store that is away. Of one that hangs, calls
  // wait as long.
  std::string deadline_ = "3s";
  std::string cooldown_ = "5s";
  const std::filesystem::path root_;
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
  EXPECT_EQ(admitted, static_cast<int>(kFleetLimit));
  EXPECT_EQ(once, 1);
}

// Twenty users, each asked for by the servers as chance has it, before and after the store is lost.
TEST_F(FleetOfServers, StaysWithinTheBoundWhateverTheTrafficWhenTheStoreIsLost) {
  begin(4);
  constexpr int kSeeds = 20;
  const auto most = bound({.workers = 4, .cut_off = 4, .store_answered = true});
  ASSERT_EQ(most, 2 * kFleetLimit);
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
    const auto before = random() % (kFleetLimit + 10);
    for (unsigned long n = 0; seed % 4 != 0 && n < before; ++n) {
      admitted[seed] += asks(server_of(random, order), "search", name(seed)) ? 1 : 0;
    }
    EXPECT_LE(admitted[seed], static_cast<int>(kFleetLimit)) << "seed " << seed;
  }
  lose_the_store();
  for (int seed = 0; seed < kSeeds; ++seed) {
    int away = 0;
    if (seed % 4 == 0) {
      // Each is offered more than its part: all parts are used, and no more.
      for (std::size_t i = 0; i < 4; ++i) {
        for (std::uint32_t n = 0; n < kFleetLimit / 4 + 2; ++n) {
          away += asks(i, "search", name(seed)) ? 1 : 0;
        }
      }
      EXPECT_GE(away, static_cast<int>(kFleetLimit * 95 / 100)) << "seed " << seed;
      EXPECT_LE(away, static_cast<int>(kFleetLimit)) << "seed " << seed;
    } else {
      for (std::uint32_t n = 0; n < 2 * kFleetLimit; ++n) {
        away += asks(server_of(randoms[seed], orders[seed]), "search", name(seed)) ? 1 : 0;
      }
    }
    EXPECT_LE(admitted[seed] + away, static_cast<int>(*most)) << "seed " << seed;
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
  for (const char* name : {"a", "b", "c"}) add(named(name));
  until_parts();
  lose_the_store();
  EXPECT_EQ(spends(0, "u", 5), 5u);
  // Whoever comes now knows of nobody, and has no part.
  add(named("d"));
  EXPECT_EQ(spends(3, "u", 2 * kFleetLimit), 0u);
  EXPECT_THAT(servers_[3]->admin("GET", "/store").body, ::testing::HasSubstr("\"has_part\":false"));
  // Who leaves takes its part along.
  servers_[0]->signal(SIGTERM);
  EXPECT_EQ(servers_[0]->wait(), 0);
  const std::uint32_t others = spends(1, "u", 2 * kFleetLimit) + spends(2, "u", 2 * kFleetLimit);
  EXPECT_GE(others, kFleetLimit - kFleetLimit / 3 - 1);
  EXPECT_LE(others, kFleetLimit - kFleetLimit / 3);
  // It comes back, and has it again: what it had spent in this outage is told by nobody.
  replace(0, named("a"));
  EXPECT_EQ(spends(0, "u", 2 * kFleetLimit), kFleetLimit - others);
  const auto most = bound({.workers = 3, .cut_off = 3, .store_answered = false, .replaced = 1});
  ASSERT_TRUE(most);
  EXPECT_LE(5 + kFleetLimit, *most);
  // One that dies is missed by nobody while the store is away.
  servers_[1]->signal(SIGKILL);
  EXPECT_EQ(servers_[1]->wait(), 128 + SIGKILL);
  const std::uint32_t left = spends(0, "v", 2 * kFleetLimit) + spends(2, "v", 2 * kFleetLimit);
  EXPECT_GE(left, kFleetLimit - kFleetLimit / 3 - 1);
  EXPECT_LE(left, kFleetLimit - kFleetLimit / 3);
  // The store is back: all three are exact again, in sum.
  redis_.start();
  for (const std::size_t server : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) {
    EXPECT_TRUE(until_it_says(*servers_[server], "\"state\":\"closed\""))
        << servers_[server]->admin("GET", "/store").body;
  }
  EXPECT_EQ(spends(0, "w", kFleetLimit) + spends(2, "w", kFleetLimit) + spends(3, "w", kFleetLimit),
            kFleetLimit);
}

// All are replaced between two outages of one window: those who come have the parts of those who
// went, and no more.
TEST_F(FleetOfServers, ThatIsRedeployedBetweenTwoOutagesOfOneWindowStaysWithinTheBound) {
  deadline_ = cooldown_ = "1s";
  begin(2);
  redis_.pause();
  both_notice();
  const std::uint32_t first = spends(0, "u", 8) + spends(1, "u", 8);
  EXPECT_EQ(first, 16u);
  redis_.resume();
  until_the_store_decides();
  // Told with the first ask, and so nothing is owed by those who go.
  const std::uint32_t between = spends(0, "u", 1) + spends(1, "u", 1);
  EXPECT_EQ(between, 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    servers_[i]->signal(SIGTERM);
    ASSERT_EQ(servers_[i]->wait(), 0);
  }
  for (std::size_t i = 0; i < 2; ++i) {
    replace(i, std::make_unique<ServedProcess>(policy(redis_)));
  }
  until_parts();
  redis_.pause();
  both_notice();
  // Who has never asked for this user knows nothing of what was used.
  const std::uint32_t second = spends(0, "u", 2 * kFleetLimit) + spends(1, "u", 2 * kFleetLimit);
  EXPECT_GE(second, kFleetLimit * 95 / 100);
  EXPECT_LE(second, kFleetLimit);
  redis_.resume();
  until_the_store_decides();
  // The first to come may find room that the other's units have not been told of yet.
  const std::uint32_t after = spends(0, "u", kFleetLimit) + spends(1, "u", kFleetLimit);
  EXPECT_EQ(spends(0, "u", 1) + spends(1, "u", 1), 0u) << "all of it is used, and told";
  const auto most = bound({.workers = 2, .cut_off = 2, .store_answered = true, .replaced = 2});
  ASSERT_TRUE(most);
  EXPECT_LE(first + between + second + after, *most);
}

// One of three is killed and comes back again and again: it is the same member each time, with its
// own part at once, and the others' parts stay as they are.
TEST_F(FleetOfServers, OfWhomOneCrashesAgainAndAgainAreNoMoreThanTheyAre) {
  for (const char* name : {"a", "b", "c"}) add(named(name));
  until_parts();
  constexpr int kCrashes = 5;
  for (int i = 0; i < kCrashes; ++i) {
    servers_[1]->signal(SIGKILL);
    ASSERT_EQ(servers_[1]->wait(), 128 + SIGKILL);
    replace(1, named("b"));
    EXPECT_TRUE(until_it_says(*servers_[1], "\"workers\":3,\"has_part\":true"))
        << servers_[1]->admin("GET", "/store").body;
  }
  until_parts();
  lose_the_store();
  const std::uint32_t others = spends(0, "u", 2 * kFleetLimit) + spends(2, "u", 2 * kFleetLimit);
  EXPECT_GE(others, kFleetLimit - kFleetLimit / 3 - 1);
  std::uint32_t its = spends(1, "u", 2 * kFleetLimit);
  EXPECT_EQ(others + its, kFleetLimit);
  // In the outage nobody remembers what it spent: + its part each time, as the bound says.
  for (std::uint32_t crashes = 1; crashes <= 2; ++crashes) {
    servers_[1]->signal(SIGKILL);
    ASSERT_EQ(servers_[1]->wait(), 128 + SIGKILL);
    replace(1, named("b"));
    its += spends(1, "u", 2 * kFleetLimit);
    const auto most =
        bound({.workers = 3, .cut_off = 3, .store_answered = false, .replaced = crashes});
    ASSERT_TRUE(most);
    EXPECT_LE(others + its, *most);
  }
  EXPECT_EQ(spends(0, "u", 1) + spends(2, "u", 1), 0u);
}

// One stands still, as a stopped or starved process does, through the beginning of an outage: its
// part is nobody else's meanwhile, and when it goes on it has that part and no more.
TEST_F(FleetOfServers, OfWhomOneStandsStillInAnOutageEachHasItsOwnPart) {
  begin(3);
  servers_[1]->signal(SIGSTOP);
  redis_.kill();
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) notices(i);
  const std::uint32_t others = spends(0, "u", 2 * kFleetLimit) + spends(2, "u", 2 * kFleetLimit);
  EXPECT_GE(others, kFleetLimit - kFleetLimit / 3 - 1);
  EXPECT_LE(others, kFleetLimit - kFleetLimit / 3);
  servers_[1]->signal(SIGCONT);
  notices(1);
  EXPECT_EQ(others + spends(1, "u", 2 * kFleetLimit), kFleetLimit);
  redis_.start();
  until_the_store_decides();
  EXPECT_EQ(spends(0, "w", kFleetLimit) + spends(1, "w", kFleetLimit) + spends(2, "w", kFleetLimit),
            kFleetLimit);
}

// Stopped for longer than its lease, it may be missed by one that joins: that one counts on four,
// the one that stood still on three. The excess is the joiner's part.
TEST_F(FleetOfServers, OfWhomOneStandsStillForLongerThanItsLeaseMayExceedByAJoinersPart) {
  begin(3);
  servers_[1]->signal(SIGSTOP);
  add(std::make_unique<ServedProcess>(policy(redis_)));
  // It waits for the lease of the one that cannot say that it has seen it.
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) {
    ASSERT_TRUE(until_it_says(*servers_[i], "\"workers\":4,\"has_part\":true"))
        << servers_[i]->admin("GET", "/store").body;
  }
  redis_.kill();
  std::uint32_t admitted = 0;
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}, std::size_t{3}}) {
    notices(i);
    admitted += spends(i, "u", 2 * kFleetLimit);
  }
  EXPECT_EQ(admitted, kFleetLimit - kFleetLimit / 4);
  servers_[1]->signal(SIGCONT);
  notices(1);
  admitted += spends(1, "u", 2 * kFleetLimit);
  EXPECT_GE(admitted, kFleetLimit * 95 / 100);
  EXPECT_LE(admitted, kFleetLimit + kFleetLimit / 4);
  redis_.start();
  until_the_store_decides();
  until_parts();
  std::uint32_t after = 0;
  for (std::size_t i = 0; i < servers_.size(); ++i) after += spends(i, "w", kFleetLimit);
  EXPECT_EQ(after, kFleetLimit);
}

// Requests are on their way when Redis is killed, and go on. What the store had charged and could
// not say any more comes on top of what the parts admit, within the bound.
TEST_F(FleetOfServers, StayWithinTheBoundThoughTheStoreIsKilledUnderTraffic) {
  begin(4);
  const std::vector<std::string> routes = {"search", "log", "bucket"};
  constexpr std::size_t kUsers = 4;
  std::vector<std::atomic<std::uint32_t>> admitted(routes.size() * kUsers);
  std::atomic<std::uint64_t> asked{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    threads.emplace_back([&, i] {
      std::mt19937 random(static_cast<std::uint32_t>(i + 1));
      while (!stop) {
        const std::size_t which = random() % admitted.size();
        const std::string user = "u" + std::to_string(which % kUsers);
        admitted[which] += asks(i, routes[which / kUsers], user) ? 1 : 0;
        ++asked;
      }
    });
  }
  EXPECT_TRUE(ServedProcess::within([&] { return asked >= 150; }));
  redis_.kill();
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    EXPECT_TRUE(until_it_says(*servers_[i], "\"state\":\"open\""));
  }
  const std::uint64_t then = asked;
  EXPECT_TRUE(ServedProcess::within([&] { return asked >= then + 4'000; }));
  stop = true;
  for (std::thread& thread : threads) thread.join();
  const auto most = bound({.workers = 4, .cut_off = 4, .store_answered = true});
  ASSERT_TRUE(most);
  for (std::size_t which = 0; which < admitted.size(); ++which) {
    const std::string of = routes[which / kUsers] + " u" + std::to_string(which % kUsers);
    EXPECT_LE(admitted[which], *most) << of;
    EXPECT_GE(admitted[which], kFleetLimit * 95 / 100) << of << ": each was offered its part";
  }
}

}  // namespace
}  // namespace weir::server
