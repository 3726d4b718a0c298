#include "guard/domain_answer.h"

#include <algorithm>
#include <limits>

#include "guard/compose.h"
#include "limit/step.h"

namespace weir::guard {
namespace {

bool is_over(const store::Finding& finding) noexcept {
  return finding.step.outcome != limit::Outcome::allowed;
}

// A window ends when it ends; what refills by and by is worth waiting for until this cost fits.
Nanos until_reset(const store::Counter& counter, const store::Finding& finding, Instant now) {
  if (counter.numbers->algorithm == Algorithm::fixed_window) {
    return Nanos(limit::window_at(*counter.numbers, now).end_ns) - now.time_since_epoch();
  }
  const bool waits = finding.step.outcome == limit::Outcome::limited;
  return Nanos(waits ? finding.step.retry_after_ns : finding.step.reset_after_ns);
}

DescriptorStatus status_of(const DomainPlan::Met& met, const DomainPlan& plan,
                           std::span<const store::Finding> findings, Instant now) {
  DescriptorStatus status;
  if (met.unlimited()) status.remaining = std::numeric_limits<std::uint32_t>::max();
  if (!met.counter) return status;
  const store::Counter& counter = plan.counters()[*met.counter];
  const store::Finding& finding = findings[*met.counter];
  const bool over = is_over(finding);
  const bool shadow = met.limit != nullptr && met.limit->limit->shadow;
  status.over = over && !shadow;
  if (!finding.remaining_known) return status;
  status.limit = met.brought ? DescriptorStatus::Limit{.requests_per_unit = counter.numbers->limit,
                                                       .unit = met.brought->unit,
                                                       .name = {}}
                             : DescriptorStatus::Limit{
                                   .requests_per_unit = met.limit->limit->requests_per_unit,
                                   .unit = met.limit->unit,
                                   .name = met.limit->name};
  if (finding.newer) status.limit->requests_per_unit = finding.newer->limit;
  status.remaining = over ? 0 : finding.step.remaining;
  status.until_reset = until_reset(counter, finding, now);
  return status;
}

void add_metadata(const DomainPlan& plan, RateLimitAnswer& answer) {
  for (std::size_t i = 0; i < plan.met().size(); ++i) {
    const DomainPlan::Met& met = plan.met()[i];
    if (met.limit == nullptr || met.replaced || met.limit->metadata.empty()) continue;
    if (!answer.statuses[i].over) answer.metadata.push_back(met.limit->metadata);
  }
}

// Quotas deny together or not at all.
bool quotas_deny(const DomainPlan& plan, std::span<const store::Finding> findings) noexcept {
  bool any = false;
  for (std::size_t i = 0; i < plan.counters().size(); ++i) {
    if (!plan.asked()[i].quota) continue;
    any = true;
    if (!is_over(findings[i])) return false;
  }
  return any;
}

}  // namespace

void compose_domain(const DomainPlan& plan, std::span<const store::Finding> findings, Instant now,
                    Rung rung, RateLimitAnswer& answer) {
  Decision& decision = answer.decision;
  decision.verdict = Verdict::allowed;
  decision.reason = plan.counters().empty() ? Reason::no_limit : Reason::within_limit;
  decision.rung = rung;
  decision.decided_at = now;
  const bool quotas = quotas_deny(plan, findings);
  for (std::size_t i = 0; i < plan.counters().size(); ++i) {
    const store::Counter& counter = plan.counters()[i];
    RuleReport report = report_of(counter.rule, counter, findings[i], now);
    if (plan.asked()[i].quota) report.shadow = !quotas;
    if (!report.fits && !report.shadow) deny(decision, report);
    (void)decision.add(report);
  }
  for (const DomainPlan::Met& met : plan.met()) {
    answer.statuses.push_back(status_of(met, plan, findings, now));
  }
  add_metadata(plan, answer);
}

void compose_without_numbers(const DomainPlan& plan, RateLimitAnswer& answer) {
  const bool denied = !answer.decision.allowed();
  for (const DomainPlan::Met& met : plan.met()) {
    answer.statuses.push_back(
        {.over = denied && met.counter.has_value() && !plan.watches(*met.counter)});
  }
  if (!denied) add_metadata(plan, answer);
}

}  // namespace weir::guard
