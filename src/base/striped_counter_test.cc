#include "base/striped_counter.h"

#include <gtest/gtest.h>

#include <latch>
#include <set>
#include <thread>
#include <vector>

namespace weir {
namespace {

TEST(StripedCounter, LosesNothingWithMoreThreadsThanStripes) {
  constexpr std::size_t kThreads = kOwnedStripes + 8;
  constexpr std::uint64_t kAdds = 2000;
  StripedCounter counter;
  std::latch all_here(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      counter.add();
      all_here.arrive_and_wait();  // so that all live at once and some must share
      for (std::uint64_t n = 1; n < kAdds; ++n) counter.add();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter.sum(), kThreads * kAdds);
}

TEST(StripedCounter, GivesEachLivingThreadAStripeOfItsOwn) {
  constexpr std::size_t kThreads = 8;
  std::latch all_here(kThreads);
  std::vector<std::size_t> stripes(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      stripes[i] = counter_stripe();
      all_here.arrive_and_wait();
      EXPECT_EQ(counter_stripe(), stripes[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::set<std::size_t>(stripes.begin(), stripes.end()).size(), kThreads);
}

TEST(StripedCounter, UsesTheStripesOfEndedThreadsAgain) {
  StripedCounter counter;
  for (std::size_t i = 0; i < 4 * kOwnedStripes; ++i) {
    std::thread([&] {
      EXPECT_LT(counter_stripe(), kOwnedStripes) << "thread " << i << " found all stripes taken";
      counter.add(3);
    }).join();
  }
  EXPECT_EQ(counter.sum(), 4 * kOwnedStripes * 3);
}

}  // namespace
}  // namespace weir
