#include "guard/cluster_store.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/random.h"
#include "guard/cluster_shards.h"
#include "guard/fallback_ask.h"
#include "guard/fallback_store.h"
#include "guard/hosted_shard.h"
#include "guard/name_question.h"
#include "guard/one_server.h"
#include "guard/seat_options.h"
#include "guard/split_ask.h"
#include "guard/start_store.h"
#include "guard/state_folder.h"
#include "guard/store_line.h"
#include "policy/store_url.h"
#include "render/text.h"
#include "store/redis/asio_wire.h"
#include "store/redis/store_address.h"
#include "store/redis/topology/server_wire.h"

namespace weir::guard {

namespace asio = boost::asio;
namespace redis = store::redis;
using ladder::LadderVerdict;
using ladder::Moment;

namespace {

// The shards of a cluster on an event loop of their own thread, and the queue in front of them.
class ClusterStore final : public SharedStore, private StoreLine {
 public:
  ClusterStore(ClusterShards::Options options, Clock& clock, render::Metrics& metrics,
               Observer* observer)
      : keys_(options.keys),
        deadline_(options.spec.deadline),
        clock_(clock),
        metrics_(metrics),
        circuits_timer_(io_),
        circuits_(*this, keys_, clock, deadline_, options.random ^ kCircuits,
                  [this](MonoTime when) {
                    wake_at(circuits_timer_, when, [this] { circuits_.on_wake(); });
                  }),
        hints_({.channel = CircuitDesk::channel(keys_),
                .credentials = redis::has_credentials(options.spec, options.url)
                                   ? redis::credentials_of(options.spec, options.url)
                                   : nullptr,
                .connect_timeout = options.spec.connect_timeout,
                .random = options.random ^ kHints},
               std::make_unique<redis::AsioWire>(io_, redis::Endpoint{}), clock,
               [this](std::string_view news) { circuits_.hinted(news); }),
        leases_timer_(io_),
        leases_(*this, keys_, clock, deadline_,
                {.wake_at =
                     [this](MonoTime when) {
                       wake_at(leases_timer_, when, [this] { leases_.on_wake(); });
                     },
                 .part =
                     [this](std::uint32_t limit, std::uint16_t slot, const KeyDigest& digest) {
                       return lease_part(*shards_.owner_now(slot).ladder().division(), limit,
                                         digest);
                     },
                 .store_now = [this] { return shards_.store_time(); }}),
        fallback_observer_(observer),
        shards_(io_, std::move(options), clock, observer,
                {.changed =
                     [this] {
                       {
                         // The lock, so that who is about to wait has not looked yet.
                         std::lock_guard lock(ready_mutex_);
                         ready_changed_.notify_all();
                       }
                       circuits_.line_changed();
                       leases_.line_changed();
                     },
                 .ask_another = [this](SharedAsk& ask) { return ask_fallback(ask); },
                 .send_soon =
                     [this](SharedAsk& ask, ShardDriver& to) {
                       if (!queue({&ask, &to, nullptr})) to.no_room(ask);
                     }}) {
    circuits_.listen(hints_);
    source_ = metrics_.add_source([this](render::Exposition& out) { write_metrics(out); });
  }

  ~ClusterStore() override {
    metrics_.remove_source(source_);
    close();
  }

  void close() noexcept override {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      stopping_ = true;
      take_in();
      shards_.leave([this] {
        hints_.stop();
        shards_.stop();  // answers everything that waits, or asks the fallback
        if (fallback_) {
          take_in();
          fallback_->stop();
        }
        // Who was answered may have asked again. Drivers that are stopped answer at once.
        while (!close_intake()) take_in();
        io_.stop();  // timers that are still armed must not keep us here
      });
    });
    thread_.join();
  }

  // Asked in place of a master that cannot be. Before start().
  void fall_back_to(Server server, FleetRole role) {
    await_fallback_ = role == FleetRole::worker;
    fallback_ = std::make_unique<HostedShard>(
        io_, redis::server_wire(io_, server.spec, server.url, clock_), std::move(server.options),
        std::move(server.keys), clock_, &fallback_observer_,
        HostedShard::Ports{.connection_changed = [this] {
          std::lock_guard lock(ready_mutex_);
          ready_changed_.notify_all();
        }});
  }

  void start() {
    thread_ = std::thread([this] {
      shards_.start();
      if (fallback_) fallback_->driver().start();
      io_.run();
    });
  }

  // Waits until every shard is there, or some trouble is, at most so long. Absent: all are.
  std::optional<std::string> wait_ready(Nanos patience) {
    std::unique_lock lock(ready_mutex_);
    std::optional<std::string> trouble;
    const auto until = std::chrono::steady_clock::now() + patience;
    const bool heard = ready_changed_.wait_until(lock, until, [&] { return settled(trouble); });
    // Only so that what is said at the start is true of it, too.
    if (await_fallback_) {
      ready_changed_.wait_until(lock, until, [&] { return heard_of(fallback_->driver()); });
    }
    if (!heard && !trouble) {
      trouble = redis::told(redis::row_of(redis::LocalFault::connect_timeout), {});
    }
    return trouble;
  }

  void started_without() {
    asio::post(io_, [this] { shards_.started_without(); });
  }

  // ---- From any thread.

  void decide(SharedAsk& ask) noexcept override {
    // What follows a decision of the fallback's. It has every slot.
    if (ask.where == SharedAsk::Where::fallback && fallback_) {
      ShardDriver& driver = fallback_->driver();
      if (driver.begin(ask) && !queue({&ask, &driver, nullptr})) driver.no_room(ask);
      return;
    }
    Slots slots{};
    const std::size_t count = slots_of(ask.request, slots);
    ShardDriver& first = shards_.owner(slots[0]);
    if (one_slot(ask.request, slots) || blocked(ask.request)) {
      if (!first.begin(ask)) return;
      if (!queue({&ask, &first, nullptr})) first.no_room(ask);
      return;
    }
    auto split = std::make_unique<SplitAsk>(ask, std::span(slots.data(), count), shards_);
    if (!split->begin()) return;
    SplitAsk* const begun = split.release();
    if (!queue({nullptr, nullptr, begun})) begun->no_room();
  }

  LadderVerdict decide_without(const ladder::LadderRequest& request,
                               std::span<store::Finding> findings) noexcept override {
    Slots slots{};
    const std::size_t count = slots_of(request, slots);
    if (one_slot(request, slots)) return shards_.owner(slots[0]).without(request, findings);
    return split_without(request, std::span(slots.data(), count), shards_, findings);
  }

  LadderVerdict not_recorded(const ladder::LadderRequest& request,
                             std::span<store::Finding> findings,
                             const LadderVerdict& served) noexcept override {
    Slots slots{};
    const std::size_t count = slots_of(request, slots);
    if (one_slot(request, slots))
      return shards_.owner(slots[0]).not_recorded(request, findings, served);
    return split_not_recorded(request, std::span(slots.data(), count), shards_, findings, served);
  }
  void restore_overspend(const KeyDigest& counter, Instant window, std::uint64_t units) override {
    shards_.restore_overspend(counter, window, units);
  }
  std::uint16_t slot(const store::Counter& counter) const noexcept override {
    return counter.kept == store::Kept::weir
               ? keys_.slot(counter.key)
               : redis::KeySpace::envoyproxy_slot(
                     counter.key, limit::window_at(*counter.numbers, moment().store));
  }

  std::optional<std::string> objection_to(std::vector<policy::NameTrial> names) override {
    if (in_its_thread()) return std::nullopt;
    const auto question = std::make_shared<NameQuestion>(std::move(names));
    asio::post(io_, [this, question] {
      shards_.ask(*question);
      if (fallback_) question->ask(fallback_->driver());
      question->begun();
    });
    return question->wait();
  }

  void try_names(std::vector<policy::NameTrial> names) override {
    asio::post(io_, [this, names = std::move(names)] {
      if (stopping_) return;
      shards_.try_names(names);
      if (fallback_) fallback_->driver().try_names(names);
    });
  }

  bool in_its_thread() const noexcept override {
    return std::this_thread::get_id() == thread_.get_id();
  }
  CircuitDesk* circuits() noexcept override { return &circuits_; }
  LeaseDesk* leases() noexcept override { return &leases_; }
  Moment moment() const noexcept override { return shards_.moment(); }
  Nanos deadline() const noexcept override {
    return fallback_ ? deadline_ + fallback_->driver().deadline() : deadline_;
  }
  bool answering() const noexcept override {
    const auto shown = shards_.shown();
    return std::all_of(shown->begin(), shown->end(), [](const ClusterShards::Shown& s) {
      return s.driver->ladder().breaker().state() != breaker::ProbeState::open;
    });
  }
  bool connected() const override {
    const auto shown = shards_.shown();
    return std::all_of(shown->begin(), shown->end(),
                       [](const ClusterShards::Shown& s) { return s.driver->connection().up; });
  }
  bool reachable() const override {
    const auto shown = shards_.shown();
    return std::any_of(shown->begin(), shown->end(), [](const ClusterShards::Shown& s) {
      return s.driver->connection().up &&
             s.driver->ladder().breaker().state() != breaker::ProbeState::open;
    });
  }
  // The least of all shards': whoever has none in one has it in no request that needs that one.
  std::optional<Fallback> fallback() const override {
    if (!fallback_) return std::nullopt;
    return fallback_now(fallback_->driver());
  }
  WorkerPart part() const override {
    const auto shown = shards_.shown();
    std::optional<WorkerPart> least;
    for (const ClusterShards::Shown& one : *shown) {
      WorkerPart part = one.driver->part();
      if (least && !least->has_part) break;
      if (!least || !part.has_part || part.workers > least->workers) least = std::move(part);
    }
    return least.value_or(WorkerPart{});
  }
  std::uint64_t known_keys() const override {
    std::uint64_t keys = 0;
    const auto shown = shards_.shown();
    for (const ClusterShards::Shown& one : *shown) keys += one.driver->ladder().known().size();
    return keys;
  }
  std::string state_json() const override {
    const auto shown = shards_.shown();
    breaker::ProbeState worst = breaker::ProbeState::closed;
    std::string shards;
    bool away = false;
    for (std::size_t i = 0; i < shown->size(); ++i) {
      const ClusterShards::Shown& one = (*shown)[i];
      const breaker::ProbeState state = one.driver->ladder().breaker().state();
      away = away || one.driver->away_for().has_value();
      if (state == breaker::ProbeState::open || worst == breaker::ProbeState::closed) worst = state;
      shards += (i == 0 ? "" : ",") + std::string("{\"shard\":\"") + one.name + "\"";
      if (!one.address.host.empty()) {
        shards += ",\"address\":";
        render::append_json_string(shards, one.address.text());
      }
      shards +=
          ",\"slots\":" + std::to_string(one.slots) + "," + one.driver->state_json().substr(1);
    }
    return "{\"topology\":\"cluster\",\"state\":\"" + std::string(breaker::to_string(worst)) +
           "\",\"away\":" + (away ? "true" : "false") + ",\"shards\":[" + shards + "]" +
           (fallback_ ? ",\"fallback\":" + fallback_->driver().state_json() : "") + "}";
  }

 private:
  using Slots = std::array<std::uint16_t, store::kMaxCounters>;
  struct Queued {
    SharedAsk* ask;
    ShardDriver* driver;
    SplitAsk* split;
  };

  // From any thread.
  bool ask_fallback(SharedAsk& ask) noexcept {
    if (!fallback_ || !may_fall_back(ask, clock_.mono())) return false;
    ShardDriver& driver = fallback_->driver();
    std::unique_ptr<SharedAsk> second = std::make_unique<FallbackAsk>(
        ask, [](SharedAsk& of) { of.asked_of->decide_without(of); },
        [this](SharedAsk& of, bool decided) {
          fallback_counters_.count(decided);
          if (decided && of.counts_at(*of.asked_of)) of.asked_of->decided_by_fallback();
        });
    // It owns itself, unless whoever asks for it sends it along.
    if (!driver.begin(*second)) {
      (void)second.release();
    } else if (!ask.hold(second, driver)) {
      SharedAsk* const sent = second.release();
      if (!queue({sent, &driver, nullptr})) driver.no_room(*sent);
    }
    return true;
  }

  // ---- The line of breakers and leases: to whom their slot belongs just now.

  bool up(std::uint16_t slot) const override { return shards_.owner_now(slot).ready(); }
  std::optional<redis::Endpoint> where(std::uint16_t slot) const override {
    return shards_.where(slot);
  }
  void call(std::uint16_t slot, redis::StoreCall call, Nanos within,
            redis::CallHandler handler) override {
    shards_.owner(slot).call(
        std::move(call), within,
        [this, handler = std::move(handler)](const redis::ErrorRow* error,
                                             const redis::Reply* reply, bool late) {
          if (error != nullptr && error->error_class == redis::ErrorClass::redirected)
            shards_.refresh_soon();
          handler(error, reply, late);
        });
  }
  void post(std::function<void()> what) override { asio::post(io_, std::move(what)); }
  bool in_loop() const noexcept override { return in_its_thread(); }
  bool answering(std::uint16_t slot) const noexcept override {
    const ShardDriver& owner = shards_.owner_now(slot);
    return owner.ladder().breaker().state() != breaker::ProbeState::open && owner.connection().up;
  }
  void wake_at(asio::steady_timer& timer, MonoTime when, std::function<void()> what) {
    timer.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(when));
    timer.async_wait([this, what = std::move(what)](const boost::system::error_code& error) {
      if (!error && !stopping_) what();
    });
  }

  std::size_t slots_of(const ladder::LadderRequest& request, Slots& slots) const noexcept {
    for (std::size_t i = 0; i < request.counters.size(); ++i) slots[i] = slot(request.counters[i]);
    return request.counters.size();
  }
  // Whether one call can decide it.
  static bool one_slot(const ladder::LadderRequest& request, const Slots& slots) noexcept {
    const std::size_t count = request.counters.size();
    if (count > 1 && request.counters.front().kept != store::Kept::weir) return false;
    return std::all_of(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(count),
                       [&](std::uint16_t slot) { return slot == slots[0]; });
  }
  // A limit of 0 holds in every mode, and nobody is asked.
  static bool blocked(const ladder::LadderRequest& request) noexcept {
    return std::any_of(request.counters.begin(), request.counters.end(), [](const auto& counter) {
      return counter.numbers->limit == 0 && !counter.shadow;
    });
  }
  // Whether nothing waits any more: then nothing is taken in any more either.
  bool close_intake() {
    std::lock_guard lock(intake_mutex_);
    closed_ = intake_.empty();
    return closed_;
  }
  // False: there is no room. Else the store's thread sends it.
  bool queue(const Queued& queued) noexcept {
    {
      std::lock_guard lock(intake_mutex_);
      if (closed_ || intake_.size() >= kMaxQueued) return false;
      intake_.push_back(queued);
      if (std::exchange(woken_, true)) return true;
    }
    asio::post(io_, [this] { take_in(); });
    return true;
  }

  // Whether the shards are there (no trouble), or what is wrong has been found out.
  bool settled(std::optional<std::string>& trouble) const {
    trouble.reset();
    const auto shown = shards_.shown();
    bool all = true;
    for (const ClusterShards::Shown& one : *shown) {
      const ShardDriver::Connection now = one.driver->connection();
      if (now.up && one.driver->seated()) continue;
      all = false;
      if (now.up || now.trouble.empty() || trouble) continue;
      trouble = one.address.host.empty() ? now.trouble : one.address.text() + ": " + now.trouble;
    }
    return all || trouble.has_value();
  }

  void write_metrics(render::Exposition& out) const {
    const auto shown = shards_.shown();
    std::vector<ShardView> views;
    for (const ClusterShards::Shown& one : *shown) views.push_back(one.driver->view(one.name));
    write_shards(views, out);
    if (fallback_) {
      fallback_counters_.write(fallback_->driver().ladder().breaker().state(),
                               fallback_->driver().away_for(), out);
    }
  }

  // ---- The store's thread.

  void take_in() {
    {
      std::lock_guard lock(intake_mutex_);
      taken_.swap(intake_);
      woken_ = false;
    }
    sending_.clear();
    for (const Queued& queued : taken_) {
      if (queued.split != nullptr) {
        queued.split->send(sending_);
      } else {
        sending_.push_back({queued.ask, queued.driver});
      }
    }
    taken_.clear();
    // Asks of one shard, in their order, so that those alike meet.
    for (std::size_t i = 0; i < sending_.size(); ++i) {
      ShardDriver* const shard = sending_[i].shard;
      if (shard == nullptr) continue;
      together_.clear();
      for (std::size_t j = i; j < sending_.size(); ++j) {
        if (sending_[j].shard != shard) continue;
        together_.push_back(sending_[j].ask);
        sending_[j].shard = nullptr;
      }
      shard->send_together(together_);
    }
  }

  const redis::KeySpace keys_;
  const Nanos deadline_;
  Clock& clock_;
  render::Metrics& metrics_;
  std::uint64_t source_ = 0;

  std::mutex intake_mutex_;
  std::vector<Queued> intake_;
  bool woken_ = false;
  bool closed_ = false;

  std::mutex ready_mutex_;
  std::condition_variable ready_changed_;

  // The store's thread alone.
  std::vector<Queued> taken_;
  std::vector<SplitAsk::Sending> sending_;
  std::vector<SharedAsk*> together_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  static constexpr std::uint64_t kCircuits = 0x636972637569747aU;
  static constexpr std::uint64_t kHints = 0x68696e7473000000U;
  bool stopping_ = false;
  asio::steady_timer circuits_timer_;
  CircuitDesk circuits_;
  CircuitHints hints_;
  asio::steady_timer leases_timer_;
  LeaseDesk leases_;
  FallbackObserver fallback_observer_;
  FallbackCounters fallback_counters_;
  std::unique_ptr<HostedShard> fallback_;
  bool await_fallback_ = false;
  ClusterShards shards_;
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
  std::optional<StateFolder> folder;
  if (role == FleetRole::worker && !spec.workers.state.empty()) {
    auto opened =
        StateFolder::open(spec.workers.state, StateFolder::name_of(spec.url, spec.prefix));
    if (!opened) return opened.error();
    folder = *std::move(opened);
  }
  auto store = std::make_unique<ClusterStore>(
      ClusterShards::Options{.spec = spec,
                             .url = url,
                             .keys = *std::move(keys),
                             .names = policy::name_trials(model),
                             .seat = seat_options(model, role, random_number()),
                             .folder = std::move(folder),
                             .random = random_number()},
      clock, metrics, observer);
  if (spec.fallback_url) {
    auto second = Server::fallback_of(model);
    if (!second) return second.error();
    store->fall_back_to(std::move(*second), role);
  }
  // The map, and then its masters.
  return started(std::move(store), spec, 2 * spec.connect_timeout + spec.deadline, observer);
}

}  // namespace weir::guard
