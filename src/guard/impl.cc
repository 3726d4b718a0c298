#include "guard/impl.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "guard/compose.h"
#include "guard/fleet_hasher.h"
#include "guard/openable.h"
#include "guard/receipt_keys.h"
#include "policy/envoy/name_trial.h"
#include "policy/http_view.h"
#include "policy/match.h"
#include "policy/store_change.h"
#include "render/status.h"
#include "store/custom_store.h"
#include "store/memory/memory_store.h"

namespace weir {
namespace {

// One decision in so many is timed: two clock readings cost a third of a decision.
constexpr std::uint32_t kTimedOneIn = 64;

bool timed() noexcept {
  thread_local std::uint32_t turn = 0;
  return ++turn % kTimedOneIn == 0;
}

// Values that an HTTP request carries.
class RequestValues final : public guard::Values {
 public:
  explicit RequestValues(policy::HttpView& view) : view_(view) {}
  std::string_view value(const policy::Source& source) const noexcept override {
    return view_.value(source);
  }
  std::string_view fault() const noexcept override {
    if (!view_.overflowed()) return {};
    return "the values that the route counts by are together above 16 KiB";
  }

 private:
  policy::HttpView& view_;
};

// A block holds without asking anybody, and a known denial is the store's own.
bool without_store(const Decision& decision) noexcept {
  return decision.rung != Rung::store && decision.rung != Rung::known &&
         decision.reason != Reason::blocked && render::degraded(decision);
}

Decision refused(Reason reason, std::string_view route, std::uint64_t cost) {
  Decision decision;
  decision.reason = reason;
  decision.route = route;
  decision.cost = cost;
  return decision;
}

Decision admitted(Reason reason, std::string_view route, std::uint64_t cost) {
  Decision decision = refused(reason, route, cost);
  decision.verdict = Verdict::allowed;
  return decision;
}

Result<Guard::Impl::Stores> open_store(const policy::Model& model, std::unique_ptr<Store> own) {
  Guard::Impl::Stores stores;
  if (own) {
    stores.local = std::make_unique<store::CustomStore>(std::move(own));
  } else if (!model.store.url.starts_with("memory:")) {
    stores.shared = true;
  } else {
    auto memory = store::MemoryStore::open({.max_keys = model.store.memory_keys});
    if (!memory) return memory.error();
    stores.local = std::move(*memory);
  }
  return stores;
}

CounterHasher counter_hasher(const policy::Model& model, bool shared) {
  return shared ? guard::fleet_hasher(model.store.prefix) : CounterHasher::of_process();
}

// Of kinds of counters that a store has not kept before.
std::vector<policy::NameTrial> new_names(const policy::Model& next, const policy::Model& before) {
  std::vector<policy::NameTrial> names = policy::name_trials(next);
  const std::vector<policy::NameTrial> known = policy::name_trials(before);
  std::erase_if(names, [&](const policy::NameTrial& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  });
  return names;
}

bool same_journal(const policy::Model& a, const policy::Model& b) {
  if (!a.journal || !b.journal) return a.journal.has_value() == b.journal.has_value();
  return a.journal->folder == b.journal->folder && a.journal->max_bytes == b.journal->max_bytes &&
         a.journal->within == b.journal->within && a.journal->ledger == b.journal->ledger;
}

}  // namespace

Result<Guard> Guard::open(Policy policy, GuardOptions options) {
  auto stores = open_store(policy.model(), std::move(options.store));
  if (!stores) return stores.error();
  const bool shared = stores->shared;
  if (auto fits = guard::check_keys(policy.model(), shared); !fits) return fits.error();
  auto impl = std::make_unique<Impl>(std::move(policy), options, std::move(*stores));
  if (options.role == FleetRole::worker) {
    if (auto opened = impl->open_journal(); !opened) return opened.error();
  }
  if (shared) {
    if (auto opened = impl->open_shared(options.role); !opened) return opened.error();
  }
  impl->resume_usage();
  return Guard(std::move(impl));
}

Guard::Impl::Impl(Policy policy, const GuardOptions& options, Stores stores)
    : clock_(options.clock != nullptr ? options.clock : &Clock::real()),
      observer_(options.observer),
      hasher_(counter_hasher(policy.model(), stores.shared)),
      digester_(ValueDigester::from_text(policy.model().store.prefix)),
      store_(std::move(stores.local)),
      safeguards_(policy.model(), *clock_,
                  observer_ != nullptr
                      ? BreakerListener([observer = observer_](const BreakerEvent& event) {
                          observer->on_breaker_event(event);
                        })
                      : BreakerListener()),
      current_(std::make_unique<guard::BoundPolicy>(std::move(policy), 1, names_, metrics_,
                                                    ceilings_, clock_->now(), nullptr)) {
  metrics_.set_policy_generation(1);
  metrics_.add_source([this](render::Exposition& out) { safeguards_.write_metrics(out); });
  metrics_.read_known_keys_from([this]() -> std::uint64_t {
    if (store_) return store_->keys();
    return shared_ ? shared_->known_keys() : 0;
  });
}

// The store decides what is still asked, which may hand the journal usage; the journal then writes
// what it has, and whoever waits for it hears.
Guard::Impl::~Impl() {
  (void)close();
}

std::uint64_t Guard::Impl::close() noexcept {
  safeguards_.share(nullptr, nullptr);
  // Callbacks that ask again find both here, closed, until nobody is left to be told anything.
  if (shared_) shared_->close();
  const std::uint64_t lost = usage_ ? usage_->close() : 0;
  usage_.reset();
  shared_.reset();
  return lost;
}

Result<void> Guard::Impl::open_shared(FleetRole role) {
  auto shared =
      guard::SharedStore::open(current_.read()->model(), *clock_, metrics_, observer_, role);
  if (!shared) return shared.error();
  shared_ = std::move(*shared);
  safeguards_.share(shared_->circuits(), shared_->leases());
  return {};
}

Result<void> Guard::Impl::open_journal() {
  const PolicyRef policy = current_.read();
  if (auto fits = guard::check_openable(policy->model()); !fits) return fits;
  const auto& spec = policy->model().journal;
  if (!spec) return {};
  auto usage = guard::UsageRecorder::open(*spec, *clock_, metrics_, observer_);
  if (!usage) return usage.error();
  usage_ = std::move(*usage);
  return {};
}

Decision Guard::Impl::check(std::string_view name, const guard::Values& values,
                            const CheckOptions& options, const CallRef& call) noexcept {
  PolicyRef policy = current_.read();
  const guard::BoundRoute* route = policy->find(name);
  if (route == nullptr) {
    Decision decision = refused(Reason::unknown_route, {}, options.cost);
    tell(decision, render::Metrics::kNoRoute);
    return decision;
  }
  return decide(std::move(policy), *route, values, options, call);
}

Decision Guard::Impl::check_request(const HttpRequest& request, const CheckOptions& options,
                                    const CallRef& call) noexcept {
  PolicyRef policy = current_.read();
  const policy::Model& model = policy->model();
  policy::HttpView view;
  if (const policy::HttpView::State state = view.take(request, model);
      state != policy::HttpView::State::ready) {
    return refuse_invalid(policy::to_string(state), {}, options.cost, render::Metrics::kNoRoute);
  }
  const auto found = model.matcher->by_request(view.method(), view.host(), view.path());
  if (found) {
    const guard::BoundRoute& route = policy->at(*found);
    return decide(std::move(policy), route, RequestValues(view), options, call);
  }
  return decide_unmatched(options.cost);
}

void Guard::Impl::check_request_async(const HttpRequest& request, const CheckOptions& options,
                                      std::function<void(Decision)> done, const CallRef& call) {
  if (!shared_ && !(call && call->reserve)) {
    done(check_request(request, options, call));
    return;
  }
  PolicyRef policy = current_.read();
  const policy::Model& model = policy->model();
  policy::HttpView view;
  const bool ready = view.take(request, model) == policy::HttpView::State::ready;
  const auto found =
      ready ? model.matcher->by_request(view.method(), view.host(), view.path()) : std::nullopt;
  if (!found) {
    done(check_request(request, options));
    return;
  }
  const guard::BoundRoute& route = policy->at(*found);
  decide_async(std::move(policy), route, RequestValues(view), options, std::move(done), call);
}

Decision Guard::Impl::decide_unmatched(std::uint64_t cost) noexcept {
  metrics_.count_unmatched();
  const bool allow = current_.read()->model().unmatched == policy::Unmatched::allow;
  Decision decision =
      allow ? admitted(Reason::no_limit, {}, cost) : refused(Reason::unmatched_request, {}, cost);
  tell(decision, render::Metrics::kNoRoute);
  return decision;
}

Decision Guard::Impl::refuse_invalid(std::string_view fault, std::string_view route,
                                     std::uint64_t cost, render::Metrics::RouteSlot slot) noexcept {
  Decision decision = refused(Reason::invalid_request, route, cost);
  decision.fault = fault;
  tell(decision, slot);
  return decision;
}

Decision Guard::Impl::decide(PolicyRef policy, const guard::BoundRoute& route,
                             const guard::Values& values, const CheckOptions& options,
                             const CallRef& call) noexcept {
  if (shared_) return decide_shared(std::move(policy), route, values, options, call);
  return decide_local(*policy, route, values, options, call);
}

// Returns in one place, so that the decision is made where the caller wants it: moving it costs as
// much as finding it.
Decision Guard::Impl::decide_local(const guard::BoundPolicy& policy, const guard::BoundRoute& route,
                                   const guard::Values& values, const CheckOptions& options,
                                   const CallRef& call) noexcept {
  const bool timing = timed();
  const MonoTime begun = timing ? clock_->mono() : MonoTime{};
  guard::Plan plan;
  const guard::Plan::Outcome outcome =
      plan.make(route, policy, values, options.cost, hasher_, digester_);
  Decision decision;
  const bool whole = outcome == guard::Plan::Outcome::ready && plan.absent == 0;
  if (whole || needs_asking(outcome, plan, route, decision)) {
    if (call == nullptr && !usage_) [[likely]] {
      LocalFindings findings;
      ask_local(plan, decision, findings);
    } else if (ask_local_metered(plan, options, call.get(), decision)) {
      decision = reserved_in_time(plan, options, call, decision);
    }
    if (call != nullptr && call->late) charge_rest(plan, decision);
  }
  std::optional<Nanos> took;
  if (timing) took = clock_->mono() - begun;
  settle(decision, policy, route, options, took);
  return decision;
}

void Guard::Impl::charge_rest(const guard::Plan& plan, const Decision& decision) noexcept {
  if (decision.verdict != Verdict::limited || decision.rung != Rung::store) return;
  const std::vector<store::Counter> drains = plan.drains();
  std::array<store::Finding, guard::kMaxRules> found;
  (void)store_->decide(drains, clock_->now(), std::span(found).first(drains.size()));
}

bool Guard::Impl::ask_local_metered(guard::Plan& plan, const CheckOptions& options,
                                    guard::MeteredCall* call, Decision& decision) noexcept {
  if (!begin_call(plan, options, call, decision) || !can_record(plan, options, decision))
    return false;
  LocalFindings findings;
  ask_local(plan, decision, findings);
  if (call != nullptr && call->reserve) return decision.allowed() && decision.rung == Rung::store;
  record_admitted(plan, findings.all, options, decision);
  return false;
}

bool Guard::Impl::needs_asking(guard::Plan::Outcome outcome, const guard::Plan& plan,
                               const guard::BoundRoute& route, Decision& decision) noexcept {
  for (std::size_t i = 0; i < plan.absent; ++i) metrics_.count_absent(route.metrics);
  switch (outcome) {
    case guard::Plan::Outcome::missing_value:
      decision.reason = Reason::missing_value;
      decision.fault = plan.lacking;
      decision.add(guard::unasked(*plan.strict));
      return false;
    case guard::Plan::Outcome::unreadable:
      decision.reason = Reason::invalid_request;
      decision.fault = plan.fault;
      return false;
    case guard::Plan::Outcome::nothing_applies:
      decision.verdict = Verdict::allowed;
      decision.reason = Reason::no_limit;
      return false;
    case guard::Plan::Outcome::ready:
      return true;
  }
  return true;
}

void Guard::Impl::settle(Decision& decision, const guard::BoundPolicy& policy,
                         const guard::BoundRoute& route, const CheckOptions& options,
                         const std::optional<Nanos>& took) noexcept {
  decision.route = route.name;
  decision.cost = options.cost;
  decision.profiles = policy.model().header_profiles;
  tell(decision, route.metrics, took);
}

std::uint64_t Guard::Impl::metered_always(const guard::Plan& plan,
                                          const CheckOptions& options) const noexcept {
  if (!usage_ || options.cost == 0 || !plan.route->route->journal_always) return 0;
  return guard::UsageRecorder::metered(plan);
}

bool Guard::Impl::can_record(const guard::Plan& plan, const CheckOptions& options,
                             Decision& decision) noexcept {
  if (metered_always(plan, options) == 0 || usage_->has_room()) return true;
  decision = refused(Reason::store_unavailable, {}, options.cost);
  decision.rung = Rung::journal;
  return false;
}

void Guard::Impl::ask_local(const guard::Plan& plan, Decision& decision,
                            LocalFindings& found) noexcept {
  // Their memory comes while the reports are begun and the clock is read.
  store_->expect(plan.asked());
  found.all = found.room.construct_first(plan.count + plan.marks);
  const std::span<store::Finding> findings = found.all;
  guard::outline(plan, decision);
  const Instant now = clock_->now();
  const store::LocalAnswer answer = store_->decide(plan.asked(), now, findings);
  switch (answer.outcome) {
    case store::LocalOutcome::decided:
      guard::fill_in(plan, findings, now, Rung::store, decision);
      if (plan.shadows) count_shadows(plan, findings);
      if (plan.marks != 0) read_marks(plan, findings, decision);
      return;
    case store::LocalOutcome::exhausted:
      decision = Decision();
      decision.verdict = Verdict::refused;
      decision.reason = Reason::keys_exhausted;
      return;
    case store::LocalOutcome::unavailable:
      decision = Decision();
      by_policy(plan, decision);
      return;
  }
}

void Guard::Impl::count_shadows(const guard::Plan& plan,
                                std::span<const store::Finding> findings) noexcept {
  for (std::size_t i = 0; i < plan.count; ++i) {
    if (!plan.counters[i].shadow) continue;
    metrics_.count_shadow(plan.route->metrics, findings[i].step.outcome == limit::Outcome::allowed);
  }
}

// A store of the caller's own could not decide. One process cannot tell its part from the whole, so
// bounded and settle are as strict as closed here: nobody may be let through uncounted unless the
// route says open.
void Guard::Impl::by_policy(const guard::Plan& plan, Decision& decision) noexcept {
  decision.rung = Rung::policy;
  decision.reason = Reason::store_unavailable;
  decision.verdict = Verdict::refused;
  const policy::Route& route = *plan.route->route;
  if (route.when_store_fails != FailurePolicy::open) return;
  if (route.ceiling) {
    const limit::Step step =
        plan.route->ceiling->take(route.ceiling->numbers, clock_->now(), plan.counters[0].cost);
    if (step.outcome != limit::Outcome::allowed) {
      decision.reason = Reason::over_ceiling;
      if (step.outcome == limit::Outcome::limited)
        decision.retry_after = Nanos(step.retry_after_ns);
      return;
    }
  }
  decision.verdict = Verdict::allowed;
  metrics_.count_unenforced(plan.route->metrics);
}

void Guard::Impl::tell(const Decision& decision, render::Metrics::RouteSlot route,
                       const std::optional<Nanos>& took) noexcept {
  if (took) {
    metrics_.record(route, decision.verdict, decision.rung, *took);
  } else {
    metrics_.record(route, decision.verdict, decision.rung);
  }
  if (without_store(decision)) metrics_.count_degraded(route, decision.rung, clock_->mono());
  if (observer_ != nullptr) observer_->on_decision(decision);
}

Result<void> Guard::Impl::refund(const Decision& decision) {
  const PolicyRef policy = current_.read();
  std::array<store::Counter, guard::kMaxRules> counters;
  std::size_t count = 0;
  std::string_view keys = decision.receipt_keys;
  for (const RuleReport& report : decision.rules()) {
    if (report.charge.units == 0 || count == guard::kMaxRules) continue;
    const std::string_view key = guard::take_receipt_key(keys);
    const limit::Numbers* numbers = policy->numbers_of(report.charge.identity, report.charge.stamp);
    if (numbers == nullptr) continue;  // the rule is gone, and its counters with it
    counters[count++] = {.numbers = numbers,
                         .rule = report.rule,
                         .identity = report.charge.identity,
                         .digest = {report.charge.key_hi, report.charge.key_lo},
                         .key = key,
                         .cost = report.charge.units,
                         .op = store::Op::refund,
                         .generation = static_cast<std::uint32_t>(policy->generation()),
                         .receipt = report.charge.receipt};
  }
  if (count == 0) return {};
  switch (carry_out({counters.data(), count})) {
    case Carried::yes:
      return {};
    case Carried::no:
      return Error{ErrorCode::unavailable,
                   "refund: the store cannot be asked; nothing was given back"};
    case Carried::perhaps:
      break;
  }
  return Error{ErrorCode::unavailable,
               "refund: the store did not answer in time, and may have given it back; refunding it "
               "again may give it back twice"};
}

Result<void> Guard::Impl::reset(std::string_view name, const guard::Values& values) {
  const PolicyRef policy = current_.read();
  const guard::BoundRoute* route = policy->find(name);
  if (route == nullptr) {
    return Error{ErrorCode::not_found,
                 "reset: no route '" + std::string(name) + "' in the policy, and no default"};
  }
  guard::Plan plan;
  const guard::Plan::Outcome outcome = plan.make(*route, *policy, values, 0, hasher_, digester_);
  if (outcome == guard::Plan::Outcome::missing_value) {
    return Error{ErrorCode::invalid_argument,
                 "reset: '" + std::string(plan.strict->name) + "' of route '" + std::string(name) +
                     "' needs a value of " + std::string(plan.lacking)};
  }
  if (outcome == guard::Plan::Outcome::unreadable)
    return Error{ErrorCode::invalid_argument, "reset: " + std::string(plan.fault)};
  for (std::size_t i = 0; i < plan.count; ++i) plan.counters[i].op = store::Op::reset;
  switch (plan.count > 0 ? carry_out(plan.asked()) : Carried::yes) {
    case Carried::yes:
      return {};
    case Carried::no:
      return Error{ErrorCode::unavailable, "reset: the store cannot be asked; nothing was reset"};
    case Carried::perhaps:
      break;
  }
  return Error{ErrorCode::unavailable,
               "reset: the store did not answer in time, and may have reset it; it may be reset "
               "again"};
}

Result<Guard::Impl::LimitOf> Guard::Impl::limit_of(std::string_view name,
                                                   std::span<const Descriptor> descriptors) const {
  auto limit = safeguards_.limit(name);
  if (!limit) return limit.error();
  auto key = guard::Safeguards::key(name, **limit, descriptors, digester_);
  if (!key) return key.error();
  const bool by_fleet = (*limit)->shared && shared_ && shared_->leases() != nullptr;
  LimitOf out{.limit = *std::move(limit), .shared = nullptr, .counter = {}};
  if (by_fleet) out.shared = out.limit->shared;
  out.counter = {*std::move(key), {}};
  if (by_fleet) out.counter.digest = hasher_(out.counter.key);
  return out;
}

Result<std::uint64_t> Guard::Impl::replace(Policy policy, Nanos patience,
                                           std::vector<Breaker>& touched) {
  std::lock_guard lock(reloading_);
  std::string refused;
  for (const std::string& field :
       policy::changed_fields(current_.read()->model().store, policy.model().store)) {
    refused += field + ": a reload cannot change it; put it back, or restart to change it\n";
  }
  if (!same_journal(current_.read()->model(), policy.model())) {
    refused += "journal: a reload cannot move or change it; put it back, or restart to change it\n";
  }
  if (!refused.empty()) {
    refused.pop_back();
    return Error{ErrorCode::failed_precondition, std::move(refused)};
  }
  if (auto fits = guard::check_openable(policy.model()); !fits) return fits.error();
  // Names that the store does not let it keep would make of it one that is away, for all limits.
  if (auto names = new_names(policy.model(), current_.read()->model()); shared_ && !names.empty()) {
    if (auto objection = shared_->objection_to(std::move(names))) {
      return Error{ErrorCode::failed_precondition, "rls.keys: the store objects: " + *objection};
    }
  }
  touched = safeguards_.apply(policy.model());
  std::uint64_t next = 0;
  std::unique_ptr<guard::BoundPolicy> bound;
  std::optional<std::vector<policy::NameTrial>> other_names = policy::name_trials(policy.model());
  {
    // Whoever publishes waits for those who still read what was before.
    const PolicyRef before = current_.read();
    if (other_names == policy::name_trials(before->model())) other_names.reset();
    next = before->generation() + 1;
    bound = std::make_unique<guard::BoundPolicy>(std::move(policy), next, names_, metrics_,
                                                 ceilings_, clock_->now(), before.get());
  }
  current_.publish(std::move(bound), patience);
  if (shared_ && other_names) shared_->try_names(*std::move(other_names));
  metrics_.set_policy_generation(next);
  return next;
}

Result<void> Guard::Impl::reload(Policy policy, Nanos patience) {
  std::vector<Breaker> touched;
  const Result<std::uint64_t> loaded = replace(std::move(policy), patience, touched);
  guard::Safeguards::deliver(touched);
  if (observer_ != nullptr) {
    if (loaded) {
      observer_->on_policy_loaded(*loaded);
    } else {
      observer_->on_policy_rejected(loaded.error().message);
    }
  }
  if (!loaded) return loaded.error();
  return {};
}

}  // namespace weir
