#include "guard/shared_store.h"

#include <utility>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "guard/seat_options.h"
#include "guard/shard_driver.h"
#include "guard/state_folder.h"
#include "guard/view_writer.h"
#include "policy/store_url.h"
#include "store/redis/asio_wire.h"
#include "store/redis/store_address.h"

namespace weir::guard {

namespace asio = boost::asio;
namespace redis = store::redis;
using ladder::LadderVerdict;
using ladder::Moment;

namespace {

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

ShardDriver::Options driver_options(const policy::Model& model, const policy::StoreUrl& url,
                                    FleetRole role) {
  ShardDriver::Options options = ShardDriver::Options::of(model.store, random_number());
  options.client.session.database = url.database;
  options.client.credentials = redis::credentials_of(model.store, url);
  options.seat = seat_options(model, role, random_number());
  return options;
}

// A driver on an event loop of its own thread, and the queue in front of it.
class ThreadedStore final : public SharedStore, private ShardDriver::Host {
 public:
  ThreadedStore(ShardDriver::Options options, const redis::Endpoint& endpoint, redis::KeySpace keys,
                Clock& clock, render::Metrics& metrics, Observer* observer)
      : metrics_(metrics),
        timer_(io_),
        wire_(io_, endpoint),
        driver_(std::move(options), std::move(keys), wire_, clock, observer, *this) {
    source_ = metrics_.add_source([this](render::Exposition& out) { driver_.write_metrics(out); });
  }

  ~ThreadedStore() override {
    metrics_.remove_source(source_);
    if (thread_.joinable()) {
      asio::post(io_, [this] {
        stopping_ = true;
        take_in();
        if (!driver_.leave([this] { asio::post(io_, [this] { finish(); }); })) finish();
      });
      thread_.join();
    }
  }

  // Views are written there from now on, and the one that stands there is taken up. Before start().
  void keep_state(StateFolder folder, Observer* observer) {
    if (const auto found = folder.read()) {
      if (*found) {
        driver_.start_from(**found);
      } else if (observer != nullptr) {
        observer->on_store_event({.kind = StoreEvent::Kind::fault, .why = found->error().message});
      }
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
      io_.run();
    });
  }

  // Waits for the first self-test, and then for the fleet's members, at most so long. Absent: the
  // test was passed.
  std::optional<std::string> wait_ready(Nanos patience) {
    std::unique_lock lock(ready_mutex_);
    ShardDriver::Connection now;
    const bool heard = ready_changed_.wait_for(lock, patience, [&] {
      now = driver_.connection();
      return (now.up && driver_.seated()) || !now.trouble.empty();
    });
    if (now.up) return std::nullopt;
    return heard ? now.trouble : std::string("did not answer within the connect timeout");
  }

  void decide(SharedAsk& ask) noexcept override {
    if (!driver_.begin(ask)) return;
    switch (queue(ask)) {
      case Queued::full:
        driver_.decide_without(ask);
        return;
      case Queued::behind_others:
        return;
      case Queued::first:
        asio::post(io_, [this] { take_in(); });
        return;
    }
  }

  LadderVerdict decide_without(const ladder::LadderRequest& request,
                               std::span<store::Finding> findings) noexcept override {
    return driver_.without(request, findings);
  }

  Moment moment() const noexcept override { return driver_.moment(); }
  Nanos deadline() const noexcept override { return driver_.deadline(); }
  bool answering() const noexcept override {
    return driver_.ladder().breaker().state() != breaker::ProbeState::open;
  }
  bool connected() const override { return driver_.connection().up; }
  WorkerPart part() const override { return driver_.part(); }
  std::uint64_t known_keys() const override { return driver_.ladder().known().size(); }
  std::string state_json() const override { return driver_.state_json(); }

 private:
  enum class Queued : std::uint8_t { full, first, behind_others };

  Queued queue(SharedAsk& ask) {
    std::lock_guard lock(intake_mutex_);
    if (intake_.size() >= kMaxQueued) return Queued::full;
    intake_.push_back(&ask);
    return std::exchange(woken_, true) ? Queued::behind_others : Queued::first;
  }

  // ---- The store's thread.

  void take_in() {
    {
      std::lock_guard lock(intake_mutex_);
      taken_.swap(intake_);
      woken_ = false;
    }
    for (SharedAsk* ask : taken_) driver_.send(*ask);
    taken_.clear();
  }

  void finish() {
    driver_.stop();  // answers everything that waits
    io_.stop();      // timers that are still armed must not keep us here
  }

  void write_view(std::string text, std::uint64_t epoch) override {
    if (writer_) writer_->write(std::move(text), epoch);
  }

  void wake_at(MonoTime when) override {
    timer_.expires_at(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(when));
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error && !stopping_) driver_.on_wake();
    });
  }

  void connection_changed() override {
    // The lock, so that who is about to wait has not looked yet.
    std::lock_guard lock(ready_mutex_);
    ready_changed_.notify_all();
  }

  render::Metrics& metrics_;
  std::uint64_t source_ = 0;

  std::mutex intake_mutex_;
  std::vector<SharedAsk*> intake_;
  bool woken_ = false;

  std::mutex ready_mutex_;
  std::condition_variable ready_changed_;

  // The store's thread alone.
  bool stopping_ = false;
  std::vector<SharedAsk*> taken_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  asio::steady_timer timer_;
  redis::AsioWire wire_;
  ShardDriver driver_;
  std::thread thread_;
  std::optional<ViewWriter> writer_;  // last: its thread posts to the loop
};

}  // namespace

Result<std::unique_ptr<SharedStore>> SharedStore::open(const policy::Model& model, Clock& clock,
                                                       render::Metrics& metrics, Observer* observer,
                                                       FleetRole role) {
  if (auto fits = check(model); !fits) return fits.error();
  const policy::StoreSpec& spec = model.store;
  const policy::StoreUrl url = policy::parse_store_url(spec.url).value();
  auto keys = redis::KeySpace::make(spec.prefix, spec.prefix);
  if (!keys) return keys.error();
  if (!spec.password_file.empty()) {
    if (auto read = redis::read_password(spec.password_file); !read) return read.error();
  }
  // Files that cannot be used are no fault of the store's, and are said at once.
  const redis::Endpoint endpoint = redis::endpoint_of(spec, url);
  if (endpoint.tls) {
    if (auto begun = redis::TlsSession::begin(*endpoint.tls); !begun) return begun.error();
  }
  auto store = std::make_unique<ThreadedStore>(driver_options(model, url, role), endpoint,
                                               std::move(*keys), clock, metrics, observer);
  if (role == FleetRole::worker && !spec.workers.state.empty()) {
    auto folder =
        StateFolder::open(spec.workers.state, policy::redacted(spec.url) + " " + spec.prefix);
    if (!folder) return folder.error();
    store->keep_state(std::move(*folder), observer);
  }
  store->start();
  const std::optional<std::string> trouble =
      store->wait_ready(spec.connect_timeout + spec.deadline);
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
