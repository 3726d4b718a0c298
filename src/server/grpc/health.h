#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/grpc/service.h"

namespace weir::server::grpc {

// grpc.health.v1: Check and Watch, for the server as a whole (""), for "ratelimit" (the name that
// envoyproxy/ratelimit answers to) and for each served service by its full name.
//
// Guarantees:  a watcher that does not read holds one message at most; the states it missed are
//              skipped, the newest is sent.
class HealthService final : public Service {
 public:
  // `ready` says whether the server takes requests; degraded is ready. `names` are the services
  // known besides "" and "ratelimit".
  HealthService(std::function<bool()> ready, std::vector<std::string> names);

  std::span<const Method> methods() const noexcept override;
  void on_message(Session& session, const CallContext& call, std::string_view message) override;
  void on_half_close(Session& session, const CallContext& call) override;
  void on_gone(Session& session, const CallContext& call) noexcept override;

  // Tells the watchers where readiness has changed. To be called now and then.
  void publish();
  std::size_t watchers() const noexcept { return watchers_.size(); }

 private:
  struct Watcher {
    Session* session;
    CallId call;
    bool known;  // the service is one of ours
    int told = -1;
  };

  bool knows(std::string_view name) const;
  void end(Session& session, const CallContext& call, Code code, std::string_view why);
  void tell(Watcher& watcher, int status);

  std::function<bool()> ready_;
  std::vector<std::string> names_;
  std::vector<Watcher> watchers_;
};

}  // namespace weir::server::grpc
