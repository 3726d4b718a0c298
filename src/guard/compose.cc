#include "guard/compose.h"

#include <algorithm>

namespace weir::guard {

RuleReport report_of(std::string_view rule, const store::Counter& counter,
                     const store::Finding& finding) {
  const limit::Numbers& numbers = *counter.numbers;
  const bool fits = finding.step.outcome == limit::Outcome::allowed;
  RuleReport report;
  report.rule = rule;
  // What remains is told beside the limit that it is of.
  report.limit = finding.newer ? finding.newer->limit : numbers.limit;
  report.period = Nanos(numbers.period_ns);
  report.burst = finding.newer ? finding.newer->burst : numbers.burst;
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
                   .units = finding.units,
                   .receipt = finding.step.receipt()};
  return report;
}

RuleReport unasked(const BoundRule& bound) {
  const limit::Numbers& numbers = bound.rule->numbers;
  RuleReport report;
  report.rule = bound.name;
  report.limit = numbers.limit;
  report.period = Nanos(numbers.period_ns);
  report.burst = numbers.burst;
  report.fits = false;
  report.charge.identity = bound.rule->identity;
  return report;
}

void deny(Decision& decision, const RuleReport& report) noexcept {
  const bool first = decision.verdict == Verdict::allowed;
  const bool useless = !first && (decision.reason == Reason::blocked ||
                                  decision.reason == Reason::cost_exceeds_burst);
  decision.verdict = Verdict::limited;
  // Where one rule can never let the request through, waiting for the others is useless too.
  if (report.never_fits) {
    const bool blocked = report.limit == 0 || (useless && decision.reason == Reason::blocked);
    decision.reason = blocked ? Reason::blocked : Reason::cost_exceeds_burst;
    decision.retry_after.reset();
    return;
  }
  if (useless) return;
  decision.reason = Reason::over_limit;
  // A wait that one of them does not know is not known.
  if (first) {
    decision.retry_after = report.retry_after;
  } else if (decision.retry_after && report.retry_after) {
    decision.retry_after = std::max(*decision.retry_after, *report.retry_after);
  } else {
    decision.retry_after.reset();
  }
}

void compose(const Plan& plan, std::span<const store::Finding> findings, Instant now, Rung rung,
             Decision& decision) {
  decision.verdict = Verdict::allowed;
  decision.reason = Reason::within_limit;
  decision.rung = rung;
  decision.decided_at = now;
  for (std::size_t i = 0; i < plan.count; ++i) {
    const RuleReport& report =
        decision.add(report_of(plan.rules[i]->name, plan.counters[i], findings[i]));
    if (!report.fits && !report.shadow) deny(decision, report);
  }
}

}  // namespace weir::guard
