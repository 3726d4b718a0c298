#include "guard/shared_store.h"

#include <algorithm>
#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/random.h"
#include "guard/cluster_store.h"
#include "guard/fallback_ask.h"
#include "guard/fallback_store.h"
#include "guard/hosted_shard.h"
#include "guard/name_question.h"
#include "guard/one_server.h"
#include "guard/start_store.h"
#include "guard/state_folder.h"
#include "guard/store_line.h"
#include "guard/view_writer.h"
#include "policy/store_url.h"
#include "store/redis/asio_wire.h"
#include "store/redis/store_address.h"
#include "store/redis/topology/server_wire.h"

namespace weir::guard {

namespace asio = boost::asio;
namespace redis = store::redis;
using ladder::LadderVerdict;
using ladder::Moment;

namespace {

// Shards' drivers on an event loop of its own thread, and the queue in front of them.
class ThreadedStore final : public SharedStore, private StoreLine {
 public:
  ThreadedStore(Server first, Clock& clock, render::Metrics& metrics, Observer* observer)
      : metrics_(metrics),
        circuits_timer_(io_),
        circuits_(*this, first.keys, clock, first.spec.deadline, random_number(),
                  [this](MonoTime when) {
                    wake_at(circuits_timer_, when, [this] { circuits_.on_wake(); });
                  }),
        hints_({.channel = CircuitDesk::channel(first.keys),
                .credentials = redis::has_credentials(first.spec, first.url)
                                   ? first.options.client.credentials
                                   : nullptr,
                .connect_timeout = first.spec.connect_timeout,
                .random = random_number()},
               std::make_unique<redis::AsioWire>(io_, redis::Endpoint{}), clock,
               [this](std::string_view news) { circuits_.hinted(news); }),
        leases_timer_(io_),
        leases_(*this, first.keys, clock, first.spec.deadline,
                {.wake_at =
                     [this](MonoTime when) {
                       wake_at(leases_timer_, when, [this] { leases_.on_wake(); });
                     },
                 .part =
                     [this](std::uint32_t limit, std::uint16_t, const KeyDigest& digest) {
                       return lease_part(*driver_.ladder().division(), limit, digest);
                     },
                 .store_now = [this] { return driver_.store_time(); }}),
        first_(io_, redis::server_wire(io_, first.spec, first.url, clock), std::move(first.options),
               std::move(first.keys), clock, observer,
               {.connection_changed =
                    [this] {
                      // The lock, so that who is about to wait has not looked yet.
                      {
                        std::lock_guard lock(ready_mutex_);
                        ready_changed_.notify_all();
                      }
                      circuits_.line_changed();
                      leases_.line_changed();
                    },
                .write_view =
                    [this](std::string text, std::uint64_t epoch) {
                      if (writer_) writer_->write(std::move(text), epoch);
                    },
                .ask_another = [this](SharedAsk& ask) { return ask_fallback(ask); }}),
        driver_(first_.driver()),
        clock_(clock),
        fallback_observer_(observer) {
    circuits_.listen(hints_);
    source_ = metrics_.add_source([this](render::Exposition& out) {
      const ShardView view = driver_.view("0");
      write_shards({&view, 1}, out);
      if (fallback_) {
        fallback_counters_.write(fallback_->driver().ladder().breaker().state(),
                                 fallback_->driver().away_for(), out);
      }
    });
  }

  ~ThreadedStore() override {
    metrics_.remove_source(source_);
    close();
  }

  void close() noexcept override {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      stopping_ = true;
      take_in();
      if (!driver_.leave([this] { asio::post(io_, [this] { finish(); }); })) finish();
    });
    thread_.join();
  }

  // Asked while the first one cannot be. Before start().
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

  // Views are written there from now on, and the one that stands there is taken up. Before start().
  void keep_state(StateFolder folder, Observer* observer) {
    const auto found = folder.read();
    std::string trouble;
    if (!folder.alone()) {
      trouble = folder.not_alone();
    } else if (found && *found) {
      driver_.start_from(**found);
    } else if (found) {
      trouble = found->error().message;
    }
    if (!trouble.empty() && observer != nullptr) {
      observer->on_store_event({.kind = StoreEvent::Kind::fault, .why = trouble});
    }
    writer_.emplace(std::move(folder), [this](std::uint64_t epoch, std::string fault) {
      asio::post(io_, [this, epoch, fault = std::move(fault)] {
        if (!stopping_) driver_.view_written(epoch, fault);
      });
    });
  }

  // The store did not answer at the start.
  void started_without() {
    asio::post(io_, [this] { driver_.started_without(); });
  }

  void start() {
    thread_ = std::thread([this] {
      driver_.start();
      if (fallback_) fallback_->driver().start();
      io_.run();
    });
  }

  // Waits for the first self-test, and then for the fleet's members, at most so long. Absent: the
  // test was passed.
  std::optional<std::string> wait_ready(Nanos patience) {
    std::unique_lock lock(ready_mutex_);
    ShardDriver::Connection now;
    const auto until = std::chrono::steady_clock::now() + patience;
    const bool heard = ready_changed_.wait_until(lock, until, [&] {
      now = driver_.connection();
      return (now.up && driver_.seated()) || !now.trouble.empty();
    });
    // Only so that what is said at the start is true of it, too.
    if (await_fallback_) {
      ready_changed_.wait_until(lock, until, [&] { return heard_of(fallback_->driver()); });
    }
    if (now.up) return std::nullopt;
    if (heard) return now.trouble;
    return redis::told(redis::row_of(redis::LocalFault::connect_timeout), {});
  }

  void decide(SharedAsk& ask) noexcept override {
    const bool of_fallback = ask.where == SharedAsk::Where::fallback && fallback_;
    ShardDriver& driver = of_fallback ? fallback_->driver() : driver_;
    if (!driver.begin(ask)) return;
    if (!queue(ask, driver)) driver.no_room(ask);
  }

  LadderVerdict decide_without(const ladder::LadderRequest& request,
                               std::span<store::Finding> findings) noexcept override {
    return driver_.without(request, findings);
  }
  LadderVerdict not_recorded(const ladder::LadderRequest& request,
                             std::span<store::Finding> findings,
                             const LadderVerdict& served) noexcept override {
    return driver_.not_recorded(request, findings, served);
  }

  void restore_overspend(const KeyDigest& counter, Instant window, std::uint64_t units) override {
    driver_.restore_overspend(counter, window, units);
  }

  std::optional<std::string> objection_to(std::vector<policy::NameTrial> names) override {
    if (in_its_thread()) return std::nullopt;
    const auto question = std::make_shared<NameQuestion>(std::move(names));
    asio::post(io_, [this, question] {
      question->ask(driver_);
      if (fallback_) question->ask(fallback_->driver());
      question->begun();
    });
    return question->wait();
  }

  void try_names(std::vector<policy::NameTrial> names) override {
    asio::post(io_, [this, names = std::move(names)] {
      if (stopping_) return;
      driver_.try_names(names);
      if (fallback_) fallback_->driver().try_names(names);
    });
  }

  bool in_its_thread() const noexcept override {
    return std::this_thread::get_id() == thread_.get_id();
  }
  CircuitDesk* circuits() noexcept override { return &circuits_; }
  LeaseDesk* leases() noexcept override { return &leases_; }
  Moment moment() const noexcept override { return driver_.moment(); }
  Nanos deadline() const noexcept override {
    return fallback_ ? driver_.deadline() + fallback_->driver().deadline() : driver_.deadline();
  }
  bool answering() const noexcept override {
    return driver_.ladder().breaker().state() != breaker::ProbeState::open;
  }
  bool connected() const override { return driver_.connection().up; }
  std::optional<Fallback> fallback() const override {
    if (!fallback_) return std::nullopt;
    return fallback_now(fallback_->driver());
  }
  WorkerPart part() const override { return driver_.part(); }
  std::uint64_t known_keys() const override { return driver_.ladder().known().size(); }
  std::string state_json() const override {
    std::string out = driver_.state_json();
    if (fallback_) {
      out.pop_back();
      out += ",\"fallback\":" + fallback_->driver().state_json() + "}";
    }
    return out;
  }

 private:
  struct Queued {
    SharedAsk* ask;
    ShardDriver* driver;
  };

  // False: there is no room. Else the store's thread sends it.
  bool queue(SharedAsk& ask, ShardDriver& driver) noexcept {
    {
      std::lock_guard lock(intake_mutex_);
      if (closed_ || intake_.size() >= kMaxQueued) return false;
      intake_.push_back({&ask, &driver});
      if (std::exchange(woken_, true)) return true;
    }
    asio::post(io_, [this] { take_in(); });
    return true;
  }

  bool ask_fallback(SharedAsk& ask) noexcept {
    if (!fallback_ || !may_fall_back(ask, clock_.mono())) return false;
    ShardDriver& driver = fallback_->driver();
    auto* const second = new FallbackAsk(
        ask, [this](SharedAsk& of) { driver_.decide_without(of); },
        [this](SharedAsk&, bool decided) {
          fallback_counters_.count(decided);
          if (decided) driver_.decided_by_fallback();
        });
    if (driver.begin(*second) && !queue(*second, driver)) driver.no_room(*second);
    return true;
  }

  // ---- The line of breakers and leases. A server alone has every slot.

  bool up(std::uint16_t) const override { return driver_.ready(); }
  std::optional<redis::Endpoint> where(std::uint16_t) const override { return first_.where(); }
  void call(std::uint16_t, redis::StoreCall call, Nanos within,
            redis::CallHandler handler) override {
    driver_.call(std::move(call), within, std::move(handler));
  }
  void post(std::function<void()> what) override { asio::post(io_, std::move(what)); }
  bool in_loop() const noexcept override { return in_its_thread(); }
  bool answering(std::uint16_t) const noexcept override { return answering() && connected(); }
  void wake_at(asio::steady_timer& timer, MonoTime when, std::function<void()> what) {
    timer.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(when));
    timer.async_wait([this, what = std::move(what)](const boost::system::error_code& error) {
      if (!error && !stopping_) what();
    });
  }

  // ---- The store's thread.

  void take_in() {
    {
      std::lock_guard lock(intake_mutex_);
      taken_.swap(intake_);
      woken_ = false;
    }
    // Asks of one driver, in their order, so that those alike meet.
    for (ShardDriver* driver : {&driver_, fallback_ ? &fallback_->driver() : nullptr}) {
      together_.clear();
      for (const Queued& queued : taken_) {
        if (queued.driver == driver) together_.push_back(queued.ask);
      }
      if (driver != nullptr) driver->send_together(together_);
    }
    taken_.clear();
  }

  void finish() {
    hints_.stop();
    first_.stop();  // answers everything that waits, or asks the fallback
    if (fallback_) {
      take_in();
      fallback_->stop();
    }
    // Who was answered may have asked again. Drivers that are stopped answer at once.
    while (!close_intake()) take_in();
    io_.stop();  // timers that are still armed must not keep us here
  }

  // Whether nothing waits any more: then nothing is taken in any more either.
  bool close_intake() {
    std::lock_guard lock(intake_mutex_);
    closed_ = intake_.empty();
    return closed_;
  }

  render::Metrics& metrics_;
  std::uint64_t source_ = 0;

  std::mutex intake_mutex_;
  std::vector<Queued> intake_;
  bool woken_ = false;
  bool closed_ = false;

  std::mutex ready_mutex_;
  std::condition_variable ready_changed_;

  // The store's thread alone.
  bool stopping_ = false;
  std::vector<Queued> taken_;
  std::vector<SharedAsk*> together_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  asio::steady_timer circuits_timer_;
  CircuitDesk circuits_;
  CircuitHints hints_;
  asio::steady_timer leases_timer_;
  LeaseDesk leases_;
  HostedShard first_;
  ShardDriver& driver_;
  Clock& clock_;
  FallbackObserver fallback_observer_;
  FallbackCounters fallback_counters_;
  std::unique_ptr<HostedShard> fallback_;
  bool await_fallback_ = false;
  std::thread thread_;
  std::optional<ViewWriter> writer_;  // last: its thread posts to the loop
};

}  // namespace

Result<std::unique_ptr<SharedStore>> SharedStore::open(const policy::Model& model, Clock& clock,
                                                       render::Metrics& metrics, Observer* observer,
                                                       FleetRole role) {
  if (auto fits = check(model); !fits) return fits.error();
  const policy::StoreSpec& spec = model.store;
  if (policy::parse_store_url(spec.url).value().kind == policy::StoreKind::cluster) {
    return open_cluster(model, clock, metrics, observer, role);
  }
  auto first = Server::first_of(model, role);
  if (!first) return first.error();
  auto store = std::make_unique<ThreadedStore>(std::move(*first), clock, metrics, observer);
  if (spec.fallback_url) {
    auto second = Server::fallback_of(model);
    if (!second) return second.error();
    store->fall_back_to(std::move(*second), role);
  }
  if (role == FleetRole::worker && !spec.workers.state.empty()) {
    auto folder =
        StateFolder::open(spec.workers.state, StateFolder::name_of(spec.url, spec.prefix));
    if (!folder) return folder.error();
    store->keep_state(std::move(*folder), observer);
  }
  return started(std::move(store), spec, spec.connect_timeout + spec.deadline, observer);
}

}  // namespace weir::guard
