#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "guard/impl.h"
#include "guard/shard_driver.h"
#include "testing/sim/sim_loop.h"
#include "testing/sim/sim_redis.h"
#include "weir/guard.h"

namespace weir::sim {

// The shared store of one worker, without a thread: asks are taken in by the loop's next turn, as
// the store's thread would take them.
class SimStore final : public guard::SharedStore, private guard::ShardDriver::Host {
 public:
  SimStore(const policy::StoreSpec& spec, testing::SimLoop& loop, Clock& clock,
           testing::SimRedis& server, testing::SimLink& link, std::uint64_t seed);
  ~SimStore() override;

  void decide(guard::SharedAsk& ask) noexcept override;
  ladder::LadderVerdict decide_without(const ladder::LadderRequest& request,
                                       std::span<store::Finding> findings) noexcept override {
    return driver_.without(request, findings);
  }
  void close() noexcept override {}
  bool in_its_thread() const noexcept override { return false; }
  ladder::LadderVerdict not_recorded(const ladder::LadderRequest& request,
                                     std::span<store::Finding> findings,
                                     const ladder::LadderVerdict& served) noexcept override {
    return driver_.not_recorded(request, findings, served);
  }
  ladder::Moment moment() const noexcept override { return driver_.moment(); }
  Nanos deadline() const noexcept override { return driver_.deadline(); }
  bool answering() const noexcept override {
    return driver_.ladder().breaker().state() != breaker::ProbeState::open;
  }
  bool connected() const override { return driver_.connection().up; }
  guard::WorkerPart part() const override { return driver_.part(); }
  std::uint64_t known_keys() const override { return driver_.ladder().known().size(); }
  std::string state_json() const override { return driver_.state_json(); }

  guard::ShardDriver& driver() noexcept { return driver_; }

 private:
  void take_in();
  void wake_at(MonoTime when) override;

  testing::SimLoop& loop_;
  testing::SimWire wire_;
  std::vector<guard::SharedAsk*> intake_;
  std::uint64_t wake_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  guard::ShardDriver driver_;
};

// One process of a fleet: a Guard on a clock of its own.
class Worker {
 public:
  struct Place {
    std::uint32_t index = 0;
    std::uint32_t of = 1;
  };
  Worker(const Policy& policy, Place place, testing::SimLoop& loop, testing::SimRedis& server,
         testing::SimLink& link, Nanos wall_ahead, std::uint64_t seed);

  void check(std::string_view route, std::string_view user, CheckOptions options,
             std::function<void(Decision)> done);
  void reload(const Policy& policy);

  guard::ShardDriver& driver() noexcept { return *driver_; }
  bool connected() { return driver_->connection().up; }
  // Asks and charges whose fate nobody can know.
  std::uint64_t unknown() const {
    return driver_->counters().unknown() + driver_->counters().not_given_back();
  }

 private:
  testing::SimClock clock_;
  guard::ShardDriver* driver_ = nullptr;
  Guard::Impl guard_;
};

}  // namespace weir::sim
