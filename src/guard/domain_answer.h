#pragma once

#include <span>

#include "guard/domain_plan.h"
#include "guard/rate_limiter.h"
#include "store/counter.h"

namespace weir::guard {

// Puts what a store found for a domain's counters into words: the statuses, and over all of them
// the decision. Limited where a descriptor is over its limit, but for shadow limits, which never
// deny, and quota limits, which deny only where all of them are over.
void compose_domain(const DomainPlan& plan, std::span<const store::Finding> findings, Instant now,
                    Rung rung, RateLimitAnswer& answer);

// The same where nothing is known of the counters: every descriptor that meets a limit is over it
// where the decision is not to let the request through.
void compose_without_numbers(const DomainPlan& plan, RateLimitAnswer& answer);

}  // namespace weir::guard
