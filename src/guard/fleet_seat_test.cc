// How a worker leaves the fleet of a shard, on a simulated server: whether the others hear of it,
// or have to wait until its part is forgotten.

#include "guard/fleet_seat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "guard/shard_driver.h"
#include "testing/sim/sim_redis.h"

namespace weir::guard {
namespace {

using namespace std::chrono_literals;
using testing::SimLink;
using testing::SimLoop;
using testing::SimRedis;
using testing::SimWire;

constexpr std::string_view kName = "worker-one";

// A worker that reads in the store who is there, on its way to a connection.
class Seated : private ShardDriver::Host {
 public:
  Seated()
      : redis(loop, 1),
        wire_(loop, redis, link),
        driver(options(), store::redis::KeySpace::make("weir", "").value(), wire_, loop, nullptr,
               *this) {
    redis.on_command = [this](const std::vector<std::string>& command) {
      if (std::find(command.begin(), command.end(), kName) != command.end()) ++beats_;
    };
    driver.start();
  }
  ~Seated() override { driver.stop(); }

  // Until the server has carried out another beat, whose reply is on its way then.
  void until_a_beat_is_out() {
    const int before = beats_;
    const MonoTime give_up = loop.mono() + 2 * ladder::MembershipKeeper::kBeat;
    while (beats_ == before && loop.mono() < give_up) loop.run_for(50us);
    ASSERT_GT(beats_, before);
  }
  bool leave() {
    left_at_ = loop.mono();
    return driver.leave([this] {
      ++told_;
      told_after_ = loop.mono() - left_at_;
    });
  }
  // What the store has: the list of members, with the names as they are.
  bool is_listed() const {
    for (const auto& [key, value] : redis.keys()) {
      const auto* const text = std::get_if<std::string>(&value.data);
      if (text != nullptr && text->starts_with('m') && text->find(kName) != std::string::npos) {
        return true;
      }
    }
    return false;
  }
  int told() const { return told_; }
  Nanos told_after() const { return told_after_; }
  int beats() const { return beats_; }

  SimLoop loop;
  SimRedis redis;
  SimLink link;

 private:
  static ShardDriver::Options options() {
    ShardDriver::Options options = ShardDriver::Options::of({}, 1);
    options.seat.role = FleetRole::worker;
    options.seat.name = kName;
    options.seat.process = 7;
    return options;
  }
  void wake_at(MonoTime when) override {
    loop.at(when, [this, number = ++wake_] {
      if (number == wake_) driver.on_wake();
    });
  }

  SimWire wire_;
  std::uint64_t wake_ = 0;
  int beats_ = 0;
  int told_ = 0;
  MonoTime left_at_{};
  Nanos told_after_{0};

 public:
  ShardDriver driver;
};

TEST(FleetSeat, ThatIsLeftIsTakenOffTheListAtOnce) {
  Seated worker;
  worker.loop.run_for(100ms);
  ASSERT_TRUE(worker.is_listed());
  ASSERT_TRUE(worker.leave());
  worker.loop.run_for(2ms);
  EXPECT_EQ(worker.told(), 1);
  EXPECT_FALSE(worker.is_listed());
}

// One beat is on its way at a time: what says that this worker leaves goes out after it.
TEST(FleetSeat, ThatIsLeftWhileABeatIsOutIsTakenOffTheListWhenThatIsAnswered) {
  Seated worker;
  worker.loop.run_for(100ms);
  worker.until_a_beat_is_out();
  ASSERT_TRUE(worker.leave());
  EXPECT_EQ(worker.told(), 0);
  EXPECT_TRUE(worker.is_listed());
  worker.loop.run_for(2ms);
  EXPECT_EQ(worker.told(), 1);
  EXPECT_FALSE(worker.is_listed());
  // And nothing puts it there again.
  worker.loop.run_for(1min);
  EXPECT_FALSE(worker.is_listed());
}

// The server knows of it already, and this process does not know that yet.
TEST(FleetSeat, ThatIsLeftWhileItsFirstBeatIsOutIsTakenOffTheListToo) {
  Seated worker;
  worker.until_a_beat_is_out();
  worker.loop.run_for(50us);
  ASSERT_TRUE(worker.leave());
  worker.loop.run_for(2ms);
  EXPECT_EQ(worker.told(), 1);
  EXPECT_FALSE(worker.is_listed());
}

TEST(FleetSeat, ThatIsLeftWhileABeatIsOutWaitsForItOnlySoLong) {
  for (const bool hangs : {true, false}) {
    SCOPED_TRACE(hangs ? "the server hangs" : "the reply does not come");
    Seated worker;
    worker.loop.run_for(100ms);
    worker.until_a_beat_is_out();
    if (hangs) worker.redis.hang();
    worker.link.cut_down = !hangs;
    ASSERT_TRUE(worker.leave());
    worker.loop.run_for(2 * FleetSeat::kPatience);
    EXPECT_EQ(worker.told(), 1);
    EXPECT_LE(worker.told_after(), 2 * FleetSeat::kPatience);
  }
}

TEST(FleetSeat, ThatIsLeftTwiceSaysSoOnce) {
  Seated worker;
  worker.loop.run_for(100ms);
  worker.until_a_beat_is_out();
  const int beats = worker.beats();
  ASSERT_TRUE(worker.leave());
  EXPECT_FALSE(worker.leave());
  worker.loop.run_for(1s);
  EXPECT_EQ(worker.told(), 1);
  EXPECT_LE(worker.beats() - beats, 2) << "its text may be asked for once";
}

}  // namespace
}  // namespace weir::guard
