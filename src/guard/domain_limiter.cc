#include "guard/domain_limiter.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "guard/domain_answer.h"
#include "guard/impl.h"

namespace weir::guard {
namespace {

using Findings = std::array<store::Finding, store::kMaxCounters>;

// One ask of a domain on a store that answers at once.
class LocalAsk {
 public:
  LocalAsk(Guard::Impl& impl, const policy::Model& model, DomainPlan& plan)
      : impl_(impl), model_(model), plan_(plan) {}

  void decide(RateLimitAnswer& answer) {
    if (plan_.counters().empty()) {
      return compose_domain(plan_, {}, impl_.clock().now(), Rung::store, answer);
    }
    const Instant now = impl_.clock().now();
    const store::LocalOutcome outcome =
        impl_.local()->decide(plan_.counters(), now, found()).outcome;
    if (outcome != store::LocalOutcome::decided) return decide_without(outcome, answer);
    compose_domain(plan_, found(), now, Rung::store, answer);
    if (answer.decision.allowed()) return;
    give_back(now);
    charge_denied(now, answer);
  }

 private:
  std::span<store::Finding> found() noexcept { return {findings_.data(), plan_.counters().size()}; }

  void decide_without(store::LocalOutcome outcome, RateLimitAnswer& answer) {
    Decision& decision = answer.decision;
    decision.rung = Rung::policy;
    decision.verdict = Verdict::refused;
    decision.reason = Reason::keys_exhausted;
    if (outcome == store::LocalOutcome::unavailable) {
      decision.reason = Reason::store_unavailable;
      const auto asked = plan_.asked();
      const bool open = std::all_of(asked.begin(), asked.end(), [](const DomainPlan::Asked& each) {
        return each.when_store_fails == FailurePolicy::open;
      });
      if (open) decision.verdict = Verdict::allowed;
    }
    compose_without_numbers(plan_, answer);
  }

  // Quotas and shadow limits never deny the store's step. Where quotas then deny the request all
  // the same, what the step charged is given back.
  void give_back(Instant now) {
    Findings ignored;
    std::array<store::Counter, store::kMaxCounters> counters;
    std::size_t count = 0;
    for (std::size_t i = 0; i < plan_.counters().size(); ++i) {
      if (!findings_[i].charged) continue;
      counters[count] = plan_.counters()[i];
      counters[count].op = store::Op::refund;
      counters[count].cost = findings_[i].units;
      counters[count].receipt = findings_[i].step.receipt();
      ++count;
    }
    if (count > 0)
      (void)impl_.local()->decide({counters.data(), count}, now, {ignored.data(), count});
  }

  // What was used already is used, whatever was answered.
  void charge_denied(Instant now, RateLimitAnswer& answer) {
    Findings drained;
    std::array<store::Counter, store::kMaxCounters> counters;
    std::array<std::size_t, store::kMaxCounters> places;
    std::size_t count = 0;
    for (std::size_t i = 0; i < plan_.counters().size(); ++i) {
      if (plan_.counters()[i].cost == 0) continue;
      if (!plan_.asked()[i].late && !model_.rls.count_denied) continue;
      counters[count] = plan_.counters()[i];
      counters[count].op = store::Op::drain;
      places[count++] = i;
    }
    if (count == 0) return;
    (void)impl_.local()->decide({counters.data(), count}, now, {drained.data(), count});
    for (std::size_t k = 0; k < count; ++k) tell_left(places[k], drained[k], answer);
  }

  void tell_left(std::size_t counter, const store::Finding& drained, RateLimitAnswer& answer) {
    for (std::size_t i = 0; i < plan_.met().size(); ++i) {
      if (plan_.met()[i].counter != counter || answer.statuses[i].over) continue;
      answer.statuses[i].remaining = drained.step.remaining;
    }
  }

  Guard::Impl& impl_;
  const policy::Model& model_;
  DomainPlan& plan_;
  Findings findings_;
};

void count_shadows(const DomainPlan& plan, const Decision& decision, const BoundDomain& domain,
                   render::Metrics& metrics) {
  const auto reports = decision.rules();
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const BoundLimit* limit = plan.asked()[i].limit;
    if (limit != nullptr && limit->limit->shadow) {
      metrics.count_shadow(domain.metrics, reports[i].fits);
    }
  }
}

}  // namespace

bool DomainLimiter::decide(const RateLimitAsk& ask, RateLimitAnswer& answer,
                           RateLimitListener& listener, std::uint64_t ticket) {
  Guard::Impl& impl = guard_.impl();
  const Guard::Impl::PolicyRef policy = impl.policy();
  const policy::Model& model = policy->model();
  answer.refuse_as_error = model.rls.refusal_is_error;
  const BoundDomain* domain = policy->domains().find(ask.domain);
  if (domain == nullptr) return routes_.decide(ask, answer, listener, ticket);

  // Kept for the next ask of this thread: it is large, and its room is worth keeping.
  thread_local const auto plan = std::make_unique<DomainPlan>();
  if (!plan->make(ask, *domain, static_cast<std::uint32_t>(policy->generation()), impl.hasher(),
                  impl.digester())) {
    answer.decision = impl.refuse_invalid(domain->name, ask.hits, domain->metrics);
    answer.statuses.assign(ask.descriptors.size(), {.over = true});
    return true;
  }
  LocalAsk(impl, model, *plan).decide(answer);
  Decision& decision = answer.decision;
  decision.route = domain->name;
  decision.cost = plan->cost();
  decision.profiles = model.header_profiles_given ? model.header_profiles : 0;
  count_shadows(*plan, decision, *domain, impl.metrics());
  if (decision.allowed() && decision.rung == Rung::policy) {
    impl.metrics().count_unenforced(domain->metrics);
  }
  answer.decision = impl.told(std::move(decision), domain->metrics);
  return true;
}

}  // namespace weir::guard
