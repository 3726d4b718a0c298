#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "weir/breaker_config.h"
#include "weir/clock.h"

namespace weir::breaker {

// The probes of one half-open time: who has a slot, who has voted, and what is decided.
//
// Guarantees:  probes that have a slot and votes are together at most `probes`; slots at most
//              `probes_in_flight`; a slot is given back once, by its own probe or by its deadline.
// Threads:     one at a time.
class HalfOpen {
 public:
  struct Slot {
    std::uint16_t index = 0;
    std::uint32_t probe = 0;  // tells it from earlier ones in the same slot
  };
  enum class Decision : std::uint8_t { none, passed, failed };
  enum class Vote : std::uint8_t { success, failure, none };

  // Makes room for the slots of a configuration, so that nothing is allocated later.
  void fit(const BreakerConfig& config);
  void begin(MonoTime now) noexcept;
  // A slot for a probe that starts now; absent where none is free or all votes are spoken for.
  std::optional<Slot> take(const BreakerConfig& config, MonoTime now) noexcept;
  // A probe ended. False: its slot was not its own any more; it did not vote.
  bool settle(Slot slot, Vote vote) noexcept;
  // Takes back the slots whose deadline has come; returns how many.
  std::uint32_t expire(const BreakerConfig& config, MonoTime now) noexcept;
  // What the votes say, as soon as no further vote could change it.
  Decision decide(const BreakerConfig& config) const noexcept;

  // When the next slot frees itself; absent: none is taken.
  std::optional<MonoTime> next_deadline() const noexcept;
  MonoTime since() const noexcept { return since_; }
  std::uint32_t in_flight() const noexcept { return in_flight_; }
  std::uint32_t successes() const noexcept { return successes_; }
  std::uint32_t failures() const noexcept { return failures_; }

 private:
  struct Probe {
    MonoTime deadline{};
    std::uint32_t number = 0;
    bool out = false;
  };
  void count(Vote vote) noexcept;

  std::vector<Probe> slots_;
  MonoTime since_{};
  std::uint32_t number_ = 0;
  std::uint32_t in_flight_ = 0;
  std::uint32_t successes_ = 0;
  std::uint32_t failures_ = 0;
};

}  // namespace weir::breaker
