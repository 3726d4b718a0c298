#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "weir/clock.h"

namespace weir::breaker {

enum class ProbeState : std::uint8_t {
  closed,      // every key may ask
  open,        // none may; a probe is due at the end of the cooldown
  recovering,  // the probe succeeded; a growing part of the keys may ask
};

const char* to_string(ProbeState state);

struct ProbeBreakerConfig {
  std::uint32_t failures = 5;  // consecutive ones that open; at least 1
  Nanos slow_call{0};  // a call slower than this counts as slow, answered or not; 0: none does
  std::uint32_t slow_percent = 50;  // of the calls in a second, once there are slow_minimum of them
  std::uint32_t slow_minimum = 20;
  Nanos cooldown{
      std::chrono::milliseconds(500)};  // before the first probe; doubles with each failed one
  Nanos max_cooldown{std::chrono::seconds(5)};
  std::uint32_t jitter_percent = 20;  // each cooldown is drawn from cooldown * (1 +- jitter)
  std::uint32_t ramp_steps = 4;       // recovery lets 1/steps, 2/steps, … of the keys ask
  Nanos ramp_step{std::chrono::milliseconds(250)};  // for this long each
};

// Decides whether a store is asked at all. Unlike a caller's breaker it never risks a caller's
// request: its owner's timer sends the probe, and recovery ramps by key, so that one key is either
// asked everywhere or nowhere.
//
// Guarantees:  opens at the N-th consecutive failure and at the slow-call rate; from the store's
// return to `closed`
//              passes at most max_cooldown * (1 + jitter) + probe + ramp_steps * ramp_step. A
//              result that belongs to an earlier generation (asked before the last opening) never
//              votes.
// Time:        every instant is passed in; poll() must be called at or after next_event().
// Threads:     any. admits() is one relaxed load; the others take a lock, on the closed path only
// when there is
//              something to count.
class ProbeBreaker {
 public:
  // What just changed, for logs, metrics and the release of waiting calls.
  enum class Change : std::uint8_t {
    none,
    opened,
    probing,
    recovering,
    stepped,
    fell_back,
    closed
  };

  ProbeBreaker(const ProbeBreakerConfig& config, std::uint64_t random_seed);

  // Whether a key may ask now. `spread` is a hash of the key that the whole fleet shares.
  bool admits(std::uint64_t spread) const noexcept {
    return (spread & 0xffff) < threshold_.load(std::memory_order_acquire);
  }
  // Taken before asking, handed back with the result.
  std::uint32_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }

  // The store answered, whatever the answer was.
  Change on_answer(std::uint32_t generation, Nanos latency, MonoTime now);
  // The store did not answer within our own deadline, or answered with a fault of its own, after so
  // long.
  Change on_failure(std::uint32_t generation, Nanos latency, MonoTime now);

  // Advances by the clock. Change::probing asks the caller to send one probe and report it.
  Change poll(MonoTime now);
  Change on_probe(bool answered, MonoTime now);
  // Whatever was away may be back: the probe that an open breaker waits for is due now.
  void hasten(MonoTime now);
  // Opens at once, for faults that need no count (the self-test found a replica, credentials
  // refused).
  Change trip(MonoTime now);

  // When poll() next has something to do; absent while closed or while a probe is out.
  std::optional<MonoTime> next_event() const;
  // What a refused caller may be told: when the next probe is due. Absent while closed.
  std::optional<Nanos> until_probe(MonoTime now) const;
  // When a call that failed just now may be tried again: the time to the next probe, or, while the
  // breaker has not opened, as long as it would be then.
  Nanos retry_hint(MonoTime now) const { return until_probe(now).value_or(config_.cooldown); }
  // What since() says until the first change.
  void begin(MonoTime now);

  ProbeState state() const;
  MonoTime since() const;
  // The longest time from the store's return until every key asks again.
  Nanos recovery_bound() const;

 private:
  Change open_locked(MonoTime now);
  void draw_cooldown_locked(MonoTime now);
  void set_step_locked(std::uint32_t step, MonoTime now);
  bool count_call_locked(Nanos latency, MonoTime now);

  const ProbeBreakerConfig config_;
  std::atomic<std::uint32_t> threshold_{0x10000};  // of 65,536 parts of the keys
  std::atomic<std::uint32_t> generation_{1};
  std::atomic<std::uint32_t> consecutive_{0};

  mutable std::mutex mutex_;
  ProbeState state_ = ProbeState::closed;
  MonoTime since_{};
  MonoTime event_at_{};
  bool probe_out_ = false;
  std::uint32_t attempt_ = 0;  // openings and failed probes since the last full recovery
  std::uint32_t step_ = 0;
  std::uint64_t random_;
  MonoTime slow_window_{};
  std::uint32_t calls_ = 0;
  std::uint32_t slow_ = 0;
};

}  // namespace weir::breaker
