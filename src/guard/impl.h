#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/name_pool.h"
#include "base/snapshot.h"
#include "guard/bound_policy.h"
#include "guard/metered_call.h"
#include "guard/plan.h"
#include "guard/safeguards.h"
#include "guard/shared_store.h"
#include "guard/usage_recorder.h"
#include "render/metrics.h"
#include "store/local_store.h"
#include "weir/guard.h"

namespace weir {

// The facade's inside: what doors of this repository may reach besides the public Guard.
class Guard::Impl {
 public:
  // What decides: one of the two.
  struct Stores {
    std::unique_ptr<store::LocalStore> local;
    bool shared = false;  // the policy names a server: see open_shared()
  };
  Impl(Policy policy, const GuardOptions& options, Stores stores);
  Result<void> open_shared(FleetRole role);
  // Records the usage of metered rules from now on, where the policy names a journal.
  Result<void> open_journal();
  // What an earlier process left in the journal counts again, and reservations expire from now on.
  // After the store was opened.
  void resume_usage();
  // Records usage by this one from now on, and reserves nothing: of a simulation.
  void record_by(std::unique_ptr<guard::UsageRecorder> usage) { usage_ = std::move(usage); }
  // What an earlier process served beyond its part counts again.
  void resume_overspend();
  void resume_reservations();
  // Decides by this one from now on: of a simulation, before the first decision.
  void share(std::unique_ptr<guard::SharedStore> store) {
    shared_ = std::move(store);
    safeguards_.share(shared_->circuits(), shared_->leases());
  }
  ~Impl();
  // What the end of it does, before the end: decides whatever waits, and returns how many usage
  // events of served calls could not be recorded. Nothing is asked afterwards.
  std::uint64_t close() noexcept;

  using PolicyRef = SnapshotCell<guard::BoundPolicy>::Ref;
  PolicyRef policy() const noexcept { return current_.read(); }

  // What goes with a call of a metered route, and comes back with its decision; null: nothing.
  using CallRef = std::shared_ptr<guard::MeteredCall>;

  Decision check(std::string_view route, const guard::Values& values, const CheckOptions& options,
                 const CallRef& call = {}) noexcept;
  Decision check_request(const HttpRequest& request, const CheckOptions& options,
                         const CallRef& call = {}) noexcept;
  void check_async(std::string_view route, const guard::Values& values, const CheckOptions& options,
                   std::function<void(Decision)> done, const CallRef& call = {});
  void check_request_async(const HttpRequest& request, const CheckOptions& options,
                           std::function<void(Decision)> done, const CallRef& call = {});
  // Whether late reports of this route's work are recorded: it meters, and there is a journal.
  bool meters(const guard::BoundRoute& route) const noexcept;
  // Work on a route that is over and used so many units, which nobody asked about before: it is
  // recorded, and taken from what the limits have left. Never limited: the work is done. Refused
  // where it cannot even be kept.
  void report_async(std::string_view route, const guard::Values& values, std::uint64_t units,
                    std::function<void(Decision)> done);
  // The same of work that was reserved: settles it.
  void settle_report_async(std::string_view route, std::string_view reservation,
                           std::uint64_t units, std::function<void(Decision)> done);
  // What a request is answered that no route is for: as `unmatched` says, and counted.
  Decision decide_unmatched(std::uint64_t cost) noexcept;
  // What a request is answered that no reading of would be safe; counted under its route.
  // `fault` says what is wrong with it, and is kept as it is: a literal.
  Decision refuse_invalid(std::string_view fault, std::string_view route, std::uint64_t cost,
                          render::Metrics::RouteSlot slot) noexcept;
  // Counts a decision that was made outside, and tells the observer; comes once for each.
  void told(const Decision& decision, render::Metrics::RouteSlot slot,
            const std::optional<Nanos>& took = {}) noexcept {
    tell(decision, slot, took);
  }
  Result<void> refund(const Decision& decision);
  Result<void> reset(std::string_view route, const guard::Values& values);
  // `patience`: for calls under way, which read the policy that was; see SnapshotCell::publish().
  Result<void> reload(Policy policy, Nanos patience = SnapshotCell<guard::BoundPolicy>::kPatience);

  render::Metrics& metrics() noexcept { return metrics_; }
  Clock& clock() noexcept { return *clock_; }
  // The embedded store, or one of the caller's own; null on a shared one.
  store::LocalStore* local() noexcept { return store_.get(); }
  // Null on the embedded store, or one of the caller's own.
  guard::SharedStore* shared() noexcept { return shared_.get(); }
  // Null where no usage is recorded.
  const guard::UsageRecorder* usage() const noexcept { return usage_.get(); }
  guard::UsageRecorder* usage() noexcept { return usage_.get(); }
  guard::Safeguards& safeguards() noexcept { return safeguards_; }
  // A concurrency limit, and which of its counters these values are.
  struct LimitOf {
    std::shared_ptr<guard::Safeguards::Limit> limit;
    std::shared_ptr<guard::SharedLimit> shared;  // null: it is this process's own
    guard::SharedLimit::Counter counter;
  };
  // A lease of it, awaited.
  LeaseAnswer lease_now(const LimitOf& of, const LeaseRequest& request);
  Result<LimitOf> limit_of(std::string_view name, std::span<const Descriptor> descriptors) const;
  const CounterHasher& hasher() const noexcept { return hasher_; }
  const ValueDigester& digester() const noexcept { return digester_; }

 private:
  // Options and times go by reference: what is copied just after it was written is waited for.
  Decision decide(PolicyRef policy, const guard::BoundRoute& route, const guard::Values& values,
                  const CheckOptions& options, const CallRef& call) noexcept;
  Decision decide_local(const guard::BoundPolicy& policy, const guard::BoundRoute& route,
                        const guard::Values& values, const CheckOptions& options,
                        const CallRef& call) noexcept;
  // Findings of one request.
  struct LocalFindings {
    RawArray<store::Finding, guard::kMaxRules + guard::Plan::kMarks> room;
    std::span<store::Finding> all;
  };
  void ask_local(const guard::Plan& plan, Decision& decision, LocalFindings& findings) noexcept;
  // What work that is done, and was denied so, takes of the limits: what is left.
  void charge_rest(const guard::Plan& plan, const Decision& decision) noexcept;
  // The same as ask_local() with all that metered routes and calls add; true: it stands only once
  // it is a reservation.
  bool ask_local_metered(guard::Plan& plan, const CheckOptions& options, guard::MeteredCall* call,
                         Decision& decision) noexcept;
  // The same, awaited, but no longer than its caller would wait for the disk.
  Decision reserved_in_time(const guard::Plan& plan, const CheckOptions& options,
                            const CallRef& call, const Decision& admitted);
  // What is told where the journal takes nothing.
  static Decision refused_by_journal(std::uint64_t cost);
  // Makes a reservation of what the embedded store admitted; `done` hears once, in any thread.
  void reserve_local(const guard::Plan& plan, const CheckOptions& options, const CallRef& call,
                     const Decision& admitted, std::function<void(Decision)> done);
  // False: `decision` is the answer; nobody needs to be asked.
  bool begin_call(guard::Plan& plan, const CheckOptions& options, guard::MeteredCall* call,
                  Decision& decision) noexcept;
  // What a reservation ends by, from the call or the route; false: `decision` refuses.
  bool take_terms(const policy::Route& route, ReservationTerms& terms,
                  Decision& decision) const noexcept;
  // What the store says of the call's idempotency key.
  static void read_marks(const guard::Plan& plan, std::span<const store::Finding> findings,
                         Decision& decision) noexcept;
  // The request was admitted before; or its key is another one's.
  static void replay(Rung rung, Decision& decision) noexcept;
  static void conflict(Decision& decision) noexcept;
  // What the store charged for a request goes back, its marks included; of the counters whose bit
  // is in `which`.
  void give_back_charged(const guard::Plan& plan, std::span<const store::Finding> findings,
                         std::uint64_t which = ~std::uint64_t{0}) noexcept;
  // Tells the store of requests that were admitted without it.
  void tell_marks();
  void give_back(const std::string& id, const guard::HeldReservation& held, std::uint64_t units,
                 std::function<void(guard::ReservationBook::GivenBack)> done);
  // Puts counters to the store with a mark of `id` beside those of each slot, all or nothing:
  // whoever asks again because no answer came charges or gives back nothing twice. `carried` as
  // below.
  using CarriedOnce = std::function<void(guard::ReservationBook::GivenBack, std::uint64_t carried,
                                         std::span<const store::Finding>)>;
  void carry_out_once(std::uint64_t mark, const std::string& id, const guard::HeldReservation& held,
                      std::vector<store::Counter> counters, const guard::BoundPolicy& policy,
                      guard::SharedStore& shared, CarriedOnce done);
  void take_more(const guard::HeldReservation& held, std::uint64_t units,
                 std::function<void(guard::ReservationBook::Taken)> done);
  // Carries out what nobody waits for; `done` is told once, in any thread: bit i of `carried` says
  // that it was for counters[i].
  using CarriedOut = std::function<void(std::uint64_t carried, std::span<const store::Finding>)>;
  void carry_out_later(std::vector<store::Counter> counters, PolicyRef policy, CarriedOut done);
  // The metered rules of a plan whose usage is recorded while its store answers; 0: none.
  std::uint64_t metered_always(const guard::Plan& plan, const CheckOptions& options) const noexcept;
  // Whether usage could be recorded, were the plan decided now; false: `decision` refuses.
  bool can_record(const guard::Plan& plan, const CheckOptions& options,
                  Decision& decision) noexcept;
  // Records what the store admitted; where there is no room for it, `decision` becomes a refusal.
  void record_admitted(const guard::Plan& plan, std::span<const store::Finding> findings,
                       const CheckOptions& options, Decision& decision) noexcept;
  class Job;
  class Waiting;
  // False where no store needs to be asked: `decision` is the answer, all but what settle() adds.
  bool needs_asking(guard::Plan::Outcome outcome, const guard::Plan& plan,
                    const guard::BoundRoute& route, Decision& decision) noexcept;
  // Fills in what every decision of a route says, counts it, and tells the observer.
  void settle(Decision& decision, const guard::BoundPolicy& policy, const guard::BoundRoute& route,
              const CheckOptions& options, const std::optional<Nanos>& took) noexcept;
  void decide_async(PolicyRef policy, const guard::BoundRoute& route, const guard::Values& values,
                    const CheckOptions& options, std::function<void(Decision)> done,
                    const CallRef& call) noexcept;
  void decide_local_async(PolicyRef policy, const guard::BoundRoute& route,
                          const guard::Values& values, CheckOptions options,
                          std::function<void(Decision)> done, const CallRef& call) noexcept;
  Decision decide_shared(PolicyRef policy, const guard::BoundRoute& route,
                         const guard::Values& values, const CheckOptions& options,
                         const CallRef& call) noexcept;
  // Carries out refunds and resets; true where the store did.
  enum class Carried : std::uint8_t {
    yes,
    no,
    perhaps,  // the store was asked, and did not say
  };
  Carried carry_out(std::span<const store::Counter> counters) noexcept;
  // Puts a policy in the place of the one in force; returns its generation, and the breakers that
  // are to tell what became of them.
  Result<std::uint64_t> replace(Policy policy, Nanos patience, std::vector<Breaker>& touched);
  void count_shadows(const guard::Plan& plan, std::span<const store::Finding> findings) noexcept;
  void by_policy(const guard::Plan& plan, Decision& decision) noexcept;
  void tell(const Decision& decision, render::Metrics::RouteSlot route,
            const std::optional<Nanos>& took = {}) noexcept;

  Clock* clock_;
  Observer* observer_;
  NamePool names_;
  guard::Ceilings ceilings_;
  render::Metrics metrics_;
  CounterHasher hasher_;
  ValueDigester digester_;
  std::unique_ptr<store::LocalStore> store_;
  guard::Safeguards safeguards_;
  std::mutex reloading_;
  SnapshotCell<guard::BoundPolicy> current_;
  std::unique_ptr<guard::UsageRecorder> usage_;
  // Its thread uses the rest. Shared: usage that could not be recorded is given back to it.
  std::shared_ptr<guard::SharedStore> shared_;
  std::weak_ptr<guard::SharedStore> shared_later_;  // for threads that may outlive it
};

}  // namespace weir
