#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guard/idempotency_table.h"
#include "guard/plan.h"
#include "guard/reservation_book.h"
#include "policy/model.h"
#include "render/metrics.h"
#include "weir/clock.h"
#include "weir/observer.h"
#include "weir/result.h"

namespace weir::ledger {
class Journal;
class Ledger;
class Settler;
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
  // journal and its settler.
  struct Ground {
    std::string vfs;
    int log_pages = 0;
    std::function<void()> wake;  // the journal: see its Options
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
  // Records what a decision would use: `done` says, once, whether it is durable. The plan is not
  // looked at after this returns.
  void append(const Plan& plan, const Usage& usage, std::function<void(bool)> done);

  // The same of an estimate: what is recorded is a reservation. `decision` is what a store
  // admitted, and can give back; null: nothing of it can be given back.
  std::optional<std::string> follow_reservation(const Plan& plan, const Usage& usage,
                                                const ReservationTerms& terms,
                                                const Decision& decision);
  void append_reservation(const Plan& plan, const Usage& usage, const ReservationTerms& terms,
                          std::function<void(std::optional<std::string>)> done);
  ReservationBook& reservations() noexcept { return *book_; }
  ledger::Journal& journal() noexcept { return *journal_; }
  ledger::Settler& settler() noexcept { return *settler_; }

  IdempotencyTable& requests() noexcept { return requests_; }

  // What an earlier process served beyond its part, in windows that may not be over.
  struct Overspent {
    KeyDigest counter;
    Instant window{};
    std::uint64_t units = 0;
  };
  const std::vector<Overspent>& overspent_before() const noexcept { return overspent_before_; }

  // What append() said is durable came too late for its caller, who was told that it is not.
  void count_unserved() noexcept { unserved_.fetch_add(1, std::memory_order_relaxed); }
  // Whether follow() would keep an event now.
  bool has_room() const;

  // Whether the caller is in the thread that says what is durable: it must not wait for that.
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
  void read_notes();
  HeldReservation hold(const Plan& plan, const Usage& usage, const ReservationTerms& terms,
                       const Decision* decision);

  UsageRecorder(Clock& clock, render::Metrics& metrics);
  void write_metrics(render::Exposition& out) const;

  Clock& clock_;
  render::Metrics& metrics_;
  std::uint64_t process_ = 0;  // drawn: the first half of this process's event ids
  std::atomic<std::uint64_t> next_{1};
  std::atomic<std::uint64_t> unserved_{0};
  std::uint64_t source_ = 0;
  std::unique_ptr<ledger::Journal> journal_;
  std::unique_ptr<ledger::Settler> settler_;
  std::unique_ptr<ReservationBook> book_;
  IdempotencyTable requests_;
  std::vector<Overspent> overspent_before_;
};

// The values of a counter's key as a bill names them: one as it came, several with '/' between
// them. '%', '/', and a '~' or '#' in front are escaped as %XX; "~" is an absent value, "#" and 32
// hexadecimal digits the digest of a long one.
std::string tenant_of(std::string_view key);

}  // namespace weir::guard
