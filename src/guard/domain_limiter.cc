#include "guard/domain_limiter.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "guard/domain_job.h"
#include "guard/errand.h"
#include "guard/impl.h"
#include "guard/patience.h"

namespace weir::guard {
namespace {

using Findings = std::array<store::Finding, store::kMaxCounters>;

// ---- A store that answers at once.

// What one ask needs. Kept for the next of its thread: made anew it would be some kilobytes to
// clear for the one or two counters that most asks are about.
struct Room {
  DomainPlan plan;
  Findings findings;
  DomainJob::Afterwards after;
  Findings told;

  // The first `count` of `all`, as new.
  static std::span<store::Finding> fresh(Findings& all, std::size_t count) {
    const std::span found(all.data(), count);
    std::fill(found.begin(), found.end(), store::Finding());
    return found;
  }
};

class LocalAsk {
 public:
  LocalAsk(Guard::Impl& impl, const DomainJob& job, Room& room)
      : impl_(impl), store_(*impl.local()), job_(job), plan_(room.plan), room_(room) {}

  void decide(RateLimitAnswer& answer) {
    store_.expect(plan_.counters());  // their memory comes while the clock is read
    const Instant now = impl_.clock().now();
    const std::span found = Room::fresh(room_.findings, plan_.counters().size());
    if (!found.empty()) {
      const store::LocalOutcome outcome = store_.decide(plan_.counters(), now, found).outcome;
      if (outcome != store::LocalOutcome::decided) return decide_without(outcome, now, answer);
    }
    job_.word(plan_, found, now, answer);
    if (!answer.decision.allowed()) settle_afterwards(found, now, answer);
  }

 private:
  // One process cannot tell its part from the whole, so all but open is as strict as closed here.
  void decide_without(store::LocalOutcome outcome, Instant now, RateLimitAnswer& answer) {
    Decision& decision = answer.decision;
    decision.rung = Rung::policy;
    decision.verdict = Verdict::refused;
    decision.reason = Reason::keys_exhausted;
    if (outcome == store::LocalOutcome::unavailable) {
      decision.reason = Reason::store_unavailable;
      if (plan_.strictest().scope->when_store_fails == FailurePolicy::open) open(now, decision);
    }
    job_.word_without(plan_, answer);
  }

  void open(Instant now, Decision& decision) {
    const BoundLimit& limit = plan_.strictest();
    if (limit.ceiling != nullptr) {
      const limit::Step step =
          limit.ceiling->take(limit.scope->ceiling->numbers, now, plan_.cost());
      if (step.outcome != limit::Outcome::allowed) {
        decision.reason = Reason::over_ceiling;
        if (step.outcome == limit::Outcome::limited)
          decision.retry_after = Nanos(step.retry_after_ns);
        return;
      }
    }
    decision.verdict = Verdict::allowed;
  }

  void settle_afterwards(std::span<const store::Finding> found, Instant now,
                         RateLimitAnswer& answer) {
    DomainJob::Afterwards& after = room_.after;
    job_.afterwards(plan_, found, true, after);
    const std::span counters(after.counters.data(), after.count);
    // Apart, since they may be of one counter.
    if (after.refunds > 0) {
      (void)store_.decide(counters.first(after.refunds), now,
                          Room::fresh(room_.told, after.refunds));
    }
    const auto drains = counters.subspan(after.refunds);
    if (drains.empty()) return;
    const std::span told = Room::fresh(room_.told, drains.size());
    (void)store_.decide(drains, now, told);
    for (std::size_t k = 0; k < drains.size(); ++k) {
      DomainJob::tell_left(plan_, after.places[after.refunds + k], told[k], answer);
    }
  }

  Guard::Impl& impl_;
  store::LocalStore& store_;
  const DomainJob& job_;
  DomainPlan& plan_;
  Room& room_;
};

// ---- A shared store, which answers later.

// One ask of a domain on its way.
class SharedDomainAsk final : public SharedAsk {
 public:
  SharedDomainAsk(Guard::Impl& impl, Guard::Impl::PolicyRef policy, const BoundDomain& domain,
                  RateLimitListener& listener, std::uint64_t ticket)
      : impl_(impl),
        policy_(std::move(policy)),
        job_(impl, policy_, domain),
        domain_(domain),
        listener_(listener),
        ticket_(ticket),
        begun_(impl.clock().mono()) {
    answer_.refuse_as_error = policy_->model().rls.refusal_is_error;
  }

  DomainPlan plan;
  const DomainJob& job() const noexcept { return job_; }

  void send(std::optional<Nanos> patience) {
    const BoundLimit& strictest = plan.strictest();
    request = {
        .counters = plan.counters(),
        .cost = plan.cost(),
        .when_store_fails = strictest.scope->when_store_fails,
        .ceiling = strictest.ceiling,
        .ceiling_numbers = strictest.scope->ceiling ? &strictest.scope->ceiling->numbers : nullptr};
    request.late = plan.late();
    request.decided_elsewhere = plan.quotas();
    answer_by = begun_ + patience_of(patience, impl_.shared()->deadline());
    loaded_at = domain_.loaded_at;
    impl_.shared()->decide(*this);
  }

  void decided(const ladder::LadderVerdict& verdict, Instant now) noexcept override {
    const std::unique_ptr<SharedDomainAsk> self(this);
    if (verdict.numbers_known) job_.word(plan, findings(), now, answer_);
    const bool by_fallback = verdict.rung == Rung::fallback;
    const bool by_store = (verdict.rung == Rung::store || by_fallback) && verdict.numbers_known;
    if (!by_store) take_over(verdict, now);
    if (by_fallback) answer_.decision.rung = Rung::fallback;
    if (!answer_.decision.allowed()) settle_afterwards(verdict, by_store);
    job_.settle(plan, answer_, impl_.clock().mono() - begun_);
    listener_.answered(ticket_, std::move(answer_));
  }

 private:
  // Something else than the store decided: its word holds, and what is known is told beside it.
  void take_over(const ladder::LadderVerdict& verdict, Instant now) {
    Decision& decision = answer_.decision;
    for (RuleReport& report : decision.rules()) report.charge.units = 0;
    decision.verdict = verdict.verdict;
    decision.reason = verdict.reason;
    decision.retry_after = verdict.retry_after;
    decision.rung = verdict.rung;
    decision.decided_at = now;
    if (verdict.unenforced) impl_.metrics().count_unenforced(domain_.metrics);
    if (!verdict.numbers_known) job_.word_without(plan, answer_);
  }

  void settle_afterwards(const ladder::LadderVerdict& verdict, bool by_store) {
    DomainJob::Afterwards after;
    job_.afterwards(plan, findings(), by_store, after);
    const std::span<const store::Counter> counters(after.counters.data(), after.count);
    const MonoTime now = impl_.clock().mono();
    give_back_charged(counters.first(after.refunds),
                      verdict.rung == Rung::fallback ? Where::fallback : Where::first,
                      domain_.loaded_at, *impl_.shared(), now);
    charge_rest(counters.subspan(after.refunds), verdict, request.when_store_fails,
                domain_.loaded_at, *impl_.shared(), now);
  }

  Guard::Impl& impl_;
  Guard::Impl::PolicyRef policy_;
  const DomainJob job_;
  const BoundDomain& domain_;
  RateLimitListener& listener_;
  const std::uint64_t ticket_;
  const MonoTime begun_;
  RateLimitAnswer answer_;
};

void refuse_unreadable(Guard::Impl& impl, const RateLimitAsk& ask, const BoundDomain& domain,
                       RateLimitAnswer& answer) {
  answer.decision =
      impl.refuse_invalid("a value is above 1 MiB, or there are more than 64 different counters",
                          domain.name, ask.hits, domain.metrics);
  answer.statuses.assign(ask.descriptors.size(), {.over = true});
}

}  // namespace

bool DomainLimiter::decide(const RateLimitAsk& ask, RateLimitAnswer& answer,
                           RateLimitListener& listener, std::uint64_t ticket) {
  Guard::Impl& impl = guard_.impl();
  Guard::Impl::PolicyRef policy = impl.policy();
  answer.refuse_as_error = policy->model().rls.refusal_is_error;
  const BoundDomain* domain = policy->domains().find(ask.domain);
  if (domain == nullptr) return routes_.decide(ask, answer, listener, ticket);
  const auto generation = static_cast<std::uint32_t>(policy->generation());
  if (impl.local() != nullptr) {
    thread_local const auto room = std::make_unique<Room>();
    DomainPlan* const plan = &room->plan;
    const DomainJob job(impl, policy, *domain);
    if (!plan->make(ask, *domain, generation, impl.hasher(), impl.digester())) {
      refuse_unreadable(impl, ask, *domain, answer);
      return true;
    }
    LocalAsk(impl, job, *room).decide(answer);
    if (answer.decision.allowed() && answer.decision.rung == Rung::policy) {
      impl.metrics().count_unenforced(domain->metrics);
    }
    job.settle(*plan, answer, std::nullopt);
    return true;
  }
  auto shared =
      std::make_unique<SharedDomainAsk>(impl, std::move(policy), *domain, listener, ticket);
  if (!shared->plan.make(ask, *domain, generation, impl.hasher(), impl.digester())) {
    refuse_unreadable(impl, ask, *domain, answer);
    return true;
  }
  if (shared->plan.counters().empty()) {
    shared->job().word(shared->plan, {}, impl.shared()->moment().store, answer);
    shared->job().settle(shared->plan, answer, std::nullopt);
    return true;
  }
  shared.release()->send(ask.deadline);
  return false;
}

}  // namespace weir::guard
