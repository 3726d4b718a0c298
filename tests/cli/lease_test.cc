// A concurrency limit that two `weir serve` share, asked by curl over /v1/lease: real processes,
// one of which is killed, and a real Redis, which stops and comes back.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "drill/run/child_process.h"
#include "program.h"
#include "testing/redis_server.h"

namespace weir::cli_tests {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr auto kPatience = 30s;

struct Answer {
  int status = 0;
  Json body;
  std::string retry_after;  // the header line's value

  // Null where it says nothing of it.
  Json operator[](const char* member) const {
    return body.is_object() ? body.value(member, Json()) : Json();
  }
};

// One of two `weir serve`.
class Served {
 public:
  Served(const Folder& folder, std::uint16_t store, int index, const std::string& numbers)
      : folder_(folder) {
    const std::string name = "worker" + std::to_string(index);
    folder.write(name + ".yaml",
                 "store: {url: 'redis://127.0.0.1:" + std::to_string(store) +
                     "', deadline: 5s, workers: {of: 2, index: " + std::to_string(index) +
                     "}}\nconcurrency:\n  reports: {" + numbers + ", shared: true}\n");
    child_ = drill::ChildProcess::start({WEIR_PROGRAM, "serve", name + ".yaml", "--http",
                                         "127.0.0.1:0", "--grpc", "off", "--admin", "off"},
                                        folder.path(), folder.path() + "/" + name + ".log")
                 .value();
    const auto until = steady_clock::now() + kPatience;
    while (url_.empty() && child_->running() && steady_clock::now() < until) {
      std::this_thread::sleep_for(5ms);
      const std::string text = child_->output();
      const std::size_t at = text.find("http://");
      const std::size_t end = text.find('\n', at);
      if (at != std::string::npos && end != std::string::npos) url_ = text.substr(at, end - at);
    }
    EXPECT_FALSE(url_.empty()) << child_->output();
  }

  Answer post(const std::string& verb, const Json& body) const {
    const Outcome asked =
        run({"curl", "-s", "-m", "10", "-w", "\n%{http_code} %header{retry-after}", "-d",
             body.dump(), url_ + "/v1/lease/reports/" + verb},
            {.folder = folder_.path()});
    const std::size_t line = asked.out.rfind('\n');
    if (line == std::string::npos) return {};
    Answer answer;
    answer.body = Json::parse(asked.out.substr(0, line), nullptr, false);
    const std::string last = asked.out.substr(line + 1);
    answer.status = std::atoi(last.c_str());
    answer.retry_after = last.substr(std::min(last.size(), last.find(' ') + 1));
    return answer;
  }
  Answer acquire(const std::string& id, int weight = 1) const {
    return post("acquire", {{"id", id}, {"weight", weight}});
  }
  Answer renew(const std::string& id) const { return post("renew", {{"id", id}}); }
  Answer release(const std::string& id) const { return post("release", {{"id", id}}); }
  drill::ChildProcess& process() { return *child_; }

 private:
  const Folder& folder_;
  std::optional<drill::ChildProcess> child_;
  std::string url_;
};

std::string job(int number) {
  return "job-" + std::to_string(1'000 + number) + "-attempt-1";
}

class LeaseOverHttp : public ::testing::Test {
 protected:
  static bool until(const std::function<bool()>& done) {
    const auto end = steady_clock::now() + kPatience;
    while (!done()) {
      if (steady_clock::now() > end) return false;
      std::this_thread::sleep_for(10ms);
    }
    return true;
  }
  // Whether this worker's answers are the store's: of an id that nobody holds it knows that.
  static bool by_store(const Served& worker) { return worker.renew(job(0)).status == 404; }
  // Leases that stand in the store.
  int stored() {
    int sum = 0;
    for (const std::string& key : store_.keys("*!ends"))
      sum += std::stoi(store_.text({"ZCARD", key}));
    return sum;
  }

  Folder folder_;
  testing::RedisServer store_;
};

TEST_F(LeaseOverHttp, IsOneLimitForBothThroughAStoreThatGoesAndComesBack) {
  const std::string numbers = "limit: 2, lease: 60s, max_hold: 120s";
  Served a(folder_, store_.port(), 0, numbers);
  Served b(folder_, store_.port(), 1, numbers);
  ASSERT_TRUE(until([&] { return by_store(a) && by_store(b); }));

  // Healthy: one limit, one id is one lease, whoever is asked.
  const Answer first = a.acquire(job(1));
  ASSERT_EQ(first.status, 200) << first.body;
  EXPECT_EQ(first["granted"], true);
  EXPECT_EQ(first["id"], job(1));
  const Answer again = a.acquire(job(1));
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again["repeated"], true);
  EXPECT_EQ(again["fence"], first["fence"]);
  const Answer otherwise = b.acquire(job(1), 2);
  EXPECT_EQ(otherwise.status, 400);
  EXPECT_EQ(otherwise["reason"], "held_otherwise");
  const Answer second = b.acquire(job(2));
  ASSERT_EQ(second.status, 200);
  EXPECT_GT(second["fence"], first["fence"]);
  const Answer full = a.acquire(job(3));
  EXPECT_EQ(full.status, 429);
  EXPECT_EQ(full["reason"], "full");
  EXPECT_GT(full["retry_after_ms"], 0);
  EXPECT_FALSE(full.retry_after.empty());
  const Answer never = a.acquire(job(3), 3);
  EXPECT_EQ(never["reason"], "never_fits");
  EXPECT_EQ(never["detail"], "weight: from 1 to the limit");
  const Answer unfit = a.acquire("job 3");
  EXPECT_EQ(unfit.status, 400);
  EXPECT_EQ(unfit["reason"], "invalid_id");
  EXPECT_EQ(unfit["detail"], "id: 16 to 64 letters, digits, '-' and '_', or none");
  EXPECT_EQ(a.renew(job(2)).status, 200) << "what the other gave";

  // Away: each goes on with what it gave, and of what it does not know says neither yes nor no.
  store_.kill();
  ASSERT_TRUE(until([&] { return !by_store(a) && !by_store(b); }));
  const Answer renewed = a.renew(job(1));
  EXPECT_EQ(renewed.status, 200);
  EXPECT_EQ(renewed["without_store"], true);
  EXPECT_EQ(renewed["fence"], first["fence"]);
  const Answer unknown = a.renew(job(9));
  EXPECT_EQ(unknown.status, 503);
  EXPECT_EQ(unknown["reason"], "store_away");
  EXPECT_EQ(unknown.retry_after, "1");
  EXPECT_EQ(a.release(job(9)).status, 503);
  const Answer both = a.acquire(job(4), 2);
  EXPECT_EQ(both.status, 503) << "more than its part";
  EXPECT_EQ(both["reason"], "store_away");
  EXPECT_EQ(b.release(job(2)).status, 200);
  EXPECT_EQ(b.release(job(2)).status, 404) << "it is over, as it was told";
  EXPECT_EQ(b.renew(job(2)).status, 404);
  const Answer own = b.acquire(job(5));
  EXPECT_EQ(own.status, 200) << "its part is free again: " << own.body;
  EXPECT_EQ(own["without_store"], true);
  EXPECT_GT(own["fence"], second["fence"]);

  // Back, with nothing: it is told of what stands, once each.
  store_.start();
  ASSERT_TRUE(until([&] { return by_store(a) && by_store(b); }));
  ASSERT_TRUE(until([&] { return stored() == 2; })) << stored();
  EXPECT_EQ(b.renew(job(1)).status, 200);
  EXPECT_EQ(a.renew(job(5))["fence"], own["fence"]);
  EXPECT_EQ(a.acquire(job(3)).status, 429);
  EXPECT_EQ(a.release(job(5)).status, 200) << "what the other gave";
  EXPECT_EQ(b.renew(job(5))["reason"], "gone");
  EXPECT_EQ(a.acquire(job(3)).status, 200);
  EXPECT_EQ(stored(), 2);
}

TEST_F(LeaseOverHttp, WhatAKilledProcessHeldIsFreeWhenItsLeaseEndsAndNotBefore) {
  constexpr auto kLease = 3s;
  const std::string numbers = "limit: 3, lease: 3s, max_hold: 60s";
  Served a(folder_, store_.port(), 0, numbers);
  Served b(folder_, store_.port(), 1, numbers);
  ASSERT_TRUE(until([&] { return by_store(a) && by_store(b); }));
  const auto before = steady_clock::now();
  ASSERT_EQ(a.acquire(job(1), 3).status, 200);
  const auto after = steady_clock::now();
  a.process().kill();  // SIGKILL
  std::optional<steady_clock::time_point> asked;
  EXPECT_TRUE(until([&] {
    asked = steady_clock::now();
    const Answer answer = b.acquire(job(2), 3);
    if (answer.status != 200) {
      EXPECT_EQ(answer["reason"], "full") << answer.body;
    }
    return answer.status == 200;
  }));
  const auto heard = steady_clock::now();
  EXPECT_GE(heard - before, kLease) << "not while the dead one may still be at it";
  // The ask before this one was within the lease, but for the time that an ask took.
  EXPECT_LE(*asked - after, kLease + kPatience);
  EXPECT_EQ(stored(), 1);
}

TEST_F(LeaseOverHttp, WhatAProcessHeldThatWasStoppedPastItsMaximumHoldIsGoneWhenItGoesOn) {
  constexpr auto kHold = 4s;
  const std::string numbers = "limit: 2, lease: 2s, max_hold: 4s";
  Served a(folder_, store_.port(), 0, numbers);
  Served b(folder_, store_.port(), 1, numbers);
  ASSERT_TRUE(until([&] { return by_store(a) && by_store(b); }));
  const Answer held = a.acquire(job(1), 2);
  ASSERT_EQ(held.status, 200) << held.body;
  const auto since = steady_clock::now();
  a.process().signal(SIGSTOP);
  // Nobody waits for it: its units are another's once its lease is over.
  Answer other;
  EXPECT_TRUE(until([&] { return (other = b.acquire(job(2), 2)).status == 200; }));
  EXPECT_GT(other["fence"], held["fence"]);
  std::this_thread::sleep_until(since + kHold);
  a.process().signal(SIGCONT);
  // As it goes on, by its own clock, whatever it has heard: it neither stands nor frees anything.
  EXPECT_TRUE(until([&] {
    EXPECT_NE(a.renew(job(1)).status, 200);
    EXPECT_NE(a.release(job(1)).status, 200);
    return HasFailure() || by_store(a);
  }));
  EXPECT_EQ(a.renew(job(1))["reason"], "gone");
  EXPECT_EQ(a.release(job(1)).status, 404);
  // Under its old name it is another lease, with a fence above the one that came between.
  Answer again;
  EXPECT_TRUE(until([&] { return (again = a.acquire(job(1), 2)).status == 200; }));
  EXPECT_GT(again["fence"], other["fence"]);
  EXPECT_NE(again["repeated"], true);
}

}  // namespace
}  // namespace weir::cli_tests
