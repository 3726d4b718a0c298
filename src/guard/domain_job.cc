#include "guard/domain_job.h"

#include "guard/domain_answer.h"

namespace weir::guard {

void DomainJob::word(const DomainPlan& plan, std::span<const store::Finding> findings, Instant now,
                     RateLimitAnswer& answer) const {
  compose_domain(plan, findings, now, Rung::store, answer);
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const policy::DescriptorLimit* limit = plan.asked()[i].limit->limit;
    if (limit != nullptr && limit->shadow) {
      impl_.metrics().count_shadow(domain_.metrics,
                                   findings[i].step.outcome == limit::Outcome::allowed);
    }
  }
}

void DomainJob::word_without(const DomainPlan& plan, RateLimitAnswer& answer) const {
  compose_without_numbers(plan, answer);
}

void DomainJob::settle(const DomainPlan& plan, RateLimitAnswer& answer,
                       std::optional<Nanos> took) const {
  Decision& decision = answer.decision;
  decision.route = domain_.name;
  decision.cost = plan.cost();
  // Proxies make header lines of the statuses; Weir's own want to be asked for.
  decision.profiles = model_.header_profiles_given ? model_.header_profiles : 0;
  impl_.told(decision, domain_.metrics, took);
}

void DomainJob::afterwards(const DomainPlan& plan, std::span<const store::Finding> findings,
                           bool by_store, Afterwards& out) const {
  const auto counters = plan.counters();
  out.count = out.refunds = 0;
  // envoyproxy/ratelimit adds what it denies, and gives nothing back.
  const bool adds = model_.rls.envoyproxy_prefix.has_value();
  if (adds && by_store) return;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (!by_store || !findings[i].charged) continue;
    store::Counter& back = out.counters[out.count];
    back = counters[i];
    back.op = store::Op::refund;
    back.cost = findings[i].units;
    back.receipt = findings[i].step.receipt();
    out.places[out.count++] = i;
  }
  out.refunds = out.count;
  for (std::size_t i = 0; i < counters.size(); ++i) {
    if (counters[i].cost == 0) continue;
    if (!plan.asked()[i].late && !adds && !model_.rls.count_denied) continue;
    out.counters[out.count] = counters[i];
    out.counters[out.count].op = store::Op::drain;
    out.places[out.count++] = i;
  }
}

void DomainJob::tell_left(const DomainPlan& plan, std::size_t counter,
                          const store::Finding& drained, RateLimitAnswer& answer) {
  for (std::size_t i = 0; i < plan.met().size(); ++i) {
    if (plan.met()[i].counter != counter || answer.statuses[i].over) continue;
    answer.statuses[i].remaining = drained.step.remaining;
  }
}

}  // namespace weir::guard
