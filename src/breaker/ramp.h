#pragma once

#include <cstdint>

#include "breaker/tally.h"
#include "weir/breaker_config.h"
#include "weir/clock.h"

namespace weir::breaker {

// The part of the calls that goes while a breaker recovers.
//
// Guarantees:  no step lets more than growth_percent of the step before through; the part is never
//              below the first.
// Threads:     one at a time.
class Ramp {
 public:
  enum class Change : std::uint8_t { none, stepped, fell_back, failed, done };
  static constexpr std::uint32_t kAll = 0x10000;

  void begin(const BreakerRamp& ramp, MonoTime now) noexcept;
  // A call of this recovery ended.
  Change record(const BreakerConfig& config, Vote vote, MonoTime now) noexcept;
  // Lets time pass.
  Change poll(const BreakerConfig& config, MonoTime now) noexcept;

  std::uint32_t share() const noexcept { return share_; }  // of kAll
  MonoTime step_end() const noexcept { return step_end_; }
  const Tally& tally() const noexcept { return tally_; }   // of this step
  std::uint64_t calls() const noexcept { return calls_; }  // since it began

 private:
  bool bad(const BreakerConfig& config, std::uint32_t minimum) const noexcept;
  Change strike(const BreakerRamp& ramp, MonoTime now) noexcept;
  void start_step(const BreakerRamp& ramp, std::uint32_t share, MonoTime now) noexcept;

  std::uint32_t share_ = kAll;
  std::uint32_t first_ = kAll;
  MonoTime step_start_{};
  MonoTime step_end_{};
  Tally tally_;
  std::uint64_t calls_ = 0;
  std::uint32_t run_ = 0;  // failures in a row
  std::uint32_t strikes_ = 0;
};

}  // namespace weir::breaker
