#include "breaker/probe_breaker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace weir::breaker {
namespace {

using std::chrono::milliseconds;
using Change = ProbeBreaker::Change;

constexpr MonoTime at(std::int64_t ms) {
  return MonoTime{milliseconds(1'000'000 + ms)};
}

ProbeBreakerConfig exact() {
  ProbeBreakerConfig config;
  config.jitter_percent = 0;
  return config;
}

void fail(ProbeBreaker& breaker, int times, MonoTime now) {
  for (int i = 0; i < times; ++i)
    (void)breaker.on_failure(breaker.generation(), milliseconds(1), now);
}

int admitted_of_64(const ProbeBreaker& breaker) {
  int n = 0;
  for (std::uint64_t i = 0; i < 64; ++i) n += breaker.admits(i << 10) ? 1 : 0;
  return n;
}

TEST(ProbeBreaker, OpensAtTheFifthConsecutiveFailure) {
  ProbeBreaker breaker(exact(), 1);
  fail(breaker, 4, at(0));
  EXPECT_EQ(breaker.state(), ProbeState::closed);
  EXPECT_EQ(breaker.on_failure(breaker.generation(), milliseconds(1), at(1)), Change::opened);
  EXPECT_EQ(admitted_of_64(breaker), 0);
}

TEST(ProbeBreaker, AnAnswerBetweenFailuresStartsTheCountAnew) {
  ProbeBreaker breaker(exact(), 1);
  for (int i = 0; i < 20; ++i) {
    fail(breaker, 4, at(i));
    EXPECT_EQ(breaker.on_answer(breaker.generation(), milliseconds(1), at(i)), Change::none);
  }
  EXPECT_EQ(breaker.state(), ProbeState::closed);
}

// The slowest calls are those that never came.
TEST(ProbeBreaker, ACallThatOutlastsItsDeadlineIsASlowOne) {
  ProbeBreakerConfig config = exact();
  config.slow_call = milliseconds(10);
  ProbeBreaker breaker(config, 1);
  int calls = 0;
  for (; calls < 100 && breaker.state() == ProbeState::closed; ++calls) {
    if (calls % 2 == 0) {
      (void)breaker.on_failure(breaker.generation(), milliseconds(20), at(calls));
    } else {
      (void)breaker.on_answer(breaker.generation(), milliseconds(1), at(calls));
    }
  }
  EXPECT_EQ(calls, 20) << "as many as are needed to tell a rate";
  EXPECT_EQ(breaker.state(), ProbeState::open);
}

TEST(ProbeBreaker, AFailureThatCameQuicklyIsNoSlowCall) {
  ProbeBreakerConfig config = exact();
  config.slow_call = milliseconds(10);
  ProbeBreaker breaker(config, 1);
  for (int i = 0; i < 100; ++i) {
    (void)breaker.on_failure(breaker.generation(), milliseconds(1), at(i));
    (void)breaker.on_answer(breaker.generation(), milliseconds(1), at(i));
  }
  EXPECT_EQ(breaker.state(), ProbeState::closed);
}

TEST(ProbeBreaker, ProbesAtOnceWhenItsStoreMayBeBackAndNeverTwiceAtATime) {
  ProbeBreaker breaker(exact(), 1);
  breaker.hasten(at(0));
  EXPECT_EQ(breaker.poll(at(0)), Change::none) << "closed: nothing to probe";
  fail(breaker, 5, at(0));
  breaker.hasten(at(10));
  EXPECT_EQ(breaker.poll(at(9)), Change::none);
  EXPECT_EQ(breaker.poll(at(10)), Change::probing);
  breaker.hasten(at(11));
  EXPECT_EQ(breaker.poll(at(11)), Change::none);
  EXPECT_EQ(breaker.on_probe(false, at(12)), Change::none);
  EXPECT_EQ(breaker.poll(at(12 + 999)), Change::none) << "the cooldown has doubled all the same";
  EXPECT_EQ(breaker.poll(at(12 + 1000)), Change::probing);
}

TEST(ProbeBreaker, SendsOneProbeAfterTheCooldownAndDoublesItUpToTheMaximum) {
  ProbeBreaker breaker(exact(), 1);
  fail(breaker, 5, at(0));
  std::int64_t now = 0;
  for (std::int64_t wait : {500, 1000, 2000, 4000, 5000, 5000}) {
    EXPECT_EQ(breaker.poll(at(now + wait - 1)), Change::none) << wait;
    EXPECT_EQ(breaker.poll(at(now + wait)), Change::probing) << wait;
    EXPECT_EQ(breaker.poll(at(now + wait)), Change::none) << "a second probe while one is out";
    EXPECT_EQ(breaker.on_probe(false, at(now + wait)), Change::none);
    now += wait;
  }
}

TEST(ProbeBreaker, RampsByKeyAndClosesAfterTheLastStep) {
  ProbeBreaker breaker(exact(), 1);
  fail(breaker, 5, at(0));
  ASSERT_EQ(breaker.poll(at(500)), Change::probing);
  EXPECT_EQ(breaker.on_probe(true, at(505)), Change::recovering);
  EXPECT_EQ(admitted_of_64(breaker), 16);
  EXPECT_EQ(breaker.poll(at(755)), Change::stepped);
  EXPECT_EQ(admitted_of_64(breaker), 32);
  EXPECT_EQ(breaker.poll(at(1005)), Change::stepped);
  EXPECT_EQ(breaker.poll(at(1255)), Change::stepped);
  EXPECT_EQ(admitted_of_64(breaker), 64);
  EXPECT_EQ(breaker.poll(at(1504)), Change::none);
  EXPECT_EQ(breaker.poll(at(1505)), Change::closed);
  EXPECT_FALSE(breaker.next_event());
}

TEST(ProbeBreaker, FallsBackAStepOnFailureAndOpensFromTheFirst) {
  ProbeBreaker breaker(exact(), 1);
  fail(breaker, 5, at(0));
  (void)breaker.poll(at(500));
  (void)breaker.on_probe(true, at(500));
  ASSERT_EQ(breaker.poll(at(750)), Change::stepped);
  EXPECT_EQ(breaker.on_failure(breaker.generation(), milliseconds(1), at(800)), Change::fell_back);
  EXPECT_EQ(admitted_of_64(breaker), 16);
  EXPECT_EQ(breaker.on_failure(breaker.generation(), milliseconds(1), at(810)), Change::opened);
  EXPECT_EQ(admitted_of_64(breaker), 0);
  EXPECT_EQ(breaker.until_probe(at(810)), Nanos(milliseconds(1000)))
      << "the cooldown goes on doubling";
}

TEST(ProbeBreaker, AFullRecoveryStartsTheCooldownAnew) {
  ProbeBreaker breaker(exact(), 1);
  fail(breaker, 5, at(0));
  (void)breaker.poll(at(500));
  (void)breaker.on_probe(true, at(500));
  for (std::int64_t t = 750; t <= 1500; t += 250) (void)breaker.poll(at(t));
  ASSERT_EQ(breaker.state(), ProbeState::closed);
  fail(breaker, 5, at(2000));
  EXPECT_EQ(breaker.until_probe(at(2000)), Nanos(milliseconds(500)));
}

TEST(ProbeBreaker, ResultsOfAnEarlierGenerationDoNotVote) {
  ProbeBreaker breaker(exact(), 1);
  const std::uint32_t old = breaker.generation();
  fail(breaker, 5, at(0));
  (void)breaker.poll(at(500));
  (void)breaker.on_probe(true, at(500));
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(breaker.on_failure(old, milliseconds(1), at(510)), Change::none);
  EXPECT_EQ(breaker.state(), ProbeState::recovering);
  EXPECT_EQ(admitted_of_64(breaker), 16);
}

TEST(ProbeBreaker, OpensAtTheSlowCallRate) {
  ProbeBreakerConfig config = exact();
  config.slow_call = milliseconds(10);
  ProbeBreaker breaker(config, 1);
  Change last = Change::none;
  for (int i = 0; i < 10; ++i)
    last = breaker.on_answer(breaker.generation(), milliseconds(2), at(i));
  for (int i = 0; i < 9; ++i)
    last = breaker.on_answer(breaker.generation(), milliseconds(15), at(20 + i));
  EXPECT_EQ(last, Change::none);
  EXPECT_EQ(breaker.on_answer(breaker.generation(), milliseconds(15), at(40)), Change::opened);
}

TEST(ProbeBreaker, JitterStaysWithinItsBoundsAndDiffersBetweenWorkers) {
  std::vector<Nanos> waits;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    ProbeBreaker breaker(ProbeBreakerConfig{}, seed);
    fail(breaker, 5, at(0));
    waits.push_back(*breaker.until_probe(at(0)));
    EXPECT_GE(waits.back(), Nanos(milliseconds(400)));
    EXPECT_LE(waits.back(), Nanos(milliseconds(600)));
  }
  std::sort(waits.begin(), waits.end());
  EXPECT_GT(std::unique(waits.begin(), waits.end()) - waits.begin(), 40);
}

TEST(ProbeBreaker, ManyThreadsFailingAtOnceOpenItOnce) {
  ProbeBreaker breaker(exact(), 1);
  std::atomic<int> opened{0};
  std::vector<std::thread> threads;
  const std::uint32_t generation = breaker.generation();
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < 1000; ++k) {
        if (breaker.on_failure(generation, milliseconds(1), at(0)) == Change::opened) ++opened;
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(opened, 1);
}

}  // namespace
}  // namespace weir::breaker
