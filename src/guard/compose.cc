#include "guard/compose.h"

#include <algorithm>

#include "limit/step.h"

namespace weir::guard {

namespace {

void say_numbers(RuleReport& report, const limit::Numbers& numbers) noexcept {
  report.limit = numbers.limit;
  report.period = Nanos(numbers.period_ns);
  report.burst = numbers.burst;
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

// Reports are filled in where they stand: one that is returned is copied wider than it was written,
// which the processor waits for.
//
// The digest comes here: it is made last of what is known before, and read back at once as one word
// of 16 bytes it would be waited for.
void found_into(RuleReport& report, const store::Counter& counter, const store::Finding& finding,
                Instant now) {
  report.charge.key_hi = counter.digest.hi;
  report.charge.key_lo = counter.digest.lo;
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

}  // namespace

RuleReport report_of(std::string_view rule, const store::Counter& counter,
                     const store::Finding& finding, Instant now) {
  RuleReport report;
  report.rule = rule;
  say_numbers(report, *counter.numbers);
  report.shadow = counter.shadow;
  report.charge.identity = counter.identity;
  found_into(report, counter, finding, now);
  return report;
}

RuleReport outline_of(const BoundRule& bound) {
  RuleReport report;
  report.rule = bound.name;
  say_numbers(report, bound.rule->numbers);
  report.shadow = bound.shadow;
  report.charge.identity = bound.rule->identity;
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
  for (std::size_t i = 0; i < plan.count; ++i) {
    const BoundRule& bound = *plan.rules[i];
    RuleReport& report = decision.add(bound.outline);
    const limit::Numbers& numbers = *plan.counters[i].numbers;
    if (&numbers != &bound.rule->numbers) say_numbers(report, numbers);  // an override's
  }
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
