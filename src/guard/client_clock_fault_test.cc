// `clock: client` on a real Redis: each worker's own clock decides, as far as it goes with the
// store's; and several regions, each with a store of its own.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "guard/impl.h"
#include "ladder/bound.h"
#include "ladder/explain.h"
#include "limit/client_skew.h"
#include "testing/redis_server.h"
#include "weir/guard.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::RedisServer;

// The machine's, but for its wall, which is off by so much.
class WrongClock final : public Clock {
 public:
  Instant now() const noexcept override { return Clock::real().now() + Nanos(ahead_.load()); }
  MonoTime mono() const noexcept override { return Clock::real().mono(); }
  void sleep_until(MonoTime until) override { Clock::real().sleep_until(until); }
  void set_ahead(Nanos by) { ahead_ = by.count(); }

 private:
  std::atomic<std::int64_t> ahead_{0};
};

class HeardFaults final : public Observer {
 public:
  void on_store_event(const StoreEvent& event) override {
    std::lock_guard lock(mutex_);
    if (event.kind == StoreEvent::Kind::fault) said_.emplace_back(event.why);
  }
  int count(std::string_view words) {
    std::lock_guard lock(mutex_);
    return static_cast<int>(std::count_if(said_.begin(), said_.end(), [&](const std::string& why) {
      return why.find(words) != std::string::npos;
    }));
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> said_;
};

// Once every key is asked at the store: a busy machine may be slow to connect.
Guard answered(Guard guard, std::string_view route) {
  const MonoTime give_up = Clock::real().mono() + 20s;
  while ((guard.check(route, {{"user", "nobody"}}, {.cost = 0}).rung != Rung::store ||
          guard.impl().shared()->state_json().find("\"state\":\"closed\"") == std::string::npos) &&
         Clock::real().mono() < give_up) {
  }
  return guard;
}

class ClientClock : public ::testing::Test {
 protected:
  // A tenth of a day's worth at once, by each algorithm.
  std::string policy(const std::string& clock = "clock: client") const {
    return "store:\n  url: redis://127.0.0.1:" + std::to_string(redis_.port()) +
           "\n  deadline: 2s\n  workers: {of: 3, index: 0}\n  " + clock + R"(
inputs: [user]
routes:
  gcra: {limits: [{requests: 10, per: day, by: [user], algorithm: gcra}], protects: security}
  fixed: {limits: [{requests: 10, per: day, by: [user], algorithm: fixed_window}], protects: security}
  sliding: {limits: [{requests: 10, per: day, by: [user], algorithm: sliding_window}], protects: security}
  log: {limits: [{requests: 10, per: day, by: [user], algorithm: sliding_log}], protects: security}
)";
  }
  Guard open(WrongClock& clock, const std::string& how = "clock: client") {
    return answered(
        Guard::open(Policy::parse(policy(how)).value(), {.clock = &clock, .observer = &heard_})
            .value(),
        "log");
  }
  // The arrival time that the store keeps of the only gcra counter, less the one interval that one
  // charge adds: when the charge was, by the clock that decided.
  Instant charged_at() {
    for (const std::string& key : redis_.keys("weir:1:*")) {
      const std::string value = redis_.text({"GET", key});
      if (value.size() != 33 || value[0] != 'g') continue;
      const auto uint = [&](std::size_t at, std::size_t bytes) {
        std::uint64_t out = 0;
        for (std::size_t i = 0; i < bytes; ++i)
          out = out << 8 | static_cast<unsigned char>(value[at + i]);
        return static_cast<std::int64_t>(out);
      };
      const Nanos arrival = std::chrono::seconds(uint(24, 5)) + Nanos(uint(29, 4));
      return Instant{arrival - Nanos(24h) / 10};
    }
    ADD_FAILURE() << "no gcra counter";
    return {};
  }

  RedisServer redis_;
  HeardFaults heard_;
};

TEST_F(ClientClock, CountsByTheWorkersOwnTime) {
  WrongClock clock;
  clock.set_ahead(300ms);
  Guard guard = open(clock);
  const Instant before = clock.now();
  const Decision decision = guard.check("gcra", {{"user", "u"}});
  const Instant after = clock.now();
  ASSERT_EQ(decision.rung, Rung::store) << decision.json();
  EXPECT_GE(charged_at(), before);
  EXPECT_LE(charged_at(), after);
  EXPECT_GE(decision.decided_at, before);
  EXPECT_LE(decision.decided_at, after);
  EXPECT_EQ(heard_.count("clock: client"), 0);
  EXPECT_NE(guard.impl().shared()->state_json().find("\"clock\":\"client\""), std::string::npos);
}

TEST_F(ClientClock, IsNotTakenUnlessItIsSaid) {
  WrongClock clock;
  clock.set_ahead(300ms);
  Guard guard = open(clock, "clock: store");
  const Instant before = Clock::real().now();
  ASSERT_TRUE(guard.check("gcra", {{"user", "u"}}).allowed());
  EXPECT_GE(charged_at(), before - 1us) << "the store tells whole microseconds";
  EXPECT_LE(charged_at(), Clock::real().now());
}

TEST_F(ClientClock, FarOffGoesNoFurtherThanTheArithmeticForgivesAndSaysSo) {
  constexpr Nanos kMost(limit::kMostClientSkewNs);
  for (const Nanos off : std::initializer_list<Nanos>{1h, -1h}) {
    redis_.execute({"FLUSHALL"});
    WrongClock clock;
    clock.set_ahead(off);
    Guard guard = open(clock);
    const Instant before = Clock::real().now();
    ASSERT_EQ(guard.check("gcra", {{"user", "u"}}).rung, Rung::store);
    const Nanos held = off > 0s ? kMost : -kMost;
    // The store's time is known to half a round trip, which a busy machine makes long.
    EXPECT_GE(charged_at(), before + held - 10s);
    EXPECT_LE(charged_at(), Clock::real().now() + held + 10s);
    EXPECT_EQ(heard_.count(off > 0s ? "ms ahead of the store's" : "ms behind the store's"), 1);
  }
}

// Each of them took what the others wrote for that of a clock that was set, and brought it back to
// where its own could reach it: which refilled the key for the next.
TEST_F(ClientClock, WorkersThatDisagreeNeitherRefillAKeyNorLockIt) {
  std::vector<std::unique_ptr<WrongClock>> clocks;
  std::vector<Guard> guards;
  for (const Nanos off : std::initializer_list<Nanos>{0s, 26h, -26h, 5s, -5s, 350ms, -350ms}) {
    clocks.push_back(std::make_unique<WrongClock>());
    clocks.back()->set_ahead(off);
    guards.push_back(open(*clocks.back()));
  }
  for (const char* route : {"gcra", "fixed", "sliding", "log"}) {
    SCOPED_TRACE(route);
    int admitted = 0;
    const Nanos most = route == std::string_view("sliding") ? 24h + 144min : 24h;
    const auto ask = [&](Guard& guard) {
      const Decision decision = guard.check(route, {{"user", "u"}});
      admitted += decision.allowed() ? 1 : 0;
      // Nobody is late for what the own clock shows, and nobody waits longer than the rule: at the
      // start of a day a window that slides has room once a tenth of the next one is over.
      EXPECT_NE(decision.verdict, Verdict::refused) << decision.json();
      if (decision.retry_after) {
        EXPECT_LE(*decision.retry_after, most + 1s) << decision.json();
      }
    };
    for (int i = 0; i < 8; ++i)
      for (Guard& guard : guards) ask(guard);
    // And clocks that are set under way.
    for (int i = 0; i < 8; ++i) {
      for (std::size_t g = 0; g < guards.size(); ++g) {
        clocks[g]->set_ahead((i % 2 == 0 ? 1 : -1) * Nanos(std::chrono::hours(25 + g)));
        ask(guards[g]);
      }
    }
    EXPECT_EQ(admitted, 10);
  }
}

// A policy loaded long ago by a worker whose clock is a day ahead was the latest for a day.
TEST_F(ClientClock, ALoadIsAsOldAsItIsWhateverItsWorkersClockShows) {
  for (const char* how : {"clock: store", "clock: client"}) {
    SCOPED_TRACE(how);
    redis_.execute({"FLUSHALL"});
    WrongClock ahead, right;
    ahead.set_ahead(24h);
    Guard old = open(ahead, how);
    // A good while before the other, as far as a busy machine can tell.
    const MonoTime loaded = Clock::real().mono();
    while (Clock::real().mono() - loaded < 1s) (void)old.check("fixed", {{"user", "warm"}});
    std::string text = policy(how);
    text.replace(text.find("fixed: {limits: [{requests: 10"), 30, "fixed: {limits: [{requests: 6");
    Guard fresh = answered(
        Guard::open(Policy::parse(text).value(), {.clock = &right, .observer = &heard_}).value(),
        "log");
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(old.check("fixed", {{"user", "u"}}, {.cost = 1}).allowed());
      const Decision decision = fresh.check("fixed", {{"user", "u"}});
      ASSERT_TRUE(decision.allowed());
      ASSERT_EQ(decision.rules()[0].limit, 6u);
    }
    EXPECT_EQ(old.check("fixed", {{"user", "u"}}).verdict, Verdict::limited)
        << "six in all, by the later numbers";
  }
}

TEST(Regions, EachGrantsTheWholeLimitAndAllTogetherWhatExplainPrints) {
  RedisServer east, west;
  const auto policy_of = [](const RedisServer& server) {
    return Policy::parse("store: {url: 'redis://127.0.0.1:" + std::to_string(server.port()) +
                         "', deadline: 2s, regions: 2}\n"
                         "inputs: [user]\n"
                         "routes:\n"
                         "  search:\n"
                         "    limits: [{requests: 10, per: day, by: [user], algorithm: "
                         "fixed_window}]\n"
                         "    protects: capacity\n"
                         "    ceiling: 50 per second\n")
        .value();
  };
  const auto explained = ladder::explain(policy_of(east).model(), {.workers = 1}).value();
  const auto& states = explained.routes[0].states;
  const auto up = states[static_cast<std::size_t>(ladder::StoreState::answers)].bounds[0].most;
  const auto changing =
      states[static_cast<std::size_t>(ladder::StoreState::returning)].bounds[0].most;
  ASSERT_EQ(up, 20u);
  ASSERT_EQ(changing, 40u);
  Guard one = answered(Guard::open(policy_of(east)).value(), "search");
  Guard two = answered(Guard::open(policy_of(west)).value(), "search");
  std::uint64_t admitted = 0;
  const auto ask_all = [&] {
    for (int i = 0; i < 30; ++i) {
      for (Guard* guard : {&one, &two})
        admitted += guard->check("search", {{"user", "u"}}).allowed() ? 1U : 0U;
    }
  };
  ask_all();
  EXPECT_EQ(admitted, *up);
  // A region that loses its store has its parts on top of nothing: they were used there.
  east.kill();
  ask_all();
  EXPECT_LE(admitted, *changing);
}

}  // namespace
}  // namespace weir
