#pragma once

#include "guard/domain_plan.h"
#include "guard/rate_limiter.h"
#include "guard/route_limiter.h"
#include "weir/guard.h"

namespace weir::guard {

// Answers for the domains of Envoy-style files as envoyproxy/ratelimit would, but for what
// docs/start/from-envoyproxy-ratelimit.md lists; every other domain is a RouteLimiter's matter.
//
// All counters of an ask are one step: where one denies, none is charged. Afterwards a late report
// (a descriptor's own hits above 1), and with `count_denied` every descriptor, is charged what is
// left: of the limit, or while its store is away of this worker's part.
class DomainLimiter final : public RateLimiter {
 public:
  // `guard` outlives this.
  explicit DomainLimiter(Guard& guard) : guard_(guard), routes_(guard) {}

  bool decide(const RateLimitAsk& ask, RateLimitAnswer& answer, RateLimitListener& listener,
              std::uint64_t ticket) override;
  void refuse_unread(RateLimitAnswer& answer) override { routes_.refuse_unread(answer); }

 private:
  Guard& guard_;
  RouteLimiter routes_;
};

}  // namespace weir::guard
