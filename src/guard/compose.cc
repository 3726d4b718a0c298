#include "guard/compose.h"

#include <algorithm>

namespace weir::guard {
namespace {

RuleReport report_of(const BoundRule& rule, const store::Counter& counter,
                     const store::Finding& finding) {
  const limit::Numbers& numbers = *counter.numbers;
  const bool fits = finding.step.outcome == limit::Outcome::allowed;
  RuleReport report;
  report.rule = rule.name;
  report.limit = numbers.limit;
  report.period = Nanos(numbers.period_ns);
  report.burst = numbers.burst;
  report.fits = fits;
  report.never_fits = finding.step.outcome == limit::Outcome::never_fits;
  report.shadow = counter.shadow;
  if (finding.remaining_known) report.remaining = finding.step.remaining;
  if (finding.reset_known) report.reset_after = Nanos(finding.step.reset_after_ns);
  if (finding.retry_known && finding.step.outcome == limit::Outcome::limited) {
    report.retry_after = Nanos(finding.step.retry_after_ns);
  }
  report.charge = {.key_hi = counter.digest.hi,
                   .key_lo = counter.digest.lo,
                   .identity = counter.identity,
                   .stamp = numbers.stamp,
                   .units = finding.charged ? counter.cost : 0,
                   .receipt = finding.step.receipt()};
  return report;
}

}  // namespace

void compose(const Plan& plan, std::span<const store::Finding> findings, Instant now, Rung rung,
             Decision& decision) {
  decision.verdict = Verdict::allowed;
  decision.reason = Reason::within_limit;
  decision.rung = rung;
  decision.decided_at = now;
  bool never = false;
  bool blocked = false;
  bool wait_known = true;
  Nanos longest{0};
  for (std::size_t i = 0; i < plan.count; ++i) {
    const RuleReport& report =
        decision.add(report_of(*plan.rules[i], plan.counters[i], findings[i]));
    if (report.fits || report.shadow) continue;
    decision.verdict = Verdict::limited;
    if (report.never_fits) {
      never = true;
      blocked = blocked || report.limit == 0;
    } else {
      wait_known = wait_known && report.retry_after.has_value();
      longest = std::max(longest, report.retry_after.value_or(Nanos(0)));
    }
  }
  if (decision.verdict == Verdict::allowed) return;
  // Where one rule can never let the request through, waiting for the others is useless too.
  if (never) {
    decision.reason = blocked ? Reason::blocked : Reason::cost_exceeds_burst;
  } else {
    decision.reason = Reason::over_limit;
    if (wait_known) decision.retry_after = longest;
  }
}

}  // namespace weir::guard
