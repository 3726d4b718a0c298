#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
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
using testing::kPatience;
using testing::RedisServer;

// Tells answered from hung, on a machine that is busy with something else.
constexpr auto kGenerous = seconds(5);

// Where exactness is the matter, the deadline leaves no room for a busy machine to be taken for a
// slow store.
std::string policy_on(const std::string& url, const std::string& more = "",
                      const std::string& deadline = "200ms") {
  return "store:\n  url: " + url + "\n  deadline: " + deadline +
         "\n  workers: {of: 2, index: 0}\n" + more + R"(
inputs: [user]
routes:
  login:
    limits: [{requests: 5, per: hour, by: [user], algorithm: fixed_window}]
    protects: security
  search:
    limits: [{requests: 10, per: hour, by: [user], algorithm: fixed_window}]
    protects: capacity
  status:
    limits: [{requests: 3, per: hour, by: [user]}]
    when_store_fails: open
  watched:
    limits: [{requests: 5, per: hour, by: [user]}]
    protects: security
    shadow: true
)";
}

// Remembers what became of the store.
class HeardKinds final : public Observer {
 public:
  void on_store_event(const StoreEvent& event) override {
    std::lock_guard lock(mutex_);
    events_.push_back(event.kind);
  }
  int count(StoreEvent::Kind kind) {
    std::lock_guard lock(mutex_);
    return static_cast<int>(std::count(events_.begin(), events_.end(), kind));
  }

 private:
  std::mutex mutex_;
  std::vector<StoreEvent::Kind> events_;
};

class SharedGuard : public ::testing::Test {
 protected:
  // Once every key is asked at the store, where it is there: a busy machine may be slow to connect.
  Guard open(const std::string& deadline = "500ms") {
    Guard guard = Guard::open(Policy::parse(policy_on(server_.url(), "", deadline)).value(),
                              {.observer = &heard_})
                      .value();
    const auto closed = [&] {
      return guard.impl().shared()->state_json().find("\"state\":\"closed\"") != std::string::npos;
    };
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (server_.pid() > 0 && std::chrono::steady_clock::now() < give_up) {
      if (guard.impl().shared()->connected() && closed()) break;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return guard;
  }
  // Asks until `rung` decides, and says whether it came to that.
  bool until_rung(Guard& guard, std::string_view route, std::string_view user, Rung rung) {
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < give_up) {
      if (guard.check(route, {{"user", user}}, {.cost = 0}).rung == rung) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }

  RedisServer server_;
  HeardKinds heard_;
};

TEST_F(SharedGuard, TwoWorkersKeepOneLimitExactly) {
  Guard a = open("5s");
  Guard b = open("5s");
  int allowed = 0;
  for (int i = 0; i < 20; ++i)
    allowed += (i % 2 == 0 ? a : b).check("search", {{"user", "u"}}).allowed() ? 1 : 0;
  EXPECT_EQ(allowed, 10);
  const Decision denied = a.check("search", {{"user", "u"}});
  EXPECT_EQ(denied.verdict, Verdict::limited);
  ASSERT_EQ(denied.rules().size(), 1U);
  EXPECT_EQ(denied.rules()[0].remaining, 0U);
  for (const std::string& key : server_.keys()) EXPECT_NE(server_.text({"PTTL", key}), "-1") << key;
}

TEST_F(SharedGuard, ManyThreadsAreAdmittedExactly) {
  Guard guard = open("5s");
  std::atomic<int> allowed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        const Decision d = guard.check("search", {{"user", "many"}});
        if (d.allowed() && d.rung == Rung::store) ++allowed;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(allowed, 10);
}

TEST_F(SharedGuard, ARefundOrResetThatWasNotHeardOfIsNotSaidToBeUndone) {
  Guard guard = open("200ms");
  const Decision charged = guard.check("login", {{"user", "back"}});
  ASSERT_EQ(charged.rung, Rung::store);
  server_.pause();
  const Result<void> refund = guard.refund(charged);
  ASSERT_FALSE(refund);
  EXPECT_NE(refund.error().message.find("may have given it back"), std::string::npos);
  const Result<void> reset = guard.reset("login", {{"user", "back"}});
  ASSERT_FALSE(reset);
  server_.resume();
  server_.kill();
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (guard.check("login", {{"user", "x"}}).rung == Rung::store &&
         std::chrono::steady_clock::now() < give_up) {
  }
  const Result<void> nothing = guard.refund(charged);
  ASSERT_FALSE(nothing);
  EXPECT_NE(nothing.error().message.find("nothing was given back"), std::string::npos)
      << nothing.error().message;
}

// In a callback, which runs in the store's thread: nobody would answer while it waited.
TEST_F(SharedGuard, ACheckWithinACallbackIsDecidedAtOnceWithoutTheStore) {
  Guard guard = open("5s");
  std::promise<std::pair<Decision, milliseconds>> nested;
  guard.check_async("search", {{"user", "outer"}}, {}, [&](const Decision&) {
    const auto begun = std::chrono::steady_clock::now();
    Decision inner = guard.check("login", {{"user", "inner"}});
    nested.set_value({std::move(inner), std::chrono::duration_cast<milliseconds>(
                                            std::chrono::steady_clock::now() - begun)});
  });
  const auto [inner, took] = nested.get_future().get();
  EXPECT_EQ(inner.verdict, Verdict::refused);
  EXPECT_LT(took, seconds(4));
}

// What one worker knows does not outlast what another gives back by more than a second.
TEST_F(SharedGuard, ARefundByOneWorkerIsNoticedByAnotherThatKnowsOfADenial) {
  Guard a = open("5s");
  Guard b = open("5s");
  const Decision half = a.check("search", {{"user", "u"}}, {.cost = 5});
  ASSERT_TRUE(half.allowed());
  ASSERT_TRUE(a.check("search", {{"user", "u"}}, {.cost = 5}).allowed());
  ASSERT_EQ(b.check("search", {{"user", "u"}}).rung, Rung::store);
  // For a second it goes by that, if it is not held up for as long.
  const auto knows = [&] { return b.check("search", {{"user", "u"}}).rung == Rung::known; };
  int tries = 0;
  while (!knows()) ASSERT_LT(++tries, 100);
  ASSERT_TRUE(a.refund(half));
  const auto since = std::chrono::steady_clock::now();
  while (!b.check("search", {{"user", "u"}}).allowed()) {
    ASSERT_LT(std::chrono::steady_clock::now() - since, kPatience);
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - since, seconds(1) + kGenerous);
  EXPECT_EQ(a.peek("search", {{"user", "u"}}).rules()[0].remaining, 4U);
}

TEST_F(SharedGuard, AKnownDenialGivesWayToALimitThatAReloadRaises) {
  Guard guard = open("5s");
  ASSERT_TRUE(guard.check("search", {{"user", "u"}}, {.cost = 10}).allowed());
  ASSERT_EQ(guard.check("search", {{"user", "u"}}).rung, Rung::known);
  std::string raised = policy_on(server_.url(), "", "5s");
  raised.replace(raised.find("requests: 10"), 12, "requests: 12");
  ASSERT_TRUE(guard.reload(Policy::parse(raised).value()));
  const Decision after = guard.check("search", {{"user", "u"}});
  EXPECT_TRUE(after.allowed());
  EXPECT_EQ(after.rung, Rung::store);
  EXPECT_EQ(after.rules()[0].remaining, 1U);
}

// Of a canary and a worker beside it that reloads its unchanged file (a signal to all, a timer)
// each became the newer one in turn, and a gcra forgot what is used each time.
TEST_F(SharedGuard, AReloadOfTheSameNumbersWinsAgainstNobody) {
  const auto with = [&](int requests, const std::string& elsewhere = "requests: 3") {
    std::string text = policy_on(server_.url(), "", "5s");
    const std::string rule = "requests: " + std::to_string(requests) + ", per: hour, by: [user]";
    text.replace(text.find("requests: 3"), 11, elsewhere);
    const std::string_view before = "requests: 10, per: hour, by: [user], algorithm: fixed_window";
    text.replace(text.find(before), before.size(), rule + ", algorithm: gcra");
    return Policy::parse(text).value();
  };
  Guard a = Guard::open(with(20)).value();
  ASSERT_TRUE(until_rung(a, "search", "nobody", Rung::store));
  std::this_thread::sleep_for(milliseconds(5));  // loads are told apart by milliseconds
  Guard canary = Guard::open(with(5)).value();
  ASSERT_TRUE(until_rung(canary, "search", "nobody", Rung::store));
  const auto admitted = [](Guard& guard) {
    int units = 0;
    while (units < 60 && guard.check("search", {{"user", "u"}}).allowed()) ++units;
    return units;
  };
  EXPECT_EQ(admitted(canary), 5);
  for (int i = 0; i < 3; ++i) {
    // Nor does it where other routes change.
    ASSERT_TRUE(a.reload(with(20, "requests: " + std::to_string(4 + i))));
    EXPECT_EQ(admitted(a), 0);
    ASSERT_TRUE(canary.reload(with(5)));
    EXPECT_EQ(admitted(canary), 0);
  }
  std::this_thread::sleep_for(milliseconds(5));
  ASSERT_TRUE(a.reload(with(25)));
  EXPECT_EQ(admitted(a), 20) << "what changes is newer";
}

// What can never fit is known here as well as in the store, and is no reason to come back.
TEST_F(SharedGuard, ACostAboveTheLimitIsSaidToBeSoByWhoeverDecides) {
  Guard guard = open("5s");
  const auto never = [&](const Decision& decision, Rung rung) {
    EXPECT_EQ(decision.verdict, Verdict::limited);
    EXPECT_EQ(decision.rung, rung);
    EXPECT_EQ(decision.reason, Reason::cost_exceeds_burst);
    EXPECT_EQ(decision.retry_after, std::nullopt);
  };
  never(guard.check("search", {{"user", "u"}}, {.cost = 11}), Rung::store);
  ASSERT_TRUE(guard.check("search", {{"user", "v"}}).allowed());
  never(guard.check("search", {{"user", "v"}}, {.cost = 11}), Rung::known);
  // Nor is it asked for again and again.
  std::string text;
  const auto decided = [&] {
    text.clear();
    guard.impl().metrics().write(text);
    const std::string of =
        "weir_decisions_total{route=\"search\",verdict=\"limited\",rung=\"known\"} ";
    return std::stoi(text.substr(text.find(of) + of.size()));
  };
  ASSERT_EQ(decided(), 1) << text;
  never(guard.wait("search", {{"user", "v"}}, seconds(1), {.cost = 11}), Rung::known);
  EXPECT_EQ(decided(), 2) << text;
}

// While its thread is held up no more are taken on than there is room for: the others are not made
// to wait.
TEST_F(SharedGuard, WhatFindsNoRoomOnTheWayToTheStoreIsDecidedByPolicyAtOnce) {
  Guard guard = open("10s");
  std::promise<void> entered;
  std::promise<void> go_on;
  guard.check_async("search", {{"user", "holds"}}, {}, [&](const Decision&) {
    entered.set_value();
    go_on.get_future().wait();
  });
  entered.get_future().wait();
  constexpr int kMore = 50;
  std::atomic<int> answered{0};
  std::atomic<int> refused{0};
  const auto told = [&](const Decision& decision) {
    ++answered;
    if (decision.verdict == Verdict::refused && decision.reason == Reason::store_unavailable) {
      ++refused;
    }
  };
  const int all = static_cast<int>(guard::SharedStore::kMaxQueued) + kMore;
  for (int i = 0; i < all; ++i) {
    guard.check_async("login", {{"user", std::to_string(i)}}, {}, told);
  }
  EXPECT_EQ(answered, kMore);
  EXPECT_EQ(refused, kMore);
  std::string text;
  guard.impl().metrics().write(text);
  EXPECT_NE(text.find("weir_store_no_room_total{shard=\"0\"} 50\n"), std::string::npos);
  go_on.set_value();
  const auto give_up = std::chrono::steady_clock::now() + kPatience;
  while (answered < all && std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(answered, all);
}

// Whoever asks again when it is answered, while the Guard ends, is answered too.
TEST_F(SharedGuard, EveryCallbackComesWhileTheGuardEnds) {
  std::atomic<int> asked{0};
  std::atomic<int> answered{0};
  {
    Guard guard = open("5s");
    ASSERT_TRUE(until_rung(guard, "search", "u", Rung::store));
    server_.pause();
    for (int i = 0; i < 50; ++i) {
      ++asked;
      guard.check_async("search", {{"user", std::to_string(i)}}, {}, [&](const Decision&) {
        ++answered;
        ++asked;
        guard.check_async("login", {{"user", "again"}}, {}, [&](const Decision&) { ++answered; });
      });
    }
  }
  EXPECT_EQ(asked, 100);
  EXPECT_EQ(answered, 100);
}

TEST_F(SharedGuard, AHungStoreIsAnsweredByPolicyWithinTheDeadlineAndComesBack) {
  Guard guard = open();
  ASSERT_TRUE(guard.check("login", {{"user", "u"}}).allowed());
  ASSERT_TRUE(guard.check("search", {{"user", "u"}}).allowed());
  server_.pause();
  int share = 0;
  for (int i = 0; i < 20; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    const Decision login = guard.check("login", {{"user", "u"}});
    const Decision search = guard.check("search", {{"user", "u"}});
    EXPECT_LT(std::chrono::steady_clock::now() - begun, kGenerous);
    EXPECT_EQ(login.verdict, Verdict::refused);
    EXPECT_EQ(login.http_status(), 503);
    EXPECT_EQ(login.reason, Reason::store_unavailable);
    EXPECT_TRUE(login.rules().empty()) << "numbers nobody knows";
    EXPECT_NE(search.verdict, Verdict::refused);
    EXPECT_EQ(search.rung, Rung::share);
    share += search.allowed() ? 1 : 0;
  }
  // Ten over two workers, and of the nine that were known to remain the half: five for the first.
  EXPECT_EQ(share, 5);
  const Decision open_route = guard.check("status", {{"user", "u"}});
  EXPECT_TRUE(open_route.allowed());
  EXPECT_EQ(open_route.rung, Rung::policy);
  const Decision watched = guard.check("watched", {{"user", "u"}});
  EXPECT_TRUE(watched.allowed()) << "in shadow nobody is refused";
  EXPECT_EQ(watched.rung, Rung::policy);
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 1) << "one line an outage";

  server_.resume();
  ASSERT_TRUE(until_rung(guard, "search", "u", Rung::store));
  // What was admitted meanwhile is told: one before, five in the outage (and no more than five of
  // those that were sent before the store hung may have been counted besides).
  (void)guard.check("search", {{"user", "u"}}, {.cost = 1});
  const Decision after = guard.peek("search", {{"user", "u"}});
  ASSERT_EQ(after.rules().size(), 1U);
  EXPECT_LE(*after.rules()[0].remaining, 4U);
}

TEST_F(SharedGuard, ADeadStoreIsAnsweredAtOnceAndARestartedOneIsAskedAgain) {
  Guard guard = open();
  ASSERT_EQ(guard.check("login", {{"user", "u"}}).rung, Rung::store);
  server_.kill();
  for (int i = 0; i < 10; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(guard.check("login", {{"user", "u"}}).verdict, Verdict::refused);
    EXPECT_LT(std::chrono::steady_clock::now() - begun, kGenerous);
  }
  server_.start();
  EXPECT_TRUE(until_rung(guard, "login", "v", Rung::store));
}

TEST_F(SharedGuard, StartsDegradedAndLoudWhereTheStoreIsAway) {
  server_.kill();
  Guard guard = open();
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away_at_start), 1);
  EXPECT_EQ(guard.check("login", {{"user", "u"}}).verdict, Verdict::refused);
  EXPECT_TRUE(guard.check("search", {{"user", "u"}}).allowed());
  server_.start();
  EXPECT_TRUE(until_rung(guard, "login", "u", Rung::store));
}

TEST_F(SharedGuard, StartupRequireFailsWhereTheStoreIsAway) {
  server_.kill();
  const auto guard =
      Guard::open(Policy::parse(policy_on(server_.url(), "  startup: require\n")).value());
  ASSERT_FALSE(guard);
  EXPECT_EQ(guard.error().code, ErrorCode::unavailable);
}

TEST_F(SharedGuard, RefundsAndResetsReachTheStore) {
  Guard guard = open("1s");
  const Decision first = guard.check("search", {{"user", "u"}}, {.cost = 10});
  ASSERT_TRUE(first.allowed());
  ASSERT_FALSE(guard.check("search", {{"user", "u"}}).allowed());
  ASSERT_TRUE(guard.refund(first).has_value());
  EXPECT_TRUE(guard.check("search", {{"user", "u"}}, {.cost = 10}).allowed());
  ASSERT_TRUE(guard.reset("search", {{"user", "u"}}).has_value());
  EXPECT_TRUE(guard.check("search", {{"user", "u"}}, {.cost = 10}).allowed());
  server_.pause();
  EXPECT_FALSE(guard.reset("search", {{"user", "u"}}).has_value());
  EXPECT_FALSE(guard.refund(first).has_value());
  server_.resume();
}

TEST_F(SharedGuard, ItsMetricsAndStateCanBeReadWhetherTheStoreAnswersOrNot) {
  Guard guard = open("1s");
  ASSERT_TRUE(guard.check("search", {{"user", "u"}}).allowed());
  std::string text;
  guard.impl().metrics().write(text);
  EXPECT_NE(text.find("weir_known_keys 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("weir_breaker_state{shard=\"0\"} 0\n"), std::string::npos) << text;
  EXPECT_NE(guard.impl().shared()->state_json().find("\"state\":\"closed\""), std::string::npos);
  server_.kill();
  for (int i = 0; i < 6; ++i) (void)guard.check("login", {{"user", "u"}});
  text.clear();
  guard.impl().metrics().write(text);
  EXPECT_NE(text.find("weir_breaker_state{shard=\"0\"} 2\n"), std::string::npos) << text;
  EXPECT_NE(guard.impl().shared()->state_json().find("\"state\":\"open\""), std::string::npos);
}

TEST_F(SharedGuard, AsyncAnswersExactlyOnceAlsoWhereTheStoreHangs) {
  Guard guard = open();
  server_.pause();
  for (int i = 0; i < 10; ++i) {
    std::promise<Decision> promise;
    guard.check_async("login", {{"user", "u"}}, {},
                      [&](Decision d) { promise.set_value(std::move(d)); });
    auto future = promise.get_future();
    ASSERT_EQ(future.wait_for(kPatience), std::future_status::ready);
    EXPECT_EQ(future.get().verdict, Verdict::refused);
  }
  server_.resume();
}

TEST_F(SharedGuard, ACallersShortPatienceIsKeptAndSaysNothingAboutTheStore) {
  Guard guard = open("5s");
  ASSERT_EQ(guard.check("login", {{"user", "u"}}).rung, Rung::store);
  for (int i = 0; i < 50; ++i)
    (void)guard.check("login", {{"user", "w"}},
                      {.cost = 0, .deadline = std::chrono::microseconds(1)});
  EXPECT_TRUE(until_rung(guard, "login", "u", Rung::store));
  EXPECT_EQ(heard_.count(StoreEvent::Kind::away), 0);
}

TEST(SharedGuardOpen, SaysWhatThisReleaseDoesNotDoOnASharedStore) {
  const auto refused = [](const std::string& text) {
    const auto guard = Guard::open(Policy::parse(text).value());
    EXPECT_FALSE(guard);
    return guard ? std::string() : guard.error().message;
  };
  const std::string routes = "routes:\n  a: {limits: [5 per minute], protects: ";
  EXPECT_NE(refused("store: {url: 'redis://127.0.0.1:1', fallback: 'redis+cluster://h'}\n" +
                    routes + "security}\n")
                .find("`fallback` is one server"),
            std::string::npos);
  const std::string metered =
      "routes: {a: {limits: [{requests: 5, per: minute, meter: true}], protects: revenue, "
      "overspend: "
      "{cap: 5}}}\n";
  EXPECT_NE(refused("store: redis://127.0.0.1:1\n" + metered).find("say `journal:"),
            std::string::npos);
  // On a cluster as on one server.
  EXPECT_NE(refused("store: redis+cluster://127.0.0.1:1\njournal: j\n" + metered)
                .find("say `ledger: postgresql://...` for a fleet"),
            std::string::npos);
  // What a log holds is read by one script while all others wait.
  const auto logged = [](std::uint32_t most) {
    return "store: redis://127.0.0.1:1\nroutes: {a: {protects: security, limits: [{requests: " +
           std::to_string(most) + ", per: minute, algorithm: sliding_log}]}}\n";
  };
  EXPECT_NE(refused(logged(10'001))
                .find("10001 charges in a sliding_log are more than a shared "
                      "store holds, 10000"),
            std::string::npos);
  EXPECT_TRUE(Guard::open(Policy::parse(logged(10'000)).value()));
}

}  // namespace
}  // namespace weir
