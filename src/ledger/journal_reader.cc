#include "ledger/journal_reader.h"

#include <utility>

#include "ledger/file_header.h"
#include "ledger/packed_events.h"

namespace weir::ledger {

Result<JournalReader> JournalReader::open(const JournalFile::Options& options) {
  JournalReader reader;
  if (options.vfs.empty()) {
    // First: whoever writes marks what it has committed already.
    const auto held = JournalMark::read(options.path);
    if (!held) return held.error();
    reader.held_ = *held;
  }
  const auto found = look_at_file(options.path, options.vfs, kJournalFile);
  if (!found) return found.error();
  if (*found != Found::ours) {
    return Error{ErrorCode::invalid_argument,
                 options.path + (*found == Found::absent ? ": is not there" : ": is empty") +
                     "; `weir serve` makes a journal where the policy says"};
  }
  auto db = Database::open(
      {.path = options.path, .vfs = options.vfs, .read_only = true, .busy_ms = 1'000});
  if (!db) return db.error();
  reader.db_ = std::move(*db);
  return reader;
}

Result<std::vector<StoredEvent>> JournalReader::events(EventNumber seen, EventNumber upto,
                                                       std::size_t most) {
  auto rows = db_.prepare(
      "SELECT number, last, packed FROM events WHERE last > ? AND number <= ? ORDER BY number");
  if (!rows) return rows.error();
  rows->bind(1, static_cast<std::int64_t>(seen)).bind(2, static_cast<std::int64_t>(upto));
  std::vector<StoredEvent> out;
  while (out.size() < most) {
    const auto row = rows->step();
    if (!row) return row.error();
    if (!*row) return out;
    auto at = static_cast<EventNumber>(rows->number(0));
    const auto last = static_cast<EventNumber>(rows->number(1));
    unpack(rows->bytes(2), last >= at ? last - at + 1 : 0, [&](std::string_view body) {
      if (at > seen && at <= upto && out.size() < most) out.push_back({at, std::string(body)});
      ++at;
    });
  }
  return out;
}

Result<std::vector<QuarantinedEvent>> JournalReader::quarantine(EventNumber seen,
                                                                std::size_t most) {
  auto rows = db_.prepare(
      "SELECT number, at, reason, body FROM quarantine WHERE number > ? ORDER BY number LIMIT ?");
  if (!rows) return rows.error();
  rows->bind(1, static_cast<std::int64_t>(seen)).bind(2, static_cast<std::int64_t>(most));
  std::vector<QuarantinedEvent> out;
  for (;;) {
    const auto row = rows->step();
    if (!row) return row.error();
    if (!*row) return out;
    out.push_back(
        {.event = {static_cast<EventNumber>(rows->number(0)), std::string(rows->bytes(3))},
         .at = Instant{Nanos(rows->number(1))},
         .reason = std::string(rows->bytes(2))});
  }
}

Result<void> JournalReader::notes(const std::function<void(const Note&)>& each) {
  return read_notes(db_, each);
}

Result<JournalFile::Counts> JournalReader::counts() {
  return read_counts(db_);
}

Result<void> JournalReader::whole() {
  const auto name = id();
  if (!name) return name.error();
  const auto now = counts();
  if (!now) return now.error();
  const auto notes = notes_done(db_);
  if (!notes) return notes.error();
  return check_mark(db_.path(), held_, {.journal = *name, .last = now->last, .notes = *notes});
}

Result<std::uint64_t> JournalReader::id() {
  auto name = db_.number("SELECT name FROM journal");
  if (!name) return name.error();
  return static_cast<std::uint64_t>(*name);
}

}  // namespace weir::ledger
