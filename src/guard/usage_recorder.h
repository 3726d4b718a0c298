#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "guard/disk_waits.h"
#include "guard/idempotency_table.h"
#include "guard/plan.h"
#include "guard/reservation_book.h"
#include "guard/untold_requests.h"
#include "policy/model.h"
#include "render/metrics.h"
#include "weir/clock.h"
#include "weir/observer.h"
#include "weir/result.h"

namespace weir::ledger {
class Journal;
class Ledger;
class JournalFile;
class Settler;
struct Note;
}  // namespace weir::ledger

namespace weir::guard {

// What a decision used of one tenant's metered rules, ready for the journal; and the journal and
// its settlement, as one process has them.
//
// Threads:     any.
class UsageRecorder {
 public:
  // Errors:      as Journal::open(). A ledger that does not answer is no error: events wait for it.
  static Result<std::unique_ptr<UsageRecorder>> open(const policy::JournalSpec& spec, Clock& clock,
                                                     render::Metrics& metrics, Observer* observer);
  // What lies below a recorder of a simulation, which has no thread: whoever opened it turns its
  // journal, its settler, its reservations, and its waits.
  struct Ground {
    std::string vfs;
    int log_pages = 0;
    std::function<void()> wake;                // the journal: see its Options
    std::function<void(MonoTime)> wake_waits;  // see DiskWaits
    std::function<Result<std::unique_ptr<ledger::Ledger>>()> open_ledger;
    std::uint64_t journal = 0;  // its name
    std::uint64_t process = 0;  // the first half of this process's event ids
  };
  static Result<std::unique_ptr<UsageRecorder>> open_on(const Ground& ground,
                                                        const policy::JournalSpec& spec,
                                                        Clock& clock, render::Metrics& metrics);
  ~UsageRecorder();
  UsageRecorder(const UsageRecorder&) = delete;
  UsageRecorder& operator=(const UsageRecorder&) = delete;

  // Bit i: the plan's counter i is of a metered rule that decides. 0 where the route does not
  // settle.
  static std::uint64_t metered(const Plan& plan) noexcept;

  struct Usage {
    std::uint64_t metered = 0;
    std::uint64_t overspent = 0;  // of these, bit by bit
    std::uint64_t cost = 0;
    bool outage = false;
    Instant at{};
    Rung rung = Rung::store;
  };
  // Records what a decision that stands used, within the time that the policy says. False: there is
  // no room to keep it.
  bool follow(const Plan& plan, const Usage& usage);
  // What became of it.
  struct Recorded {
    enum class What : std::uint8_t {
      yes,       // it is durable
      no,        // it is not, and never will be
      replayed,  // a call of the same name that came at the same time is, and this one is that one
      conflict,  // one of the same name and other values or cost is, or is about to be
    };
    What what = What::no;
    Rung rung = Rung::store;  // replayed: who admitted it
  };
  // Records what a decision would use: `done` says, once, what became of it. The plan is not looked
  // at after this returns.
  void append(const Plan& plan, const Usage& usage, std::function<void(Recorded)> done);

  // The same of an estimate: what is recorded is a reservation. `decision` is what a store
  // admitted, and can give back; null: nothing of it can be given back. `done` says the
  // reservation's name; absent: it could not be recorded, and is given back.
  void append_reservation(const Plan& plan, const Usage& usage, const ReservationTerms& terms,
                          const Decision* decision,
                          std::function<void(std::optional<std::string>)> done);
  ReservationBook& reservations() noexcept { return *book_; }
  ledger::Journal& journal() noexcept { return *journal_; }
  ledger::Settler& settler() noexcept { return *settler_; }
  // Work of so many units that is over: see ReservationBook::report(). The plan is not looked at
  // after this returns.
  void report(const Plan& plan, std::uint64_t units, Instant at, std::function<void(bool)> done);

  IdempotencyTable& requests() noexcept { return requests_; }
  // Whether what earlier processes left in the journal is known: not before it could be read.
  bool knows_before() const;

  // Requests that were admitted without the store, which does not know them; as many
  // as UntoldRequests holds. They are the caller's from then on: each is kept again, or told.
  std::vector<RequestName> take_untold(std::size_t most);
  void keep_untold(const RequestName& request);
  void told() noexcept { telling_.fetch_sub(1, std::memory_order_relaxed); }

  // What an earlier process served beyond its part, in windows that may not be over. `hear` is told
  // of all that is known already, and of what comes: a journal may be read late.
  struct Overspent {
    KeyDigest counter;
    Instant window{};
    std::uint64_t units = 0;
  };
  void hear_overspent(std::function<void(const Overspent&)> hear);

  // What was said to be durable came too late for its caller, who was told that it is not. A
  // reservation (else empty) ends as nothing used, as soon as the disk takes that.
  void unserved(const std::string& reservation);
  // Whether follow() would keep an event now.
  bool has_room() const;

  // Who waits for done() without a thread of its own to wait in.
  DiskWaits& waits() noexcept { return waits_; }

  // Whether the caller is in a thread that says what is durable, or that it is not: it must not
  // wait for that.
  bool in_its_thread() const noexcept;

  // Ends settlement, writes what waits where the disk takes it, and returns how many events were
  // served and never recorded. Nothing is asked of this afterwards.
  std::uint64_t close() noexcept;

  // Whether the disk takes usage.
  bool writable() const;
  // The state for people and machines: one JSON object.
  std::string state_json() const;

 private:
  class Events;
  Result<void> meet(ledger::JournalFile& file);
  // False: the note is damaged.
  bool restore(const ledger::Note& note);
  void restore_overspent(const Overspent& overspent);
  HeldReservation hold(const Plan& plan, const Usage& usage, const ReservationTerms& terms,
                       const Decision* decision);

  UsageRecorder(Clock& clock, render::Metrics& metrics, Observer* observer,
                std::function<void(MonoTime)> wake_waits = {});
  void write_metrics(render::Exposition& out) const;

  Clock& clock_;
  render::Metrics& metrics_;
  Observer* const observer_;
  std::uint64_t process_ = 0;  // drawn: the first half of this process's event ids
  std::atomic<std::uint64_t> next_{1};
  std::atomic<std::uint64_t> unserved_{0};
  std::atomic<std::uint64_t> unreadable_{0};  // notes
  std::uint64_t source_ = 0;
  std::unique_ptr<ReservationBook> book_;
  IdempotencyTable requests_;
  mutable std::mutex mutex_;
  DiskWaits waits_;
  std::vector<Overspent> overspent_before_;
  std::function<void(const Overspent&)> hear_overspent_;
  UntoldRequests untold_;
  std::atomic<std::uint64_t> telling_{0};     // taken, and neither told nor kept again
  std::unique_ptr<ledger::Journal> journal_;  // its thread uses what stands above
  std::unique_ptr<ledger::Settler> settler_;
};

// The values of a counter's key as a bill names them: one as it came, several with '/' between
// them. '%', '/', and a '~' or '#' in front are escaped as %XX; "~" is an absent value, "#" and 32
// hexadecimal digits the digest of a long one.
std::string tenant_of(std::string_view key);

}  // namespace weir::guard
