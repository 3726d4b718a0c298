#include "drill/proxy/fault_proxy.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "drill/proxy/endpoint.h"
#include "drill/proxy/relay.h"

namespace weir::drill {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

// One thread with its event loop, and the connections that it serves.
class ProxyLoop {
 public:
  ProxyLoop(const tcp::endpoint& target, std::uint64_t seed) : target_(target) {
    state_.random.seed(seed);
  }
  ProxyLoop(const ProxyLoop&) = delete;
  ProxyLoop& operator=(const ProxyLoop&) = delete;
  ~ProxyLoop() { stop(); }

  asio::io_context& io() noexcept { return io_; }
  void start() {
    thread_ = std::thread([this] { io_.run(); });
  }
  void stop() {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      for (const auto& relay : relays_) relay->reset();
      io_.stop();
    });
    thread_.join();
  }

  // Has the work done in the loop's thread, and waits for it.
  template <class Work>
  void in_thread(Work work) {
    std::promise<void> done;
    asio::post(io_, [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  // ---- From here on: in its thread alone.

  ProxyState& state() noexcept { return state_; }
  void retarget(const tcp::endpoint& target) { target_ = target; }
  const tcp::endpoint& target() const noexcept { return target_; }

  // `refused`: there are too many already.
  void take(tcp::socket client, bool refused) {
    auto relay = std::make_shared<Relay>(io_, std::move(client), state_);
    if (refused) return relay->reset();
    relays_.push_back(relay);
    relay->start(target_);
  }
  void changed(bool hasten) {
    for (const auto& relay : std::vector(relays_.begin(), relays_.end())) relay->changed(hasten);
  }
  void reset_connections() {
    for (const auto& relay : relays_) relay->reset();
    sweep();
  }
  // Forgets those that are over.
  std::size_t sweep() {
    relays_.remove_if([](const std::shared_ptr<Relay>& relay) { return relay->over(); });
    return relays_.size();
  }

 private:
  tcp::endpoint target_;
  ProxyState state_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::list<std::shared_ptr<Relay>> relays_;
  std::thread thread_;
};

}  // namespace

// Connections are accepted in the first loop's thread, and served by one loop after another.
class FaultProxy::Impl {
 public:
  Impl(const tcp::endpoint& listen, const tcp::endpoint& target, const Options& options)
      : listen_(listen) {
    for (std::uint32_t i = 0; i < std::clamp(options.loops, 1U, kMostLoops); ++i) {
      loops_.push_back(std::make_unique<ProxyLoop>(target, options.seed + i));
    }
    acceptor_.emplace(loops_.front()->io());
    retry_.emplace(loops_.front()->io());
  }

  ~Impl() {
    // Nobody hands connections over to a loop that has stopped.
    loops_.front()->stop();
    for (const auto& loop : loops_) loop->stop();
    acceptor_.reset();
    retry_.reset();
  }

  Result<void> start() {
    if (const error_code error = open_door(); error) {
      return Error{ErrorCode::unavailable,
                   "cannot listen on " + text_of(listen_) + ": " + error.message()};
    }
    listen_ = acceptor_->local_endpoint();
    accept();
    for (const auto& loop : loops_) loop->start();
    return {};
  }

  std::uint16_t port() const noexcept { return listen_.port(); }
  const tcp::endpoint& listen() const noexcept { return listen_; }
  tcp::endpoint target() {
    tcp::endpoint target;
    loops_.front()->in_thread([&] { target = loops_.front()->target(); });
    return target;
  }

  void set(const ProxyFaults& faults) {
    in_each([&](ProxyLoop& loop) {
      loop.state().faults = faults;
      changed(loop, false);
    });
  }

  void set_toxics(const std::vector<Toxic>& toxics) {
    in_each([&](ProxyLoop& loop) {
      loop.state().toxics = toxics;
      changed(loop, true);
    });
  }

  ProxyFaults faults() {
    ProxyFaults faults;
    loops_.front()->in_thread([&] { faults = loops_.front()->state().faults; });
    return faults;
  }

  void retarget(const tcp::endpoint& target) {
    in_each([&](ProxyLoop& loop) { loop.retarget(target); });
  }

  void reset_connections() {
    in_each([](ProxyLoop& loop) { loop.reset_connections(); });
  }

  Counts counts() {
    Counts counts;
    in_each([&](ProxyLoop& loop) {
      const ProxyState& state = loop.state();
      counts.open += loop.sweep();
      counts.request_bytes += state.request_bytes;
      counts.reply_bytes += state.reply_bytes;
      counts.lost_bytes += state.lost_bytes;
      counts.resets += state.resets;
    });
    counts.connections = connections_;
    return counts;
  }

 private:
  // In the thread of each loop, the first one first: what it has accepted by then is on its way to
  // the others before this is.
  template <class Work>
  void in_each(Work work) {
    for (const auto& loop : loops_) {
      loop->in_thread([&] { work(*loop); });
    }
  }

  void changed(ProxyLoop& loop, bool hasten) {
    if (&loop == loops_.front().get()) look_at_door(loop.state());
    loop.changed(hasten);
  }

  void look_at_door(const ProxyState& state) {
    const bool refuses =
        state.faults.door == ProxyFaults::Door::refuse ||
        std::any_of(state.toxics.begin(), state.toxics.end(),
                    [](const Toxic& each) { return each.kind == Toxic::Kind::refuse; });
    if (refuses) {
      close_door();
    } else if (!acceptor_->is_open()) {
      reopen_door();
    }
  }

  error_code open_door() {
    error_code error;
    acceptor_->open(listen_.protocol(), error);
    if (!error) acceptor_->set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_->bind(listen_, error);
    if (!error) acceptor_->listen(asio::socket_base::max_listen_connections, error);
    if (error) close_door();
    return error;
  }

  void close_door() {
    error_code ignored;
    retry_->cancel();
    acceptor_->close(ignored);
  }

  // Somebody else may have the port for a moment.
  void reopen_door() {
    if (!open_door()) {
      accept();
      return;
    }
    retry_->expires_after(std::chrono::milliseconds(5));
    retry_->async_wait([this](const error_code& error) {
      if (!error && !acceptor_->is_open()) reopen_door();
    });
  }

  void accept() {
    ProxyLoop& next = *loops_[connections_ % loops_.size()];
    acceptor_->async_accept(next.io(), [this, &next](const error_code& error, tcp::socket client) {
      if (error == asio::error::operation_aborted || !acceptor_->is_open()) return;
      if (!error) take(next, std::move(client));
      accept();
    });
  }

  void take(ProxyLoop& loop, tcp::socket client) {
    ++connections_;
    if (&loop == loops_.front().get()) return take_in_thread(loop, std::move(client));
    asio::post(loop.io(), [this, &loop, client = std::move(client)]() mutable {
      take_in_thread(loop, std::move(client));
    });
  }

  // Each loop may have its part of the most.
  void take_in_thread(ProxyLoop& loop, tcp::socket client) {
    loop.take(std::move(client), loop.sweep() >= kMaxOpen / loops_.size());
  }

  static constexpr std::uint32_t kMostLoops = 16;

  tcp::endpoint listen_;
  std::vector<std::unique_ptr<ProxyLoop>> loops_;
  std::optional<tcp::acceptor> acceptor_;    // of the first loop's thread
  std::optional<asio::steady_timer> retry_;  // the same
  std::atomic<std::uint64_t> connections_{0};
};

namespace {

Error is_itself(const std::string& target) {
  return {ErrorCode::invalid_argument,
          "'" + target + "' is the proxy itself: what it passed on would come back to it"};
}

}  // namespace

Result<std::unique_ptr<FaultProxy>> FaultProxy::start(const Options& options) {
  const auto listen = endpoint_of(options.listen);
  if (!listen) return listen.error();
  const auto target = target_of(options.target);
  if (!target) return target.error();
  auto impl = std::make_unique<Impl>(*listen, *target, options);
  if (auto started = impl->start(); !started) return started.error();
  if (drill::leads_to(*target, impl->listen())) return is_itself(options.target);
  return std::unique_ptr<FaultProxy>(new FaultProxy(std::move(impl)));
}

FaultProxy::FaultProxy(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FaultProxy::~FaultProxy() = default;
std::uint16_t FaultProxy::port() const noexcept {
  return impl_->port();
}
bool FaultProxy::leads_to(const FaultProxy& other) const {
  return drill::leads_to(impl_->target(), other.impl_->listen());
}
void FaultProxy::set(const ProxyFaults& faults) {
  impl_->set(faults);
}
void FaultProxy::set_toxics(const std::vector<Toxic>& toxics) {
  impl_->set_toxics(toxics);
}
ProxyFaults FaultProxy::faults() const {
  return impl_->faults();
}
Result<void> FaultProxy::retarget(const std::string& target) {
  const auto endpoint = target_of(target);
  if (!endpoint) return endpoint.error();
  if (drill::leads_to(*endpoint, impl_->listen())) return is_itself(target);
  impl_->retarget(*endpoint);
  return {};
}
void FaultProxy::reset_connections() {
  impl_->reset_connections();
}
FaultProxy::Counts FaultProxy::counts() const {
  return impl_->counts();
}

}  // namespace weir::drill
