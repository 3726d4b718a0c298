#pragma once

#include <chrono>
#include <utility>
#include <vector>

#include "testing/manual_clock.h"
#include "weir/breaker.h"

namespace weir::testing {

// A breaker on a clock of its own that keeps its events.
struct BreakerRig {
  // Opens at the third failure in a row, waits 1 s without jitter, needs two of three probes, one
  // at a time, and closes without a ramp.
  static BreakerConfig config() {
    BreakerConfig config;
    config.consecutive_failures = 3;
    config.failure_percent.reset();
    config.window = LastCalls{10};
    config.minimum_calls = 4;
    config.open_wait = std::chrono::seconds(1);
    config.max_open_wait = std::chrono::seconds(16);
    config.jitter_percent = 0;
    config.probes = 3;
    config.probe_successes = 2;
    config.probe_deadline = std::chrono::seconds(10);
    config.max_half_open = std::chrono::seconds(30);
    config.ramp.reset();
    return config;
  }

  explicit BreakerRig(const BreakerConfig& given = config())
      : breaker(Breaker::make("upstream", given,
                              {.clock = &clock,
                               .listener = [this](const BreakerEvent& e) { events.push_back(e); },
                               .seed = 1})
                    .value()) {}
  BreakerRig(const BreakerRig&) = delete;

  // Admitted and reported at once; false: rejected.
  bool call(CallVerdict verdict) {
    Admission admission = breaker.admit();
    if (!admission) return false;
    admission.permit().report(verdict);
    return true;
  }
  int calls(int times, CallVerdict verdict) {
    int made = 0;
    for (int i = 0; i < times; ++i) made += call(verdict) ? 1 : 0;
    return made;
  }
  Permit admitted() {
    Admission admission = breaker.admit();
    return admission ? std::move(admission.permit()) : Permit();
  }
  void pass(Nanos time) { clock.advance(time); }
  BreakerState state() const { return breaker.state(); }
  // From closed to open, through its own rule.
  void open() { calls(3, Outcome::failure); }
  // To half-open, without a probe.
  void half_open() {
    open();
    pass(breaker.snapshot().until_probe);
    breaker.poll();
  }

  ManualClock clock;
  std::vector<BreakerEvent> events;
  Breaker breaker;
};

}  // namespace weir::testing
