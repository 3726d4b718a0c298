#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "weir/breaker_config.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir {

// What became of a call. The first three and `expired` vote; the others give back what the call
// held, and say nothing about the dependency.
enum class Outcome : std::uint8_t {
  ok,
  failure,
  slow,          // it answered well, but too late by the caller's own measure
  ignored,       // the answer says nothing about the dependency's health: a 404, a bad request
  cancelled,     // the caller gave up
  local_reject,  // it never left: a limiter or full queue of our own was in the way
  expired,       // no answer by its deadline; a failure
};

// How a call ended, and what the dependency asked for.
struct CallVerdict {
  Outcome outcome = Outcome::ok;
  // Open at once, whatever the windows say: the dependency said so outright.
  bool open = false;
  // How long it asks to be left alone (Retry-After). Where this verdict opens the breaker, it waits
  // at least so long, up to max_retry_after. Not negative.
  std::optional<Nanos> retry_after{};

  CallVerdict(Outcome how = Outcome::ok) noexcept : outcome(how) {}  // NOLINT: implicit by intent
  // The dependency asked to be left alone: a failure that opens, for `wait` where one is given.
  static CallVerdict open_for(std::optional<Nanos> wait) noexcept {
    CallVerdict verdict(Outcome::failure);
    verdict.open = true;
    verdict.retry_after = wait;
    return verdict;
  }
};

enum class BreakerState : std::uint8_t {
  closed,      // every call goes
  open,        // none does, until the wait is over
  half_open,   // a few do, one after the other, and decide
  recovering,  // a growing part does
};

// What an operator set.
enum class BreakerMode : std::uint8_t {
  automatic,
  forced_open,    // no call goes
  forced_closed,  // every call goes; the windows go on counting, nothing opens
  disabled,       // every call goes, nothing is counted
  shadow,         // works as automatic does and says what it would reject, but rejects nothing
};

enum class RejectReason : std::uint8_t {
  open,         // the wait is not over
  probing,      // half-open, and the probes' slots are taken
  recovering,   // not in the part that goes
  forced_open,  // by an operator
};

// Why it changed.
enum class BreakerCause : std::uint8_t {
  consecutive_failures,
  failure_rate,
  slow_rate,
  directive,      // a verdict said so
  wait_over,      // open -> half_open
  probes_passed,  // half_open -> recovering, or closed
  probes_failed,  // half_open -> open
  no_verdict,     // half_open lasted max_half_open
  ramp_failed,    // recovering -> open
  ramp_done,      // recovering -> closed
  operator_set,   // a mode was set
  mode_over,      // a mode that was set for a while has ended
  fleet,          // shared: what the store holds for all says so
};

// How a breaker that a fleet shares stands to the store.
enum class FleetTie : std::uint8_t {
  none,     // it is not shared
  follows,  // the store answers: what holds for the fleet holds here
  alone,    // it does not: this process goes by what it sees itself, and tells it afterwards
};

std::string_view to_string(Outcome outcome);
std::string_view to_string(BreakerState state);
std::string_view to_string(BreakerMode mode);
std::string_view to_string(RejectReason reason);
std::string_view to_string(BreakerCause cause);
std::string_view to_string(FleetTie tie);

// A call that must not be made.
struct Rejected {
  RejectReason reason = RejectReason::open;
  // open: the first instant at which a probe may go. probing, recovering: when to ask again, a
  // hint. forced_open: when the operator's order ends. Absent where nobody knows. Never negative.
  std::optional<Nanos> retry_after{};
};

// A mode, and what those are told who find the breaker in it.
struct ModeOrder {
  // Most bytes of each.
  static constexpr std::size_t kMostBy = 64;
  static constexpr std::size_t kMostReason = 200;
  static constexpr Nanos kLongest = std::chrono::hours(24 * 366);

  BreakerMode mode = BreakerMode::automatic;
  std::string by;                // who ordered it; empty: nobody says
  std::string reason;            // why; empty: nobody says
  std::optional<Nanos> lasts{};  // absent: until the next order
};

// One change, as it happened. Events of one breaker come one after the other, in order of `seq`.
struct BreakerEvent {
  std::uint64_t seq = 0;     // from 1, without a gap but for those that were dropped
  std::string_view breaker;  // its name; valid while the breaker lives
  BreakerState from = BreakerState::closed;
  BreakerState to = BreakerState::closed;
  BreakerMode mode = BreakerMode::automatic;  // after the change
  BreakerCause cause = BreakerCause::operator_set;
  MonoTime at{};
  // What the window held when it opened; else 0.
  std::uint32_t calls = 0;
  std::uint32_t failures = 0;
  std::uint32_t slow = 0;
  Nanos open_for{0};  // to == open: the wait that was drawn
  // An operator's that holds from now on, or that is over; else null.
  std::shared_ptr<const ModeOrder> order{};
};

// What the store holds of a breaker that a fleet shares, as this process last read it.
struct FleetRecord {
  BreakerState state = BreakerState::closed;
  BreakerMode mode = BreakerMode::automatic;
  std::uint64_t epoch = 0;      // counts its changes
  std::uint32_t round = 0;      // counts its half-open times
  std::uint32_t reporting = 0;  // workers that saw enough calls lately to say how it is
  std::uint32_t bad = 0;        // of whom say that it fails
  std::uint32_t probes_in_flight = 0;
  Nanos age{0};  // since it was read
};

// What a breaker is at one instant. Counters never go down.
struct BreakerSnapshot {
  std::string name;
  BreakerState state = BreakerState::closed;
  BreakerMode mode = BreakerMode::automatic;
  std::string mode_by{};                // who set it; empty: nobody said
  std::string mode_reason{};            // why
  Nanos mode_for{0};                    // since it was set
  std::optional<Nanos> mode_left{};     // until it ends; absent: it has no end
  std::uint64_t generation = 0;         // counts the changes
  Nanos for_time{0};                    // in this state
  bool probe_due = false;               // open, and the wait is over: the next call is a probe
  Nanos until_probe{0};                 // open: what is left of the wait
  std::uint32_t share_percent = 100;    // recovering: of the calls that go; 0 open, 100 closed
  std::uint32_t openings_in_a_row = 0;  // what the wait has been doubled by
  // closed: what the window holds. half_open: votes so far. recovering: this step's calls.
  std::uint32_t calls = 0;
  std::uint32_t failures = 0;
  std::uint32_t slow = 0;
  std::uint32_t consecutive_failures = 0;
  std::uint32_t probes_in_flight = 0;

  std::uint64_t ok = 0;
  std::uint64_t failed = 0;      // failures and expired
  std::uint64_t slow_calls = 0;  // answered, but slow
  std::uint64_t ignored = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t local_rejects = 0;
  // Results of an earlier generation, which did not vote. Those of a fleet's probes count here or
  // above once the store has said which.
  std::uint64_t late = 0;
  std::uint64_t expired_probes = 0;
  std::uint64_t rejected = 0;
  std::uint64_t would_reject = 0;  // shadow: let through all the same
  std::uint64_t opened = 0;
  std::uint64_t events_dropped = 0;

  FleetTie tie = FleetTie::none;
  bool pushed = false;                 // the store tells of changes; else they are found by looking
  std::optional<FleetRecord> fleet{};  // absent: the store holds none, or it is not shared
  std::uint64_t store_writes = 0;      // votes, verdicts, modes and asks for a probe that it took
  std::uint64_t store_lost = 0;        // that could not be told it
};

namespace detail {

enum class Gate : std::uint8_t { closed, open, half_open, recovering, forced_open, disabled };

// The part of a breaker that the closed path reads: nothing else, on a cache line that only
// changes of state write.
struct alignas(64) BreakerGate {
  std::atomic<std::uint64_t> word{0};  // generation << 8 | Gate
  std::atomic<bool> timed{false};      // calls are measured: admit() needs the time
  Clock* clock = nullptr;

  MonoTime now() const noexcept { return clock->mono(); }
};

}  // namespace detail

class BreakerCore;
namespace breaker {
class PermitToken;
}

// Leave to make one call. Report how it ended, once; what is destroyed without a report gives back
// what it held and does not vote.
//
// Requires:    a Breaker handle, or the registry it came from, outlives it.
// Threads:     one at a time; may be reported in another thread than it was given in.
class [[nodiscard]] Permit {
 public:
  Permit() noexcept = default;
  Permit(Permit&& other) noexcept { *this = std::move(other); }
  Permit& operator=(Permit&& other) noexcept {
    if (this != &other) {
      drop();
      gate_ = std::exchange(other.gate_, nullptr);
      word_ = other.word_;
      started_ = other.started_;
      probe_ = other.probe_;
      slot_ = other.slot_;
      kind_ = other.kind_;
      timed_ = other.timed_;
    }
    return *this;
  }
  ~Permit() { drop(); }

  // Says how the call ended.
  //
  // Guarantees:  a second report is ignored.
  // Cost:        one locked instruction on the closed path of a healthy dependency. Reads the clock
  //              where the breaker measures time, as it does by default; report() with `now` never
  //              does.
  void report(const CallVerdict& verdict) noexcept;
  void report(const CallVerdict& verdict, MonoTime now) noexcept;
  void ok() noexcept { report(Outcome::ok); }
  void failure() noexcept { report(Outcome::failure); }

  // Whether this call decides if the breaker closes.
  bool is_probe() const noexcept { return kind_ == Kind::probe || kind_ == Kind::fleet; }

 private:
  friend class BreakerCore;
  friend class Breaker;
  friend class breaker::PermitToken;
  // fleet: a probe that the store gave out.
  enum class Kind : std::uint8_t { closed, probe, ramp, unwatched, fleet };

  void drop() noexcept {
    // A closed-path permit holds nothing.
    if (gate_ != nullptr && (kind_ == Kind::probe || kind_ == Kind::fleet)) release();
    gate_ = nullptr;
  }
  void release() noexcept;

  detail::BreakerGate* gate_ = nullptr;
  std::uint64_t word_ = 0;
  MonoTime started_{};
  std::uint32_t probe_ = 0;
  std::uint16_t slot_ = 0;
  Kind kind_ = Kind::unwatched;
  bool timed_ = false;  // started_ is known
};

// The answer to "may I call?": a Permit, or a rejection.
class [[nodiscard]] Admission {
 public:
  explicit Admission(Permit permit) noexcept : permit_(std::move(permit)), admitted_(true) {}
  explicit Admission(const Rejected& rejected) noexcept : rejected_(rejected) {}
  Admission(RejectReason reason, Nanos retry_after) noexcept
      : rejected_{.reason = reason, .retry_after = retry_after} {}

  explicit operator bool() const noexcept { return admitted_; }
  bool admitted() const noexcept { return admitted_; }
  // Requires: admitted(). Take it (std::move) to keep it beyond the Admission.
  Permit& permit() noexcept { return permit_; }
  // Requires: !admitted().
  const Rejected& rejected() const noexcept { return rejected_; }

 private:
  Permit permit_;
  Rejected rejected_;
  bool admitted_ = false;
};

// What hears of changes. Called in the thread that caused one, outside every lock, one event after
// the other; may call the breaker. What it throws is dropped.
using BreakerListener = std::function<void(const BreakerEvent&)>;

struct BreakerOptions {
  Clock* clock = nullptr;  // absent: the machine's; outlives the breaker
  BreakerListener listener{};
  std::optional<std::uint64_t> seed{};  // of the jitter; absent: differs between processes
};

// How a caller stands in the ramp of a recovering breaker.
struct AdmitOptions {
  // A hash of whom the call is for: while recovering, the same part of them goes. Absent: every
  // n-th call goes.
  std::optional<std::uint64_t> spread{};
};

// A circuit breaker for one dependency. A handle: copies are the same breaker, which lives as long
// as one of them.
//
// One that a policy says is shared opens, probes and closes with the fleet. Closed it asks nobody;
// the call that may be its probe waits for the store's answer, at most the store's deadline, and no
// other call waits. Without the store it works as one that is not shared.
//
// Guarantees:  open, no call goes before the wait that was drawn is over, whatever is reported
//              meanwhile. Half-open, at most `probes` calls go and vote, at most `probes_in_flight`
//              at once, however many threads ask; every way a probe can end, silence too, frees its
//              slot, and half-open ends within max_half_open of the next call or poll().
//              A result votes only in the generation its call was admitted in.
//              While records of several threads overlap, the windows may lag by those.
// Time:        monotonic only. Nothing runs by itself: states whose time is over change at the next
//              call or poll(); snapshot() says `probe_due`.
//              By the machine's clock an open breaker tells the time by the kernel's tick while its
//              end is far: a rejection's retry_after may then be some milliseconds too long, and is
//              never too short.
// Threads:     any.
// Cost:        closed: admit() is one load, and reads the clock only where slow calls are counted.
//              No allocation in any state but for events.
class Breaker {
 public:
  // Errors:      invalid_argument: each fault of the configuration, one a line.
  static Result<Breaker> make(std::string name, const BreakerConfig& config,
                              BreakerOptions options = {});

  Admission admit(const AdmitOptions& options = {}) noexcept {
    const std::uint64_t word = gate_->word.load(std::memory_order_acquire);
    if ((word & 0xff) == static_cast<std::uint64_t>(detail::Gate::closed)) [[likely]] {
      const bool timed = gate_->timed.load(std::memory_order_relaxed);
      return Admission(closed_permit(word, timed ? gate_->now() : MonoTime{}, timed));
    }
    return admit_slow(options);
  }
  // As admit(), with the time passed in.
  Admission admit(MonoTime now, const AdmitOptions& options = {}) noexcept {
    const std::uint64_t word = gate_->word.load(std::memory_order_acquire);
    if ((word & 0xff) == static_cast<std::uint64_t>(detail::Gate::closed)) [[likely]]
      return Admission(closed_permit(word, now, true));
    return admit_slow(now, options);
  }

  // As admit(), for those who must not wait: `done` is called exactly once, perhaps before this
  // returns, perhaps in the thread that speaks to the store. What it throws is dropped.
  void admit_async(std::function<void(Admission)> done, AdmitOptions options = {});

  // Lets time pass: what is due changes now, not at the next call.
  void poll();
  void poll(MonoTime now);

  // Where it is shared, forced states and their end are the fleet's; disabled and shadow are this
  // process's own. Until the next order.
  void set_mode(BreakerMode mode);
  // As set_mode(), with who and why, and for a while: it ends by itself, with an empty window, and
  // goes back to automatic, or to shadow where the policy says so. Where it is shared, forced
  // states end by the store's clock.
  //
  // Time:        what is over ends at the next call that is not let through at once, or would open
  //              it, and at the next poll() or snapshot().
  // Errors:      invalid_argument: `by` or `reason` is too long or holds control characters,
  //              `lasts` is not above zero, too long, or given with automatic.
  Result<void> set_mode(ModeOrder order);
  // Opens at once, as a verdict's `open` does.
  void trip(std::optional<Nanos> wait = {});
  // Closes at once, with an empty window.
  void close();
  // Takes other numbers over. What is counted, and the state, stay.
  //
  // Errors:      invalid_argument: a fault of the configuration.
  //              failed_precondition: the window is another; that takes a new breaker.
  Result<void> configure(const BreakerConfig& config);

  std::string_view name() const noexcept;
  BreakerState state() const noexcept;
  BreakerMode mode() const noexcept;
  // Whether it goes with a fleet just now.
  FleetTie tie() const;
  BreakerConfig config() const;
  // Changes nothing but what is over: a mode whose end has come.
  BreakerSnapshot snapshot() const;

  friend bool operator==(const Breaker& a, const Breaker& b) noexcept { return a.gate_ == b.gate_; }

 private:
  friend class BreakerCore;
  friend class breaker::PermitToken;
  explicit Breaker(std::shared_ptr<BreakerCore> core) noexcept;

  Permit closed_permit(std::uint64_t word, MonoTime started, bool timed) noexcept {
    Permit permit;
    permit.gate_ = gate_;
    permit.word_ = word;
    permit.started_ = started;
    permit.kind_ = Permit::Kind::closed;
    permit.timed_ = timed;
    return permit;
  }
  // Options by reference: where they are handed over in registers, the processor waits to read back
  // the one byte that was just written of them.
  Admission admit_slow(const AdmitOptions& options) noexcept;
  Admission admit_slow(MonoTime now, const AdmitOptions& options) noexcept;

  detail::BreakerGate* gate_;
  std::shared_ptr<BreakerCore> core_;
};

}  // namespace weir
