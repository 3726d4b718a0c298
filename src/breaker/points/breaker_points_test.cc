// A breaker whose threads are held between two steps, while others go all the way.

#include "breaker/points.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "testing/breaker_rig.h"

namespace weir {
namespace {

using namespace std::chrono_literals;
using breaker::Point;
using testing::BreakerRig;

// The one thread that is to be held, and where.
class Stop {
 public:
  void come(Point point) {
    std::unique_lock lock(mutex_);
    if (point != where_) return;
    where_.reset();
    there_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return go_; });
  }
  void hold(Point point) {
    std::lock_guard lock(mutex_);
    where_ = point;
    there_ = go_ = false;
  }
  // Whether a thread came.
  bool came() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 60s, [&] { return there_; });
  }
  void let_go() {
    std::lock_guard lock(mutex_);
    where_.reset();
    go_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Point> where_;
  bool there_ = false;
  bool go_ = true;
};

Stop& stop() {
  static Stop one;
  return one;
}

// `work` in a thread of its own, held at the point; then `meanwhile` here; then it goes on.
void hold(Point point, const std::function<void()>& work, const std::function<void()>& meanwhile) {
  stop().hold(point);
  std::thread held(work);
  const bool came = stop().came();
  if (came) meanwhile();
  stop().let_go();
  held.join();
  ASSERT_TRUE(came) << "no thread came to that point";
}

BreakerConfig with_rates(bool by_time) {
  BreakerConfig config = BreakerRig::config();
  config.failure_percent = 50;
  config.minimum_calls = 4;
  if (by_time)
    config.window = LastTime{.length = 10s, .buckets = 10};
  else
    config.window = LastCalls{4};
  return config;
}

// Closed anew by an operator, so that a window begins.
void expect_nothing_counted(BreakerRig& rig) {
  const BreakerSnapshot shot = rig.breaker.snapshot();
  EXPECT_EQ(shot.state, BreakerState::closed);
  EXPECT_EQ(shot.calls, 0U);
  EXPECT_EQ(shot.failures, 0U);
  EXPECT_EQ(shot.consecutive_failures, 0U);
  EXPECT_EQ(shot.late, 1U);
}

TEST(BreakerPoints, AResultHeldAfterItsCheckSaysNothingInTheNextGeneration) {
  for (const bool by_time : {false, true}) {
    BreakerRig rig(with_rates(by_time));
    Permit permit = rig.admitted();
    hold(
        Point::word_checked, [&] { permit.failure(); }, [&] { rig.breaker.close(); });
    expect_nothing_counted(rig);
    // A whole window of the new generation is what decides.
    rig.calls(2, Outcome::ok);
    rig.calls(1, Outcome::failure);
    EXPECT_EQ(rig.state(), BreakerState::closed);
    rig.calls(1, Outcome::failure);
    EXPECT_EQ(rig.state(), BreakerState::open);
  }
}

TEST(BreakerPoints, AResultHeldOnItsWayIntoABucketSaysNothingInTheNextGeneration) {
  BreakerRig rig(with_rates(true));
  Permit permit = rig.admitted();
  hold(
      Point::bucket_chosen, [&] { permit.failure(); },
      [&] {
        rig.breaker.close();
        rig.calls(1, Outcome::ok);
      });
  const BreakerSnapshot shot = rig.breaker.snapshot();
  EXPECT_EQ(shot.calls, 1U);
  EXPECT_EQ(shot.failures, 0U);
}

TEST(BreakerPoints, AResultHeldOnItsWayIntoTheTotalsSaysNothingInTheNextGeneration) {
  BreakerRig rig(with_rates(false));
  Permit permit = rig.admitted();
  hold(
      Point::cell_taken, [&] { permit.failure(); },
      [&] {
        rig.breaker.close();
        rig.calls(1, Outcome::ok);
      });
  const BreakerSnapshot shot = rig.breaker.snapshot();
  EXPECT_EQ(shot.calls, 1U);
  EXPECT_EQ(shot.failures, 0U);
  EXPECT_EQ(shot.late, 1U);
}

TEST(BreakerPoints, OpenIsSeenWithItsDeadlineAlways) {
  // sentinel: open was visible before its deadline, so the next call probed at once
  BreakerRig rig;
  rig.calls(2, Outcome::failure);
  Permit last = rig.admitted();
  hold(
      Point::deadline_written, [&] { last.failure(); },
      [&] {
        EXPECT_EQ(rig.state(), BreakerState::closed);
        EXPECT_TRUE(rig.breaker.admit()) << "not open yet, so it goes, and votes nowhere";
      });
  EXPECT_EQ(rig.state(), BreakerState::open);
  const Admission no = rig.breaker.admit();
  ASSERT_FALSE(no);
  EXPECT_EQ(no.rejected().reason, RejectReason::open);
  EXPECT_EQ(no.rejected().retry_after, std::optional(Nanos(1s)));
}

TEST(BreakerPoints, BetweenTwoGenerationsCallsGoAndCountNowhere) {
  for (const bool by_time : {false, true}) {
    BreakerRig rig(with_rates(by_time));
    rig.calls(2, Outcome::failure);
    Permit early = rig.admitted();
    hold(
        Point::generation_left, [&] { rig.breaker.close(); },
        [&] {
          early.failure();  // the third in a row, but of the generation that is over
          EXPECT_TRUE(rig.call(Outcome::failure));
          EXPECT_EQ(rig.state(), BreakerState::closed);
        });
    expect_nothing_counted(rig);
  }
}

TEST(BreakerPoints, WhoSawTheWaitOverFindsWhatOthersMadeOfIt) {
  BreakerRig rig;
  rig.open();
  rig.pass(1s);
  bool admitted = false;
  hold(
      Point::wait_seen_over, [&] { admitted = rig.call(Outcome::ok); },
      [&] {
        // Others probe, fail, and it is open again.
        EXPECT_TRUE(rig.call(Outcome::failure));
        EXPECT_TRUE(rig.call(Outcome::failure));
        EXPECT_EQ(rig.state(), BreakerState::open);
      });
  EXPECT_FALSE(admitted) << "its wait was the one before";
  EXPECT_EQ(rig.state(), BreakerState::open);
}

TEST(BreakerPoints, WhoSawASlotFreeFindsItTaken) {
  BreakerRig rig;
  rig.half_open();
  std::optional<RejectReason> reason;
  Permit other;
  hold(
      Point::slot_seen_free,
      [&] {
        Admission admission = rig.breaker.admit();
        if (!admission) reason = admission.rejected().reason;
      },
      [&] {
        // One that comes to the same point is not held any more.
        other = rig.admitted();
        EXPECT_TRUE(other.is_probe());
      });
  EXPECT_EQ(reason, std::optional(RejectReason::probing));
  EXPECT_EQ(rig.breaker.snapshot().probes_in_flight, 1U);
}

TEST(BreakerPoints, WhoSawASlotFreeInARoundThatIsOverIsNotOfTheNext) {
  BreakerRig rig;
  rig.half_open();
  bool admitted = false;
  hold(
      Point::slot_seen_free, [&] { admitted = rig.call(Outcome::ok); },
      [&] {
        EXPECT_TRUE(rig.call(Outcome::failure));
        EXPECT_TRUE(rig.call(Outcome::failure));
        EXPECT_EQ(rig.state(), BreakerState::open);
      });
  EXPECT_FALSE(admitted);
  EXPECT_EQ(rig.breaker.snapshot().until_probe, Nanos(2s));
}

}  // namespace

namespace breaker {

void at(Point point) noexcept {
  stop().come(point);
}

}  // namespace breaker
}  // namespace weir
