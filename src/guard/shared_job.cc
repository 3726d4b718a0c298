#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "guard/compose.h"
#include "guard/errand.h"
#include "guard/impl.h"
#include "guard/patience.h"
#include "guard/receipt_keys.h"

namespace weir {

namespace {

// How long after its time a waiting caller still expects the store's thread; then it decides by
// itself.
constexpr Nanos kStuckAfter = std::chrono::milliseconds(20);

}  // namespace

// One decision on the shared store, from the asking to the answer. Owns everything that the ask
// points to.
class Guard::Impl::Job : public guard::SharedAsk {
 public:
  Job(Impl& impl, PolicyRef policy, const guard::BoundRoute& route, const CheckOptions& options,
      CallRef call)
      : impl_(impl),
        policy_(std::move(policy)),
        route_(route),
        options_(options),
        call_(std::move(call)),
        begun_(impl.clock_->mono()) {}

  guard::Plan plan;

  void prepare() {
    const policy::Route& route = *route_.route;
    request = {.counters = plan.asked(),
               .cost = options_.cost,
               .when_store_fails = route.when_store_fails,
               .ceiling = route_.ceiling,
               .ceiling_numbers = route.ceiling ? &route.ceiling->numbers : nullptr};
    request.marks = plan.marks;
    if (call_ != nullptr && call_->late) request.late = ~std::uint64_t{0};
    if (impl_.usage_) {
      request.metered = guard::UsageRecorder::metered(plan);
      if (request.metered != 0 && route.overspend) request.overspend = &*route.overspend;
    }
    answer_by = begun_ + guard::patience_of(options_.deadline, impl_.shared_->deadline());
    loaded_at = route_.loaded_at;
  }

  // Puts a verdict into words and counts it.
  Decision word(const ladder::LadderVerdict& verdict, Instant store_now,
                std::span<const store::Finding> found) {
    Decision decision;
    const bool by_a_store = verdict.rung == Rung::store || verdict.rung == Rung::fallback;
    if (verdict.numbers_known) {
      guard::compose(plan, found, store_now, verdict.rung, decision);
      if (by_a_store) {
        impl_.count_shadows(plan, found);
        read_marks(plan, found, decision);
      }
      if (verdict.rung == Rung::store) {
        keep_keys(found, decision);
      } else {
        // Nothing that the first store could give back.
        for (RuleReport& report : decision.rules()) report.charge.units = 0;
      }
    }
    if (!by_a_store || !verdict.numbers_known) {
      decision.verdict = verdict.verdict;
      decision.reason = verdict.reason;
      decision.retry_after = verdict.retry_after;
      decision.rung = verdict.rung;
      decision.decided_at = store_now;
    }
    if (recorded_) name(*recorded_, decision);
    if (!reserves() && !recorded_) impl_.record_admitted(plan, found, options_, decision);
    if (verdict.unenforced) impl_.metrics_.count_unenforced(route_.metrics);
    impl_.settle(decision, *policy_, route_, options_, impl_.clock_->mono() - begun_);
    // Of a key that another request has nothing is known to have been used.
    if (call_ != nullptr && call_->late && !decision.allowed() &&
        decision.reason != Reason::key_reused) {
      guard::charge_rest(plan.drains(), verdict, request.when_store_fails, route_.loaded_at,
                         *impl_.shared_, impl_.clock_->mono());
    }
    return decision;
  }

  // Whether this verdict may be told only once its usage is durable.
  bool must_record(const ladder::LadderVerdict& verdict,
                   std::span<const store::Finding> found) const noexcept {
    if (!impl_.usage_) return false;
    // Whoever it admitted a request for before may have been told no, for a disk that took nothing.
    const bool again = verdict.rung == Rung::fallback && verdict.numbers_known && plan.marks > 0 &&
                       plan.marked(found) == guard::Plan::Marked::replayed;
    if (verdict.verdict != Verdict::allowed && !again) return false;
    if (reserves()) return true;
    // What a fallback store admits is counted; but it is an outage all the same.
    return verdict.record ||
           (verdict.rung == Rung::fallback && request.metered != 0 && options_.cost > 0);
  }
  // Records it; `then` is told, once, in any thread, what became of it, and the reservation.
  using Recorded = guard::UsageRecorder::Recorded;
  using Then = std::function<void(Recorded, std::string)>;
  void record(const ladder::LadderVerdict& verdict, Instant at,
              std::span<const store::Finding> found, Then then) {
    const bool by_store = verdict.rung == Rung::store;
    const guard::UsageRecorder::Usage usage{.metered = request.metered,
                                            .overspent = verdict.overspent,
                                            .cost = options_.cost,
                                            .outage = !by_store,
                                            .at = at,
                                            .rung = verdict.rung};
    if (!reserves()) {
      impl_.usage_->append(plan, usage,
                           [then = std::move(then)](Recorded recorded) { then(recorded, {}); });
      return;
    }
    // What stores charged can be given back.
    const bool counted = by_store || verdict.by_store != 0;
    Decision charged;
    if (counted) guard::compose(plan, found, at, verdict.rung, charged);
    if (!by_store) {
      for (std::size_t i = 0; i < charged.rules().size(); ++i)
        if ((verdict.by_store >> i & 1) == 0) charged.rules()[i].charge.units = 0;
    }
    impl_.usage_->append_reservation(plan, usage, *call_->reserve, counted ? &charged : nullptr,
                                     [then = std::move(then)](std::optional<std::string> id) {
                                       then({id ? Recorded::What::yes : Recorded::What::no},
                                            std::move(id).value_or(""));
                                     });
  }
  // What is told of `verdict`, now that its usage was handed in; in the thread that words it.
  ladder::LadderVerdict after(Recorded recorded, std::string reservation,
                              const std::weak_ptr<guard::SharedStore>& store,
                              const ladder::LadderVerdict& verdict,
                              std::span<store::Finding> findings) {
    recorded_ = recorded;
    if (call_ != nullptr) call_->reservation = std::move(reservation);
    return recorded.what == Recorded::What::yes ? verdict : not_recorded(store, verdict, findings);
  }
  bool reserves() const noexcept { return call_ != nullptr && call_->reserve; }
  // What is told instead of `verdict`, whose usage could not be recorded, with what it took given
  // back. The store is gone where the Guard is going.
  ladder::LadderVerdict not_recorded(const std::weak_ptr<guard::SharedStore>& store,
                                     const ladder::LadderVerdict& verdict,
                                     std::span<store::Finding> findings) const noexcept {
    // What a fallback store took is not ours to give back.
    const auto there = store.lock();
    // What a reservation charged is the book's to give back.
    if (there && verdict.by_store != 0 && !reserves())
      impl_.give_back_charged(plan, findings, verdict.by_store);
    if (!there || !verdict.record) return {.rung = Rung::journal, .retry_after = {}};
    ladder::LadderVerdict served = verdict;
    served.charged_late = give_back_late();
    return there->not_recorded(request, findings, served);
  }
  std::weak_ptr<guard::SharedStore> store() const noexcept { return impl_.shared_; }
  guard::UsageRecorder& usage() const noexcept { return *impl_.usage_; }
  MonoTime now() const noexcept { return impl_.clock_->mono(); }
  // How long a caller waits for the disk.
  Nanos disk_within() const noexcept {
    const MonoTime asked = now();
    return disk_by(asked) - asked;
  }
  // Until when a caller that is there waits for the disk.
  MonoTime disk_by(MonoTime now) const noexcept {
    return options_.deadline ? std::max(begun_ + *options_.deadline, now) + kStuckAfter
                             : now + guard::kDiskHangs;
  }

 protected:
  Impl& impl_;
  PolicyRef policy_;
  const guard::BoundRoute& route_;
  const CheckOptions options_;
  const CallRef call_;
  const MonoTime begun_;

 private:
  // What the store turned out to have charged for it meanwhile; bit i: counters[i]. What it still
  // turns out to have is given back by who hears of it.
  std::uint64_t give_back_late() const {
    if (!late) return 0;
    const std::span<const store::Counter> counters = plan.asked();
    std::array<store::Finding, store::kMaxCounters> found;
    std::uint64_t which = 0;
    for (const guard::LateCharges::Charge& charge : late->withdraw()) {
      const auto at = std::find_if(counters.begin(), counters.end(), [&](const auto& counter) {
        return counter.identity == charge.identity && counter.digest == charge.digest;
      });
      if (at == counters.end()) continue;
      const auto place = static_cast<std::size_t>(at - counters.begin());
      found[place] = charge.found;
      which |= std::uint64_t{1} << place;
    }
    if (which != 0) impl_.give_back_charged(plan, {found.data(), counters.size()}, which);
    return which;
  }
  // A call of the same name came at the same time, and was the one that is recorded.
  static void name(const Recorded& recorded, Decision& decision) noexcept {
    if (recorded.what == Recorded::What::replayed) replay(recorded.rung, decision);
    if (recorded.what == Recorded::What::conflict) conflict(decision);
  }
  void keep_keys(std::span<const store::Finding> found, Decision& decision) {
    for (std::size_t i = 0; i < plan.count; ++i) {
      if (found[i].charged) guard::append_receipt_key(plan.counters[i].key, decision.receipt_keys);
    }
  }

  std::optional<Recorded> recorded_;
};

namespace {

template <class Job>
class CallbackJob final : public Job {
 public:
  template <class... Args>
  explicit CallbackJob(std::function<void(Decision)> done, Args&&... args)
      : Job(std::forward<Args>(args)...), done_(std::move(done)) {}

  void decided(const ladder::LadderVerdict& verdict, Instant store_now) noexcept override {
    if (!this->must_record(verdict, this->findings())) {
      const std::unique_ptr<CallbackJob> self(this);
      tell(verdict, store_now);
      return;
    }
    const std::shared_ptr<CallbackJob> self(this);
    // A wait that is over at once must not undo what is still being recorded.
    const std::lock_guard lock(recording_);
    // Until the disk has it, but no longer than the caller would wait: as recorded() does.
    guard::UsageRecorder& usage = this->usage();
    const auto place =
        usage.waits().begin(this->disk_within(), [self, verdict, store_now, store = this->store()] {
          { const std::lock_guard recorded(self->recording_); }
          self->tell(self->not_recorded(store, verdict, self->findings()), store_now);
        });
    this->record(verdict, store_now, this->findings(),
                 [self, verdict, store_now, place, store = this->store(), &usage](
                     auto recorded, std::string reservation) {
                   if (!usage.waits().end(place)) {
                     using What = guard::UsageRecorder::Recorded::What;
                     if (recorded.what == What::yes) usage.unserved(reservation);
                     return;
                   }
                   self->tell(self->after(recorded, std::move(reservation), store, verdict,
                                          self->findings()),
                              store_now);
                 });
  }
  void answer(Decision decision) { done_(std::move(decision)); }

 private:
  void tell(const ladder::LadderVerdict& verdict, Instant store_now) {
    done_(this->word(verdict, store_now, this->findings()));
  }

  std::function<void(Decision)> done_;
  std::mutex recording_;  // held until what is to be recorded is on its way
};

// A caller waits for the answer, but not longer than its time: then it decides by itself, and the
// answer that comes later finds nobody.
template <class Job>
class WaitedJob final : public Job {
 public:
  using Job::Job;

  void decided(const ladder::LadderVerdict& verdict, Instant store_now) noexcept override {
    std::shared_ptr<WaitedJob> self;
    {
      std::lock_guard lock(mutex_);
      self = std::move(self_);
      if (!left_) {
        verdict_ = verdict;
        store_now_ = store_now;
        done_ = true;
      }
    }
    changed_.notify_one();
  }

  std::optional<guard::SharedAsk::OwnDecision> decided_by_itself() noexcept override {
    std::lock_guard lock(mutex_);
    if (left_) return guard::SharedAsk::OwnDecision{verdict_, own_findings_};
    coming_ = true;
    return std::nullopt;
  }

  // False: the answer did not come until `until`, and will not be looked at. Then `alone` decides,
  // from the findings it is given.
  template <class Alone>
  bool wait_until(MonoTime until, Alone alone) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [&] { return done_ || coming_; });
    if (coming_) changed_.wait(lock, [&] { return done_; });
    if (done_) return true;
    left_ = true;
    own_findings_.resize(this->request.counters.size());
    verdict_ = alone(std::span<store::Finding>(own_findings_));
    if (verdict_.record && !this->late) this->late = std::make_shared<guard::LateCharges>();
    return false;
  }
  void hold(std::shared_ptr<WaitedJob> self) { self_ = std::move(self); }
  const ladder::LadderVerdict& verdict() const { return verdict_; }
  Instant store_now() const { return store_now_; }
  std::span<store::Finding> own_findings() { return own_findings_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<WaitedJob> self_;  // until decided()
  bool done_ = false;
  bool coming_ = false;  // decided() is about to be called
  bool left_ = false;
  std::vector<store::Finding> own_findings_;
  ladder::LadderVerdict verdict_;
  Instant store_now_{};
};

// Waits for the disk: an answer that came before its usage was durable could be lost with it. But
// no longer than the caller would: then the call is not served, and what turns out to be recorded
// of it all the same is counted; of a reservation nobody will use anything.
template <class Job>
ladder::LadderVerdict recorded(const std::shared_ptr<Job>& job,
                               const ladder::LadderVerdict& verdict, Instant at,
                               std::span<store::Finding> findings, MonoTime until) {
  using Recorded = guard::UsageRecorder::Recorded;
  struct Told {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Recorded> recorded;
    std::string reservation;
    bool left = false;
  };
  const auto told = std::make_shared<Told>();
  job->record(verdict, at, findings,
              [told, &usage = job->usage()](Recorded recorded, std::string reservation) {
                std::unique_lock lock(told->mutex);
                told->recorded = recorded;
                told->reservation = reservation;
                const bool unserved = told->left && recorded.what == Recorded::What::yes;
                told->changed.notify_one();
                lock.unlock();
                if (unserved) usage.unserved(reservation);
              });
  std::unique_lock lock(told->mutex);
  told->changed.wait_until(lock, until, [&] { return told->recorded.has_value(); });
  told->left = !told->recorded;
  if (told->left) return job->not_recorded(job->store(), verdict, findings);
  return job->after(*told->recorded, std::move(told->reservation), job->store(), verdict, findings);
}

}  // namespace

Decision Guard::Impl::decide_shared(PolicyRef policy, const guard::BoundRoute& route,
                                    const guard::Values& values, const CheckOptions& options,
                                    const CallRef& call) noexcept {
  const guard::BoundPolicy& bound = *policy;
  auto job = std::make_shared<WaitedJob<Job>>(*this, std::move(policy), route, options, call);
  const guard::Plan::Outcome outcome =
      job->plan.make(route, bound, values, options.cost, hasher_, digester_);
  Decision decision;
  if (!needs_asking(outcome, job->plan, route, decision) ||
      !begin_call(job->plan, options, call.get(), decision) ||
      !can_record(job->plan, options, decision)) {
    settle(decision, bound, route, options, std::nullopt);
    return decision;
  }
  job->prepare();
  if (shared_->in_its_thread() || (usage_ && usage_->in_its_thread())) {
    // Nobody would answer while it waits: the store's thread is the one that hears the store, the
    // journal's the one that hears the disk.
    const std::span<store::Finding> findings = job->findings();
    ladder::LadderVerdict verdict = shared_->decide_without(job->request, findings);
    // What it took of its part, or beyond it, goes back: it is not told yes.
    if (job->must_record(verdict, findings))
      verdict = job->not_recorded(job->store(), verdict, findings);
    return job->word(verdict, shared_->moment().store, findings);
  }
  job->hold(job);
  shared_->decide(*job);
  const bool came =
      job->wait_until(job->answer_by + kStuckAfter, [&](std::span<store::Finding> findings) {
        return shared_->decide_without(job->request, findings);
      });
  const Instant at = came ? job->store_now() : shared_->moment().store;
  const std::span<store::Finding> findings = came ? job->findings() : job->own_findings();
  const ladder::LadderVerdict verdict =
      job->must_record(job->verdict(), findings)
          ? recorded(job, job->verdict(), at, findings, job->disk_by(clock_->mono()))
          : job->verdict();
  return job->word(verdict, at, findings);
}

void Guard::Impl::decide_async(PolicyRef policy, const guard::BoundRoute& route,
                               const guard::Values& values, const CheckOptions& options,
                               std::function<void(Decision)> done, const CallRef& call) noexcept {
  if (!shared_) {
    decide_local_async(std::move(policy), route, values, options, std::move(done), call);
    return;
  }
  const guard::BoundPolicy& bound = *policy;
  auto job = std::make_unique<CallbackJob<Job>>(std::move(done), *this, std::move(policy), route,
                                                options, call);
  const guard::Plan::Outcome outcome =
      job->plan.make(route, bound, values, options.cost, hasher_, digester_);
  Decision decision;
  if (!needs_asking(outcome, job->plan, route, decision) ||
      !begin_call(job->plan, options, call.get(), decision) ||
      !can_record(job->plan, options, decision)) {
    settle(decision, bound, route, options, std::nullopt);
    job->answer(std::move(decision));
    return;
  }
  job->prepare();
  shared_->decide(*job.release());
}

// The disk keeps nobody's event loop waiting: a reservation is answered when it is there.
void Guard::Impl::decide_local_async(PolicyRef policy, const guard::BoundRoute& route,
                                     const guard::Values& values, CheckOptions options,
                                     std::function<void(Decision)> done,
                                     const CallRef& call) noexcept {
  if (call == nullptr || !call->reserve) {
    done(decide(std::move(policy), route, values, options, call));
    return;
  }
  guard::Plan plan;
  const guard::Plan::Outcome outcome =
      plan.make(route, *policy, values, options.cost, hasher_, digester_);
  Decision decision;
  const bool reserves = needs_asking(outcome, plan, route, decision) &&
                        ask_local_metered(plan, options, call.get(), decision);
  const auto held = std::make_shared<PolicyRef>(std::move(policy));
  const auto tell = [this, held, &route, options, done = std::move(done)](Decision decided) {
    settle(decided, **held, route, options, std::nullopt);
    done(std::move(decided));
  };
  if (!reserves) {
    tell(std::move(decision));
    return;
  }
  // Of its own: who leaves must not share what comes later.
  const auto later = std::make_shared<guard::MeteredCall>(*call);
  const auto place =
      usage_->waits().begin(options.deadline.value_or(guard::kDiskHangs) + kStuckAfter,
                            [tell, cost = options.cost] { tell(refused_by_journal(cost)); });
  reserve_local(plan, options, later, decision, [this, tell, call, later, place](Decision decided) {
    if (usage_->waits().end(place)) {
      call->reservation = later->reservation;
      tell(std::move(decided));
    } else if (decided.allowed()) {
      usage_->unserved(later->reservation);
    }
  });
}

Decision Guard::Impl::reserved_in_time(const guard::Plan& plan, const CheckOptions& options,
                                       const CallRef& call, const Decision& admitted) {
  struct Told {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Decision> decision;
    bool left = false;
  };
  const auto told = std::make_shared<Told>();
  Decision late;
  late.reason = Reason::store_unavailable;
  late.rung = Rung::journal;
  // Of its own: who leaves must not share what comes later.
  const auto later = std::make_shared<guard::MeteredCall>(*call);
  const bool waits = !usage_->in_its_thread();
  reserve_local(plan, options, later, admitted, [this, told, later](Decision decision) {
    std::unique_lock lock(told->mutex);
    const bool unserved = told->left && decision.allowed();
    told->decision = std::move(decision);
    told->changed.notify_one();
    lock.unlock();
    if (unserved) usage_->unserved(later->reservation);
  });
  std::unique_lock lock(told->mutex);
  if (waits) {
    told->changed.wait_for(lock, options.deadline.value_or(guard::kDiskHangs) + kStuckAfter,
                           [&] { return told->decision.has_value(); });
  }
  told->left = !told->decision;
  if (told->left) return late;
  call->reservation = later->reservation;
  return *told->decision;
}

Guard::Impl::Carried Guard::Impl::carry_out(std::span<const store::Counter> counters) noexcept {
  if (!shared_) {
    std::array<store::Finding, store::kMaxCounters> findings;
    const auto outcome =
        store_->decide(counters, clock_->now(), {findings.data(), counters.size()}).outcome;
    return outcome == store::LocalOutcome::unavailable ? Carried::no : Carried::yes;
  }
  auto errand =
      std::make_shared<WaitedJob<guard::Errand>>(counters, current_.read()->loaded_at(counters));
  errand->answer_by = clock_->mono() + shared_->deadline();
  errand->hold(errand);
  shared_->decide(*errand);
  if (shared_->in_its_thread()) return Carried::perhaps;  // nobody would answer while it waits
  const bool came =
      errand->wait_until(errand->answer_by + kStuckAfter,
                         [](std::span<store::Finding>) { return ladder::LadderVerdict{}; });
  if (!came) return Carried::perhaps;
  const ladder::LadderVerdict& verdict = errand->verdict();
  if (verdict.rung == Rung::store) return Carried::yes;
  return verdict.was_sent ? Carried::perhaps : Carried::no;
}

void Guard::Impl::check_async(std::string_view name, const guard::Values& values,
                              const CheckOptions& options, std::function<void(Decision)> done,
                              const CallRef& call) {
  PolicyRef policy = current_.read();
  const guard::BoundRoute* route = policy->find(name);
  if (route == nullptr) {
    done(check(name, values, options, call));
    return;
  }
  decide_async(std::move(policy), *route, values, options, std::move(done), call);
}

}  // namespace weir
