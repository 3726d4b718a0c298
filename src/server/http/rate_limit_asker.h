#pragma once

#include <cstdint>
#include <memory>

#include "guard/rate_limiter.h"
#include "server/http/handler.h"

namespace weir::server {
class Lane;
}

namespace weir::server::http {

// Asks a RateLimiter for a client of HTTP and writes its answer out.
//
// Threads:     the lane's.
class RateLimitAsker {
 public:
  enum class Form : std::uint8_t {
    decision,  // as POST /v1/check answers
    protocol,  // as Envoy's protocol does, in JSON
  };

  // Requires: both outlive what is in flight.
  RateLimitAsker(guard::RateLimiter& limiter, Lane& lane);
  ~RateLimitAsker();

  void ask(const guard::RateLimitAsk& ask, Form form, Exchange& exchange);

 private:
  struct Call;
  class Listener;

  guard::RateLimiter& limiter_;
  Lane& lane_;
  std::unique_ptr<Call> spare_;
};

}  // namespace weir::server::http
