#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "breaker/call_counters.h"
#include "store/redis/circuit.h"
#include "weir/breaker.h"

namespace weir::breaker {

// One process's part in a breaker that a fleet shares: what the store's record said when it was
// last read, and what is still to be told it. Knows no network and changes no state: the breaker
// asks it under its own lock.
//
// Guarantees:  while nothing changes, a closed breaker is worth one vote of this process in half
// the
//              time that a vote counts, and only where it saw the minimum of calls. Every word
//              carries the epoch, and a verdict the round, that it is about.
// Threads:     one at a time.
class FleetPart {
 public:
  using Action = store::redis::CircuitAction;
  using Record = store::redis::CircuitRecord;
  using Reply = store::redis::CircuitReply;

  // Which word an answer is to.
  struct Ticket {
    Action::Kind kind = Action::Kind::read;
    std::uint64_t number = 0;
  };
  struct Due {
    Ticket ticket;
    Action action;
  };
  // What this process's own breaker is just now.
  struct Local {
    bool working = true;        // automatic or shadow: its votes count
    bool closed = true;         // closed or recovering
    bool enough_calls = false;  // for a say
    Nanos open_for{0};          // what is left of its own wait
  };
  // What became of an answer.
  struct Heard {
    bool follow = false;   // the record is to be followed
    bool granted = false;  // the caller that waits is a probe, known here by that number
    std::uint32_t probe = 0;
    bool answered = false;  // the caller that waits is to be answered
    bool again = false;     // that it opened is to be told once more, and can be at once
  };
  using Waiting = std::function<void(bool granted, std::uint32_t probe)>;
  // A probe's result, once it is known whether it counted.
  struct Ended {
    CallCounters::Kind kind = CallCounters::ok;
    bool counted = false;
  };
  struct Opening {
    bool directive = false;  // the dependency said so
    bool fenced = false;     // to a probe, so it is worth nothing once the round is over
    std::optional<Nanos> wanted{};
    // Whether its window held enough calls for a say; absent: no window was open.
    std::optional<bool> enough{};
  };

  // A denied worker asks again after so long, give or take a fifth: who holds the slots is not
  // told.
  static constexpr Nanos kPace = std::chrono::milliseconds(100);

  FleetPart(std::uint64_t who, std::uint64_t random) : who_(who), random_(random) {}

  // ---- What the record says.

  // Takes a reading over that was asked for at `asked`; absent: the store holds none. False: it
  // says nothing new.
  bool note(const std::optional<Record>& record, Instant store_now, MonoTime asked, MonoTime now);
  const std::optional<Record>& record() const noexcept { return record_; }
  // With what time alone has brought about since it was read.
  BreakerState state(MonoTime now) const;
  BreakerMode mode(MonoTime now) const;
  // ---- Of the record's mode. Requires: record().

  // Who set it, and why.
  ModeOrder order() const;
  // When it ends, by this process's clock; absent: it does not.
  std::optional<MonoTime> mode_ends() const;
  // Whether time alone ended it.
  bool mode_is_over(MonoTime now) const;

  MonoTime since() const noexcept { return mono(record_->since); }
  // The record's `until`, by this process's clock.
  MonoTime until() const noexcept { return mono(record_->until); }
  // Whether the record closed after `then`, in which this process opened: the fleet has tried
  // since.
  bool closed_since(MonoTime then) const;
  // Requires: probes are out. When the next of them is over at the latest.
  MonoTime next_slot(MonoTime now, Nanos half_open);
  MonoTime read_at() const noexcept { return read_at_; }
  // The epoch of the last record that there was; 0: there was none.
  std::uint64_t last_epoch() const noexcept { return last_epoch_; }

  // ---- What is to be told.

  // This process opened by itself.
  void opened(const Opening& opening, const BreakerConfig& config, MonoTime now);
  // It opens or opened; `enough`: as of an Opening.
  void leaves_window(bool enough, const BreakerConfig& config, MonoTime now);
  // It is well again, by itself or because the fleet is.
  void recovered(const BreakerConfig& config, MonoTime now);
  // Nobody sees calls while it is open: who had a say before has it again at once.
  bool standing(MonoTime now) const noexcept { return now < standing_till_; }
  bool tripped() const noexcept { return tripped_at_.has_value(); }
  std::optional<MonoTime> tripped_at() const noexcept { return tripped_at_; }
  // An operator's word. It goes before everything else where it can be told at once; later, or told
  // again, it gives way to another operator's that came since.
  // `ends`: it is over then, told or not.
  void force(ModeOrder order, std::optional<MonoTime> ends, MonoTime now);
  // The store has lost that mode.
  void put_back(ModeOrder order, std::optional<MonoTime> ends);
  bool forcing() const noexcept { return force_.has_value(); }
  // A probe ended. False: it is none, or its time was over. What a caller reported is in
  // take_ended() as soon as the store has said whether it counted.
  bool settle(std::uint32_t probe, Action::Flag flag, Nanos wanted,
              std::optional<CallCounters::Kind> reported, MonoTime now);
  std::vector<Ended> take_ended() { return std::exchange(ended_, {}); }
  // No verdict is told any more.
  void forget_verdicts();
  // A caller waits to be a probe. Requires: !asking().
  void ask(Waiting caller) { waiting_ = std::move(caller); }
  bool asking() const noexcept { return waiting_ != nullptr || ask_out_; }
  Waiting take_waiting() { return std::exchange(waiting_, nullptr); }

  bool vote_due(MonoTime now) const noexcept { return !vote_out_ && now >= vote_at_; }
  // Without a store only who waits is worth a try, which fails at once.
  std::vector<Due> due(const BreakerConfig& config, const Local& local, bool store_up,
                       MonoTime now);
  // Absent `reply`: the store did not answer.
  Heard heard(const Ticket& ticket, const Reply* reply, bool late, const BreakerConfig& config,
              MonoTime asked, MonoTime now);
  // Probes whose time is over: the store has given their slots to others. Returns how many.
  std::uint32_t expire(MonoTime now);
  std::uint32_t probes_out() const noexcept { return static_cast<std::uint32_t>(probes_.size()); }
  std::uint64_t told() const noexcept { return told_; }
  std::uint64_t lost() const noexcept { return lost_; }

 private:
  struct Probe {
    std::uint32_t number = 0;  // the store's
    std::uint64_t epoch = 0;
    std::uint32_t round = 0;
    MonoTime till{};
  };
  struct Verdict {
    std::uint64_t number = 0;
    Action action;
    std::optional<CallCounters::Kind> reported{};
    MonoTime till{};  // later it says nothing
    bool out = false;
  };
  // What an operator set last, as far as is known.
  struct Word {
    std::uint64_t epoch = kNoRecord;
    Record::Mode mode = Record::Mode::automatic;
    Instant mode_until{};
  };
  struct Force {
    ModeOrder order;
    std::optional<MonoTime> ends{};
    Word known{};                      // when it was set
    std::optional<MonoTime> set_at{};  // absent: it was told before, or is put back
    std::uint64_t number = 0;
    bool out = false;
  };
  // Epochs begin with the time: none is this one.
  static constexpr std::uint64_t kNoRecord = 1;
  static Word word_of(const Record& record);
  static bool spoke_since(const Word& known, const Record& record);
  std::uint64_t fence_of(Force& force, MonoTime now);
  void heard_force(const Reply* reply, bool stale, std::uint64_t number);
  void heard_settle(const Reply* reply, bool stale, std::uint64_t number, MonoTime now);
  void heard_trip(const Reply* reply, bool stale, MonoTime now);
  void heard_vote(const Reply* reply, bool stale, bool said_bad, MonoTime now);
  MonoTime mono(Instant at) const noexcept { return read_at_ + (at - store_at_); }
  void end(const Verdict& verdict, bool counted);
  Action word(Action::Kind kind) const;
  std::int32_t draw_jitter(const BreakerConfig& config);
  void add_vote(const BreakerConfig& config, const Local& local, MonoTime now,
                std::vector<Due>& out);
  void heard_probe(const Reply* reply, bool late, const BreakerConfig& config, MonoTime now,
                   Heard& out);

  const std::uint64_t who_;
  std::uint64_t random_;
  std::uint64_t number_ = 0;

  std::optional<Record> record_;
  std::uint64_t epoch_ = 0;  // of the record; 0: there is none
  std::uint64_t last_epoch_ = 0;
  MonoTime asked_at_{};
  MonoTime read_at_{};
  Instant store_at_{};

  std::optional<MonoTime> tripped_at_;
  bool well_again_ = false;  // a bad vote may still count
  bool stood_ = false;       // it had a say when it last opened
  MonoTime fresh_till_{};    // what its window held then says something
  MonoTime standing_till_{};
  MonoTime bad_vote_at_{};  // not before: others have a say first
  MonoTime wanted_till_{};  // the dependency asked to be left alone
  MonoTime vote_at_{};      // not before
  MonoTime vote_again_{};   // once the one that is out was taken
  bool vote_out_ = false;
  std::optional<Nanos> trip_;  // the dependency said so, and asked for so long
  std::optional<MonoTime> trip_till_;
  std::optional<std::uint64_t> trip_epoch_;  // it is about this one alone
  bool trip_out_ = false;
  std::optional<Force> force_;
  std::deque<Verdict> verdicts_;
  std::vector<Ended> ended_;
  // By a number of this process's own: the store's come again where it has lost what it gave.
  std::map<std::uint32_t, Probe> probes_;
  std::uint32_t last_probe_ = 0;
  Waiting waiting_;
  bool ask_out_ = false;
  std::uint64_t told_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace weir::breaker
