#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "drill/proxy/fault_proxy.h"
#include "drill/run/child_process.h"
#include "drill/run/own_cluster.h"
#include "drill/run/own_redis.h"
#include "drill/run/stage.h"
#include "drill/scenario/scenario.h"
#include "policy/store_url.h"
#include "weir/result.h"

namespace weir::drill {

// A server under drill with its store: a real redis-server or a cluster of them, a proxy in front
// of each, and a `weir serve` whose store the proxies are. All on loopback and free ports, all in a
// folder of its own.
class Rig final : public Stage {
 public:
  struct Options {
    std::string policy;        // path
    std::string weir_program;  // path
    bool has_state = false;    // the policy names a state folder: then another takes its place
    bool has_journal = false;  // the same for a journal: a drill is billed to nobody
    bool moves_clock = false;  // the store's
    bool loads = false;        // it, too
    std::uint32_t shards = 1;  // above 1: a cluster of so many masters
    // A store that is there already; else one is started. Of it nothing is touched but keys with a
    // prefix of this drill's own, which make a fleet of its own.
    std::optional<policy::StoreUrl> store;
  };

  // Errors:      unavailable, naming what could not be started and what it said.
  static Result<std::unique_ptr<Rig>> start(const Options& options);
  ~Rig() override;

  FaultProxy& proxy() noexcept override { return cluster_ ? cluster_->first_proxy() : *proxy_; }
  std::uint16_t http_port() const noexcept { return http_port_; }

  Result<void> act(const Phase& phase) override;

  // What Weir's own metrics say, and its log. Empty where it cannot be asked.
  std::string metrics() const;
  std::string log() const { return weir_->output(); }
  // What the store's server calls itself; empty where it does not say.
  std::string store_version() const;
  // Whether Weir ended when it was told to.
  bool stop();
  // Where the usage of metered routes lies.
  std::string journal() const { return folder_ + "/journal"; }

 private:
  explicit Rig(Options options) : options_(std::move(options)) {}
  Result<void> make_folder();
  Result<void> start_store();
  std::string store_url() const;
  Result<void> start_weir();

  const Options options_;
  std::string folder_;
  std::uint16_t http_port_ = 0;
  std::uint16_t admin_port_ = 0;
  std::unique_ptr<OwnRedis> redis_;
  std::unique_ptr<FaultProxy> proxy_;
  std::unique_ptr<OwnCluster> cluster_;  // in place of both
  std::optional<ChildProcess> weir_;
};

}  // namespace weir::drill
