#include "drill/proxy/fault_proxy.h"

#include <algorithm>
#include <future>
#include <list>
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

class FaultProxy::Impl {
 public:
  Impl(const tcp::endpoint& listen, const tcp::endpoint& target, std::uint64_t seed)
      : listen_(listen), target_(target), acceptor_(io_), retry_(io_) {
    state_.random.seed(seed);
  }

  ~Impl() {
    if (!thread_.joinable()) return;
    asio::post(io_, [this] {
      for (const auto& relay : relays_) relay->reset();
      io_.stop();
    });
    thread_.join();
  }

  Result<void> start() {
    if (const error_code error = open_door(); error) {
      return Error{ErrorCode::unavailable,
                   "cannot listen on " + text_of(listen_) + ": " + error.message()};
    }
    listen_ = acceptor_.local_endpoint();
    accept();
    thread_ = std::thread([this] { io_.run(); });
    return {};
  }

  std::uint16_t port() const noexcept { return listen_.port(); }

  void set(const ProxyFaults& faults) {
    in_thread([&] {
      state_.faults = faults;
      changed(false);
    });
  }

  void set_toxics(const std::vector<Toxic>& toxics) {
    in_thread([&] {
      state_.toxics = toxics;
      changed(true);
    });
  }

  ProxyFaults faults() {
    ProxyFaults faults;
    in_thread([&] { faults = state_.faults; });
    return faults;
  }

  void retarget(const tcp::endpoint& target) {
    in_thread([&] { target_ = target; });
  }

  void reset_connections() {
    in_thread([&] {
      for (const auto& relay : relays_) relay->reset();
      sweep();
    });
  }

  Counts counts() {
    Counts counts;
    in_thread([&] {
      sweep();
      counts = {.connections = connections_,
                .open = relays_.size(),
                .request_bytes = state_.request_bytes,
                .reply_bytes = state_.reply_bytes,
                .lost_bytes = state_.lost_bytes,
                .resets = state_.resets};
    });
    return counts;
  }

 private:
  template <class Work>
  void in_thread(Work work) {
    std::promise<void> done;
    asio::post(io_, [&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }

  void changed(bool hasten) {
    const bool refuses =
        state_.faults.door == ProxyFaults::Door::refuse ||
        std::any_of(state_.toxics.begin(), state_.toxics.end(),
                    [](const Toxic& each) { return each.kind == Toxic::Kind::refuse; });
    if (refuses) {
      close_door();
    } else if (!acceptor_.is_open()) {
      reopen_door();
    }
    for (const auto& relay : std::vector(relays_.begin(), relays_.end())) relay->changed(hasten);
  }

  error_code open_door() {
    error_code error;
    acceptor_.open(listen_.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(listen_, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) close_door();
    return error;
  }

  void close_door() {
    error_code ignored;
    retry_.cancel();
    acceptor_.close(ignored);
  }

  // Somebody else may have the port for a moment.
  void reopen_door() {
    if (!open_door()) {
      accept();
      return;
    }
    retry_.expires_after(std::chrono::milliseconds(5));
    retry_.async_wait([this](const error_code& error) {
      if (!error && !acceptor_.is_open()) reopen_door();
    });
  }

  void accept() {
    acceptor_.async_accept([this](const error_code& error, tcp::socket client) {
      if (error == asio::error::operation_aborted || !acceptor_.is_open()) return;
      if (!error) take(std::move(client));
      accept();
    });
  }

  void take(tcp::socket client) {
    ++connections_;
    sweep();
    auto relay = std::make_shared<Relay>(io_, std::move(client), state_);
    if (relays_.size() >= kMaxOpen) return relay->reset();
    relays_.push_back(relay);
    relay->start(target_);
  }

  void sweep() {
    relays_.remove_if([](const std::shared_ptr<Relay>& relay) { return relay->over(); });
  }

  tcp::endpoint listen_;
  tcp::endpoint target_;
  ProxyState state_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  tcp::acceptor acceptor_;
  asio::steady_timer retry_;
  std::list<std::shared_ptr<Relay>> relays_;
  std::uint64_t connections_ = 0;
  std::thread thread_;
};

Result<std::unique_ptr<FaultProxy>> FaultProxy::start(const Options& options) {
  const auto listen = endpoint_of(options.listen);
  if (!listen) return listen.error();
  const auto target = endpoint_of(options.target);
  if (!target) return target.error();
  auto impl = std::make_unique<Impl>(*listen, *target, options.seed);
  if (auto started = impl->start(); !started) return started.error();
  return std::unique_ptr<FaultProxy>(new FaultProxy(std::move(impl)));
}

FaultProxy::FaultProxy(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FaultProxy::~FaultProxy() = default;
std::uint16_t FaultProxy::port() const noexcept {
  return impl_->port();
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
  const auto endpoint = endpoint_of(target);
  if (!endpoint) return endpoint.error();
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
