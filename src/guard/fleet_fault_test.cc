// Several workers in one process on a real Redis: who has which part of a limit while the store is
// away, and what a store that lost its data gets back.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
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
using testing::kPatience;
using testing::RedisServer;

class Heard final : public Observer {
 public:
  void on_store_event(const StoreEvent& event) override {
    std::lock_guard lock(mutex_);
    events_.emplace_back(event.kind, std::string(event.why));
  }
  int count(StoreEvent::Kind kind) {
    std::lock_guard lock(mutex_);
    int n = 0;
    for (const auto& [k, why] : events_) n += k == kind ? 1 : 0;
    return n;
  }

 private:
  std::mutex mutex_;
  std::vector<std::pair<StoreEvent::Kind, std::string>> events_;
};

bool within(const std::function<bool()>& done) {
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= give_up) return false;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return true;
}

class FleetOfGuards : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/weir-fleet-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string policy(const std::string& workers) const {
    return "store:\n  url: redis://127.0.0.1:" + std::to_string(server_.port()) +
           "\n  deadline: " + deadline_ + "\n" +
           (workers.empty() ? "" : "  workers: " + workers + "\n") + R"(
inputs: [user]
routes:
  search:
    limits: [{requests: 100, per: day, by: [user], algorithm: fixed_window}]
    protects: capacity
  slow:
    limits: [{requests: 100, per: day, by: [user], algorithm: gcra}]
    protects: capacity
  log:
    limits: [{requests: 100, per: day, by: [user], algorithm: sliding_log}]
    protects: capacity
)";
  }
  Guard open(const std::string& workers = "", FleetRole role = FleetRole::worker) {
    return Guard::open(Policy::parse(policy(workers)).value(), {.observer = &heard_, .role = role})
        .value();
  }
  static guard::WorkerPart part(Guard& guard) { return guard.impl().shared()->part(); }
  static bool whole(std::vector<Guard*> guards) {
    return within([&] {
      for (Guard* g : guards) {
        if (!part(*g).has_part || part(*g).workers != guards.size()) return false;
      }
      return true;
    });
  }
  // Offers every worker more than the limit while nobody can count, and says what was admitted.
  static int offered(std::vector<Guard*> guards, const std::string& user,
                     const std::string& route = "search") {
    int admitted = 0;
    for (Guard* g : guards) {
      for (int i = 0; i < 150; ++i) {
        const Decision d = g->check(route, {{"user", user}});
        EXPECT_NE(d.rung, Rung::store);
        admitted += d.allowed() ? 1 : 0;
      }
    }
    return admitted;
  }

  RedisServer server_;
  Heard heard_;
  std::string root_;
  std::string deadline_ = "300ms";  // a busy machine is no fault
};

TEST_F(FleetOfGuards, OneWorkerHoldsAllAndThreeDivideWithoutBeingTold) {
  Guard a = open();
  ASSERT_TRUE(whole({&a}));
  Guard b = open();
  Guard c = open();
  ASSERT_TRUE(whole({&a, &b, &c})) << a.impl().shared()->state_json();
  server_.kill();
  EXPECT_EQ(offered({&a, &b, &c}, "u"), 100) << "the parts sum to the limit";
  EXPECT_EQ(offered({&a, &b, &c}, "v", "slow"), 100);
}

// Each of three workers that believes to be alone admits the whole limit: nobody sees that before
// the store adds up what they tell.
TEST_F(FleetOfGuards, ThatIsLargerThanItIsSaidToBeIsFoundOutWhenTheStoreIsBack) {
  const auto over_bound = [](Guard& guard) {
    std::string text;
    guard.impl().metrics().write(text);
    const std::string sample = "\nweir_over_bound_total{shard=\"0\"} ";
    return std::stoi(text.substr(text.find(sample) + sample.size()));
  };
  const auto outage = [&](std::vector<Guard*> guards, const std::string& route) {
    server_.pause();
    const int admitted = offered(guards, "u", route);
    server_.resume();
    int found = 0;
    for (Guard* guard : guards) {
      EXPECT_TRUE(within([&] {
        return guard->check(route, {{"user", "u"}}, {.cost = 0}).rung == Rung::store;
      }));
      found += over_bound(*guard);
    }
    return std::pair(admitted, found);
  };
  deadline_ = "100ms";  // many wait for it, and nothing is asked of a store that answers
  for (const std::string route : {"search", "slow", "log"}) {
    SCOPED_TRACE(route);
    {
      Guard a = open("{of: 3, index: 0}");
      Guard b = open("{of: 3, index: 1}");
      Guard c = open("{of: 3, index: 2}");
      EXPECT_EQ(outage({&a, &b, &c}, route), std::pair(100, 0));
    }
    server_.execute({"FLUSHALL"});
    Guard a = open("{of: 1}");
    Guard b = open("{of: 1}");
    Guard c = open("{of: 1}");
    const auto [admitted, found] = outage({&a, &b, &c}, route);
    EXPECT_EQ(admitted, 300);
    EXPECT_GE(found, 1);
    server_.execute({"FLUSHALL"});
  }
}

TEST_F(FleetOfGuards, AWorkerThatCrashesKeepsItsPartAndARestartTakesItUp) {
  Guard a = open("{name: a}");
  std::optional<Guard> b = open("{name: b, state: '" + root_ + "/b'}");
  Guard c = open("{name: c}");
  ASSERT_TRUE(whole({&a, &*b, &c}));
  ASSERT_TRUE(within([&] { return !std::filesystem::is_empty(root_ + "/b"); }));
  b.reset();
  server_.kill();
  const int two = offered({&a, &c}, "u");
  EXPECT_LT(two, 100);
  EXPECT_GE(two, 66);
  // It starts while the store is away: by what it wrote down.
  b = open("{name: b, state: '" + root_ + "/b'}");
  EXPECT_TRUE(part(*b).has_part);
  EXPECT_EQ(part(*b).workers, 3U);
  EXPECT_EQ(two + offered({&*b}, "u"), 100);
  EXPECT_NE(b->impl().shared()->state_json().find("\"from\":\"state_folder\""), std::string::npos);
  EXPECT_EQ(heard_.count(StoreEvent::Kind::no_part), 0);
}

TEST_F(FleetOfGuards, AStartWithoutStoreViewOrNumberHasNoPartAndSaysSo) {
  server_.kill();
  Guard a = open();
  EXPECT_FALSE(part(a).has_part);
  EXPECT_TRUE(within([&] { return heard_.count(StoreEvent::Kind::no_part) == 1; }));
  const Decision d = a.check("search", {{"user", "u"}});
  EXPECT_EQ(d.verdict, Verdict::refused);
  EXPECT_EQ(d.http_status(), 503);
  EXPECT_NE(a.impl().shared()->state_json().find("why_no_part"), std::string::npos);
  server_.start();
  EXPECT_TRUE(whole({&a}));
  EXPECT_TRUE(within([&] { return heard_.count(StoreEvent::Kind::part) == 1; }));
}

TEST_F(FleetOfGuards, AStartWithoutStoreHasThePartThatItsPolicyNames) {
  server_.kill();
  Guard a = open("{of: 4}");
  EXPECT_EQ(offered({&a}, "u"), 25);
}

TEST_F(FleetOfGuards, WhoLeavesCleanlyUnderANameThatDoesNotLastFreesItsPartAtOnce) {
  Guard a = open();
  std::optional<Guard> b = open();
  ASSERT_TRUE(whole({&a, &*b}));
  b.reset();
  EXPECT_TRUE(whole({&a}));
  server_.kill();
  EXPECT_EQ(offered({&a}, "u"), 100);
}

TEST_F(FleetOfGuards, AGuestDecidesLikeAnyoneAndTakesNobodysPart) {
  Guard a = open();
  Guard guest = open("", FleetRole::guest);
  EXPECT_TRUE(guest.check("search", {{"user", "u"}}).allowed());
  Guard b = open();
  ASSERT_TRUE(whole({&a, &b})) << "two, not three";
  EXPECT_FALSE(part(guest).has_part);
}

TEST_F(FleetOfGuards, TwoProcessesOfOneNameDoNotSpendOnePartTwice) {
  Guard a = open("{name: same}");
  ASSERT_TRUE(whole({&a}));
  Guard b = open("{name: same}");
  ASSERT_TRUE(within([&] { return part(b).has_part; }));
  EXPECT_TRUE(within([&] { return !part(a).has_part; })) << "within a beat";
  EXPECT_EQ(heard_.count(StoreEvent::Kind::no_part), 1);
  EXPECT_NE(part(a).why_none.find("another process"), std::string::npos);
  server_.kill();
  EXPECT_EQ(offered({&a, &b}, "u"), 100);
}

TEST_F(FleetOfGuards, AnOutageOfFourWorkersStaysWithinItsBoundAndUsesIt) {
  Guard a = open();
  Guard b = open();
  Guard c = open();
  Guard d = open();
  const std::vector<Guard*> all{&a, &b, &c, &d};
  ASSERT_TRUE(whole(all));
  // A part of the window is used before; nobody but the store knows all of it.
  int before = 0;
  for (Guard* g : all) {
    for (int i = 0; i < 10; ++i) before += g->check("search", {{"user", "u"}}).allowed() ? 1 : 0;
  }
  EXPECT_EQ(before, 40);
  server_.pause();
  int away = 0;
  for (Guard* g : all) {
    for (int i = 0; i < 150; ++i) {
      away += g->check("search", {{"user", "u"}}).allowed() ? 1 : 0;
    }
  }
  EXPECT_LE(before + away, 200) << "L, and the parts of those cut off";
  EXPECT_GE(away, 57) << "95 % of what was last known to remain, divided";
  server_.resume();
  ASSERT_TRUE(within([&] {
    return a.check("search", {{"user", "probe"}}, {.cost = 0}).rung == Rung::store &&
           a.check("search", {{"user", "u"}}, {.cost = 0}).rung == Rung::store;
  }));
  int after = 0;
  for (int i = 0; i < 150; ++i) {
    for (Guard* g : all) after += g->check("search", {{"user", "u"}}).allowed() ? 1 : 0;
  }
  EXPECT_LE(before + away + after, 200);
}

TEST_F(FleetOfGuards, AStoreRestartedEmptyGetsBackWhatWasUsed) {
  Guard a = open("{name: a}");
  for (const char* route : {"search", "slow"}) {
    for (int i = 0; i < 60; ++i) ASSERT_TRUE(a.check(route, {{"user", "u"}}).allowed());
  }
  server_.kill();
  server_.start();
  for (const char* route : {"search", "slow"}) {
    ASSERT_TRUE(within([&] {
      const Decision d = a.check(route, {{"user", "u"}}, {.cost = 0});
      return d.rung == Rung::store;
    }));
    int more = 0;
    for (int i = 0; i < 150; ++i) more += a.check(route, {{"user", "u"}}).allowed() ? 1 : 0;
    EXPECT_EQ(more, 40) << route;
  }
  // Another worker finds it in the store.
  Guard b = open("{name: b}");
  EXPECT_EQ(b.check("search", {{"user", "u"}}).verdict, Verdict::limited);
}

TEST_F(FleetOfGuards, ARefundOrResetStaysWhateverPausesTheStore) {
  Guard a = open("{name: a}");
  Guard b = open("{name: b}");
  const Decision big = a.check("search", {{"user", "u"}}, {.cost = 100});
  ASSERT_TRUE(big.allowed());
  ASSERT_EQ(b.check("search", {{"user", "u"}}).verdict, Verdict::limited) << "b knows it as full";
  ASSERT_TRUE(a.refund(big).has_value());
  server_.pause();
  for (int i = 0; i < 10; ++i) (void)b.check("slow", {{"user", "w"}});
  server_.resume();
  // A pause is no loss: b's older knowledge is not brought.
  ASSERT_TRUE(within([&] {
    const Decision d = b.check("search", {{"user", "u"}}, {.cost = 0});
    return d.rung == Rung::store;
  }));
  EXPECT_TRUE(within([&] { return b.check("search", {{"user", "u"}}, {.cost = 90}).allowed(); }));
  ASSERT_TRUE(a.reset("search", {{"user", "u"}}).has_value());
  EXPECT_TRUE(a.check("search", {{"user", "u"}}, {.cost = 100}).allowed());
}

// A reset forgets what the store had counted. What is owed is use that it has not heard of.
TEST_F(FleetOfGuards, WhatIsToldAfterAResetCounts) {
  Guard a = open("{name: a}");
  Guard b = open("{name: b}");
  ASSERT_TRUE(whole({&a, &b}));
  server_.pause();
  for (Guard* each : {&a, &b}) {
    // An ask that is on its way would be counted there: from now on there is none.
    ASSERT_TRUE(within([&] {
      (void)each->check("search", {{"user", "w"}});
      return !each->impl().shared()->answering();
    }));
    for (int admitted = 0; admitted < 5;) {
      const Decision d = each->check("search", {{"user", "u"}});
      ASSERT_TRUE(d.allowed()) << d.json();
      ASSERT_EQ(d.rung, Rung::share) << d.json();
      ++admitted;
    }
  }
  server_.resume();
  // What the store says, as soon as it says something.
  const auto remaining = [](Guard& of) {
    std::optional<std::uint64_t> said;
    EXPECT_TRUE(within([&] {
      const Decision d = of.check("search", {{"user", "u"}}, {.cost = 0});
      if (d.rung == Rung::store && d.rules().size() == 1) said = d.rules()[0].remaining;
      return said.has_value();
    }));
    return said;
  };
  ASSERT_EQ(remaining(a), 95U) << "what a told";
  ASSERT_TRUE(within([&] { return a.reset("search", {{"user", "u"}}).has_value(); }));
  ASSERT_EQ(remaining(a), 100U) << "it is forgotten";
  EXPECT_EQ(remaining(b), 95U) << "what b told after it is not";
  EXPECT_EQ(remaining(a), 95U);
}

TEST_F(FleetOfGuards, AFlushedStoreIsNoticedByTheNextBeatAndGetsItsCountersBack) {
  Guard a = open("{name: a}");
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(a.check("search", {{"user", "u"}}).allowed());
  server_.execute({"FLUSHALL"});
  // The beat finds the fleet gone, and the self-test the epoch.
  ASSERT_TRUE(within([&] { return server_.keys("*epoch").size() == 1; }));
  // Answers come in order: that of the self-test is before this one.
  ASSERT_EQ(a.check("search", {{"user", "another"}}).rung, Rung::store);
  ASSERT_TRUE(whole({&a}));
  int more = 0;
  for (int i = 0; i < 150; ++i) more += a.check("search", {{"user", "u"}}).allowed() ? 1 : 0;
  EXPECT_EQ(more, 40);
}

TEST_F(FleetOfGuards, ShowsItsMembershipAndMetrics) {
  Guard a = open("{name: eu-1}");
  Guard b = open("{name: eu-2}");
  ASSERT_TRUE(whole({&a, &b}));
  ASSERT_TRUE(a.check("search", {{"user", "u"}}).allowed());
  const std::string state = a.impl().shared()->state_json();
  for (const char* part : {"\"worker\":\"eu-1\"", "\"name\":\"eu-2\"", "\"from\":\"store\"",
                           "\"workers\":2", "\"has_part\":true", "\"scripts\":{\"ask\":\"",
                           "\"rtt_us\":", "\"in_flight\":", "\"connected_for_ms\":"}) {
    EXPECT_NE(state.find(part), std::string::npos) << part << " in " << state;
  }
  std::string text;
  a.impl().metrics().write(text);
  for (const char* line :
       {"weir_workers{shard=\"0\"} 2\n", "weir_store_seconds_count{shard=\"0\"} ",
        "weir_clock_skew_seconds{shard=\"0\"} "}) {
    EXPECT_NE(text.find(line), std::string::npos) << line << " in " << text;
  }
}

}  // namespace
}  // namespace weir
