#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ledger/journal_file.h"
#include "ledger/usage_event.h"

namespace weir::ledger {

// An event as it lies in the journal.
struct StoredEvent {
  EventNumber number = 0;
  std::string body;

  // Errors:      as ledger::decode(). Its texts point into `body`.
  Result<UsageEvent> read() const { return decode(body); }
};

struct QuarantinedEvent {
  StoredEvent event;
  Instant at{};
  std::string reason;
};

// Reads a journal beside whoever writes it.
//
// Errors:      of every call: as sqlite_error().
// Threads:     one at a time.
class JournalReader {
 public:
  // Not found is an error: nothing is made, and nothing that is no journal of ours is touched.
  static Result<JournalReader> open(const JournalFile::Options& options);

  // The unsettled events behind `seen` and up to `upto`, in their order, at most `most`.
  Result<std::vector<StoredEvent>> events(EventNumber seen, EventNumber upto, std::size_t most);
  Result<std::vector<QuarantinedEvent>> quarantine(EventNumber seen, std::size_t most);
  // Calls `each` for every note, in no order; their `what` and `at` mean nothing.
  Result<void> notes(const std::function<void(const Note&)>& each);
  // Of a moment: what the journal holds.
  Result<JournalFile::Counts> counts();
  Result<std::uint64_t> id();
  // Whether it still holds what it once held.
  Result<void> whole();
  // Every page and every event; `seen` is told how many by and by.
  Result<void> verify(const std::function<void(std::uint64_t)>& seen = {}) {
    return verify_journal(db_, seen);
  }

 private:
  std::optional<JournalMark::Held> held_;  // before anything was read
  Database db_;
};

}  // namespace weir::ledger
