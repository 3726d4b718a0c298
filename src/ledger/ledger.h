#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ledger/journal_reader.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::ledger {

// What became of one event.
struct Applied {
  enum class Outcome : std::uint8_t {
    billed,    // its units are in the ledger now
    already,   // they were there: nothing was done
    repeated,  // its idempotency key was billed before, for as many units: nothing was billed
    rejected,  // it cannot be billed, ever: `reason` says why
  };
  Outcome outcome = Outcome::billed;
  std::string reason;
};

// What one tenant used under one rule in one of its windows.
struct LedgerLine {
  std::string tenant;
  std::string route;
  std::string rule;
  Instant window_start{};
  Nanos window{0};
  std::uint64_t events = 0;
  std::uint64_t units = 0;
  std::uint64_t overspent = 0;  // of the units, those beyond what the limit had left to give
  std::uint64_t forgiven = 0;   // of these, those that are not billed

  std::uint64_t billed() const noexcept { return units - forgiven; }
};

// What the ledger has of one journal.
struct JournalBalance {
  EventNumber last = 0;        // up to here every event was applied or rejected
  std::uint64_t events = 0;    // billed and repeated ones
  std::uint64_t units = 0;     // of the billed ones
  std::uint64_t repeated = 0;  // of `events`
  std::uint64_t rejected = 0;
};

// Who owes what: usage by tenant, route, rule and window. Events come from journals, each under a
// number of its own.
//
// Guarantees:  what apply() says and what it does is one transaction: an event is billed once,
// however
//              often and in whichever pieces a journal tells of it, whatever breaks in between. An
//              event counts in the window of its own time, whenever it comes.
// Errors:      of every call: unavailable (try again later), internal (this content is refused),
//              else what must be put right first.
// Threads:     one at a time.
class Ledger {
 public:
  virtual ~Ledger() = default;

  // All zero for a journal that is not known.
  virtual Result<JournalBalance> journal(std::uint64_t name) = 0;
  // Applies events in their order, as one transaction. `now` is when this happens: keys and entries
  // are forgotten by it.
  virtual Result<std::vector<Applied>> apply(std::uint64_t journal,
                                             std::span<const StoredEvent> events, Instant now) = 0;
  // Passes over an event that apply() cannot take, and over all before it that are not there.
  virtual Result<void> reject(std::uint64_t journal, EventNumber number,
                              const std::string& reason) = 0;

  // Ordered by tenant, route, rule and window, a part at a time; ends early where `each` says
  // false.
  virtual Result<void> lines(const std::function<bool(const LedgerLine&)>& each) = 0;
  // How many there are.
  virtual Result<std::uint64_t> count_lines() {
    std::uint64_t count = 0;
    auto done = lines([&](const LedgerLine&) { return ++count > 0; });
    return done ? Result<std::uint64_t>(count) : Result<std::uint64_t>(done.error());
  }
  // Whether its sums agree with each other.
  virtual Result<void> verify() = 0;

 protected:
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
};

// Set by whoever ends what another thread is at.
using StopFlag = std::shared_ptr<std::atomic<bool>>;

struct LedgerOptions {
  // An idempotency key is known for so long after the event that brought it was settled.
  Nanos key_memory = std::chrono::hours(24 * 35);
  // A caller repeats a request within this time. An event that may repeat what is forgotten is
  // rejected, not billed blindly.
  Nanos retry_window = std::chrono::hours(24);
  // Single events are kept for so long after they were settled; the lines stay.
  Nanos entry_memory = std::chrono::hours(24 * 90);
  // A server that says nothing for so long, to one statement, is not waited for any more.
  Nanos patience = std::chrono::seconds(30);
  // Once it is set nobody is waited for any more.
  StopFlag stop{};
};

// Whether `url` names a ledger: `sqlite:PATH`, one worker's own; or `postgresql://…`, a fleet's.
Result<void> check_ledger_url(const std::string& url);

// Made, or brought to this release's format, where that is needed.
//
// Errors:      invalid_argument (check_ledger_url(); or what is there is no ledger),
//              failed_precondition (of a later format), else as Ledger.
Result<std::unique_ptr<Ledger>> open_ledger(const std::string& url, LedgerOptions options = {});
// Only to be read: nothing is made, and nothing changed.
//
// Errors:      not_found: there is none yet; else as open_ledger().
Result<std::unique_ptr<Ledger>> look_into_ledger(const std::string& url);

}  // namespace weir::ledger
