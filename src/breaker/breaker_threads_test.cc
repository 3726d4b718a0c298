#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "testing/breaker_rig.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::BreakerRig;
using testing::ManualClock;

void together(int threads, const std::function<void(int)>& work) {
  std::barrier gate(threads);
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      gate.arrive_and_wait();
      work(t);
    });
  for (std::thread& thread : all) thread.join();
}

TEST(BreakerThreads, ExactlyItsProbesPassAtTheEdge) {
  // resilience4j 1432; safe-client-gateway 3442: seventeen times the budget
  for (int round = 0; round < 50; ++round) {
    BreakerConfig config = BreakerRig::config();
    config.probes = 5;
    config.probes_in_flight = 3;
    config.probe_successes = 5;
    BreakerRig rig(config);
    rig.open();
    rig.pass(1s);
    std::atomic<int> passed{0};
    std::mutex mutex;
    std::vector<Permit> held;
    together(8, [&](int) {
      for (int i = 0; i < 50; ++i) {
        Admission a = rig.breaker.admit();
        if (!a) continue;
        ++passed;
        std::lock_guard lock(mutex);
        held.push_back(std::move(a.permit()));
      }
    });
    EXPECT_EQ(passed, 3);
  }
}

TEST(BreakerThreads, TheBudgetHoldsWhileProbesEndInEveryWay) {
  BreakerConfig config = BreakerRig::config();
  config.probes = 20;
  config.probes_in_flight = 4;
  config.probe_successes = 20;
  BreakerRig rig(config);
  rig.half_open();
  std::atomic<int> in_flight{0};
  std::atomic<int> most{0};
  std::atomic<int> votes{0};
  together(6, [&](int t) {
    std::mt19937 random(static_cast<unsigned>(t));
    for (int i = 0; i < 20'000; ++i) {
      Admission a = rig.breaker.admit();
      if (!a || !a.permit().is_probe()) continue;
      const int now = ++in_flight;
      int seen = most.load();
      while (now > seen && !most.compare_exchange_weak(seen, now)) {
      }
      --in_flight;
      if (random() % 500 == 0) {
        ++votes;
        a.permit().ok();
      } else if (random() % 2 == 0) {
        a.permit().report(Outcome::cancelled);
      }
    }
  });
  EXPECT_LE(most, 4);
  EXPECT_LE(votes, 20);
  EXPECT_EQ(rig.breaker.snapshot().late, 0U);
}

TEST(BreakerThreads, ManyThreadsFailingAtOnceOpenItOnce) {
  BreakerRig rig;
  together(8, [&](int) { rig.calls(500, Outcome::failure); });
  EXPECT_EQ(rig.breaker.snapshot().opened, 1U);
  EXPECT_EQ(rig.events.size(), 1U);
}

TEST(BreakerThreads, AnOpeningIsNeverSeenWithoutItsDeadline) {
  // sentinel: whoever came between the state and its stamp went half-open at once
  BreakerConfig config = BreakerRig::config();
  config.consecutive_failures = 1;
  ManualClock clock;
  Breaker breaker = Breaker::make("upstream", config, {.clock = &clock}).value();
  std::atomic<bool> over{false};
  std::thread looking([&] {
    while (!over) {
      Admission a = breaker.admit();
      if (!a) continue;
      EXPECT_FALSE(a.permit().is_probe()) << "its wait cannot be over: no time passes";
    }
  });
  for (int i = 0; i < 2'000; ++i) {
    breaker.trip();
    breaker.close();
  }
  over = true;
  looking.join();
}

TEST(BreakerThreads, EventsComeInOrderOneAtATime) {
  ManualClock clock;
  std::atomic<int> inside{0};
  std::uint64_t last = 0;
  BreakerState state = BreakerState::closed;
  const auto listener = [&](const BreakerEvent& event) {
    EXPECT_EQ(++inside, 1);
    EXPECT_EQ(event.seq, last + 1);
    EXPECT_EQ(event.from, state) << "each begins where the one before it ended";
    last = event.seq;
    state = event.to;
    --inside;
  };
  Breaker breaker =
      Breaker::make("upstream", BreakerRig::config(), {.clock = &clock, .listener = listener})
          .value();
  together(4, [&](int) {  // 800 events: fewer than the queue holds, so none is dropped
    for (int i = 0; i < 100; ++i) {
      breaker.trip();
      breaker.close();
    }
  });
  EXPECT_GE(last, 2U);
}

// What must hold whatever the threads do: no probe beyond the caps, no stale vote, no wedge.
TEST(BreakerThreads, SurvivesEverythingAtOnce) {
  BreakerConfig config = BreakerRig::config();
  config.failure_percent = 50;
  config.slow_percent = 90;
  config.slow_call = 1ms;
  config.open_wait = 2ms;
  config.max_open_wait = 4ms;
  config.probe_deadline = 5ms;
  config.max_half_open = 20ms;
  config.ramp = BreakerRamp{.step = 1ms};
  for (const bool timed : {false, true}) {
    config.window = timed ? std::variant<LastCalls, LastTime>(LastTime{1s, 4})
                          : std::variant<LastCalls, LastTime>(LastCalls{20});
    Breaker breaker = Breaker::make("upstream", config).value();
    std::atomic<std::uint64_t> made{0};
    together(4, [&](int t) {
      std::mt19937 random(static_cast<unsigned>(t));
      std::vector<Permit> kept;
      for (int i = 0; i < 20'000; ++i) {
        Admission a = breaker.admit();
        if (a && random() % 8 != 0) {
          ++made;
          a.permit().report(random() % 3 == 0 ? Outcome::failure : Outcome::ok);
        } else if (a) {
          kept.push_back(std::move(a.permit()));
        }
        if (kept.size() > 16) {
          made += kept.size();
          for (Permit& permit : kept) permit.report(Outcome::failure);
          kept.clear();
        }
        if (t == 0 && i % 4'000 == 0) breaker.set_mode(BreakerMode::shadow);
        if (t == 0 && i % 4'000 == 2'000) breaker.set_mode(BreakerMode::automatic);
        if (t == 1 && i % 1'000 == 0) (void)breaker.snapshot();
      }
    });
    const BreakerSnapshot shot = breaker.snapshot();
    EXPECT_LE(shot.ok + shot.failed + shot.slow_calls + shot.late, made.load());
    EXPECT_GT(shot.opened, 0U);
    breaker.set_mode(BreakerMode::automatic);
    breaker.close();
    EXPECT_TRUE(breaker.admit()) << "nothing is stuck";
  }
}

}  // namespace
}  // namespace weir
