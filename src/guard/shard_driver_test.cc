#include "guard/shard_driver_rig_test.h"

#include <string>
#include <vector>

namespace weir::guard {
namespace {

using namespace std::chrono_literals;
using store::Counter;

TEST(ShardDriver, AnswersAtItsDeadlineToTheNanosecond) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  rig.redis.hang();
  const MonoTime asked_at = rig.loop.mono();
  DriverRig::Asked& asked = rig.ask();
  rig.loop.run_for(1s);
  ASSERT_TRUE(asked.verdict);
  EXPECT_EQ(asked.verdict->verdict, Verdict::refused);
  EXPECT_EQ(asked.at, asked_at + kDriverDeadline);
}

// Its probe was sent before, and nobody else sends one while it recovers.
TEST(ShardDriver, TriesNamesThatCameWhileTheBreakerRecoveredOnceItIsClosed) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  rig.link.cut_down = true;
  for (int i = 0; i < 6; ++i) {
    rig.ask();
    rig.loop.run_for(1ms);
  }
  rig.loop.run_for(50ms);
  rig.link.cut_down = false;
  rig.redis.mended(rig.link);
  const auto state = [&] { return rig.driver.ladder().breaker().state(); };
  for (int i = 0; i < 5'000 && state() != breaker::ProbeState::recovering; ++i) {
    rig.loop.run_for(1ms);
  }
  ASSERT_EQ(state(), breaker::ProbeState::recovering);
  rig.redis.redis().execute({"SET", "d_new_0", "7"});
  int tried = 0;
  rig.redis.on_command = [&](const std::vector<std::string>& command) {
    tried += command.size() > 3 && command[3] == "d_new_0";
  };
  rig.driver.try_names({{"d_new_0", "d_"}});
  rig.loop.run_for(5s);
  EXPECT_EQ(state(), breaker::ProbeState::closed);
  EXPECT_EQ(tried, 1);
}

// An error reply is an answer: nothing was done. Silence is none.
TEST(ShardDriver, SaysWhetherTheStoreMayHaveCarriedOutWhatItDidNotDecide) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  for (const char* said : {"OOM command not allowed", "LOADING Redis is loading", "READONLY You"}) {
    DriverRig rig(FailurePolicy::closed, rule);
    rig.redis.redis().fail_writes_with(said);
    const DriverRig::Asked& asked = rig.answered();
    EXPECT_NE(asked.verdict->rung, Rung::store) << said;
    EXPECT_FALSE(asked.verdict->was_sent) << said;
  }
  DriverRig rig(FailurePolicy::closed, rule);
  rig.link.cut_down = true;
  EXPECT_TRUE(rig.answered().verdict->was_sent);
  rig.link.barred = true;
  rig.redis.reset(rig.link);
  rig.loop.run_for(1ms);
  EXPECT_FALSE(rig.answered().verdict->was_sent) << "there was no connection to send it on";
}

// Connecting is retried ever more seldom, and so is probing: a store that is back must not have to
// wait for the two to meet.
TEST(ShardDriver, AStoreThatIsBackIsProbedOnAConnectionMadeForIt) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  const breaker::ProbeBreakerConfig config = ShardDriver::Options::of({}, 1).ladder.breaker;
  const Nanos longest_cooldown = config.max_cooldown * (100 + config.jitter_percent) / 100;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    DriverRig rig(FailurePolicy::closed, rule, seed);
    rig.redis.stop();
    for (int i = 0; i < 6; ++i) rig.answered();
    rig.loop.run_for(20s + Nanos(300ms) * static_cast<int>(seed));
    EXPECT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::open);
    rig.redis.start_with_what_it_had();
    rig.loop.run_for(longest_cooldown + kDriverDeadline);
    EXPECT_NE(rig.driver.ladder().breaker().state(), breaker::ProbeState::open) << seed;
    rig.loop.run_for(config.ramp_step * static_cast<int>(config.ramp_steps));
    EXPECT_EQ(rig.driver.ladder().breaker().state(), breaker::ProbeState::closed) << seed;
  }
}

// Of a shard whose own keys went to another slot the epoch is another one; its data are the same.
// Of another process they may be others.
TEST(ShardDriver, TakesAShardThatGotAnotherNameForTheSameData) {
  const OneRule rule(Algorithm::fixed_window, 10, 1h);
  DriverRig rig(FailurePolicy::closed, rule);
  const auto to_bring = [&] {
    const Counter counter = rule.counter(1);
    return rig.driver.ladder().known().before_loss(counter, rig.driver.moment().store);
  };
  EXPECT_EQ(rig.answered(3).verdict->rung, Rung::store);
  for (const char* name : {"one", "other", "one"}) {
    rig.driver.name_shard(name);
    rig.loop.run_for(100ms);
    EXPECT_FALSE(to_bring()) << name;
  }
  // The same slot, and what it held is gone.
  rig.redis.redis().execute({"FLUSHALL"});
  rig.driver.name_shard("one");
  rig.loop.run_for(100ms);
  ASSERT_TRUE(to_bring());
  EXPECT_EQ(to_bring()->current, 3U);
  EXPECT_EQ(rig.answered(0).findings()[0].step.remaining, 7U);
  // Another process.
  rig.answered(1);
  EXPECT_FALSE(to_bring());
  rig.redis.stop();
  rig.loop.run_for(100ms);
  rig.redis.start_with({});
  rig.driver.name_shard("other");
  rig.loop.run_for(20s);
  EXPECT_TRUE(to_bring());
}

}  // namespace
}  // namespace weir::guard
