#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "guard/domain_limiter.h"
#include "render/log.h"
#include "render/metrics.h"
#include "server/admin/admin_handler.h"
#include "server/grpc/grpc_door.h"
#include "server/health.h"
#include "server/lane.h"
#include "server/listener.h"
#include "server/reload/policy_loader.h"
#include "server/reload/policy_watch.h"
#include "server/serve.h"
#include "server/tls/tls_transport.h"
#include "weir/guard.h"

namespace weir::server {

// A running server: the lanes that serve, and one lane of control for the admin door, the policy
// file and the signals, so that loading a policy or writing metrics holds no request up.
//
// Threads:     construct, run() and destroy in one.
class Server {
 public:
  struct Parts {
    Guard guard;
    PolicyOrigin origin;
    AdminToken token;
    ListenSockets http;  // one socket a lane; empty where the door is off
    ListenSockets grpc;
    ListenSockets admin;
    ServeTls tls;
    std::size_t lanes = 1;
    std::size_t descriptors = 0;  // how many this process may have open
    Nanos drain_delay{0};
    Nanos drain_grace{0};
  };

  // Errors:      invalid_argument: files of TLS that cannot be used.
  static Result<std::unique_ptr<Server>> make(Parts parts, render::Log& log);
  ~Server();

  // Serves until a signal has drained it. `ready` is called once requests are taken.
  // False where it could not begin, which the log explains.
  bool run(const std::function<void()>& ready);
  // After run(): decides what is still in flight, and returns how many usage events of served calls
  // could not be recorded.
  std::uint64_t close() noexcept;

 private:
  class Signals;
  struct DrainTimers;
  // How each door's bytes travel; null: as they are.
  struct Transports {
    std::unique_ptr<TlsTransport> http;
    std::unique_ptr<TlsTransport> grpc;
    std::unique_ptr<TlsTransport> admin;
  };

  Server(Parts parts, Transports transports, render::Log& log);
  static Result<Transports> make_transports(const ServeTls& tls, render::Log& log);

  void open_doors(Parts& parts);
  render::ConnectionNumbers connection_numbers() const;
  void load_changed();
  // Watches what `rls.config` of the policy in force names, besides the policy itself.
  void watch_domains();
  void on_signal(int number);
  void begin_drain(Nanos delay);
  void drain_lanes();
  void lane_drained();
  void finish(bool in_time);

  render::Log& log_;
  Clock& clock_ = Clock::real();
  const Nanos drain_delay_;
  const Nanos drain_grace_;
  Health health_;
  std::size_t lanes_left_ = 0;
  MonoTime drain_began_{};

  // What is in flight in the Guard answers into the lanes, so they outlive it; doors use it only in
  // running lanes, which run() has stopped by then.
  Transports transports_;
  grpc::GrpcMetrics grpc_metrics_;
  Lane control_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  Guard guard_;
  guard::DomainLimiter limiter_{guard_};
  PolicyLoader loader_;
  std::unique_ptr<PolicyWatch> watch_;
  std::string domains_path_;  // empty: the policy names no other files
  std::unique_ptr<PolicyWatch> domains_watch_;
  std::unique_ptr<Signals> signals_;
  std::unique_ptr<DrainTimers> timers_;
};

}  // namespace weir::server
