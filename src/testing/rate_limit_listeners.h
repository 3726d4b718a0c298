#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "guard/rate_limiter.h"
#include "testing/patience.h"

namespace weir::testing {

// Where late answers are kept until they are asked for.
class Mailbox final : public guard::RateLimitListener {
 public:
  void answered(std::uint64_t ticket, guard::RateLimitAnswer answer) override {
    const std::lock_guard lock(mutex_);
    answers_[ticket] = std::move(answer);
    changed_.notify_all();
  }
  guard::RateLimitAnswer take(std::uint64_t ticket) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return answers_.contains(ticket); }));
    return std::move(answers_[ticket]);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, guard::RateLimitAnswer> answers_;
};

// For those who are answered at once.
class NobodyListens final : public guard::RateLimitListener {
 public:
  void answered(std::uint64_t, guard::RateLimitAnswer) override {
    ADD_FAILURE() << "not a late answer";
  }
};

}  // namespace weir::testing
