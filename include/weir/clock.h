#pragma once

#include <chrono>

namespace weir {

using Nanos = std::chrono::nanoseconds;

// Wall time: nanoseconds since 1970-01-01T00:00:00Z. Windows and stored states live in it. May
// step.
using Instant = std::chrono::time_point<std::chrono::system_clock, Nanos>;

// Monotonic time: deadlines and waits live in it. Cannot be subtracted from an Instant, on purpose.
using MonoTime = std::chrono::time_point<std::chrono::steady_clock, Nanos>;

// Where time comes from. Only main() takes the real one; everything else is handed a Clock.
//
// Threads:     every member may be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual Instant now() const noexcept = 0;
  virtual MonoTime mono() const noexcept = 0;
  // Returns once mono() >= until. A simulated clock returns when somebody moved it there.
  virtual void sleep_until(MonoTime until) = 0;

  // The machine's clocks. Lives as long as the process.
  static Clock& real() noexcept;
};

}  // namespace weir
