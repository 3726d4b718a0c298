#include "store/redis/store_clock.h"

#include <gtest/gtest.h>

#include <random>

namespace weir::store::redis {
namespace {

using namespace std::chrono_literals;

constexpr MonoTime kMono{1'000s};
constexpr Instant kStore{1'700'000'000s};

TEST(StoreClock, HoldsTheStoresTimeBetweenItsBounds) {
  StoreClock clock;
  EXPECT_FALSE(clock.known());
  clock.observe(kMono, kMono + 4ms, kStore + 1ms);  // read 1 ms after it was asked for
  ASSERT_TRUE(clock.known());
  EXPECT_LE(clock.earliest(kMono + 4ms), kStore + 4ms);
  EXPECT_GE(clock.latest(kMono + 4ms), kStore + 4ms);
  // A quicker reply narrows it.
  clock.observe(kMono + 10ms, kMono + 10ms + 100us, kStore + 10ms + 50us);
  EXPECT_GE(clock.earliest(kMono + 20ms), kStore + 20ms - 60us);
  EXPECT_LE(clock.latest(kMono + 20ms), kStore + 20ms + 60us);
  // A slow one afterwards does not widen it.
  clock.observe(kMono + 20ms, kMono + 60ms, kStore + 40ms);
  EXPECT_GE(clock.earliest(kMono + 60ms), kStore + 60ms - 80us);
}

TEST(StoreClock, BelievesAClockThatWasSet) {
  StoreClock clock;
  clock.observe(kMono, kMono + 1ms, kStore);
  EXPECT_TRUE(clock.observe(kMono + 10ms, kMono + 11ms, kStore + 1010ms));
  EXPECT_GE(clock.earliest(kMono + 11ms), kStore + 1010ms);
  EXPECT_TRUE(clock.observe(kMono + 20ms, kMono + 21ms, kStore - 1h));
  EXPECT_LE(clock.latest(kMono + 21ms), kStore - 1h + 2ms);
}

TEST(StoreClock, NeverExcludesTheTruthUnderRandomDelaysAndDrift) {
  std::mt19937_64 random(7);
  StoreClock clock;
  MonoTime now = kMono;
  const double rate = 1.0001;  // the store's clock runs 100 parts in a million fast
  const auto truth = [&](MonoTime at) {
    const auto passed = static_cast<double>((at - kMono).count());
    return kStore + Nanos{static_cast<std::int64_t>(passed * rate)};
  };
  for (int i = 0; i < 5'000; ++i) {
    now += Nanos{static_cast<std::int64_t>(random() % 50'000'000)};
    const MonoTime sent = now;
    now += Nanos{static_cast<std::int64_t>(random() % 3'000'000)};
    const MonoTime read = now;
    now += Nanos{static_cast<std::int64_t>(random() % 3'000'000)};
    const auto us = std::chrono::floor<std::chrono::microseconds>(truth(read));
    EXPECT_FALSE(clock.observe(sent, now, us));
    EXPECT_LE(clock.earliest(now), truth(now) + 1us);
    EXPECT_GE(clock.latest(now) + 1us, truth(now));
  }
}

}  // namespace
}  // namespace weir::store::redis
