#pragma once

#include "guard/rate_limiter.h"
#include "weir/guard.h"

namespace weir::guard {

// Answers for the native routes of a policy: a route is the domain of its name, each entry one
// source under its name in `by:`; Envoy's `remote_address` is `ip`.
//
// The entries of all descriptors together are the values of one request, decided as one step. A
// descriptor's status is that of the tightest rule that counts by one of its entries, or by none.
// A domain that is no route is admitted or refused as `unmatched` says, and counted.
//
// Refused as invalid_request, since no reading of them would be safe: two different values for a
// source that the route counts by, and more than kMaxDescriptors entries.
class RouteLimiter final : public RateLimiter {
 public:
  // `guard` outlives this.
  explicit RouteLimiter(Guard& guard) : guard_(guard) {}

  bool decide(const RateLimitAsk& ask, RateLimitAnswer& answer, RateLimitListener& listener,
              std::uint64_t ticket) override;
  void refuse_unread(RateLimitAnswer& answer) override;

 private:
  Guard& guard_;
};

}  // namespace weir::guard
