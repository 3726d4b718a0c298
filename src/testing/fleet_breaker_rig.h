#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "breaker/breaker_core.h"
#include "testing/breaker_rig.h"
#include "testing/circuit_rig.h"
#include "testing/manual_clock.h"

namespace weir::testing {

// Workers that share one breaker, and their store in this process: the shipped scripts, and no
// network but the one that a test plays. Time moves when told to.
class FleetBreakerRig {
 public:
  using Due = breaker::FleetPart::Due;

  struct Worker final : breaker::FleetCarrier {
    Worker(FleetBreakerRig& of, const BreakerConfig& config, std::uint64_t number)
        : rig(of),
          who(number),
          breaker(Breaker::make("payments", config,
                                {.clock = &of.clock,
                                 .listener = [this](const BreakerEvent& e) { events.push_back(e); },
                                 .seed = number})
                      .value()) {
      core().share(this, number);
    }
    ~Worker() override { core().share(nullptr, 0); }

    void poke() noexcept override { ++pokes; }
    bool answers() const noexcept override { return up; }
    bool may_wait() const noexcept override { return false; }
    Nanos patience() const noexcept override { return std::chrono::milliseconds(20); }
    BreakerCore& core() const { return *BreakerCore::of(breaker); }

    // Everything that is to be said reaches the store, and its answer this worker.
    void talk() {
      for (;;) {
        const std::vector<Due> due = core().fleet_due(up, rig.clock.mono());
        if (due.empty()) return;
        for (const Due& each : due) carry(each);
      }
    }
    void carry(const Due& due) {
      if (!up) return core().fleet_heard(due.ticket, nullptr, false, rig.clock.mono());
      words.push_back(due.action.kind);
      rig.store.redis.set_now(rig.clock.now());
      const auto reply = rig.store.run(due.action);
      core().fleet_heard(due.ticket, &reply, false, rig.clock.mono());
    }
    // Sees what stands in the store, as a poll does.
    void look() {
      if (!up) return;
      rig.store.redis.set_now(rig.clock.now());
      const auto reply = rig.store.read();
      core().fleet_read(reply.kept ? std::optional(reply.record) : std::nullopt, reply.now,
                        rig.clock.mono());
    }
    // A call that asks to go: whether it does.
    std::optional<Permit> admit() {
      std::optional<Permit> out;
      breaker.admit_async([&](Admission admission) {
        if (admission) out = std::move(admission.permit());
      });
      talk();
      return out;
    }
    bool call(CallVerdict verdict) {
      std::optional<Permit> permit = admit();
      if (!permit) return false;
      permit->report(verdict);
      talk();
      return true;
    }
    int calls(int times, CallVerdict verdict) {
      int made = 0;
      for (int i = 0; i < times; ++i) made += call(verdict) ? 1 : 0;
      return made;
    }
    BreakerState state() const { return breaker.state(); }

    FleetBreakerRig& rig;
    std::uint64_t who;
    bool up = true;
    int pokes = 0;  // how often it asked to be heard at once
    std::vector<store::redis::CircuitAction::Kind> words;
    std::vector<BreakerEvent> events;
    Breaker breaker;
  };

  explicit FleetBreakerRig(std::size_t count, const BreakerConfig& config = BreakerRig::config())
      : store(config) {
    for (std::size_t i = 0; i < count; ++i)
      workers.push_back(std::make_unique<Worker>(*this, config, i + 1));
  }
  Worker& operator[](std::size_t i) { return *workers[i]; }
  // Time passes, and everybody looks at the store at its end.
  void pass(Nanos time) {
    clock.advance(time);
    look();
  }
  // Everybody has calls enough to have a say, and finds nothing wrong. The first vote makes the
  // record, and the others are said again in its epoch.
  void report_good() {
    for (const auto& worker : workers) worker->calls(5, Outcome::ok);
    pass(std::chrono::milliseconds(250));
    pass(std::chrono::milliseconds(150));
  }
  void look() {
    for (const auto& worker : workers) worker->look();
    for (const auto& worker : workers) worker->talk();
    for (const auto& worker : workers) worker->look();
  }

  ManualClock clock;
  CircuitRig store;
  std::vector<std::unique_ptr<Worker>> workers;
};

}  // namespace weir::testing
