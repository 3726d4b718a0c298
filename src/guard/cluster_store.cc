#include "guard/cluster_store.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "guard/hosted_shard.h"
#include "guard/seat_options.h"
#include "guard/shard_roster.h"
#include "guard/split_ask.h"
#include "guard/state_folder.h"
#include "guard/view_writer.h"
#include "policy/store_url.h"
#include "render/text.h"
#include "store/redis/asio_wire.h"
#include "store/redis/store_address.h"
#include "store/redis/topology/cluster_watch.h"
#include "store/redis/topology/server_wire.h"
#include "store/redis/topology/shard_wire.h"

namespace weir::guard {

namespace asio = boost::asio;
namespace redis = store::redis;
using ladder::LadderVerdict;
using ladder::Moment;
using redis::HostPort;

namespace {

// Most shards that a store keeps. A cluster has fewer; a node that names others without end is no
// reason to grow.
constexpr std::size_t kMostShards = 1'024;
// How often one ask follows a redirection.
constexpr std::uint8_t kMostRedirects = 4;
// A map that is out of date is read again within so long, and not at once: a fleet learns of it in
// one moment.
constexpr Nanos kRefreshSpread = std::chrono::milliseconds(100);

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

// Says of which shard it speaks.
class ShardObserver final : public Observer {
 public:
  explicit ShardObserver(Observer* of) : of_(of) {}
  // The store's thread alone.
  void name(const HostPort& where) { prefix_ = "shard " + where.text(); }

  void on_store_event(const StoreEvent& event) override {
    if (of_ == nullptr) return;
    // "shard H:P: why", or only the shard where there is nothing to say.
    std::string why = prefix_;
    if (!why.empty() && !event.why.empty()) why += ": ";
    why += event.why;
    StoreEvent named = event;
    named.why = why;
    of_->on_store_event(named);
  }

 private:
  Observer* of_;
  std::string prefix_;
};

// One master's: its driver, and who it is now.
struct Shard {
  explicit Shard(Observer* of) : observer(of) {}

  ShardObserver observer;
  redis::ShardWire* wire = nullptr;  // hosted's
  std::unique_ptr<HostedShard> hosted;
  // The store's thread alone.
  ShardIdentity who;
  std::string tag;  // of its own keys
  bool started = false;
  struct Parked {
    SharedAsk* ask;
    bool asking;
  };
  std::vector<Parked> parked;  // until it is connected
  std::optional<ViewWriter> writer;

  ShardDriver& driver() noexcept { return hosted->driver(); }
  const ShardDriver& driver() const noexcept { return hosted->driver(); }
};

// What is shown of a shard.
struct ShownShard {
  Shard* shard = nullptr;
  HostPort address;
  std::uint32_t slots = 0;
};

class ClusterStore final : public SharedStore,
                           private SlotOwners,
                           private redis::ClusterWatch::Listener {
 public:
  ClusterStore(const policy::Model& model, const policy::StoreUrl& url, redis::KeySpace keys,
               FleetRole role, Clock& clock, render::Metrics& metrics, Observer* observer)
      : spec_(model.store),
        url_(url),
        keys_(std::move(keys)),
        seat_(seat_options(model, role, random_number())),
        keeps_state_(role == FleetRole::worker && !spec_.workers.state.empty()),
        clock_(clock),
        metrics_(metrics),
        observer_(observer),
        refresh_timer_(io_),
        park_timer_(io_),
        random_(static_cast<std::uint32_t>(random_number())),
        watch_(
            watch_options(),
            [this] { return std::make_unique<redis::AsioWire>(io_, redis::Endpoint{}); },
            [this](const HostPort& where) { return redis::endpoint_at(spec_, url_, where); }, clock,
            *this) {
    nobody_ = &make_shard();
    for (auto& owner : owners_) owner.store(&nobody_->driver(), std::memory_order_relaxed);
    show();
    source_ = metrics_.add_source([this](render::Exposition& out) { write_metrics(out); });
  }

  ~ClusterStore() override {
    metrics_.remove_source(source_);
    if (!thread_.joinable()) return;
    asio::post(io_, [this] { leave(); });
    thread_.join();
  }

  void start() {
    thread_ = std::thread([this] {
      // The owner of the last slot is there in every cluster: so is its file, if any is.
      take_up_view(*nobody_, redis::name_in_slot(redis::kSlots - 1));
      watch_.start();
      io_.run();
    });
  }

  // Waits until every shard is there, or some trouble is, at most so long. Absent: all are.
  std::optional<std::string> wait_ready(Nanos patience) {
    std::unique_lock lock(ready_mutex_);
    std::optional<std::string> trouble;
    const bool heard = ready_changed_.wait_for(lock, patience, [&] { return settled(trouble); });
    if (!heard) trouble = trouble.value_or("did not answer within the connect timeout");
    return trouble;
  }

  void started_without() {
    asio::post(io_, [this] {
      for (const auto& shard : shards_) {
        if (!shard->driver().connection().up) shard->driver().started_without();
      }
    });
  }

  // ---- From any thread.

  void decide(SharedAsk& ask) noexcept override {
    Slots slots{};
    const std::size_t count = slots_of(ask.request, slots);
    ShardDriver& first = owner(slots[0]);
    if (one_slot(slots, count) || blocked(ask.request)) {
      if (!first.begin(ask)) return;
      if (!queue({&ask, &first, nullptr})) first.decide_without(ask);
      return;
    }
    SlotOwners& owners = *this;
    auto split = std::make_unique<SplitAsk>(ask, std::span(slots.data(), count), owners);
    if (!split->begin()) return;
    SplitAsk* const begun = split.release();
    if (!queue({nullptr, nullptr, begun})) begun->decide_without();
  }

  LadderVerdict decide_without(const ladder::LadderRequest& request,
                               std::span<store::Finding> findings) noexcept override {
    Slots slots{};
    const std::size_t count = slots_of(request, slots);
    if (one_slot(slots, count)) return owner(slots[0]).without(request, findings);
    return split_without(request, std::span(slots.data(), count), *this, findings);
  }

  Moment moment() const noexcept override { return owners_[0].load()->moment(); }
  Nanos deadline() const noexcept override { return spec_.deadline; }
  bool answering() const noexcept override {
    const auto shown = shown_.read();
    return std::all_of(shown->begin(), shown->end(), [](const ShownShard& s) {
      return s.shard->driver().ladder().breaker().state() != breaker::ProbeState::open;
    });
  }
  bool connected() const override {
    const auto shown = shown_.read();
    return std::all_of(shown->begin(), shown->end(),
                       [](const ShownShard& s) { return s.shard->driver().connection().up; });
  }
  // The least of all shards': whoever has none in one has it in no request that needs that one.
  WorkerPart part() const override {
    const auto shown = shown_.read();
    std::optional<WorkerPart> least;
    for (const ShownShard& one : *shown) {
      WorkerPart part = one.shard->driver().part();
      if (least && !least->has_part) break;
      if (!least || !part.has_part || part.workers > least->workers) least = std::move(part);
    }
    return least.value_or(WorkerPart{});
  }
  std::uint64_t known_keys() const override {
    std::uint64_t keys = 0;
    const auto shown = shown_.read();
    for (const ShownShard& one : *shown) keys += one.shard->driver().ladder().known().size();
    return keys;
  }
  std::string state_json() const override {
    const auto shown = shown_.read();
    breaker::ProbeState worst = breaker::ProbeState::closed;
    std::string shards;
    for (std::size_t i = 0; i < shown->size(); ++i) {
      const ShownShard& one = (*shown)[i];
      const breaker::ProbeState state = one.shard->driver().ladder().breaker().state();
      if (state == breaker::ProbeState::open || worst == breaker::ProbeState::closed) worst = state;
      shards += (i == 0 ? "" : ",") + std::string("{\"shard\":\"") + std::to_string(i) + "\"";
      if (!one.address.host.empty()) {
        shards += ",\"address\":";
        render::append_json_string(shards, one.address.text());
      }
      shards += ",\"slots\":" + std::to_string(one.slots) + "," +
                one.shard->driver().state_json().substr(1);
    }
    return "{\"topology\":\"cluster\",\"state\":\"" + std::string(breaker::to_string(worst)) +
           "\",\"shards\":[" + shards + "]}";
  }

 private:
  using Slots = std::array<std::uint16_t, store::kMaxCounters>;
  struct Queued {
    SharedAsk* ask;
    ShardDriver* driver;
    SplitAsk* split;
  };

  redis::ClusterWatch::Options watch_options() const {
    redis::ClusterWatch::Options options{.seeds = {},
                                         .patience = spec_.connect_timeout,
                                         .credentials = {},
                                         .random_seed = random_number()};
    for (const policy::StoreHost& host : url_.hosts)
      options.seeds.push_back({host.host, host.port});
    if (redis::has_credentials(spec_, url_))
      options.credentials = redis::credentials_of(spec_, url_);
    return options;
  }

  std::size_t slots_of(const ladder::LadderRequest& request, Slots& slots) const noexcept {
    for (std::size_t i = 0; i < request.counters.size(); ++i) {
      slots[i] = keys_.slot(request.counters[i].key);
    }
    return request.counters.size();
  }
  static bool one_slot(const Slots& slots, std::size_t count) noexcept {
    return std::all_of(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(count),
                       [&](std::uint16_t slot) { return slot == slots[0]; });
  }
  // A limit of 0 holds in every mode, and nobody is asked.
  static bool blocked(const ladder::LadderRequest& request) noexcept {
    return std::any_of(request.counters.begin(), request.counters.end(), [](const auto& counter) {
      return counter.numbers->limit == 0 && !counter.shadow;
    });
  }
  ShardDriver& owner(std::uint16_t slot) noexcept override {
    return *owners_[slot].load(std::memory_order_acquire);
  }

  // False: there is no room. Else the store's thread sends it.
  bool queue(const Queued& queued) noexcept {
    {
      std::lock_guard lock(intake_mutex_);
      if (intake_.size() >= kMaxQueued) return false;
      intake_.push_back(queued);
      if (std::exchange(woken_, true)) return true;
    }
    asio::post(io_, [this] { take_in(); });
    return true;
  }

  // Whether the shards are there (no trouble), or what is wrong has been found out.
  bool settled(std::optional<std::string>& trouble) const {
    trouble.reset();
    const auto shown = shown_.read();
    bool all = true;
    for (const ShownShard& one : *shown) {
      const ShardDriver::Connection now = one.shard->driver().connection();
      if (now.up && one.shard->driver().seated()) continue;
      all = false;
      if (now.up || now.trouble.empty() || trouble) continue;
      trouble = one.address.host.empty() ? now.trouble : one.address.text() + ": " + now.trouble;
    }
    return all || trouble.has_value();
  }

  void write_metrics(render::Exposition& out) const {
    const auto shown = shown_.read();
    std::vector<std::string> names;
    std::vector<ShardView> views;
    for (std::size_t i = 0; i < shown->size(); ++i) names.push_back(std::to_string(i));
    for (std::size_t i = 0; i < shown->size(); ++i) {
      views.push_back((*shown)[i].shard->driver().view(names[i]));
    }
    write_shards(views, out);
  }

  // ---- The store's thread.

  Shard& make_shard() {
    Shard& shard = *shards_.emplace_back(std::make_unique<Shard>(observer_));
    ShardDriver::Options options = ShardDriver::Options::of(spec_, random_number());
    options.client.session.cluster = true;
    options.client.credentials = redis::credentials_of(spec_, url_);
    options.seat = seat_;
    auto wire = std::make_unique<redis::ShardWire>(io_);
    shard.wire = wire.get();
    shard.hosted = std::make_unique<HostedShard>(
        io_, std::move(wire), std::move(options), keys_, clock_, &shard.observer,
        HostedShard::Ports{.connection_changed = [this, &shard] { changed(shard); },
                           .write_view =
                               [&shard](std::string text, std::uint64_t epoch) {
                                 if (shard.writer) shard.writer->write(std::move(text), epoch);
                               },
                           .ask_another = {},
                           .follow =
                               [this, &shard](SharedAsk& ask, std::string_view error) {
                                 return follow(shard, ask, error);
                               }});
    return shard;
  }

  void start_shard(Shard& shard) {
    if (!std::exchange(shard.started, true)) shard.driver().start();
  }

  // The view of this shard's fleet that stands in the state folder, where it has none yet; and from
  // now on views are written there.
  void take_up_view(Shard& shard, const std::string& tag) {
    if (!keeps_state_) return;
    auto folder = StateFolder::open(spec_.workers.state,
                                    policy::redacted(spec_.url) + " " + spec_.prefix + " " + tag);
    if (!folder) return tell_fault(folder.error().message);
    if (!folder->alone()) {
      if (!shard.started) tell_fault(folder->not_alone());
    } else if (const auto found = folder->read(); found && !shard.started) {
      if (*found) {
        shard.driver().start_from(**found);
      } else {
        tell_fault(found->error().message);
      }
    }
    if (&shard == nobody_) {
      nobodys_folder_ = *std::move(folder);  // kept until somebody's is the same one
      return;
    }
    shard.writer.reset();
    shard.writer.emplace(*std::move(folder),
                         [this, &shard](std::uint64_t epoch, std::string fault) {
                           asio::post(io_, [this, &shard, epoch, fault = std::move(fault)] {
                             if (!stopping_) shard.driver().view_written(epoch, fault);
                           });
                         });
  }

  void tell_fault(const std::string& why) {
    if (observer_ == nullptr) return;
    observer_->on_store_event({.kind = StoreEvent::Kind::fault, .why = why});
  }

  void aim(Shard& shard, const HostPort& where) {
    if (shard.who.address == where) return;
    shard.who.address = where;
    shard.observer.name(where);
    shard.wire->aim(redis::endpoint_at(spec_, url_, where));
    if (shard.started) shard.driver().elsewhere();
  }

  void on_map(const redis::SlotMap& map) override {
    std::vector<ShardIdentity> known;
    for (const auto& shard : shards_) known.push_back(shard->who);
    // Slots that nobody owns are nobody's.
    known[0].active = true;
    const std::vector<std::optional<std::size_t>> places = assign_shards(known, map);
    for (const auto& shard : shards_) shard->who.active = false;
    nobodys_folder_.reset();
    std::vector<Shard*> of;
    std::vector<ShownShard> shown;
    for (std::size_t i = 0; i < map.masters.size(); ++i) {
      if (!places[i] && shards_.size() >= kMostShards) {
        of.push_back(nobody_);
        continue;
      }
      Shard& shard = places[i] ? *shards_[*places[i]] : make_shard();
      of.push_back(&shard);
      take_over(shard, map.masters[i]);
      shown.push_back({&shard, shard.who.address, map.masters[i].slots});
    }
    for (std::size_t slot = 0; slot < redis::kSlots; ++slot) {
      const std::uint16_t place = map.owner[slot];
      Shard* const owner = place == redis::SlotMap::kNobody ? nobody_ : of[place];
      owners_[slot].store(&owner->driver(), std::memory_order_release);
    }
    for (const auto& shard : shards_) let_go(*shard);
    const bool whole =
        std::find(map.owner.begin(), map.owner.end(), redis::SlotMap::kNobody) == map.owner.end();
    nobody_->wire->explain(redis::LocalFault::no_master, "some slots have no master");
    if (!whole) {
      start_shard(*nobody_);
      shown.push_back({nobody_, {}, 0});
    }
    shown_.publish(std::make_unique<const std::vector<ShownShard>>(std::move(shown)));
    tell_ready();
  }

  void on_no_map(redis::LocalFault why, const std::string& text) override {
    nobody_->wire->explain(why, text);
    if (nobody_->started) {
      nobody_->driver().elsewhere();
    } else {
      start_shard(*nobody_);
    }
  }

  void take_over(Shard& shard, const redis::ClusterMaster& master) {
    shard.who.id = master.node.id;
    shard.who.active = true;
    shard.who.replicas.clear();
    for (const redis::ClusterNode& replica : master.replicas) {
      shard.who.replicas.push_back(replica.id);
    }
    const std::string tag = redis::name_in_slot(master.highest_slot);
    if (shard.tag != tag) {
      shard.tag = tag;
      shard.driver().name_shard(tag);
      take_up_view(shard, tag);
    }
    aim(shard, master.node.address);
    start_shard(shard);
  }

  // A master without slots may get some; one that is gone is not called for ever.
  void let_go(Shard& shard) {
    if (&shard == nobody_ || shard.who.active || !shard.started) return;
    if (shard.driver().connection().up || !shard.parked.empty()) return;
    if (shard.who.address.host.empty()) return;
    shard.who.id.clear();
    aim(shard, {});
  }

  void changed(Shard& shard) {
    const bool up = shard.driver().connection().up;
    if (up) {
      unpark(shard, false);
    } else if (shard.started && !shard.who.address.host.empty()) {
      refresh_soon();
    }
    tell_ready();
  }

  void tell_ready() {
    // The lock, so that who is about to wait has not looked yet.
    std::lock_guard lock(ready_mutex_);
    ready_changed_.notify_all();
  }

  void show() {
    shown_.publish(
        std::make_unique<const std::vector<ShownShard>>(std::vector<ShownShard>{{nobody_, {}, 0}}));
  }

  void refresh_soon() {
    if (stopping_ || std::exchange(refreshing_, true)) return;
    const auto spread = static_cast<std::uint32_t>(kRefreshSpread.count());
    refresh_timer_.expires_after(Nanos(random_() % spread));
    refresh_timer_.async_wait([this](const boost::system::error_code& error) {
      refreshing_ = false;
      if (!error && !stopping_) watch_.refresh();
    });
  }

  // A node said that another one owns the slot. Whether the ask is that one's now.
  bool follow(Shard& from, SharedAsk& ask, std::string_view error) {
    auto redirect = redis::read_redirect(error);
    if (!redirect || stopping_) return false;
    if (redirect->where.host.empty()) redirect->where.host = from.who.address.host;
    refresh_soon();
    Shard* const to = shard_at(redirect->where);
    if (to == nullptr || to == &from) return false;
    if (!redirect->asking) {
      owners_[redirect->slot].store(&to->driver(), std::memory_order_release);
    }
    if (++ask.redirects > kMostRedirects || clock_.mono() >= ask.answer_by) return false;
    if (to->driver().connection().up) {
      to->driver().send(ask, redirect->asking);
      return true;
    }
    // One that was just named is connected to in a moment; one that is away is not waited for.
    if (to->who.active || to->parked.size() >= kMaxQueued) return false;
    to->parked.push_back({&ask, redirect->asking});
    arm_parking();
    return true;
  }

  Shard* shard_at(const HostPort& where) {
    for (const auto& shard : shards_) {
      if (shard->who.address == where) return shard.get();
    }
    if (shards_.size() >= kMostShards) return nullptr;
    Shard& shard = make_shard();
    // Until the map says more: its own keys would be in somebody else's slot.
    shard.tag = redis::name_in_slot(0);
    shard.driver().name_shard(shard.tag);
    aim(shard, where);
    start_shard(shard);
    return &shard;
  }

  void unpark(Shard& shard, bool all_late) {
    const MonoTime now = clock_.mono();
    std::vector<Shard::Parked> asks;
    asks.swap(shard.parked);
    for (const Shard::Parked& parked : asks) {
      if (all_late || now >= parked.ask->answer_by) {
        shard.driver().decide_without(*parked.ask);
      } else if (shard.driver().connection().up) {
        shard.driver().send(*parked.ask, parked.asking);
      } else {
        shard.parked.push_back(parked);
      }
    }
  }

  void arm_parking() {
    std::optional<MonoTime> first;
    for (const auto& shard : shards_) {
      for (const Shard::Parked& parked : shard->parked) {
        const MonoTime by = parked.ask->answer_by;
        first = first ? std::min(*first, by) : by;
      }
    }
    if (!first) return;
    park_timer_.expires_at(
        std::chrono::time_point_cast<std::chrono::steady_clock::duration>(*first));
    park_timer_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      for (const auto& shard : shards_) unpark(*shard, stopping_);
      arm_parking();
    });
  }

  void take_in() {
    {
      std::lock_guard lock(intake_mutex_);
      taken_.swap(intake_);
      woken_ = false;
    }
    // Asks of one driver, in their order, so that those alike meet.
    for (std::size_t i = 0; i < taken_.size(); ++i) {
      if (taken_[i].split != nullptr) {
        taken_[i].split->send();
        continue;
      }
      ShardDriver* const driver = taken_[i].driver;
      if (driver == nullptr) continue;
      together_.clear();
      for (std::size_t j = i; j < taken_.size(); ++j) {
        if (taken_[j].driver != driver) continue;
        together_.push_back(taken_[j].ask);
        taken_[j].driver = nullptr;
      }
      driver->send_together(together_);
    }
    taken_.clear();
  }

  void leave() {
    stopping_ = true;
    take_in();
    leaving_ = 1;
    for (const auto& shard : shards_) {
      if (!shard->started) continue;
      if (shard->driver().leave([this] { asio::post(io_, [this] { left(); }); })) ++leaving_;
    }
    left();
  }

  void left() {
    if (--leaving_ > 0) return;
    watch_.stop();
    for (const auto& shard : shards_) {
      unpark(*shard, true);
      shard->hosted->stop();  // answers everything that waits
    }
    io_.stop();  // timers that are still armed must not keep us here
  }

  const policy::StoreSpec spec_;
  const policy::StoreUrl url_;
  const redis::KeySpace keys_;
  const FleetSeat::Options seat_;
  const bool keeps_state_;
  Clock& clock_;
  render::Metrics& metrics_;
  Observer* observer_;
  std::uint64_t source_ = 0;

  std::array<std::atomic<ShardDriver*>, redis::kSlots> owners_{};
  SnapshotCell<std::vector<ShownShard>> shown_{std::make_unique<const std::vector<ShownShard>>()};

  std::mutex intake_mutex_;
  std::vector<Queued> intake_;
  bool woken_ = false;

  std::mutex ready_mutex_;
  std::condition_variable ready_changed_;

  // The store's thread alone.
  bool stopping_ = false;
  bool refreshing_ = false;
  std::size_t leaving_ = 0;
  std::vector<Queued> taken_;
  std::vector<SharedAsk*> together_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  asio::steady_timer refresh_timer_;
  asio::steady_timer park_timer_;
  std::minstd_rand random_;
  std::vector<std::unique_ptr<Shard>> shards_;  // the first is nobody's; none is ever taken away
  std::optional<StateFolder> nobodys_folder_;
  Shard* nobody_ = nullptr;  // decides for slots without a master
  redis::ClusterWatch watch_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<SharedStore>> open_cluster(const policy::Model& model, Clock& clock,
                                                  render::Metrics& metrics, Observer* observer,
                                                  FleetRole role) {
  const policy::StoreSpec& spec = model.store;
  const policy::StoreUrl url = policy::parse_store_url(spec.url).value();
  auto keys = redis::KeySpace::make(spec.prefix, spec.prefix);
  if (!keys) return keys.error();
  if (auto usable = redis::check_files(spec, url); !usable) return usable.error();
  if (role == FleetRole::worker && !spec.workers.state.empty()) {
    auto folder = StateFolder::open(spec.workers.state, policy::redacted(spec.url));
    if (!folder) return folder.error();
  }
  auto store =
      std::make_unique<ClusterStore>(model, url, std::move(*keys), role, clock, metrics, observer);
  store->start();
  // The map, and then its masters.
  const std::optional<std::string> trouble =
      store->wait_ready(2 * spec.connect_timeout + spec.deadline);
  if (trouble) {
    if (spec.startup == policy::Startup::require) {
      return Error{ErrorCode::unavailable, "store: " + policy::redacted(spec.url) + ": " +
                                               *trouble + " (startup: require)"};
    }
    if (observer != nullptr)
      observer->on_store_event({.kind = StoreEvent::Kind::away_at_start, .why = *trouble});
    store->started_without();
  }
  return std::unique_ptr<SharedStore>(std::move(store));
}

}  // namespace weir::guard
