#include "guard/compose.h"

#include <algorithm>

#include "limit/step.h"

namespace weir::guard {

namespace {

// Reports are filled in where they stand: one that is returned is copied wider than it was written,
// which the processor waits for.
void outline_into(RuleReport& report, std::string_view rule, const store::Counter& counter) {
  const limit::Numbers& numbers = *counter.numbers;
  report.rule = rule;
  report.limit = numbers.limit;
  report.period = Nanos(numbers.period_ns);
  report.burst = numbers.burst;
  report.shadow = counter.shadow;
  report.charge.key_hi = counter.digest.hi;
  report.charge.key_lo = counter.digest.lo;
  report.charge.identity = counter.identity;
  report.charge.stamp = numbers.stamp;
}

bool varies(const limit::Numbers& numbers) noexcept {
  return numbers.calendar == limit::Calendar::month || numbers.calendar == limit::Calendar::year;
}

// A month has 28 to 31 days: what is told of a window is the length of the one that was decided in,
// so that none is shorter than the wait for its end.
Nanos period_at(const limit::Numbers& numbers, Instant now) noexcept {
  const limit::Window window = limit::window_at(numbers, now);
  return Nanos(window.end_ns - window.start_ns);
}

void found_into(RuleReport& report, const store::Counter& counter, const store::Finding& finding,
                Instant now) {
  if (varies(*counter.numbers)) [[unlikely]]
    report.period = period_at(*counter.numbers, now);

  // What remains is told beside the limit that it is of.
  if (finding.newer) {
    report.limit = finding.newer->limit;
    report.burst = finding.newer->burst;
  }
  report.fits = finding.step.outcome == limit::Outcome::allowed;
  report.never_fits = finding.step.outcome == limit::Outcome::never_fits;
  if (finding.remaining_known) report.remaining = finding.step.remaining;
  if (finding.reset_known) report.reset_after = Nanos(finding.step.reset_after_ns);
  if (finding.retry_known && finding.step.outcome == limit::Outcome::limited) {
    report.retry_after = Nanos(finding.step.retry_after_ns);
  }
  report.charge.units = finding.units;
  report.charge.receipt = finding.step.receipt();
}

constexpr RuleReport kFreshReport;

}  // namespace

RuleReport report_of(std::string_view rule, const store::Counter& counter,
                     const store::Finding& finding, Instant now) {
  RuleReport report;
  outline_into(report, rule, counter);
  found_into(report, counter, finding, now);
  return report;
}

RuleReport unasked(const BoundRule& bound) {
  const limit::Numbers& numbers = bound.rule->numbers;
  RuleReport report;
  report.rule = bound.name;
  report.limit = numbers.limit;
  if (!varies(numbers)) report.period = Nanos(numbers.period_ns);
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

void outline(const Plan& plan, Decision& decision) {
  for (std::size_t i = 0; i < plan.count; ++i)
    outline_into(decision.add(kFreshReport), plan.rules[i]->name, plan.counters[i]);
}

void fill_in(const Plan& plan, std::span<const store::Finding> findings, Instant now, Rung rung,
             Decision& decision) noexcept {
  decision.verdict = Verdict::allowed;
  decision.reason = Reason::within_limit;
  decision.rung = rung;
  decision.decided_at = now;
  const std::span<RuleReport> reports = decision.rules();
  for (std::size_t i = 0; i < reports.size(); ++i) {
    found_into(reports[i], plan.counters[i], findings[i], now);
    if (!reports[i].fits && !reports[i].shadow) deny(decision, reports[i]);
  }
}

void compose(const Plan& plan, std::span<const store::Finding> findings, Instant now, Rung rung,
             Decision& decision) {
  outline(plan, decision);
  fill_in(plan, findings, now, rung, decision);
}

}  // namespace weir::guard
