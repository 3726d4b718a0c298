#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "base/key_digest.h"
#include "guard/impl.h"
#include "sim/store.h"
#include "sim/usage.h"
#include "testing/sim/sim_loop.h"
#include "testing/sim/sim_process.h"
#include "weir/guard.h"

namespace weir::sim {

// A counter, and the shard that has it.
struct Target {
  KeyDigest digest;
  std::size_t shard = 0;
};

// One process of a fleet: a Guard on a clock of its own.
class Worker {
 public:
  // The process outlives it.
  Worker(const Policy& policy, const StoreSetup& setup, testing::SimLoop& loop,
         testing::SimProcess& process, Nanos wall_ahead);

  // What it meters is recorded from now on, until it stops. `remembers`: what a process before it
  // served beyond its part counts.
  void meter(std::unique_ptr<SimUsage> usage, std::uint64_t process, bool remembers);
  SimUsage* usage() noexcept { return usage_.get(); }

  // `call`: what goes with it on a metered route; null: nothing.
  void check(std::string_view route, std::string_view user, CheckOptions options,
             std::shared_ptr<guard::MeteredCall> call, std::function<void(Decision)> done);
  void reload(const Policy& policy);

  SimStore& store() noexcept { return *store_; }
  // Of one rule each.
  std::vector<Target> targets(std::string_view route, std::string_view user);
  // Asks and charges whose fate nobody can know.
  std::uint64_t unknown();
  std::uint64_t over_bound();

 private:
  testing::SimClock clock_;
  SimStore* store_ = nullptr;
  std::unique_ptr<SimUsage> usage_;  // null: nothing is metered
  Guard::Impl guard_;
};

}  // namespace weir::sim
