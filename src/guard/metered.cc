#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "guard/impl.h"

namespace weir {

namespace {

constexpr Nanos kLeastExpire = std::chrono::seconds(1);
constexpr Nanos kMostExpire = std::chrono::hours(24);

bool fits(const ReservationTerms& terms) noexcept {
  return terms.expire >= kLeastExpire && terms.expire <= kMostExpire;
}

Decision refused(Reason reason, Rung rung, std::uint64_t cost) {
  Decision decision;
  decision.reason = reason;
  decision.rung = rung;
  decision.cost = cost;
  return decision;
}

}  // namespace

void Guard::Impl::resume_overspend() {
  if (!shared_) return;
  for (const auto& [counter, window, units] : usage_->overspent_before())
    shared_->restore_overspend(counter, window, units);
}

void Guard::Impl::resume_usage() {
  if (!usage_) return;
  shared_later_ = shared_;
  resume_overspend();
  usage_->reservations().start(
      {.give_back = [this](const guard::HeldReservation& held,
                           std::uint64_t units) { give_back(held, units); },
       .take =
           [this](const guard::HeldReservation& held, std::uint64_t units,
                  std::function<void(std::uint64_t)> done) {
             take_more(held, units, std::move(done));
           }});
}

bool Guard::Impl::begin_call(guard::Plan& plan, CheckOptions options, guard::MeteredCall* call,
                             Decision& decision) noexcept {
  if (call == nullptr) return true;
  const std::uint64_t metered = usage_ ? guard::UsageRecorder::metered(plan) : 0;
  if (call->reserve) {
    if (metered == 0 || options.cost == 0 || !fits(*call->reserve)) {
      decision = refused(Reason::invalid_request, Rung::policy, options.cost);
      return false;
    }
    if (usage_->reservations().has_room()) return true;
    decision = refused(Reason::keys_exhausted, Rung::journal, options.cost);
    return false;
  }
  if (call->idempotency_key.empty() || metered == 0 || options.cost == 0) return true;
  plan.name_request(call->idempotency_key, metered, hasher_, digester_);
  const Instant now = clock_->now();
  const auto known = usage_->requests().find(plan.request, now);
  if (!known) return true;
  if (!known->same) {
    call->naming = guard::MeteredCall::Naming::conflict;
    decision = refused(Reason::invalid_request, Rung::policy, options.cost);
    return false;
  }
  call->naming = guard::MeteredCall::Naming::replayed;
  decision.verdict = Verdict::allowed;
  decision.reason = Reason::within_limit;
  decision.rung = known->rung;
  decision.decided_at = now;
  // A process that ended in between may have written down the key of what was never answered; the
  // ledger bills an event of a key that it has not seen, once.
  if (!known->recorded)
    (void)usage_->follow(
        plan, {.metered = metered, .cost = options.cost, .at = now, .rung = known->rung});
  return false;
}

void Guard::Impl::read_marks(const guard::Plan& plan, std::span<const store::Finding> findings,
                             guard::MeteredCall* call, Decision& decision) noexcept {
  if (call == nullptr) return;
  using Marked = guard::Plan::Marked;
  const Marked marked = plan.marked(findings);
  if (marked == Marked::fresh) return;
  const bool replayed = marked == Marked::replayed;
  call->naming =
      replayed ? guard::MeteredCall::Naming::replayed : guard::MeteredCall::Naming::conflict;
  decision.verdict = replayed ? Verdict::allowed : Verdict::refused;
  decision.reason = replayed ? Reason::within_limit : Reason::invalid_request;
  decision.retry_after.reset();
}

// A request that another worker admitted is recorded here once more: whether that one lived to do
// so is not known, and the ledger bills an idempotency key once.
void Guard::Impl::record_admitted(const guard::Plan& plan, CheckOptions options,
                                  guard::MeteredCall* call, Decision& decision) noexcept {
  const bool again = call != nullptr && call->naming == guard::MeteredCall::Naming::replayed;
  if (!decision.allowed()) return;
  // What a fallback store admits was recorded before its answer; what it admitted before was so by
  // whoever asked then.
  if (decision.rung != Rung::store && !(again && decision.rung == Rung::fallback)) return;
  const bool reserve = call != nullptr && call->reserve;
  const std::uint64_t metered =
      reserve ? guard::UsageRecorder::metered(plan) : metered_always(plan, options);
  if (metered == 0) return;
  const guard::UsageRecorder::Usage usage{
      .metered = metered, .cost = options.cost, .at = decision.decided_at};
  if (!reserve) {
    if (usage_->follow(plan, usage)) return;
  } else if (auto id = usage_->follow_reservation(plan, usage, *call->reserve, decision)) {
    call->reservation = std::move(*id);
    return;
  }
  decision = refused(Reason::store_unavailable, Rung::journal, options.cost);
}

namespace {

std::vector<store::Counter> counters_of(const guard::HeldReservation& held,
                                        const guard::BoundPolicy& policy, store::Op op,
                                        std::uint64_t units) {
  std::vector<store::Counter> counters;
  for (const guard::HeldReservation::Charge& charge : held.charges) {
    const limit::Numbers* numbers = policy.numbers_of(charge.identity, charge.stamp);
    if (numbers == nullptr) continue;  // the rule is gone, and its counters with it
    counters.push_back({.numbers = numbers,
                        .rule = {},
                        .identity = charge.identity,
                        .digest = charge.digest,
                        .key = charge.key,
                        .cost = units,
                        .op = op,
                        .shadow = charge.shadow,
                        .generation = static_cast<std::uint32_t>(policy.generation()),
                        .receipt = charge.receipt});
  }
  return counters;
}

}  // namespace

void Guard::Impl::give_back(const guard::HeldReservation& held, std::uint64_t units) {
  PolicyRef policy = current_.read();
  auto counters = counters_of(held, *policy, store::Op::refund, units);
  carry_out_later(std::move(counters), std::move(policy),
                  [](bool, std::span<const store::Finding>) {});
}

void Guard::Impl::take_more(const guard::HeldReservation& held, std::uint64_t units,
                            std::function<void(std::uint64_t)> done) {
  PolicyRef policy = current_.read();
  auto counters = counters_of(held, *policy, store::Op::drain, units);
  std::vector<std::size_t> metered;
  for (std::size_t i = 0, at = 0; i < held.charges.size(); ++i) {
    const guard::HeldReservation::Charge& charge = held.charges[i];
    if (policy->numbers_of(charge.identity, charge.stamp) == nullptr) continue;
    if (charge.metered && !charge.shadow) metered.push_back(at);
    ++at;
  }
  carry_out_later(std::move(counters), std::move(policy),
                  [metered = std::move(metered), units, done = std::move(done)](
                      bool carried, std::span<const store::Finding> findings) {
                    // What could not be asked about is nobody's overspend.
                    std::uint64_t taken = units;
                    for (const std::size_t i : metered)
                      if (carried) taken = std::min(taken, findings[i].units);
                    done(taken);
                  });
}

namespace {

// Owns what it asks about, until it was answered.
class Errand final : public guard::SharedAsk {
 public:
  using Done = std::function<void(bool, std::span<const store::Finding>)>;

  Errand(std::vector<store::Counter> what, Guard::Impl::PolicyRef policy, Done done)
      : counters_(std::move(what)), policy_(std::move(policy)), done_(std::move(done)) {
    for (store::Counter& counter : counters_) {
      keys_.emplace_back(counter.key);
      counter.key = keys_.back();
    }
    request = {.counters = counters_, .cost = 0};
    loaded_at = policy_->loaded_at();
  }
  std::span<const store::Counter> counters() const noexcept { return counters_; }
  void decided(const ladder::LadderVerdict& verdict, Instant) noexcept override {
    const std::unique_ptr<Errand> self(this);
    done_(verdict.rung == Rung::store, findings());
  }

 private:
  std::deque<std::string> keys_;
  std::vector<store::Counter> counters_;
  Guard::Impl::PolicyRef policy_;
  Done done_;
};

}  // namespace

void Guard::Impl::carry_out_later(std::vector<store::Counter> counters, PolicyRef policy,
                                  std::function<void(bool, std::span<const store::Finding>)> done) {
  if (counters.empty()) {
    done(false, {});
    return;
  }
  if (store_) {
    std::vector<store::Finding> findings(counters.size());
    const auto outcome = store_->decide(counters, clock_->now(), findings).outcome;
    done(outcome == store::LocalOutcome::decided, findings);
    return;
  }
  const std::shared_ptr<guard::SharedStore> shared = shared_later_.lock();
  if (!shared) {
    done(false, {});
    return;
  }
  auto errand = std::make_unique<Errand>(std::move(counters), std::move(policy), std::move(done));
  errand->answer_by = clock_->mono() + shared->deadline();
  shared->decide(*errand.release());
}

}  // namespace weir
