#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "breaker/call_counters.h"
#include "breaker/call_ring.h"
#include "breaker/event_queue.h"
#include "breaker/failure_run.h"
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

  Admission admit(MonoTime now, AdmitOptions options) noexcept;
  void report(const Permit& permit, const CallVerdict& verdict) noexcept;
  void report(const Permit& permit, const CallVerdict& verdict, MonoTime now) noexcept;
  void release(const Permit& permit) noexcept;

  void poll(MonoTime now) noexcept;
  void set_mode(BreakerMode mode);
  void trip(std::optional<Nanos> wait);
  void close();
  Result<void> configure(const BreakerConfig& config);

  const std::string& name() const noexcept { return name_; }
  // Tells it from other breakers, and from those of earlier processes.
  std::uint64_t life() const noexcept { return life_; }
  BreakerState state() const noexcept;
  BreakerMode mode() const noexcept { return mode_.load(std::memory_order_acquire); }
  BreakerConfig config() const;
  BreakerSnapshot snapshot(MonoTime now) const;

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
  };

  Permit permit(Permit::Kind kind, std::uint64_t seen, MonoTime now) noexcept;
  // Counts a rejection; true: in shadow, so the call goes all the same.
  bool lets_through() noexcept;
  Admission reject(RejectReason reason, Nanos retry_after) noexcept;
  // As admit(), where it is not one look at an open breaker.
  Admission admit_changing(MonoTime now, AdmitOptions options) noexcept;
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
  // Opens by a verdict that stands outside the votes.
  bool direct(std::uint64_t seen, const CallVerdict& verdict, MonoTime now) noexcept;

  // All below: mutex_ is held.
  bool opens_locked() const noexcept;
  void open_locked(MonoTime now, const Opening& opening);
  void half_open_locked(MonoTime now);
  void pass_probes_locked(MonoTime now);
  void close_locked(MonoTime now, BreakerCause cause);
  // Lets go of probes that are overdue and applies the verdict; true where the state changed.
  bool advance_half_open_locked(MonoTime now);
  bool decide_half_open_locked(MonoTime now);
  bool apply_ramp_locked(breaker::Ramp::Change change, MonoTime now);
  void publish_ramp_locked() noexcept;
  void block_probes_locked() noexcept;
  void poll_locked(MonoTime now);
  void change_locked(Gate gate, MonoTime now, BreakerEvent event);
  void take_rules_locked(const BreakerConfig& config) noexcept;
  Tally tally_locked(MonoTime now) const noexcept;
  Nanos draw_wait_locked(MonoTime now, std::optional<Nanos> wanted) noexcept;

  const std::string name_;
  const std::uint64_t life_;
  Rules rules_;
  std::optional<breaker::CallRing> last_calls_;
  std::optional<breaker::TimeRing> last_time_;
  breaker::FailureRun run_;
  std::atomic<BreakerMode> mode_{BreakerMode::automatic};
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
};

}  // namespace weir
