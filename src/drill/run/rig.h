#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "drill/proxy/fault_proxy.h"
#include "drill/run/child_process.h"
#include "drill/scenario/scenario.h"
#include "weir/result.h"

namespace weir::drill {

// A server under drill with its store: a real redis-server, a proxy in front of it, and a `weir
// serve` whose store is the proxy. All on loopback and free ports, all in a folder of its own.
class Rig {
 public:
  struct Options {
    std::string policy;        // path
    std::string weir_program;  // path
    std::string redis_program = "redis-server";
  };

  // Errors:      unavailable, naming what could not be started and what it said.
  static Result<std::unique_ptr<Rig>> start(const Options& options);
  ~Rig();
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  FaultProxy& proxy() noexcept { return *proxy_; }
  std::uint16_t http_port() const noexcept { return http_port_; }

  // Does it to the store's server.
  //
  // Errors:      unavailable: a server that does not start again.
  Result<void> act(ServerAct act);

  // What Weir's own metrics say, and its log. Empty where it cannot be asked.
  std::string metrics() const;
  std::string log() const { return weir_->output(); }
  // Whether Weir ended when it was told to.
  bool stop();

 private:
  explicit Rig(Options options) : options_(std::move(options)) {}
  Result<void> make_folder();
  Result<void> start_redis();
  Result<void> start_weir();

  const Options options_;
  std::string folder_;
  std::uint16_t redis_port_ = 0;
  std::uint16_t http_port_ = 0;
  std::uint16_t admin_port_ = 0;
  std::optional<ChildProcess> redis_;
  std::unique_ptr<FaultProxy> proxy_;
  std::optional<ChildProcess> weir_;
};

}  // namespace weir::drill
