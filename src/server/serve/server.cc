#include "server/serve/server.h"

#include <utility>  // Boost 1.74 needs it first

#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/system_error.hpp>
#include <csignal>
#include <cstring>

#include "guard/impl.h"
#include "policy/load.h"
#include "server/http/check_handler.h"
#include "server/http/http_door.h"
#include "server/serve/process.h"

namespace weir::server {
namespace {

namespace asio = boost::asio;

asio::steady_timer::duration ticks(Nanos time) {
  return std::chrono::duration_cast<asio::steady_timer::duration>(time);
}

// Shells report the end by signal N as 128 + N.
constexpr int kEndedBySignal = 128;

// Of the admin door together.
constexpr std::size_t kAdminConnections = 128;

}  // namespace

class Server::Signals {
 public:
  Signals(Lane& lane, std::function<void(int)> handle)
      : lane_(lane), handle_(std::move(handle)), set_(lane.io(), SIGTERM, SIGINT, SIGHUP) {
    std::signal(SIGPIPE, SIG_IGN);
    wait();
  }

 private:
  void wait() {
    set_.async_wait([this](const boost::system::error_code& fault, int number) {
      if (fault) return;
      lane_.begin_event();
      wait();
      handle_(number);
    });
  }

  Lane& lane_;
  std::function<void(int)> handle_;
  asio::signal_set set_;
};

struct Server::DrainTimers {
  explicit DrainTimers(asio::io_context& io) : delay(io), grace(io) {}
  asio::steady_timer delay;
  asio::steady_timer grace;
};

Result<std::unique_ptr<Server>> Server::make(Parts parts, render::Log& log) {
  Result<Transports> transports = make_transports(parts.tls, log);
  if (!transports) return std::move(transports).error();
  try {
    return std::unique_ptr<Server>(new Server(std::move(parts), std::move(*transports), log));
  } catch (const boost::system::system_error& fault) {
    // Loops, timers and the watch on signals are descriptors.
    return Error{ErrorCode::resource_exhausted, std::string("the server cannot be set up: ") +
                                                    fault.what() +
                                                    "; allow more open files (ulimit -n)"};
  }
}

Result<Server::Transports> Server::make_transports(const ServeTls& tls, render::Log& log) {
  Transports made;
  if (tls.cert_file.empty()) return made;
  const auto on_reload = [&log](const Result<void>& outcome) {
    if (outcome) {
      log.write(render::LogLevel::info, "tls_files_reloaded");
    } else {
      log.write(render::LogLevel::error, "tls_files_refused",
                {{"problem", std::string_view(outcome.error().message)}});
    }
  };
  const auto open = [&](bool wanted, std::unique_ptr<TlsTransport>& to,
                        std::vector<std::string> alpn) -> Result<void> {
    if (!wanted) return {};
    auto transport = TlsTransport::open({.cert_file = tls.cert_file,
                                         .key_file = tls.key_file,
                                         .client_ca_file = tls.client_ca_file,
                                         .alpn = std::move(alpn)},
                                        Clock::real(), on_reload);
    if (!transport) return std::move(transport).error();
    to = std::move(*transport);
    return {};
  };
  if (const auto http = open(tls.http, made.http, {"http/1.1"}); !http) return http.error();
  if (const auto grpc = open(tls.grpc, made.grpc, {"h2"}); !grpc) return grpc.error();
  if (const auto admin = open(tls.admin, made.admin, {"http/1.1"}); !admin) return admin.error();
  return made;
}

Server::Server(Parts parts, Transports transports, render::Log& log)
    : log_(log),
      drain_delay_(parts.drain_delay),
      drain_grace_(parts.drain_grace),
      transports_(std::move(transports)),
      control_({.max_connections = kAdminConnections}),
      guard_(std::move(parts.guard)),
      loader_(parts.origin, guard_, guard_.impl().metrics(), log, clock_) {
  const auto accept_fault = [this](int number) {
    log_.write(render::LogLevel::error, "accept_failed", {{"problem", std::strerror(number)}});
  };
  for (std::size_t i = 0; i < parts.lanes; ++i) {
    lanes_.push_back(std::make_unique<Lane>(
        LaneOptions{.max_connections = connections_a_lane(parts.descriptors, parts.lanes),
                    .on_accept_fault = accept_fault}));
  }
  guard_.impl().metrics().read_connections_from([this] { return connection_numbers(); });
  open_doors(parts);
  watch_ = std::make_unique<PolicyWatch>(control_, parts.origin.path, [this] { load_changed(); });
  watch_domains();
  // Later, since it may be the watch itself that brought the load about.
  loader_.on_loaded([this] { control_.post([this] { watch_domains(); }); });
  signals_ = std::make_unique<Signals>(control_, [this](int number) { on_signal(number); });
  timers_ = std::make_unique<DrainTimers>(control_.io());
}

Server::~Server() = default;

void Server::open_doors(Parts& parts) {
  render::Metrics* const metrics = &guard_.impl().metrics();
  const auto through = [](const std::unique_ptr<TlsTransport>& tls) -> Transport& {
    return tls ? static_cast<Transport&>(*tls) : plain_transport();
  };
  metrics->add_source([this](render::Exposition& out) { grpc_metrics_.write(out); });
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& lane = *lanes_[i];
    if (i < parts.http.sockets.size()) {
      lane.listen(std::move(parts.http.sockets[i]),
                  std::make_unique<http::HttpDoor>(
                      std::make_unique<http::CheckHandler>(
                          http::CheckHandler::Parts{guard_, limiter_,
                                                    [this] { return !health_.draining.load(); }},
                          lane),
                      metrics),
                  through(transports_.http));
    }
    if (i < parts.grpc.sockets.size()) {
      lane.listen(std::move(parts.grpc.sockets[i]),
                  grpc::make_grpc_door(lane, {.limiter = &limiter_,
                                              .ready = [this] { return !health_.draining.load(); },
                                              .limits = {},
                                              .metrics = &grpc_metrics_}),
                  through(transports_.grpc));
    }
  }
  for (ListenSocket& socket : parts.admin.sockets) {
    AdminHandler::Parts named{guard_, loader_, *metrics, health_};
    control_.listen(std::move(socket),
                    std::make_unique<http::HttpDoor>(std::make_unique<AdminHandler>(
                        named, AdminAccess(parts.admin.address, parts.token))),
                    through(transports_.admin));
  }
}

render::ConnectionNumbers Server::connection_numbers() const {
  render::ConnectionNumbers sum;
  for (const auto& lane : lanes_) {
    const LaneCounts& of_lane = lane->counts();
    sum.open += of_lane.open.load();
    sum.accepted += of_lane.accepted.load();
    sum.turned_away += of_lane.turned_away.load();
    sum.accept_faults += of_lane.accept_faults.load();
  }
  return sum;
}

bool Server::run(const std::function<void()>& ready) {
  for (const auto& lane : lanes_) {
    if (lane->start()) continue;
    log_.write(render::LogLevel::error, "threads_refused",
               {{"lanes", static_cast<std::uint64_t>(lanes_.size())},
                {"way_out", "allow more threads (ulimit -u, pids.max), or give fewer --lanes"}});
    for (const auto& begun : lanes_) begun->stop();
    return false;
  }
  // The file may have changed between the load that we run on and the start of watching.
  control_.post([this] { load_changed(); });
  control_.post(ready);
  control_.run();
  for (const auto& lane : lanes_) lane->stop();
  return true;
}

std::uint64_t Server::close() noexcept {
  return guard_.impl().close();
}

void Server::load_changed() {
  const Result<void> loaded = loader_.load(PolicyLoader::Why::change);
  if (!loaded && loader_.fault()->may_pass()) watch_->look_again();
}

void Server::watch_domains() {
  const std::string config = guard_.policy().model().rls.config;
  const std::string path = policy::beside(loader_.origin().path, config);
  if (path == domains_path_) return;
  domains_path_ = path;
  domains_watch_.reset();
  if (path.empty()) return;
  domains_watch_ = std::make_unique<PolicyWatch>(control_, path, [this] { load_changed(); });
  // It may have changed before it was watched.
  control_.post([this] { load_changed(); });
}

void Server::on_signal(int number) {
  if (number == SIGHUP) {
    (void)loader_.load(PolicyLoader::Why::signal);
    return;
  }
  // The second one means it.
  if (health_.draining.load()) ::_exit(kEndedBySignal + number);
  begin_drain(number == SIGINT ? Nanos::zero() : drain_delay_);
}

void Server::begin_drain(Nanos delay) {
  health_.draining.store(true);
  drain_began_ = control_.now();
  log_.write(render::LogLevel::info, "draining", {{"delay", delay}, {"grace", drain_grace_}});
  timers_->delay.expires_after(ticks(delay));
  timers_->delay.async_wait([this](const boost::system::error_code& fault) {
    if (!fault) drain_lanes();
  });
}

void Server::drain_lanes() {
  lanes_left_ = lanes_.size();
  for (const auto& lane : lanes_) {
    Lane& one = *lane;
    one.post([this, &one] { one.drain([this] { control_.post([this] { lane_drained(); }); }); });
  }
  timers_->grace.expires_after(ticks(drain_grace_));
  timers_->grace.async_wait([this](const boost::system::error_code& fault) {
    if (!fault) finish(false);
  });
}

void Server::lane_drained() {
  if (--lanes_left_ == 0) finish(true);
}

void Server::finish(bool in_time) {
  std::uint64_t open = 0;
  for (const auto& lane : lanes_) open += lane->counts().open.load(std::memory_order_relaxed);
  control_.begin_event();
  log_.write(in_time ? render::LogLevel::info : render::LogLevel::warn, "drained",
             {{"took", control_.now() - drain_began_}, {"connections_cut", open}});
  control_.stop();
}

}  // namespace weir::server
