#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/raw_array.h"
#include "guard/domain_plan.h"
#include "guard/impl.h"
#include "guard/rate_limiter.h"
#include "store/counter.h"

namespace weir::guard {

// What one ask of a domain comes to, and what its answer says.
//
// Threads:     one at a time.
class DomainJob {
 public:
  DomainJob(Guard::Impl& impl, const Guard::Impl::PolicyRef& policy, const BoundDomain& domain)
      : impl_(impl), model_(policy->model()), domain_(domain) {}

  // Words for what a store found.
  void word(const DomainPlan& plan, std::span<const store::Finding> findings, Instant now,
            RateLimitAnswer& answer) const;
  // Words for a decision that was made without numbers.
  void word_without(const DomainPlan& plan, RateLimitAnswer& answer) const;
  // Fills in what every decision of a domain says, and counts it.
  void settle(const DomainPlan& plan, RateLimitAnswer& answer, std::optional<Nanos> took) const;

  // What is left to be told the store once the answer is known: what the step charged beside quotas
  // that deny is given back; late reports, and with `count_denied` all, are charged what is left.
  // `by_store`: a store made these findings, and may have charged for them.
  // The counters of it, in `room`; `places` says which of the plan's each is.
  struct Afterwards {
    RawArray<store::Counter, 2 * store::kMaxCounters> counters;
    RawArray<std::size_t, 2 * store::kMaxCounters> places;
    std::size_t refunds = 0;
    std::size_t count = 0;
  };
  void afterwards(const DomainPlan& plan, std::span<const store::Finding> findings, bool by_store,
                  Afterwards& out) const;
  // Tells descriptors what the charge afterwards has left.
  static void tell_left(const DomainPlan& plan, std::size_t counter, const store::Finding& drained,
                        RateLimitAnswer& answer);

 private:
  Guard::Impl& impl_;
  const policy::Model& model_;
  const BoundDomain& domain_;
};

}  // namespace weir::guard
