#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
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
// Guarantees:  a reservation ends once: its events and the mark that it ended are one transaction
// of
//              the journal. What expired is settled within two seconds, or as soon as the disk
//              takes it.
// Bounds:      kMaxReservations that stand; those that ended are known for a day, to answer who
// asks
//              again.
// Threads:     any. A thread of its own ends what expired.
class ReservationBook {
 public:
  // How the limits of a reservation are reached. Calls are answered once, in any thread.
  struct Limits {
    // Gives back so many units of every charge.
    std::function<void(const HeldReservation&, std::uint64_t units)> give_back;
    // Takes as much of `units` as there is; says how many units the metered limits had room for.
    std::function<void(const HeldReservation&, std::uint64_t units,
                       std::function<void(std::uint64_t taken)>)>
        take;
  };

  // Both outlive this.
  ReservationBook(ledger::Journal& journal, Clock& clock);
  ~ReservationBook();
  ReservationBook(const ReservationBook&) = delete;
  ReservationBook& operator=(const ReservationBook&) = delete;

  // Ends what expires from now on.
  void start(Limits limits);
  // Ends nothing any more.
  void stop() noexcept;

  // One of an earlier process, from its note.
  void restore(const ledger::Note& note);

  bool has_room() const;
  static std::string new_id();
  // What the journal is to keep of a reservation.
  static ledger::Note note_of(const std::string& id, const HeldReservation& held, Instant now);
  // It is in the journal, or on its way there.
  void open(const std::string& id, HeldReservation held);

  void settle(std::string_view id, std::uint64_t units,
              std::function<void(Result<Settlement>)> done);
  Result<Nanos> heartbeat(std::string_view id, std::uint64_t so_far);

  // That stand.
  std::size_t size() const;

 private:
  struct Entry {
    HeldReservation held;
    bool settling = false;
    Instant until{};  // settled: known until then
  };
  using Done = std::function<void(Result<Settlement>)>;

  void run();
  void end_expired();
  void begin_settling(const std::string& id, std::uint64_t units, bool expired, Done done);
  void record(const std::string& id, HeldReservation held, std::uint64_t units,
              std::uint64_t overspent, bool expired, Done done);
  void settled(const std::string& id, const HeldReservation& held, const Result<void>& durable,
               const Done& done);

  ledger::Journal& journal_;
  Clock& clock_;
  Limits limits_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::string, Entry> entries_;
  std::size_t open_ = 0;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace weir::guard
