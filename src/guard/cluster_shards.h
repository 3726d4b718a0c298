#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/snapshot.h"
#include "guard/hosted_shard.h"
#include "guard/name_question.h"
#include "guard/shard_roster.h"
#include "guard/split_ask.h"
#include "guard/state_folder.h"
#include "guard/view_writer.h"
#include "policy/model.h"
#include "policy/store_url.h"
#include "store/redis/topology/cluster_watch.h"
#include "store/redis/topology/shard_wire.h"
#include "weir/clock.h"
#include "weir/observer.h"

namespace weir::guard {

// Tells an observer of which shard it hears.
//
// Threads:     the loop's alone.
class ShardObserver final : public Observer {
 public:
  explicit ShardObserver(Observer* of) : of_(of) {}
  void name(const store::redis::HostPort& where) { prefix_ = "shard " + where.text(); }
  void on_store_event(const StoreEvent& event) override;

 private:
  Observer* of_;
  std::string prefix_;
};

// The shards of a cluster on an event loop: which there are, who decides for which slot, and what
// follows where a node says that another one does.
//
// Shards are never taken away: a slot's owner may be asked by a thread that looked it up before.
// One that has no master any more is used again for the next that comes.
//
// Threads:     the loop's alone, where nothing else is said.
class ClusterShards final : public SlotOwners, private store::redis::ClusterWatch::Listener {
 public:
  // One master's: its driver, and who it is now.
  struct Shard {
    explicit Shard(Observer* of) : observer(of) {}

    ShardObserver observer;
    store::redis::ShardWire* wire = nullptr;  // hosted's
    std::unique_ptr<HostedShard> hosted;
    ShardIdentity who;
    bool started = false;
    MonoTime named{};  // by a redirection, last
    struct Parked {
      SharedAsk* ask;
      std::optional<store::redis::Redirect> by;  // absent: it was this one's before
      bool asking = false;
      MonoTime until{};  // then it is as if the store had not answered
      // Its master knew nobody who has the slot: it is asked again then.
      std::optional<MonoTime> again = {};
    };
    std::vector<Parked> parked;  // until it is connected, or asked again
    // Another server takes its place once what is at this one is answered, or that time is up.
    struct Turn {
      store::redis::HostPort to;
      MonoTime by{};
    };
    std::optional<Turn> turn;
    // It was just aimed at a server: until the first attempt at it is over, or that time is up, it
    // is waited for.
    std::optional<MonoTime> aimed;
    MonoTime awaited_until{};
    std::optional<ViewWriter> writer;

    ShardDriver& driver() noexcept { return hosted->driver(); }
    const ShardDriver& driver() const noexcept { return hosted->driver(); }
  };
  // What is shown of a shard that decides for some slots.
  struct Shown {
    std::string name;  // its own for as long as this process runs, whoever is its master
    const ShardDriver* driver = nullptr;
    store::redis::HostPort address;  // no host: nobody is there
    std::uint32_t slots = 0;
  };
  struct Options {
    policy::StoreSpec spec;
    policy::StoreUrl url;
    store::redis::KeySpace keys;
    std::vector<policy::NameTrial> names;  // see RedisSession::try_names()
    FleetSeat::Options seat;
    std::optional<StateFolder> folder;  // where views are kept; absent: nowhere
    std::uint64_t random = 0;
  };

  // What the owner does for them.
  struct Ports {
    // A connection, or the shards themselves, say something new.
    std::function<void()> changed;
    // See ShardDriver::Host.
    std::function<bool(SharedAsk&)> ask_another;
    // See SlotOwners.
    std::function<void(SharedAsk&, ShardDriver&)> send_soon;
  };

  // Reads the state folder, where there is one.
  ClusterShards(boost::asio::io_context& io, Options options, Clock& clock, Observer* observer,
                Ports ports);
  ~ClusterShards() override;
  ClusterShards(const ClusterShards&) = delete;
  ClusterShards& operator=(const ClusterShards&) = delete;

  void start();
  // Says that those which are not there were not there at the start.
  void started_without();
  // This worker spends no more; `done` is called once all have been told that need to be.
  void leave(std::function<void()> done);
  // Answers everything that waits.
  void stop();
  void try_names(const std::vector<policy::NameTrial>& names);
  // Of every master that is there.
  void ask(NameQuestion& question);
  // A node said that another one owns a slot: the map is read again soon.
  void refresh_soon();
  // Where the owner of that slot is; absent: nobody owns it.
  std::optional<store::redis::Endpoint> where(std::uint16_t slot) const;

  // ---- From any thread.

  ShardDriver& owner(std::uint16_t slot) noexcept override {
    return *owners_[slot].load(std::memory_order_acquire);
  }
  void send_soon(SharedAsk& ask, ShardDriver& to) noexcept override { ports_.send_soon(ask, to); }
  // See ShardLadder::restore_overspend(): all shards keep it together.
  void restore_overspend(const KeyDigest& counter, Instant window, std::uint64_t units) {
    overspend_->restore(counter, window, units);
  }
  const ShardDriver& owner_now(std::uint16_t slot) const noexcept {
    return *owners_[slot].load(std::memory_order_acquire);
  }
  ladder::Moment moment() const noexcept { return owners_[0].load()->moment(); }
  Instant store_time() const noexcept { return owners_[0].load()->store_time(); }
  // Held by whoever looks at it: the loop does not wait for that.
  std::shared_ptr<const std::vector<Shown>> shown() const { return *shown_.read(); }

 private:
  // Most shards that are kept. A cluster has fewer; a node that names others without end is no
  // reason to grow.
  static constexpr std::size_t kMostShards = 1'024;
  // Of one shard: half of what a connection takes at once, since whoever comes with them is in
  // front.
  static constexpr std::size_t kMostParked = 2'048;

  store::redis::ClusterWatch::Options watch_options() const;
  Shard& make_shard();
  void start_shard(Shard& shard);
  void read_views();
  void take_up_view(Shard& shard, const std::string& tag);
  void show(std::vector<Shown> shown);
  void tell_fault(const std::string& why);
  void aim(Shard& shard, const store::redis::HostPort& where);
  void turn(Shard& shard, const store::redis::HostPort& where);
  void turn_idle(Shard& shard);
  bool awaited(const Shard& shard) const;
  bool wait_for_server(Shard& shard, SharedAsk& ask, bool asking);
  bool park(Shard& shard, Shard::Parked parked);
  void take_over(Shard& shard, const store::redis::ClusterMaster& master);
  void let_go(Shard& shard);

  void on_map(const store::redis::SlotMap& map) override;
  void on_same_map() override;
  void on_no_map(store::redis::LocalFault why, const std::string& text) override;
  void connection_changed(Shard& shard);

  bool follow(Shard& from, SharedAsk& ask, std::string_view error);
  ShardDriver* give_back_to(Shard& from, std::string_view error, bool& asking);
  Shard* named_by(Shard& from, store::redis::Redirect& redirect);
  Shard* shard_at(const store::redis::HostPort& where);
  void send_on(Shard& to, const Shard::Parked& ask);
  void unpark(Shard& shard, bool all_late);
  void give_up(Shard& shard, const Shard::Parked& parked);
  void arm_parking();
  void arm_parking_by(MonoTime by);

  const Options options_;
  boost::asio::io_context& io_;
  Clock& clock_;
  Observer* observer_;
  const Ports ports_;

  std::array<std::atomic<ShardDriver*>, store::redis::kSlots> owners_{};
  SnapshotCell<std::shared_ptr<const std::vector<Shown>>> shown_;

  bool stopping_ = false;
  bool refreshing_ = false;
  std::size_t leaving_ = 0;
  std::function<void()> left_;
  const std::shared_ptr<ladder::OverspendTable> overspend_;
  boost::asio::steady_timer refresh_timer_;
  boost::asio::steady_timer park_timer_;
  std::optional<MonoTime> parking_armed_;
  std::mt19937_64 random_;
  std::vector<policy::NameTrial> names_;        // of the policy in force
  std::vector<std::unique_ptr<Shard>> shards_;  // the first is nobody's
  // What stood in the state folder at the start, by tag: nothing is read while shards decide.
  std::map<std::string, Result<ladder::MembershipView>> views_;
  Shard* nobody_ = nullptr;  // decides for slots without a master
  // Slots whose owner is another one than the map's, as a redirection said: since when, and whose
  // they are by the map.
  struct Moved {
    MonoTime since{};
    ShardDriver* before = nullptr;
  };
  std::map<std::uint16_t, Moved> moved_;
  store::redis::ClusterWatch watch_;
};

}  // namespace weir::guard
