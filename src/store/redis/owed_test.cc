// What a store is told after an outage: units that were admitted without it, and what was last
// known of a counter that it may have lost.

#include <gtest/gtest.h>

#include <array>

#include "testing/lua_redis.h"
#include "testing/redis_rig.h"
#include "testing/script_store.h"

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;
using testing::RigRule;

constexpr Instant kBegin{1'700'000'040s};  // 0 s into a minute
constexpr Algorithm kAll[] = {Algorithm::gcra, Algorithm::fixed_window, Algorithm::sliding_window,
                              Algorithm::sliding_log};

class Returned : public ::testing::TestWithParam<Algorithm> {
 protected:
  RigRule rule{1, 10, 60s, GetParam()};

  // One ask; how it turned out is in `reply` and `allowed`.
  void ask(std::uint64_t cost, std::optional<Owed> owed,
           std::optional<Known> known = std::nullopt) {
    const Counter counter = rule.counter(cost);
    const std::array owed_all{owed};
    const std::array known_all{known};
    AskOptions options;
    options.now = now;
    if (owed) options.owed = owed_all;
    if (known) options.known = known_all;
    const auto replies = store.ask({&counter, 1}, options, &allowed);
    ASSERT_EQ(replies.size(), 1u);
    reply = replies[0];
    for (const auto& [key, value] : redis.keys()) EXPECT_TRUE(value.expires_at) << key;
  }
  Owed owed(std::uint64_t units, std::uint64_t outage = 1, std::uint64_t worker = 7) const {
    Owed what;
    what.worker = worker;
    what.outage = outage;
    what.units = units;
    if (GetParam() == Algorithm::fixed_window || GetParam() == Algorithm::sliding_window) {
      what.window = Instant{Nanos{limit::window_at(rule.numbers(), now).start_ns}};
    }
    return what;
  }
  std::uint32_t remaining() {
    ask(0, std::nullopt);
    return reply.finding.step.remaining;
  }

  std::vector<std::string> lost;
  testing::LuaRedis redis{kBegin};
  testing::ScriptStore store{[this](const std::vector<std::string>& command, Instant at) {
                               redis.set_now(at);
                               return redis.execute(command);
                             },
                             1'000};
  Instant now = kBegin;
  CounterReply reply;
  bool allowed = false;
};

TEST_P(Returned, WhatWasConfirmedIsNeverAppliedAgainAlthoughItsRecordIsLost) {
  ask(0, owed(3));
  EXPECT_EQ(remaining(), 7u);
  for (const auto& [key, value] : redis.keys()) {
    if (key.find('!') != std::string::npos) lost.push_back(key);
  }
  ASSERT_EQ(lost.size(), 2u) << "what was told, and what all told";
  for (const std::string& key : lost) redis.execute({"DEL", key});
  Owed more = owed(5);
  more.confirmed = 3;
  ask(0, more);
  EXPECT_EQ(remaining(), 5u);
  ask(0, more);
  EXPECT_EQ(remaining(), 5u);
}

TEST_P(Returned, AppliesOnlyWhatExceedsItsRecord) {
  ask(1, owed(3));
  EXPECT_TRUE(allowed);
  EXPECT_EQ(remaining(), 6u);
  ask(1, owed(3));  // the reply was lost, and it is told again
  EXPECT_EQ(remaining(), 5u);
  ask(1, owed(5));
  EXPECT_EQ(remaining(), 2u);
  ask(1, owed(2));  // an older telling
  EXPECT_EQ(remaining(), 1u);
}

TEST_P(Returned, KeepsWorkersAndOutagesApart) {
  ask(0, owed(2, 1, 7));
  ask(0, owed(2, 1, 8));
  ask(0, owed(2, 2, 7));
  EXPECT_EQ(remaining(), 4u);
}

TEST_P(Returned, NeverGoesPastExactlyExhausted) {
  ask(4, std::nullopt);
  ask(1, owed(1'000));
  EXPECT_FALSE(allowed);
  EXPECT_EQ(reply.finding.step.outcome, limit::Outcome::limited);
  EXPECT_EQ(reply.finding.step.remaining, 0u);
  // As long as after ten units, and no longer.
  EXPECT_LE(reply.finding.step.retry_after_ns, (GetParam() == Algorithm::gcra ? 6s : 120s) / 1ns);
  EXPECT_LE(reply.finding.step.reset_after_ns, 120s / 1ns);
}

TEST_P(Returned, IsCountedThoughTheAskIsDenied) {
  ask(9, owed(5));
  EXPECT_FALSE(allowed);
  EXPECT_EQ(remaining(), 5u);
}

TEST_P(Returned, IsCountedByAProbe) {
  ask(0, owed(5));
  EXPECT_EQ(reply.finding.step.remaining, 5u);
  EXPECT_EQ(remaining(), 5u);
}

TEST_P(Returned, CountsNoMoreThanStillStands) {
  Owed some = owed(8);
  some.standing = 2;  // the rest has run off since
  ask(0, some);
  EXPECT_EQ(remaining(), 8u);
  // What came since is told on top of the whole total.
  some = owed(9);
  some.standing = 3;
  ask(0, some);
  EXPECT_EQ(remaining(), 7u);
}

// However much is used: what one worker may tell is held against what all of them did.
TEST_P(Returned, SaysWhereAllWorkersToldMoreThanTheirPartsComeTo) {
  const auto tell = [&](std::uint64_t worker, std::uint64_t units) {
    Owed some = owed(units, 1, worker);
    some.bound = 10;
    ask(0, some);
    return reply.over_bound;
  };
  ask(9, std::nullopt);
  EXPECT_FALSE(tell(7, 5));
  EXPECT_FALSE(tell(8, 5));
  EXPECT_FALSE(tell(7, 5)) << "told again, it is the same";
  EXPECT_TRUE(tell(9, 1)) << "a third, of two";
  now += 180s;
  EXPECT_FALSE(tell(9, 1)) << "in another window";
}

// A limit was lowered in between, on some workers earlier than on others: each tells the parts that
// it admitted by.
TEST_P(Returned, HoldsAllToTheLargestPartsThatAnyOfThemAdmittedBy) {
  const auto tell = [&](std::uint64_t worker, std::uint64_t units, std::uint64_t bound) {
    Owed some = owed(units, 1, worker);
    some.bound = bound;
    ask(0, some);
    return reply.over_bound;
  };
  EXPECT_FALSE(tell(7, 5, 10));
  EXPECT_FALSE(tell(8, 1, 4)) << "six, of ten";
  EXPECT_FALSE(tell(9, 3, 4));
  EXPECT_TRUE(tell(6, 2, 4)) << "eleven";
  now += 180s;
  EXPECT_TRUE(tell(5, 5, 4)) << "in another window";
}

TEST_P(Returned, DropsWhatBelongsToAWindowThatIsOver) {
  if (GetParam() == Algorithm::gcra || GetParam() == Algorithm::sliding_log) return;
  const Owed old = owed(5);
  now += 180s;
  ask(1, old);
  EXPECT_EQ(remaining(), 9u);
}

TEST_P(Returned, CountsTheWindowBeforeWhereItStillWeighs) {
  if (GetParam() != Algorithm::sliding_window) return;
  const Owed before = owed(8);
  now += 90s;  // half of it is still covered
  ask(0, before);
  EXPECT_EQ(remaining(), 6u);
  ask(0, before);
  EXPECT_EQ(remaining(), 6u);
}

TEST_P(Returned, HealsAStoreThatLostItsData) {
  ask(6, std::nullopt);
  Known known;
  known.state = reply.finding.step.next;
  if (GetParam() == Algorithm::sliding_log) {
    known.state = {.time_ns = now.time_since_epoch().count(), .current = 6};
  }
  redis.execute({"FLUSHALL"});
  EXPECT_EQ(remaining(), 10u);
  ask(1, std::nullopt, known);
  EXPECT_EQ(remaining(), 3u);
  // By maximum: what the store knows better is not lowered, and nothing is added up.
  ask(1, std::nullopt, known);
  EXPECT_EQ(remaining(), 2u);
}

TEST_P(Returned, HealsWithWhatIsKnownBeforeWhatIsOwed) {
  ask(3, std::nullopt);
  Known known;
  known.state = reply.finding.step.next;
  if (GetParam() == Algorithm::sliding_log) {
    known.state = {.time_ns = now.time_since_epoch().count(), .current = 3};
  }
  redis.execute({"FLUSHALL"});
  ask(1, owed(2), known);
  EXPECT_TRUE(allowed);
  EXPECT_EQ(remaining(), 4u);
}

TEST_P(Returned, KnowsNothingOfWhatIsOver) {
  ask(6, std::nullopt);
  Known known;
  known.state = reply.finding.step.next;
  if (GetParam() == Algorithm::sliding_log) {
    known.state = {.time_ns = now.time_since_epoch().count(), .current = 6};
  }
  now += 180s;
  ask(1, std::nullopt, known);
  EXPECT_EQ(remaining(), 9u);
}

// The example of docs/internals/redis-keys.md.
TEST(StoredValue, HasTheBytesOfThePage) {
  testing::LuaRedis redis;
  testing::ScriptStore store(
      [&](const std::vector<std::string>& command, Instant) { return redis.execute(command); },
      1'000);
  const RigRule rule(1, 5, 60s);
  const Counter counter = rule.counter();
  AskOptions options;
  options.now = Instant{1'700'000'040s};
  options.loaded_at = Instant{1'700'000'000s};
  ASSERT_EQ(store.ask({&counter, 1}, options).size(), 1u);
  constexpr char kBytes[] =
      "g\0\0\0\5\0\0\0\5\0\0\0\0\x0c\0\0\0\0\x01\x8b\xcf\xe5\x68\0\0\x65\x53\xf1\x34\0\0\0\0";
  ASSERT_EQ(redis.keys().size(), 1u);
  EXPECT_EQ(std::get<std::string>(redis.keys().begin()->second.data),
            std::string(kBytes, sizeof(kBytes) - 1));
}

INSTANTIATE_TEST_SUITE_P(EveryAlgorithm, Returned, ::testing::ValuesIn(kAll),
                         [](const auto& tested) { return std::string(to_string(tested.param)); });

}  // namespace
}  // namespace weir::store::redis
