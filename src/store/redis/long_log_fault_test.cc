// A log as long as a shared store holds one, in a real server: nobody waits long for it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "testing/redis_rig.h"
#include "testing/redis_server.h"
#include "testing/script_store.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using testing::RedisConnection;
using testing::RedisServer;

constexpr Instant kStart{1'700'000'040s};
constexpr std::uint32_t kMost = 10'000;

class LongLog : public ::testing::Test {
 protected:
  // Microseconds of a processor that the server has used so far: what a machine does besides does
  // not count.
  std::int64_t used_us() {
    const std::string info = server.text({"INFO", "cpu"});
    double sum = 0;
    for (const std::string name : {"used_cpu_user:", "used_cpu_sys:"}) {
      sum += std::strtod(info.c_str() + info.find(name) + name.size(), nullptr);
    }
    return static_cast<std::int64_t>(sum * 1e6);
  }
  limit::Step ask(std::uint64_t cost, Instant at, Op op = Op::take, Instant receipt = {}) {
    Counter counter = rule.counter(cost);
    counter.op = op;
    counter.receipt = receipt;
    AskOptions options;
    options.now = at;
    const auto replies = store.ask({&counter, 1}, options, &allowed);
    EXPECT_EQ(replies.size(), 1U);
    return replies.empty() ? limit::Step{} : replies[0].finding.step;
  }
  static std::string big_endian(std::uint64_t value, int bytes) {
    std::string out;
    for (int i = bytes - 1; i >= 0; --i) out += static_cast<char>(value >> (8 * i) & 0xff);
    return out;
  }
  static std::string pair(Instant at) {
    const auto ns = static_cast<std::uint64_t>(at.time_since_epoch().count());
    return big_endian(ns / 1'000'000'000, 5) + big_endian(ns % 1'000'000'000, 4);
  }
  // All but one of the log's units, each an entry of its own, within 10 ms; and one 5 s later. By
  // the bytes of docs/internals/redis-keys.md: told one by one they would take most of a minute.
  void fill() {
    ask(1, kStart);
    ASSERT_TRUE(allowed);
    const std::string key = server.keys().at(0);
    const std::string head = server.text({"LINDEX", key, "0"});
    ASSERT_EQ(head.size(), 25U);
    server.execute(
        {"LSET", key, "0", head.substr(0, 11) + pair(kStart + 5s) + big_endian(kMost, 5)});
    std::vector<std::string> push{"RPUSH", key};
    for (std::uint32_t i = 1; i + 1 < kMost; ++i) {
      push.push_back(pair(kStart + Nanos(1us) * i) + big_endian(1, 4));
    }
    push.push_back(pair(kStart + 5s) + big_endian(1, 4));
    EXPECT_EQ(server.text(push), std::to_string(kMost + 1));
    ASSERT_EQ(ask(0, kStart + 5s).remaining, 0U);
  }
  // What the server needs for what `once` does, at the least of a few times.
  template <class Once>
  std::int64_t least_us(Once once) {
    std::int64_t least = INT64_MAX;
    for (int i = 0; i < 3; ++i) {
      server.execute({"FLUSHALL"});
      fill();
      const std::int64_t before = used_us();
      once();
      least = std::min(least, used_us() - before);
    }
    RecordProperty("microseconds", std::to_string(least));
    return least;
  }

  RedisServer server;
  RedisConnection connection{server.port()};
  testing::ScriptStore store{[this](const std::vector<std::string>& command, Instant) {
    return connection.execute(command);
  }};
  testing::RigRule rule{1, kMost, 10s, Algorithm::sliding_log};
  bool allowed = false;
};

constexpr std::int64_t kDeadlineUs = 20'000;  // that of an ask, unless a policy says otherwise

TEST_F(LongLog, DropsAllThatIsOverWithinADeadline) {
  EXPECT_LT(least_us([&] {
              const limit::Step step = ask(1, kStart + 11s);
              EXPECT_TRUE(allowed);
              EXPECT_EQ(step.remaining, kMost - 2) << "the youngest, and this one";
            }),
            kDeadlineUs);
}

TEST_F(LongLog, SaysWhenAllOfItWillFitWithinADeadline) {
  EXPECT_LT(least_us([&] {
              const limit::Step step = ask(kMost, kStart + 6s);
              EXPECT_FALSE(allowed);
              EXPECT_EQ(Nanos(step.retry_after_ns), Nanos(9s));
            }),
            kDeadlineUs);
}

TEST_F(LongLog, RefundsTheOldestWithinADeadline) {
  EXPECT_LT(least_us([&] {
              ask(1, kStart + 6s, Op::refund, kStart);
              EXPECT_EQ(ask(0, kStart + 6s).remaining, 1U);
            }),
            kDeadlineUs);
}

TEST_F(LongLog, BringsBackWhatAClockThatWasSetBackHasLeftAheadWithinADeadline) {
  EXPECT_LT(least_us([&] {
              EXPECT_EQ(ask(1, kStart - 1h).outcome, limit::Outcome::limited);
              EXPECT_FALSE(allowed);
            }),
            kDeadlineUs);
}

// Who asks again and again, and is denied, does not have it counted again and again.
TEST_F(LongLog, WhatIsOverIsDroppedByADenialToo) {
  fill();
  ask(kMost, kStart + 11s);
  EXPECT_FALSE(allowed);
  const auto keys = server.keys();
  ASSERT_EQ(keys.size(), 1U);
  EXPECT_EQ(server.text({"LLEN", keys[0]}), "2") << "its head, and the one that stands";
  EXPECT_EQ(ask(0, kStart + 11s).remaining, kMost - 1);
}

}  // namespace
}  // namespace weir::store::redis
