#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/wide.h"
#include "guard/errand.h"
#include "guard/impl.h"
#include "limit/step.h"
#include "policy/key.h"

namespace weir {

namespace {

// Marks that are told at once, and about once a second.
constexpr std::size_t kMarksAtOnce = 256;

Decision refused(Reason reason, Rung rung, std::uint64_t cost) {
  Decision decision;
  decision.reason = reason;
  decision.rung = rung;
  decision.cost = cost;
  return decision;
}

}  // namespace

Decision Guard::Impl::refused_by_journal(std::uint64_t cost) {
  return refused(Reason::store_unavailable, Rung::journal, cost);
}

void Guard::Impl::resume_overspend() {
  shared_later_ = shared_;
  if (!shared_) return;
  usage_->hear_overspent([later = shared_later_](const guard::UsageRecorder::Overspent& before) {
    if (const auto shared = later.lock())
      shared->restore_overspend(before.counter, before.window, before.units);
  });
}

void Guard::Impl::resume_usage() {
  if (!usage_) return;
  resume_overspend();
  resume_reservations();
}

void Guard::Impl::resume_reservations() {
  shared_later_ = shared_;
  usage_->reservations().start(
      {.give_back =
           [this](const std::string& id, const guard::HeldReservation& held, std::uint64_t units,
                  std::function<void(guard::ReservationBook::GivenBack)> done) {
             give_back(id, held, units, std::move(done));
           },
       .take =
           [this](const guard::HeldReservation& held, std::uint64_t units,
                  std::function<void(guard::ReservationBook::Taken)> done) {
             take_more(held, units, std::move(done));
           },
       .now_and_then = [this] { tell_marks(); }});
}

bool Guard::Impl::take_terms(const policy::Route& route, ReservationTerms& terms,
                             Decision& decision) const noexcept {
  if (const auto& rule = route.reservations) {
    if (!terms.on_expiry) terms.on_expiry = rule->on_expiry;
    if (terms.expire == Nanos{0}) terms.expire = rule->expire.value_or(Nanos{0});
  }
  if (!terms.on_expiry) {
    decision.fault = "neither the call nor the route's reservations say on_expiry";
  } else if (terms.expire == Nanos{0}) {
    decision.fault = "neither the call nor the route's reservations say when it expires";
  } else if (terms.expire < policy::kLeastReservation || terms.expire > policy::kMostReservation) {
    decision.fault = "a reservation expires after one second to a day";
  }
  return decision.fault.empty();
}

bool Guard::Impl::begin_call(guard::Plan& plan, const CheckOptions& options,
                             guard::MeteredCall* call, Decision& decision) noexcept {
  if (call == nullptr) return true;
  const std::uint64_t metered = usage_ ? guard::UsageRecorder::metered(plan) : 0;
  if (call->reserve) {
    decision = refused(Reason::invalid_request, Rung::policy, options.cost);
    if (metered == 0) {
      decision.fault = usage_ ? "the route meters nothing" : "no journal records its usage";
    } else if (options.cost == 0) {
      decision.fault = "the estimate is 0";
    } else if (take_terms(*plan.route->route, *call->reserve, decision)) {
      decision = {};
      if (usage_->reservations().has_room()) return true;
      decision = refused(Reason::keys_exhausted, Rung::journal, options.cost);
    }
    return false;
  }
  if (call->idempotency_key.size() > kMaxIdempotencyKeyBytes) {
    decision = refused(Reason::invalid_request, Rung::policy, options.cost);
    decision.fault = "the idempotency key is longer than 255 bytes";
    return false;
  }
  if (call->idempotency_key.empty() || metered == 0 || options.cost == 0) return true;
  // A store of this process alone forgot its marks with the process before it: only the journal
  // knows what that one admitted.
  if (store_ && !usage_->knows_before()) {
    decision = refused_by_journal(options.cost);
    return false;
  }
  plan.name_request(call->idempotency_key, metered, hasher_, digester_);
  const Instant now = clock_->now();
  const auto known = usage_->requests().find(plan.request, now);
  if (!known) return true;
  decision.decided_at = now;
  if (!known->same) {
    conflict(decision);
    return false;
  }
  replay(known->rung, decision);
  // A process that ended in between may have written down the key of what was never answered; the
  // ledger bills an event of a key that it has not seen, once.
  if (known->recorded) return false;
  const guard::UsageRecorder::Usage usage{
      .metered = metered, .cost = options.cost, .at = now, .rung = known->rung};
  if (!usage_->follow(plan, usage)) decision = refused_by_journal(options.cost);
  return false;
}

void Guard::Impl::replay(Rung rung, Decision& decision) noexcept {
  decision.verdict = Verdict::allowed;
  decision.reason = Reason::within_limit;
  decision.rung = rung;
  decision.retry_after.reset();
  decision.replayed = true;
}

void Guard::Impl::conflict(Decision& decision) noexcept {
  decision.verdict = Verdict::refused;
  decision.reason = Reason::key_reused;
  decision.rung = Rung::policy;
  decision.retry_after.reset();
}

void Guard::Impl::read_marks(const guard::Plan& plan, std::span<const store::Finding> findings,
                             Decision& decision) noexcept {
  using Marked = guard::Plan::Marked;
  switch (plan.marked(findings)) {
    case Marked::fresh:
      return;
    case Marked::replayed:
      return replay(decision.rung, decision);
    case Marked::conflict:
      return conflict(decision);
  }
}

// A request that another worker admitted is recorded here once more: whether that one lived to do
// so is not known, and the ledger, which is the fleet's, bills an idempotency key once.
void Guard::Impl::record_admitted(const guard::Plan& plan, std::span<const store::Finding> findings,
                                  const CheckOptions& options, Decision& decision) noexcept {
  if (!decision.allowed()) return;
  // What a fallback store admits, or has admitted, was recorded before its answer.
  if (decision.rung != Rung::store) return;
  const std::uint64_t metered = metered_always(plan, options);
  if (metered == 0) return;
  const guard::UsageRecorder::Usage usage{
      .metered = metered, .cost = options.cost, .at = decision.decided_at};
  if (usage_->follow(plan, usage)) return;
  if (!decision.replayed) give_back_charged(plan, findings);
  decision = refused_by_journal(options.cost);
}

void Guard::Impl::reserve_local(const guard::Plan& plan, const CheckOptions& options,
                                const CallRef& call, const Decision& admitted,
                                std::function<void(Decision)> done) {
  const guard::UsageRecorder::Usage usage{.metered = guard::UsageRecorder::metered(plan),
                                          .cost = options.cost,
                                          .at = admitted.decided_at};
  usage_->append_reservation(
      plan, usage, *call->reserve, &admitted,
      [call, options, admitted, done = std::move(done)](std::optional<std::string> id) {
        if (!id) return done(refused_by_journal(options.cost));
        call->reservation = std::move(*id);
        done(admitted);
      });
}

bool Guard::Impl::meters(const guard::BoundRoute& route) const noexcept {
  return usage_ && route.route->when_store_fails == FailurePolicy::settle &&
         std::any_of(route.rules.begin(), route.rules.end(),
                     [](const guard::BoundRule& rule) { return rule.rule->meter && !rule.shadow; });
}

namespace {

Decision kept(Instant at) {
  Decision decision;
  decision.verdict = Verdict::allowed;
  decision.reason = Reason::within_limit;
  decision.rung = Rung::store;
  decision.decided_at = at;
  return decision;
}

}  // namespace

void Guard::Impl::report_async(std::string_view name, const guard::Values& values,
                               std::uint64_t units, std::function<void(Decision)> done) {
  const auto policy = std::make_shared<const PolicyRef>(current_.read());
  const guard::BoundRoute* const route = (*policy)->find(name);
  if (route == nullptr) return done(decide_unmatched(units));
  guard::Plan plan;
  const guard::Plan::Outcome outcome =
      plan.make(*route, **policy, values, units, hasher_, digester_);
  Decision decision;
  const auto tell = [this, policy, route, units, done = std::move(done)](Decision decided) {
    settle(decided, **policy, *route, {.cost = units}, std::nullopt);
    done(std::move(decided));
  };
  if (!needs_asking(outcome, plan, *route, decision)) return tell(std::move(decision));
  if (units > kMaxUnits) {
    decision = refused(Reason::invalid_request, Rung::policy, units);
    decision.fault = "no work uses so many units";
    return tell(std::move(decision));
  }
  const Instant now = clock_->now();
  usage_->report(plan, units, now, [tell, units, now](bool is_kept) {
    tell(is_kept ? kept(now) : refused_by_journal(units));
  });
}

void Guard::Impl::settle_report_async(std::string_view name, std::string_view reservation,
                                      std::uint64_t units, std::function<void(Decision)> done) {
  const auto policy = std::make_shared<const PolicyRef>(current_.read());
  const guard::BoundRoute* const route = (*policy)->find(name);
  if (route == nullptr) return done(decide_unmatched(units));
  usage_->reservations().settle(
      reservation, units,
      [this, policy, route, units, done = std::move(done)](const Result<Settlement>& settled) {
        Decision decision = kept(clock_->now());
        if (!settled && settled.error().code == ErrorCode::unavailable) {
          decision = refused_by_journal(units);
        } else if (!settled) {
          decision = refused(Reason::invalid_request, Rung::policy, units);
          decision.fault = settled.error().code == ErrorCode::not_found
                               ? "this worker has no such reservation"
                               : "the reservation was settled otherwise, or expired";
        }
        settle(decision, **policy, *route, {.cost = units}, std::nullopt);
        done(std::move(decision));
      });
}

void Guard::Impl::give_back_charged(const guard::Plan& plan,
                                    std::span<const store::Finding> findings,
                                    std::uint64_t which) noexcept {
  PolicyRef policy = current_.read();
  std::vector<store::Counter> counters;
  for (std::size_t i = 0; i < plan.asked().size() && i < findings.size(); ++i) {
    if (!findings[i].charged || (which >> i & 1) == 0) continue;
    store::Counter counter = plan.counters[i];
    // The plan's numbers end with its policy; those of marks never do.
    if (i < plan.count)
      counter.numbers = policy->numbers_of(counter.identity, counter.numbers->stamp);
    if (counter.numbers == nullptr) continue;
    counter.op = store::Op::refund;
    counter.cost = findings[i].units;
    counter.receipt = findings[i].step.receipt();
    counters.push_back(counter);
  }
  if (counters.empty()) return;
  const Instant loaded_at = policy->loaded_at(counters);
  if (store_) {
    carry_out_later(std::move(counters), std::move(policy),
                    [](std::uint64_t, std::span<const store::Finding>) {});
  } else if (const std::shared_ptr<guard::SharedStore> shared = shared_later_.lock()) {
    guard::give_back_charged(counters, guard::SharedAsk::Where::first, loaded_at, *shared,
                             clock_->mono());
  }
}

// A few at a time: who was asked first is told first. What does not arrive is told again.
void Guard::Impl::tell_marks() {
  const std::shared_ptr<guard::SharedStore> shared = shared_later_.lock();
  if (!shared || !shared->reachable()) return;
  for (const guard::RequestName& request : usage_->take_untold(kMarksAtOnce)) {
    PolicyRef policy = current_.read();
    const guard::RequestMarks marks(request, static_cast<std::uint32_t>(policy->generation()),
                                    hasher_, digester_);
    // As the request would have taken them: both, or none where another one has the key.
    std::vector<store::Counter> counters(marks.counters().begin(), marks.counters().end());
    const int all = static_cast<int>(counters.size());
    carry_out_later(std::move(counters), std::move(policy),
                    [this, request, all](std::uint64_t carried, std::span<const store::Finding>) {
                      if (std::popcount(carried) < all) usage_->keep_untold(request);
                      usage_->told();
                    });
  }
}

namespace {

// A receipt of a gcra is the time by which the charge has run off at the rate of its numbers: from
// when others were loaded on, it does at theirs.
Instant receipt_under(const guard::HeldReservation::Charge& charge, const limit::Numbers& numbers,
                      Instant loaded_at) {
  if (charge.interval_ns <= 0 || numbers.interval_ns == charge.interval_ns) return charge.receipt;
  if (charge.receipt <= loaded_at) return charge.receipt;
  const auto from = static_cast<std::uint64_t>(charge.interval_ns);
  const auto left = static_cast<std::uint64_t>((charge.receipt - loaded_at).count());
  const Wide scaled =
      (static_cast<Wide>(left) * static_cast<std::uint64_t>(numbers.interval_ns) + from - 1) / from;
  const Wide most = static_cast<Wide>(numbers.tolerance_ns);
  return loaded_at + Nanos(static_cast<std::int64_t>(std::min(scaled, most)));
}

std::vector<store::Counter> counters_of(const guard::HeldReservation& held,
                                        const guard::BoundPolicy& policy, store::Op op,
                                        std::uint64_t units) {
  std::vector<store::Counter> counters;
  for (const guard::HeldReservation::Charge& charge : held.charges) {
    const limit::Numbers* numbers = policy.numbers_of(charge.identity, charge.stamp);
    if (numbers == nullptr) continue;  // the rule is gone, and its counters with it
    counters.push_back(
        {.numbers = numbers,
         .rule = {},
         .identity = charge.identity,
         .digest = charge.digest,
         .key = charge.key,
         .cost = units,
         .op = op,
         .shadow = charge.shadow,
         .generation = static_cast<std::uint32_t>(policy.generation()),
         .receipt = receipt_under(charge, *numbers, policy.loaded_at(charge.identity))});
  }
  return counters;
}

}  // namespace

namespace {

// As the marks of an idempotency key.
constexpr std::uint64_t kReturnMark = policy::KeyWriter::own_identity('r', 'e', 't');
constexpr std::uint64_t kTakeMark = policy::KeyWriter::own_identity('o', 'w', 'e');

// One unit that comes back after so long: while it is out, it has been done.
const limit::Numbers& return_mark_numbers() {
  static const limit::Numbers numbers =
      limit::Numbers::make({.algorithm = Algorithm::gcra,
                            .limit = 1,
                            .period = {.length = guard::ReservationBook::kReturnMemory},
                            .burst = std::nullopt})
          .value();
  return numbers;
}

// What was charged first of what lies in that slot. The mark of asking stands beside it: also once
// a reload has taken its rule away between two tries.
std::string_view charged_first(const guard::HeldReservation& held, std::uint16_t slot,
                               const guard::SharedStore& shared) {
  const auto found =
      std::find_if(held.charges.begin(), held.charges.end(),
                   [&](const auto& charge) { return shared.slot({.key = charge.key}) == slot; });
  return found->key;
}

// What a window's calls used never counts against a later one.
bool is_over(const store::Counter& counter, Instant asked_at, Instant now) {
  const limit::Numbers& numbers = *counter.numbers;
  const std::int64_t end = numbers.algorithm == Algorithm::fixed_window
                               ? limit::window_at(numbers, asked_at).end_ns
                               : asked_at.time_since_epoch().count() + numbers.period_ns;
  return end <= now.time_since_epoch().count();
}

}  // namespace

void Guard::Impl::take_more(const guard::HeldReservation& held, std::uint64_t units,
                            std::function<void(guard::ReservationBook::Taken)> done) {
  using GivenBack = guard::ReservationBook::GivenBack;
  PolicyRef policy = current_.read();
  auto counters = counters_of(held, *policy, store::Op::drain, units);
  const std::shared_ptr<guard::SharedStore> shared = shared_later_.lock();
  const bool once = !held.asked_as.empty() && !counters.empty() && !store_ && shared;
  const Instant now = clock_->now();
  std::uint64_t metered = 0;
  std::uint64_t limits = 0;
  std::size_t over = 0;
  for (std::size_t i = 0, at = 0; i < held.charges.size(); ++i) {
    const guard::HeldReservation::Charge& charge = held.charges[i];
    if (policy->numbers_of(charge.identity, charge.stamp) == nullptr) continue;
    store::Counter& counter = counters[at];
    const std::uint64_t bit = std::uint64_t{1} << at++;
    if (once && is_over(counter, held.asked_at, now)) {
      counter.cost = 0;  // its place stays: the bits go by that
      ++over;
      continue;
    }
    if (charge.shadow) continue;
    limits |= bit;
    if (charge.metered) metered |= bit;
  }
  auto tell = [metered, limits, units, done = std::move(done)](
                  GivenBack how, std::uint64_t carried, std::span<const store::Finding> findings) {
    const bool all = limits != 0 && (limits & ~carried) == 0;
    guard::ReservationBook::Taken taken{.units = units, .charged = all ? units : 0, .how = how};
    for (std::size_t i = 0; i < findings.size(); ++i) {
      const std::uint64_t bit = std::uint64_t{1} << i;
      if ((carried & limits & bit) == 0) continue;
      taken.charged = std::min(taken.charged, findings[i].units);
      if ((metered & bit) != 0) taken.units = std::min(taken.units, findings[i].units);
    }
    done(taken);
  };
  if (!once) {
    carry_out_later(
        std::move(counters), std::move(policy),
        [tell = std::move(tell)](std::uint64_t carried, std::span<const store::Finding> findings) {
          tell(GivenBack::yes, carried, findings);
        });
    return;
  }
  if (over == counters.size()) {
    tell(GivenBack::yes, 0, {});
    return;
  }
  carry_out_once(kTakeMark, held.asked_as, held, std::move(counters), *policy, *shared,
                 std::move(tell));
}

void Guard::Impl::carry_out_later(std::vector<store::Counter> counters, PolicyRef policy,
                                  CarriedOut done) {
  if (counters.empty()) {
    done(0, {});
    return;
  }
  if (store_) {
    std::vector<store::Finding> findings(counters.size());
    const auto outcome = store_->decide(counters, clock_->now(), findings).outcome;
    done(outcome == store::LocalOutcome::decided ? ~std::uint64_t{0} : 0, findings);
    return;
  }
  const std::shared_ptr<guard::SharedStore> shared = shared_later_.lock();
  if (!shared) {
    done(0, {});
    return;
  }
  // Of those that still run, and what they found.
  struct Errands {
    std::mutex mutex;
    std::size_t running = 0;
    std::uint64_t carried = 0;
    std::vector<store::Finding> found;
    CarriedOut done;
  };
  std::vector<guard::InSlot> parts = guard::by_slot(counters, *shared);
  const auto all = std::make_shared<Errands>();
  all->running = parts.size();
  all->found.resize(counters.size());
  all->done = std::move(done);
  for (guard::InSlot& part : parts) {
    auto errand = std::make_unique<guard::LooseErrand>(
        part.counters, policy->loaded_at(part.counters),
        [all, places = std::move(part.places)](const ladder::LadderVerdict& verdict,
                                               std::span<const store::Finding> findings) {
          {
            std::lock_guard lock(all->mutex);
            const std::uint64_t carried = verdict.rung == Rung::store ? 1 : 0;
            for (std::size_t i = 0; i < places.size(); ++i) {
              all->carried |= carried << places[i];
              all->found[places[i]] = findings[i];
            }
            if (--all->running > 0) return;
          }
          all->done(all->carried, all->found);
        });
    guard::LooseErrand::send(std::move(errand), *shared, clock_->mono());
  }
}

void Guard::Impl::give_back(const std::string& id, const guard::HeldReservation& held,
                            std::uint64_t units,
                            std::function<void(guard::ReservationBook::GivenBack)> done) {
  using GivenBack = guard::ReservationBook::GivenBack;
  PolicyRef policy = current_.read();
  auto counters = counters_of(held, *policy, store::Op::refund, units);
  if (counters.size() < held.charges.size()) {
    done = [done = std::move(done)](GivenBack how) {
      done(how == GivenBack::yes ? GivenBack::in_part : how);
    };
  }
  const std::shared_ptr<guard::SharedStore> shared = shared_later_.lock();
  if (counters.empty() || store_ || !shared) {
    // A store of one process is asked once: it does not remember, and seldom fails.
    carry_out_later(
        std::move(counters), std::move(policy),
        [&done](std::uint64_t, std::span<const store::Finding>) { done(GivenBack::yes); });
    return;
  }
  carry_out_once(kReturnMark, id, held, std::move(counters), *policy, *shared,
                 [done = std::move(done)](GivenBack how, std::uint64_t,
                                          std::span<const store::Finding>) { done(how); });
}

// What one slot's mark says was done is not done there again, though another one has to be asked
// again.
void Guard::Impl::carry_out_once(std::uint64_t mark, const std::string& id,
                                 const guard::HeldReservation& held,
                                 std::vector<store::Counter> counters,
                                 const guard::BoundPolicy& policy, guard::SharedStore& shared,
                                 CarriedOnce done) {
  using GivenBack = guard::ReservationBook::GivenBack;
  struct Errands {
    std::mutex mutex;
    std::size_t running = 0;
    bool done_somewhere = false;
    GivenBack how = GivenBack::yes;
    std::uint64_t carried = 0;
    std::vector<store::Finding> found;
    CarriedOnce done;
  };
  std::vector<guard::InSlot> parts = guard::by_slot(counters, shared);
  const auto all = std::make_shared<Errands>();
  all->running = parts.size();
  all->found.resize(counters.size());
  all->done = std::move(done);
  for (guard::InSlot& part : parts) {
    const Instant loaded_at = policy.loaded_at(part.counters);
    std::array<char, policy::KeyWriter::kMaxBesideBytes> room;
    policy::KeyWriter key(room.data(), mark);
    key.beside(policy::KeyWriter::place_of(charged_first(held, part.slot, shared)));
    key.value(id, digester_);
    part.counters.push_back({.numbers = &return_mark_numbers(),
                             .rule = {},
                             .identity = mark,
                             .digest = hasher_(key.view()),
                             .key = key.view(),
                             .cost = 1,
                             .op = store::Op::take,
                             .shadow = false,
                             .generation = static_cast<std::uint32_t>(policy.generation())});
    auto errand = std::make_unique<guard::LooseErrand>(
        part.counters, loaded_at,
        [all, places = std::move(part.places)](const ladder::LadderVerdict& verdict,
                                               std::span<const store::Finding> findings) {
          {
            std::lock_guard lock(all->mutex);
            const bool by_store = verdict.rung == Rung::store;
            // Else it was done before, and nobody knows what was found.
            const bool now = by_store && findings[places.size()].charged;
            for (std::size_t i = 0; now && i < places.size(); ++i) {
              all->carried |= std::uint64_t{1} << places[i];
              all->found[places[i]] = findings[i];
            }
            if (by_store)
              all->done_somewhere = true;
            else if (all->how != GivenBack::unknown)
              all->how = verdict.was_sent ? GivenBack::unknown : GivenBack::no;
            if (--all->running > 0) return;
          }
          // Where one slot has done it, all of it is asked again only while that slot's mark
          // stands.
          const bool no = all->how == GivenBack::no && !all->done_somewhere;
          all->done(no || all->how == GivenBack::yes ? all->how : GivenBack::unknown, all->carried,
                    all->found);
        });
    errand->request.marks = 1;
    errand->stands = true;
    guard::LooseErrand::send(std::move(errand), shared, clock_->mono());
  }
}

}  // namespace weir
