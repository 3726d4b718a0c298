#pragma once

#include <gtest/gtest.h>

#include "limit/sliding_log.h"
#include "limit/step.h"

namespace weir::testing {

// A step table that reads from top to bottom: what is asked at which time, and what must come back.
//
//   story.at(5s).take(1).limited(0, 1s);
//
// One counter, fresh at the start; times count from 2023-11-14T22:13:20Z, or from `epoch`. Each
// step is carried out. Works for every algorithm, the log included. Only for tests.
class Story {
 public:
  explicit Story(const limit::Request& request, Nanos epoch = std::chrono::seconds(1'700'000'000))
      : numbers_(limit::Numbers::make(request).value()), epoch_(epoch), now_(epoch) {}

  Story& at(Nanos since_start) {
    now_ = Instant{epoch_ + since_start};
    return *this;
  }
  Story& take(std::uint64_t cost) {
    return done(log() ? limit::log_take(numbers_, log_, now_, cost)
                      : limit::take(numbers_, state_, now_, cost));
  }
  Story& drain(std::uint64_t cost) {
    return done(log() ? limit::log_drain(numbers_, log_, now_, cost)
                      : limit::drain(numbers_, state_, now_, cost));
  }
  Story& refund(std::uint64_t cost, Instant receipt) {
    return done(log() ? limit::log_refund(numbers_, log_, now_, cost, receipt)
                      : limit::refund(numbers_, state_, now_, cost, receipt));
  }
  // The rule's numbers change; what is used is converted.
  Story& becomes(const limit::Request& request) {
    const limit::Numbers to = limit::Numbers::make(request).value();
    if (!log()) state_ = limit::convert(numbers_, to, state_, now_);
    numbers_ = to;
    return *this;
  }

  Story& allowed(std::uint32_t remaining) {
    return expect(limit::Outcome::allowed, remaining, Nanos(0));
  }
  Story& limited(std::uint32_t remaining, Nanos retry) {
    return expect(limit::Outcome::limited, remaining, retry);
  }
  Story& never(std::uint32_t remaining) {
    return expect(limit::Outcome::never_fits, remaining, Nanos(0));
  }
  Story& resets_after(Nanos wait) {
    EXPECT_EQ(Nanos(step_.reset_after_ns).count(), wait.count()) << where();
    return *this;
  }

  Instant now() const { return now_; }
  Instant receipt() const { return step_.receipt(); }
  const limit::Step& step() const { return step_; }
  const limit::State& state() const { return state_; }
  const limit::Numbers& numbers() const { return numbers_; }

 private:
  bool log() const { return numbers_.algorithm == Algorithm::sliding_log; }
  Story& done(const limit::Step& step) {
    ++count_;
    step_ = step;
    if (!log()) state_ = step.next;
    return *this;
  }
  Story& expect(limit::Outcome outcome, std::uint32_t remaining, Nanos retry) {
    EXPECT_EQ(static_cast<int>(step_.outcome), static_cast<int>(outcome)) << where();
    EXPECT_EQ(step_.remaining, remaining) << where();
    EXPECT_EQ(step_.retry_after_ns, retry.count()) << where();
    return *this;
  }
  std::string where() const {
    return "step " + std::to_string(count_) + " at " +
           std::to_string((now_.time_since_epoch() - epoch_).count()) + " ns";
  }

  limit::Numbers numbers_;
  Nanos epoch_;
  Instant now_;
  limit::State state_;
  limit::LogState log_;
  limit::Step step_;
  int count_ = 0;
};

}  // namespace weir::testing
