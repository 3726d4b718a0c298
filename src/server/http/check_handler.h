#pragma once

#include <functional>
#include <memory>

#include "guard/rate_limiter.h"
#include "server/http/check_body.h"
#include "server/http/handler.h"
#include "server/http/rate_limit_asker.h"
#include "server/http/rate_limit_body.h"
#include "server/http/safeguard_handler.h"
#include "server/http/settle_handler.h"
#include "weir/guard.h"

namespace weir::server {
class Lane;
}
namespace weir::guard {
struct MeteredCall;
}

namespace weir::server::http {

// What the deciding door answers:
//   POST /v1/check      asks the Guard and writes the decision out
//   /json               Envoy's rate limit service in JSON, with any method
//   /v1/breaker/…, /v1/lease/…   see SafeguardHandler
//   /v1/reserve, /v1/settle, /v1/heartbeat   see SettleHandler
//   GET /healthcheck    200 "OK" while requests are taken, 500 while the server drains
class CheckHandler final : public Handler {
 public:
  struct Parts {
    Guard& guard;
    guard::RateLimiter& limiter;
    std::function<bool()> ready;
  };

  // Requires: what `parts` names, and `lane`, outlive what is in flight.
  CheckHandler(Parts parts, Lane& lane);
  ~CheckHandler() override;

  void handle(const Request& request, Exchange& exchange) override;

 private:
  struct Call;

  void decide(const Request& request, Exchange& exchange);
  void json(const Request& request, Exchange& exchange);
  void healthcheck(const Request& request, Exchange& exchange);
  void check(Exchange& exchange);
  void answer(Decision& decision, Exchange& exchange);
  void check_named(std::string_view key, Exchange& exchange);
  void ask(std::function<void(Decision)> done,
           const std::shared_ptr<guard::MeteredCall>& call = {});

  Parts parts_;
  Lane& lane_;
  CheckBody body_;
  RateLimitBody rate_limit_body_;
  RateLimitAsker asker_;
  SafeguardHandler safeguards_;
  SettleHandler settling_;
  std::unique_ptr<Call> spare_;
};

}  // namespace weir::server::http
