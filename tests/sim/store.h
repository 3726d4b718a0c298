#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "guard/coalesce.h"
#include "guard/shard_driver.h"
#include "guard/shared_store.h"
#include "guard/split_ask.h"
#include "testing/sim/sim_loop.h"
#include "testing/sim/sim_process.h"
#include "testing/sim/sim_redis.h"

namespace weir::sim {

// What a state folder holds of one shard's fleet, on a disk that takes its time.
struct Folder {
  std::optional<std::string> view;
  Nanos takes{0};
};

// A server, and one worker's way to it.
struct Way {
  testing::SimRedis* server = nullptr;
  testing::SimLink* link = nullptr;
};

// One worker's store, as its policy and its surroundings make it.
struct StoreSetup {
  policy::StoreSpec spec;
  std::vector<Way> shards;  // several: the masters of a cluster
  std::optional<Way> fallback;
  guard::FleetSeat::Options seat;
  std::optional<ladder::Division> division;  // in place of what a fleet's members say
  std::vector<Folder>* folders = nullptr;    // one a shard; null: none is kept
  Nanos turn{0};                             // until the store's thread comes round
  std::uint64_t seed = 0;
  bool echoes = false;  // a canary: of callers alike one asks, and all are told what it was
};

// Which of so many shards has the slot; and the highest slot that a shard has.
std::size_t shard_of_slot(std::uint16_t slot, std::size_t shards);
std::uint16_t highest_slot(std::size_t shard, std::size_t shards);

// A shard's driver in simulated time: its wire, its timer, and its file of the state folder.
class SimShard final : private guard::ShardDriver::Host {
 public:
  SimShard(guard::ShardDriver::Options options, const policy::StoreSpec& spec,
           testing::SimLoop& loop, testing::SimProcess& process, Clock& clock, Way way,
           Folder* folder);
  ~SimShard() override = default;

  guard::ShardDriver& driver() noexcept { return driver_; }
  const guard::ShardDriver& driver() const noexcept { return driver_; }
  // Another server took this one's place.
  void turn_to(Way way);
  // See ShardDriver::Host.
  std::function<bool(guard::SharedAsk&)> another;

 private:
  void wake_at(MonoTime when) override;
  void write_view(std::string text, std::uint64_t epoch) override;
  void write_next();
  bool ask_another(guard::SharedAsk& ask) noexcept override { return another && another(ask); }

  struct View {
    std::string text;
    std::uint64_t epoch = 0;
  };

  testing::SimProcess& process_;
  testing::SimWire wire_;
  Folder* const folder_;
  std::optional<View> next_view_;
  bool writing_ = false;
  std::uint64_t wake_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  guard::ShardDriver driver_;
};

// The shared store of one worker, without a thread: asks are taken in by a later turn of the loop,
// together with those that came meanwhile, as the store's thread would take them.
class SimStore final : public guard::SharedStore, public guard::SlotOwners {
 public:
  SimStore(const StoreSetup& setup, testing::SimLoop& loop, testing::SimProcess& process,
           Clock& clock);
  ~SimStore() override;

  void decide(guard::SharedAsk& ask) noexcept override;
  ladder::LadderVerdict decide_without(const ladder::LadderRequest& request,
                                       std::span<store::Finding> findings) noexcept override;
  // Nothing is asked any more: whoever asks is told at once.
  void close() noexcept override {
    stop();
    closed_ = true;
  }
  bool in_its_thread() const noexcept override { return false; }
  ladder::LadderVerdict not_recorded(const ladder::LadderRequest& request,
                                     std::span<store::Finding> findings,
                                     const ladder::LadderVerdict& served) noexcept override;
  void restore_overspend(const KeyDigest& counter, Instant window, std::uint64_t units) override {
    shards_.front()->driver().restore_overspend(counter, window, units);
  }
  ladder::Moment moment() const noexcept override { return first().moment(); }
  Nanos deadline() const noexcept override { return deadline_; }
  bool answering() const noexcept override;
  bool connected() const override;
  guard::WorkerPart part() const override { return first().part(); }
  std::uint64_t known_keys() const override { return first().ladder().known().size(); }
  std::string state_json() const override { return first().state_json(); }

  std::size_t shards() const noexcept { return shards_.size(); }
  SimShard& shard(std::size_t place) noexcept { return *shards_[place]; }
  SimShard* fallback() noexcept { return fallback_.get(); }
  std::size_t shard_of(std::string_view key) const;
  // Spends no more, and tells the fleets where that is safe; `done` is called once they know.
  void leave(std::function<void()> done);
  // Answers everything that waits.
  void stop();

 private:
  struct Queued {
    guard::SharedAsk* ask;
    guard::ShardDriver* driver;
    guard::SplitAsk* split;
  };

  const guard::ShardDriver& first() const noexcept { return shards_.front()->driver(); }
  guard::ShardDriver& owner(std::uint16_t slot) noexcept override {
    return shards_[shard_of_slot(slot, shards_.size())]->driver();
  }
  void send_soon(guard::SharedAsk& ask, guard::ShardDriver& to) noexcept override {
    queue({&ask, &to, nullptr});
  }
  std::vector<std::uint16_t> slots_of(const ladder::LadderRequest& request) const;
  bool ask_fallback(guard::SharedAsk& ask) noexcept;
  void queue(const Queued& queued);
  void take_in();
  void send_together(guard::ShardDriver& shard, std::span<guard::SharedAsk* const> asks);

  testing::SimProcess& process_;
  Clock& clock_;
  const store::redis::KeySpace keys_;
  const Nanos deadline_;
  const Nanos turn_;
  const bool echoes_;
  bool closed_ = false;
  std::vector<std::unique_ptr<SimShard>> shards_;
  std::unique_ptr<SimShard> fallback_;
  std::vector<Queued> intake_;
  guard::Coalescer coalescer_;  // the canary's
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace weir::sim
