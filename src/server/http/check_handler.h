#pragma once

#include <functional>
#include <memory>

#include "server/http/check_body.h"
#include "server/http/handler.h"
#include "weir/guard.h"

namespace weir::server {
class Lane;
}

namespace weir::server::http {

// POST /v1/check: asks the Guard and writes the decision out.
class CheckHandler final : public Handler {
 public:
  // Requires: both outlive what is in flight.
  CheckHandler(Guard& guard, Lane& lane);
  ~CheckHandler() override;

  void handle(const Request& request, Exchange& exchange) override;

 private:
  struct Call;

  void check(Exchange& exchange);
  void ask(std::function<void(Decision)> done);

  Guard& guard_;
  Lane& lane_;
  CheckBody body_;
  std::unique_ptr<Call> spare_;
};

}  // namespace weir::server::http
