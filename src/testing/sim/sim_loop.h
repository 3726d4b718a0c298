#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "weir/clock.h"

namespace weir::testing {

// Simulated time, and what happens in it: one event after the other, those of one instant in the
// order in which they were asked for. Time stands still while one is handled.
//
// Threads:     one.
class SimLoop final : public Clock {
 public:
  explicit SimLoop(Instant start = Instant{std::chrono::seconds(1'700'000'000)}) : start_(start) {}

  Instant now() const noexcept override { return start_ + (mono_ - kMonoStart); }
  MonoTime mono() const noexcept override { return mono_; }
  // Nobody may wait in here: there is one thread.
  [[noreturn]] void sleep_until(MonoTime until) override;

  // An instant that has passed means now.
  void at(MonoTime when, std::function<void()> what);
  void after(Nanos delay, std::function<void()> what) { at(mono_ + delay, std::move(what)); }

  // Handles all that is due until then, and moves the time there.
  void run_until(MonoTime until);
  void run_for(Nanos time) { run_until(mono_ + time); }
  std::uint64_t events() const noexcept { return events_; }

 private:
  static constexpr MonoTime kMonoStart{std::chrono::seconds(1'000)};

  struct Event {
    MonoTime when;
    std::uint64_t number;
    std::function<void()> what;
    bool operator<(const Event& other) const noexcept {  // of a heap: the last comes first
      return when != other.when ? when > other.when : number > other.number;
    }
  };

  Instant start_;
  MonoTime mono_ = kMonoStart;
  std::uint64_t asked_for_ = 0;
  std::uint64_t events_ = 0;
  std::vector<Event> heap_;
};

// The clock of one machine in it, whose wall time is off by so much.
class SimClock final : public Clock {
 public:
  explicit SimClock(SimLoop& loop, Nanos ahead = Nanos{0}) : loop_(loop), ahead_(ahead) {}
  Instant now() const noexcept override { return loop_.now() + ahead_; }
  MonoTime mono() const noexcept override { return loop_.mono(); }
  [[noreturn]] void sleep_until(MonoTime until) override { loop_.sleep_until(until); }

 private:
  SimLoop& loop_;
  Nanos ahead_;
};

}  // namespace weir::testing
