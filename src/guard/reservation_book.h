#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "guard/held_reservation.h"
#include "ledger/journal.h"
#include "weir/clock.h"

namespace weir::guard {

// The reservations of one process, and what becomes of them.
//
// Time:        within a process what expires does so by the monotonic clock, whatever the wall's is
//              set to. After a restart it has left what the wall's clock says, and no longer than
//              its whole time: one that was set back keeps nothing standing for ever.
// Guarantees:  a reservation ends once: its events and the mark that it ended are one transaction
//              of the journal. What expired is settled within two seconds, or as soon as the disk
//              takes it. However often settling is tried, its limits are charged once. What is to
//              go back to the limits, or was taken beyond what was reserved, is asked of the store
//              until it says that it did: while the store is away it waits. It is given up where
//              nobody can tell any more whether the store did it, or the policy has the rule no
//              more: the limit then has less until its window ends, or counted less than was used.
// Bounds:      kMaxReservations that stand; kMostReturns that wait for the store; those that ended
//              are known for a day, to answer who asks again.
// Threads:     any. A thread of its own ends what expired.
class ReservationBook {
 public:
  // What became of units that were to be given back, or taken.
  enum class GivenBack : std::uint8_t {
    yes,
    no,       // nothing was done
    unknown,  // it was put to the store, and no answer came
    in_part,  // the rest never can be: the policy has its rule no more
  };
  // A store knows for so long which reservations it has given back to: asked again within it, it
  // does nothing twice.
  static constexpr Nanos kReturnMemory{std::chrono::minutes(5)};

  // What limits gave of units that were asked of them.
  struct Taken {
    // For so many the metered ones had room; what one could not be asked about is nobody's
    // overspend.
    std::uint64_t units = 0;
    // So many each of them is known to have been charged: no more is given back.
    std::uint64_t charged = 0;
    GivenBack how = GivenBack::yes;
  };

  // How the limits of a reservation are reached. Calls are answered once, in any thread.
  struct Limits {
    // Gives back so many units of every charge, once for each id.
    std::function<void(const std::string& id, const HeldReservation&, std::uint64_t units,
                       std::function<void(GivenBack)>)>
        give_back;
    // Takes as much of `units` as there is, once for each HeldReservation::asked_as that is none.
    std::function<void(const HeldReservation&, std::uint64_t units, std::function<void(Taken)>)>
        take;
    // About once a second, while reservations are looked after.
    std::function<void()> now_and_then{};
  };

  // `clock` outlives this.
  explicit ReservationBook(Clock& clock) : clock_(clock) {}
  ~ReservationBook();
  ReservationBook(const ReservationBook&) = delete;
  ReservationBook& operator=(const ReservationBook&) = delete;

  // What its reservations are kept in: once, before anything but restore(). Outlives this.
  void keep_in(ledger::Journal& journal) noexcept { journal_ = &journal; }
  // Ends what expires from now on.
  void start(Limits limits);
  // Ends nothing any more. What nobody got is handed to the journal once more, to be its end.
  void stop() noexcept;

  // Of a simulation: start() begins no thread; whoever says this calls turn() when the last one
  // said, and names follow from `seed`.
  void be_driven(std::uint64_t seed) { driven_by_ = seed; }
  // One step of the thread's work. Returns how long to wait for the next.
  Nanos turn();

  // One of an earlier process, from its note. False: the note is damaged, and is passed over.
  bool restore(const ledger::Note& note);

  bool has_room() const;
  std::string new_id();
  // What the journal is to keep of a reservation.
  static ledger::Note note_of(const std::string& id, const HeldReservation& held, Instant now);
  // It is in the journal.
  void open(const std::string& id, HeldReservation held);
  // What its limits were charged goes back: it never came to be.
  void give_back(const HeldReservation& held);

  void settle(std::string_view id, std::uint64_t units,
              std::function<void(Result<Settlement>)> done);
  // Ends one whose name nobody was told, as nothing used: now, or as soon as the disk takes it.
  void drop(const std::string& id);
  Result<Nanos> heartbeat(std::string_view id, std::uint64_t so_far);

  // Work that is over and was never reserved: its limits give what they have left, and its usage is
  // recorded, durably where the disk takes it, else as soon as it does. `done` hears, once, in any
  // thread, whether it is kept.
  void report(HeldReservation held, std::uint64_t units, std::function<void(bool kept)> done);

  // That stand.
  std::size_t size() const;
  // Of these, those that should have ended by now: the disk has not taken it yet.
  std::size_t overdue() const;
  // Settled ones, whose limits have not yet got back the rest, or counted what they took beyond
  // it; and those that it was given up of.
  static constexpr std::size_t kMostReturns = 16'384;
  std::size_t returns() const;
  std::uint64_t returns_lost() const;

 private:
  struct Return {
    std::string id;
    HeldReservation held;
    std::uint64_t units = 0;
    std::optional<MonoTime> sent;  // first, without an answer
    bool takes = false;            // instead of giving back
  };
  struct Entry {
    HeldReservation held;
    bool settling = false;
    bool dropped = false;  // it ends as nothing used, and need not expire
    MonoTime until{};      // it expires then; settled: it is known until then
    // Units beyond what was reserved: so many were asked of the limits when settling was tried, and
    // so many they gave.
    std::uint64_t asked = 0;
    Taken taken;
    std::vector<Return> owed;  // of these, what the store was not reached for

    bool due(MonoTime now) const { return !held.settled && (dropped || until <= now); }
  };
  using Done = std::function<void(Result<Settlement>)>;
  void run();
  // How long what was to end at an instant of the wall's clock has left.
  MonoTime after(Instant end, Nanos most) const;
  void end_expired();
  void end_thread() noexcept;
  void keep_dropped() noexcept;
  void give_back(Return what);
  // The same of one that is counted as being given back.
  void send_back(Return what);
  void sent_back(Return what, MonoTime at, GivenBack how);
  void keep_return(Return what);
  void keep_owed(std::vector<Return> owed, std::uint64_t asked, std::uint64_t units);
  void give_back_again();
  void begin_settling(const std::string& id, std::uint64_t units, bool expired, Done done);
  // Why an id is not known here.
  Error not_known() const;
  void took(const std::string& id, Return asked, const Taken& taken);
  void record(const std::string& id, HeldReservation held, std::uint64_t units, bool expired,
              Done done);
  // What came of recording `held`, for which the limits were charged so many units.
  void settled(const std::string& id, const HeldReservation& held, std::uint64_t charged,
               const Result<void>& durable, const Done& done);

  ledger::Journal* journal_ = nullptr;
  Clock& clock_;
  Limits limits_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, Entry> entries_;
  std::size_t open_ = 0;
  std::optional<std::uint64_t> driven_by_;  // absent: by its own thread
  std::uint64_t named_ = 0;                 // driven: names given
  std::deque<Return> returns_;
  std::size_t returning_ = 0;  // that are being given back this moment
  std::uint64_t returns_lost_ = 0;
  bool store_takes_ = true;    // what was given back last
  bool more_returns_ = false;  // and there is more, which need not wait
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace weir::guard
