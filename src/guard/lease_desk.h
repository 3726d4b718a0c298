#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/key_digest.h"
#include "guard/store_line.h"
#include "ladder/membership.h"
#include "store/redis/physical_key.h"
#include "weir/clock.h"

namespace weir::guard {

class SharedLimit;

// What the concurrency limits that a fleet shares need of their store: the way to it, this worker's
// part while it is away, and a turn now and then.
//
// Threads:     the loop's alone, where nothing else is said.
class LeaseDesk {
 public:
  struct Ports {
    // `wake_at` asks for on_wake() then: one wake-up, a later one replaces an earlier one.
    std::function<void(MonoTime)> wake_at;
    // From any thread: how much of a limit is this worker's, of the counter in that slot and with
    // that digest.
    std::function<std::uint32_t(std::uint32_t limit, std::uint16_t slot, const KeyDigest& digest)>
        part;
    // From any thread: the store's time, as well as it is known.
    std::function<Instant()> store_now;
  };
  // Between two turns at most, while there is anything to tell or to renew.
  static constexpr Nanos kTurn = std::chrono::milliseconds(250);

  LeaseDesk(StoreLine& line, store::redis::KeySpace keys, Clock& clock, Nanos deadline, Ports ports)
      : line_(line),
        keys_(std::move(keys)),
        clock_(clock),
        deadline_(deadline),
        ports_(std::move(ports)) {}

  void on_wake();
  void line_changed() { on_wake(); }

  // ---- From any thread.

  // These limits are shared from now on, and no others.
  void serve(std::vector<std::shared_ptr<SharedLimit>> limits);
  void close() { serve({}); }
  // Something is to be told: a turn comes, at once where none was to come soon.
  void poke() {
    const MonoTime now = clock_.mono();
    if (next_.load() > now + kTurn) turn_by(now);
  }
  // A turn comes, no later than then.
  void turn_by(MonoTime when);

  StoreLine& line() noexcept { return line_; }
  const store::redis::KeySpace& keys() const noexcept { return keys_; }
  Clock& clock() noexcept { return clock_; }
  Nanos deadline() const noexcept { return deadline_; }
  const Ports& ports() const noexcept { return ports_; }

 private:
  StoreLine& line_;
  const store::redis::KeySpace keys_;
  Clock& clock_;
  const Nanos deadline_;
  const Ports ports_;

  static constexpr MonoTime kNone = MonoTime::max();
  void arm();

  std::atomic<MonoTime> next_{kNone};  // when the next turn comes
  std::mutex mutex_;
  std::vector<std::shared_ptr<SharedLimit>> limits_;
};

// How much of a limit is a worker's by this division; 0: none.
std::uint32_t lease_part(const ladder::Division& division, std::uint32_t limit,
                         const KeyDigest& digest) noexcept;

}  // namespace weir::guard
