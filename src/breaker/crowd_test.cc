#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "testing/breaker_rig.h"
#include "weir/concurrency.h"

// A thousand threads on one breaker, and on one limit: nothing is exceeded, nothing is lost.

namespace weir {
namespace {

using namespace std::chrono_literals;
using testing::BreakerRig;

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEIR_CROWD_IS_WATCHED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define WEIR_CROWD_IS_WATCHED 1
#endif
#if defined(WEIR_CROWD_IS_WATCHED)
constexpr int kCrowd = 64;  // the sanitizer looks at every pair
#else
constexpr int kCrowd = 1'000;
#endif

// Runs `work` in as many threads, or as many as the machine gives; they begin together. Returns how
// many there were.
int crowd(const std::function<void(int)>& work) {
  std::atomic<bool> go{false};
  std::vector<std::thread> all;
  try {
    for (int t = 0; t < kCrowd; ++t)
      all.emplace_back([&, t] {
        go.wait(false);
        work(t);
      });
  } catch (const std::system_error&) {  // no more threads: these will do
  }
  go = true;
  go.notify_all();
  for (std::thread& thread : all) thread.join();
  return static_cast<int>(all.size());
}

// The most that were ever inside at once.
class Inside {
 public:
  void enter(std::int64_t weight = 1) {
    const std::int64_t now = inside_ += weight;
    std::int64_t seen = most_;
    while (now > seen && !most_.compare_exchange_weak(seen, now)) {
    }
  }
  void leave(std::int64_t weight = 1) { inside_ -= weight; }
  std::int64_t most() const { return most_; }

 private:
  std::atomic<std::int64_t> inside_{0};
  std::atomic<std::int64_t> most_{0};
};

TEST(BreakerCrowd, LosesNoVoteOfAThousandThreads) {
  constexpr int kEach = 10;
  BreakerConfig config = BreakerRig::config();
  config.consecutive_failures.reset();
  config.failure_percent = 100;
  config.window = LastCalls{10'000};
  config.minimum_calls = 10'000;
  BreakerRig rig(config);
  const int threads = crowd([&](int t) {
    for (int i = 0; i < kEach; ++i) {
      Admission admission = rig.breaker.admit();
      ASSERT_TRUE(admission);
      admission.permit().report(i == t % kEach ? Outcome::failure : Outcome::ok);
    }
  });
  ASSERT_GE(threads, 8);
  const auto each = static_cast<std::uint64_t>(threads);
  const BreakerSnapshot shot = rig.breaker.snapshot();
  EXPECT_EQ(shot.failed, each);
  EXPECT_EQ(shot.ok, each * (kEach - 1));
  EXPECT_EQ(shot.calls, each * kEach) << "in the window, too";
  EXPECT_EQ(shot.failures, each);
  EXPECT_EQ(shot.late, 0U);
  EXPECT_EQ(rig.state(), BreakerState::closed);
}

TEST(BreakerCrowd, SendsNoMoreProbesThanItMayAndGetsEveryOneBack) {
  BreakerConfig config = BreakerRig::config();
  config.probes = 40;
  config.probes_in_flight = 7;
  config.probe_successes = 40;
  BreakerRig rig(config);
  rig.half_open();
  Inside inside;
  std::atomic<int> votes{0};
  std::atomic<int> given_back{0};
  crowd([&](int t) {
    for (int i = 0; i < 20; ++i) {
      Admission admission = rig.breaker.admit();
      if (!admission || !admission.permit().is_probe()) continue;
      inside.enter();
      std::this_thread::yield();
      inside.leave();
      if ((t + i) % 3 == 0) {
        ++votes;
        admission.permit().ok();
      } else {
        ++given_back;
        if (i % 2 == 0) admission.permit().report(Outcome::cancelled);
      }
    }
  });
  EXPECT_LE(inside.most(), 7);
  EXPECT_LE(votes, 40);
  const BreakerSnapshot shot = rig.breaker.snapshot();
  EXPECT_EQ(shot.probes_in_flight, 0U);
  EXPECT_EQ(shot.late, 0U);
  // Every vote counts, and those that are missing decide.
  if (shot.state == BreakerState::half_open) {
    EXPECT_EQ(shot.calls, static_cast<std::uint32_t>(votes.load()));
    for (int i = votes; i < 40; ++i) ASSERT_TRUE(rig.call(Outcome::ok)) << i;
  }
  EXPECT_EQ(rig.state(), BreakerState::closed);
}

TEST(BreakerCrowd, OpensOnceHoweverManyFailAtOnce) {
  BreakerRig rig;
  crowd([&](int) { rig.calls(5, Outcome::failure); });
  EXPECT_EQ(rig.breaker.snapshot().opened, 1U);
  const BreakerSnapshot shot = rig.breaker.snapshot();
  EXPECT_GE(shot.failed, 3U);
  EXPECT_EQ(shot.ok, 0U);
}

TEST(ConcurrencyCrowd, NeverHoldsMoreThanItsLimitAndGetsEveryUnitBack) {
  constexpr std::uint32_t kLimit = 50;
  Concurrency all =
      Concurrency::make("reports",
                        {.limit = kLimit, .lease = 1h, .max_hold = 2h, .max_waiting = 2'000})
          .value();
  Inside inside;
  std::atomic<int> held{0};
  crowd([&](int t) {
    for (int i = 0; i < 10; ++i) {
      const std::uint32_t weight = 1 + static_cast<std::uint32_t>(t + i) % 3;
      if (i % 3 == 2) {  // by an id, as somebody outside this process holds it
        const std::string id = "holder-" + std::to_string(100'000 + t) + "-" + std::to_string(i);
        if (!all.lease({.id = id, .weight = weight})) continue;
        inside.enter(weight);
        EXPECT_TRUE(all.renew(id));
        inside.leave(weight);
        EXPECT_TRUE(all.release(id));
        EXPECT_FALSE(all.release(id)) << "twice frees nobody else's";
      } else {
        // A few wait in turn; nobody waits in vain, for everybody gives back.
        Slot slot = i == 0 ? all.acquire(weight, 120s) : all.try_acquire(weight);
        if (!slot) {
          EXPECT_NE(i, 0);
          continue;
        }
        inside.enter(weight);
        std::this_thread::yield();
        inside.leave(weight);
      }
      ++held;
    }
  });
  EXPECT_LE(inside.most(), kLimit);
  EXPECT_GT(held, 0);
  EXPECT_EQ(all.snapshot().held, 0U);
  EXPECT_EQ(all.snapshot().leases, 0U);
  EXPECT_EQ(all.snapshot().waiting, 0U);
  EXPECT_TRUE(all.try_acquire(kLimit)) << "nothing leaked, nobody waits";
}

}  // namespace
}  // namespace weir
