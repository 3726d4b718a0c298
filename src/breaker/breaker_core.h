#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "breaker/call_counters.h"
#include "breaker/call_ring.h"
#include "breaker/event_queue.h"
#include "breaker/failure_run.h"
#include "breaker/fleet_carrier.h"
#include "breaker/fleet_part.h"
#include "breaker/half_open.h"
#include "breaker/ramp.h"
#include "breaker/tally.h"
#include "breaker/time_ring.h"
#include "weir/breaker.h"

namespace weir {

// A breaker's inside. Admission and records on the closed path, and rejections, take no lock; what
// changes the state, half-open and recovering do.
//
// How: `word` is the generation and the gate. It changes under mutex_ alone, and every other number
// of a state is written before the word that makes it valid. The windows carry the generation
// themselves, so a record that was held up between looking and counting counts nothing.
class BreakerCore final : public detail::BreakerGate {
 public:
  BreakerCore(std::string name, const BreakerConfig& config, BreakerOptions options);

  static const std::shared_ptr<BreakerCore>& of(const Breaker& breaker) { return breaker.core_; }

  Admission admit(const AdmitOptions& options) noexcept;
  Admission admit(MonoTime now, const AdmitOptions& options) noexcept;
  void admit_async(MonoTime now, AdmitOptions options,
                   std::function<void(Admission)> done) noexcept;
  void report(const Permit& permit, const CallVerdict& verdict) noexcept;
  void report(const Permit& permit, const CallVerdict& verdict, MonoTime now) noexcept;
  void release(const Permit& permit) noexcept;

  void poll(MonoTime now) noexcept;
  void set_mode(ModeOrder order);
  // An operator's that stands, with what is left of its time.
  std::optional<ModeOrder> order();
  // What the policy says, automatic or shadow: holds where no operator's order does.
  void set_policy_mode(BreakerMode mode);
  // Tells the listener what it was not told while events were held back.
  void deliver() noexcept { events_.deliver(); }
  // What operators said of the breaker that this one takes the place of stands here as it stood.
  void take_orders_of(BreakerCore& old);
  // Requires: mode_is_over() said so, a moment ago.
  void end_mode(MonoTime now) noexcept;
  bool mode_is_over(MonoTime now) const noexcept {
    return now.time_since_epoch().count() >= mode_ends_.load(std::memory_order_relaxed);
  }
  void trip(std::optional<Nanos> wait);
  void close();
  Result<void> configure(const BreakerConfig& config);

  // ---- Of one that a fleet shares: see FleetPart. What carries the words calls these.

  // Shared from now on, or with a null no longer. `carrier` lives until that.
  void share(breaker::FleetCarrier* carrier, std::uint64_t who);
  std::vector<breaker::FleetPart::Due> fleet_due(bool store_up, MonoTime now);
  // Absent `reply`: the store did not answer. `asked`: when it was asked; absent, just now.
  void fleet_heard(const breaker::FleetPart::Ticket& ticket,
                   const store::redis::CircuitReply* reply, bool late, MonoTime now,
                   std::optional<MonoTime> asked = {});
  // What stands in the store; absent: nothing.
  void fleet_read(const std::optional<store::redis::CircuitRecord>& record, Instant store_now,
                  MonoTime now, std::optional<MonoTime> asked = {});

  const std::string& name() const noexcept { return name_; }
  // Tells it from other breakers, and from those of earlier processes.
  std::uint64_t life() const noexcept { return life_; }
  BreakerState state() const noexcept;
  BreakerMode mode() const noexcept { return mode_.load(std::memory_order_acquire); }
  FleetTie tie() const;
  BreakerConfig config() const;
  BreakerSnapshot snapshot(MonoTime now);

 private:
  using Gate = detail::Gate;
  using Tally = breaker::Tally;
  using Vote = breaker::Vote;

  // What the closed path compares with. A rule that is not given holds a number that nothing
  // reaches.
  struct Rules {
    std::atomic<std::uint32_t> consecutive{UINT32_MAX};
    std::atomic<std::uint32_t> failure_percent{101};
    std::atomic<std::uint32_t> slow_percent{101};
    std::atomic<std::uint32_t> minimum_calls{1};
    std::atomic<std::int64_t> slow_call{INT64_MAX};
    std::atomic<bool> rates{false};
  };
  struct Opening {
    BreakerCause cause = BreakerCause::operator_set;
    Tally tally{};
    std::optional<Nanos> wanted{};
    bool by_probe = false;  // of the fleet's
  };

  Permit permit(Permit::Kind kind, std::uint64_t seen, MonoTime now) noexcept;
  // What is left of the wait; 0: it is over, or something else is to be looked at.
  std::int64_t open_left(MonoTime now) const noexcept;
  // Counts a rejection; true: in shadow, so the call goes all the same.
  bool lets_through() noexcept;
  Admission reject(RejectReason reason, Nanos retry_after) noexcept;
  // As admit(), where it is not one look at an open breaker.
  Admission admit_other(MonoTime now, const AdmitOptions& options) noexcept;
  // Absent: the store is to be asked.
  std::optional<Admission> admit_changing(MonoTime now, AdmitOptions options) noexcept;
  // Asks the store for a probe; `done` is called once.
  void ask_fleet(MonoTime now, AdmitOptions options, bool waits,
                 std::function<void(Admission)> done) noexcept;
  Admission ask_fleet_and_wait(MonoTime now, AdmitOptions options) noexcept;
  Admission admit_told(bool granted, std::uint32_t probe, AdmitOptions options) noexcept;
  Admission forced_open(MonoTime now) noexcept;
  void begin_probing(std::uint64_t seen, MonoTime now) noexcept;
  // Each answers, or finds that the state has changed and is to be looked at again.
  std::optional<Admission> admit_half_open(std::uint64_t seen, MonoTime now) noexcept;
  std::optional<Admission> admit_recovering(std::uint64_t seen, MonoTime now,
                                            AdmitOptions options) noexcept;

  // What is handed along here goes by reference: copies of what was just written stall.
  // `timely`: `now` is known, which the closed path may do without.
  void tell(const Permit& permit, const CallVerdict& verdict, MonoTime now, bool timely) noexcept;
  Vote vote_of(const Permit& permit, Outcome outcome, MonoTime now) const noexcept;
  enum class Judged : std::uint8_t { late, stays, opens };
  Judged count_closed(std::uint64_t seen, Vote vote, MonoTime now, Opening& opening) noexcept;
  // Each is false where the result came late, and did not vote.
  bool report_closed(const Permit& permit, Vote vote, const CallVerdict& verdict, MonoTime now,
                     bool timely) noexcept;
  bool settle_probe(const Permit& permit, breaker::HalfOpen::Vote vote, const CallVerdict& verdict,
                    MonoTime now) noexcept;
  bool report_ramp(const Permit& permit, Vote vote, const CallVerdict& verdict,
                   MonoTime now) noexcept;
  // As the others, but whether it counted is for the store to say: counts `reported` itself.
  void settle_fleet(const Permit& permit, breaker::HalfOpen::Vote vote, const CallVerdict& verdict,
                    std::optional<breaker::CallCounters::Kind> reported, MonoTime now) noexcept;
  // Opens by a verdict that stands outside the votes.
  bool direct(std::uint64_t seen, const CallVerdict& verdict, MonoTime now) noexcept;

  // All below: mutex_ is held.
  bool opens_locked() const noexcept;
  void open_locked(MonoTime now, const Opening& opening);
  void half_open_locked(MonoTime now);
  // To half-open: the fleet's where it is that, too, else this process's own.
  void enter_round_locked(MonoTime now);
  void pass_probes_locked(MonoTime now, BreakerCause cause = BreakerCause::probes_passed);
  void close_locked(MonoTime now, BreakerCause cause,
                    std::shared_ptr<const ModeOrder> order = nullptr);
  // Lets go of probes that are overdue and applies the verdict; true where the state changed.
  bool advance_half_open_locked(MonoTime now);
  bool decide_half_open_locked(MonoTime now);
  bool apply_ramp_locked(breaker::Ramp::Change change, MonoTime now);
  void publish_ramp_locked() noexcept;
  void block_probes_locked() noexcept;
  void poll_locked(MonoTime now);
  // `order` is whose it is, or what is over; null: the policy's.
  void set_mode_locked(BreakerMode mode, std::shared_ptr<const ModeOrder> order,
                       std::optional<MonoTime> ends, MonoTime now, BreakerCause cause);
  bool end_mode_locked(MonoTime now);
  std::optional<MonoTime> mode_end() const noexcept;
  void snapshot_mode_locked(MonoTime now, BreakerSnapshot& shot) const;
  // Whether the store's record decides: it answers, and the fleet is not closed.
  bool fleet_governs_locked(MonoTime now) const;
  // Half-open still, but in another round of the fleet's.
  void next_round_locked(MonoTime now);
  void count_ended_locked();
  void follow_locked(MonoTime now);
  void follow_mode_locked(MonoTime now);
  void follow_open_locked(MonoTime now);
  void follow_closed_locked(BreakerState state, MonoTime now);
  breaker::FleetPart::Local local_locked(MonoTime now);
  // Whether this process has seen calls enough for a say; absent: it lets none through.
  std::optional<bool> enough_locked(MonoTime now) const;
  std::uint64_t calls_so_far() const noexcept;
  void snapshot_fleet_locked(MonoTime now, BreakerSnapshot& shot) const;
  void change_locked(Gate gate, MonoTime now, BreakerEvent event);
  void take_rules_locked(const BreakerConfig& config) noexcept;
  Tally tally_locked(MonoTime now) const noexcept;
  Nanos draw_wait_locked(MonoTime now, std::optional<Nanos> wanted) noexcept;

  const std::string name_;
  const std::uint64_t life_;
  const bool has_tick_;  // see breaker/tick.h
  Rules rules_;
  std::optional<breaker::CallRing> last_calls_;
  std::optional<breaker::TimeRing> last_time_;
  breaker::FailureRun run_;
  static constexpr std::int64_t kNever = INT64_MAX;
  std::atomic<BreakerMode> mode_{BreakerMode::automatic};
  std::atomic<std::int64_t> mode_ends_{kNever};
  std::atomic<std::int64_t> open_until_{0};
  std::atomic<std::int64_t> blocked_until_{0};  // half-open: no slot can be free before
  std::atomic<std::uint32_t> share_{0};
  std::atomic<std::int64_t> step_end_{0};
  std::atomic<std::uint32_t> turn_{0};  // of the calls that recovering picks from
  breaker::CallCounters counters_;
  std::atomic<std::uint64_t> would_reject_{0};
  breaker::EventQueue events_;

  mutable std::mutex mutex_;
  BreakerConfig config_;
  MonoTime since_{};
  std::uint32_t openings_ = 0;
  std::uint64_t opened_ = 0;
  std::uint64_t expired_probes_ = 0;
  std::uint64_t random_;
  breaker::HalfOpen half_open_;
  breaker::Ramp ramp_;

  std::atomic<bool> fleet_half_{false};  // half-open: the store gives out the probes
  breaker::FleetCarrier* carrier_ = nullptr;
  std::unique_ptr<breaker::FleetPart> fleet_;      // from the first share() on
  BreakerMode own_mode_ = BreakerMode::automatic;  // what it goes back to from a forced one
  std::shared_ptr<const ModeOrder> own_order_;     // that set own_mode_; none: a policy did
  MonoTime mode_since_{};
  std::shared_ptr<const ModeOrder> order_;  // an operator's, that stands
  std::uint64_t mode_epoch_ = 0;            // of the record whose mode holds here
  std::uint64_t mode_over_epoch_ = 0;       // of the record whose mode has ended here
  std::uint64_t adopted_epoch_ = 0;         // not closed because the record of this epoch is not
  std::uint64_t counted_ = 0;               // calls, when the store took this process's last vote
};

}  // namespace weir
