#include "ledger/journal_contents.h"

#include <sys/stat.h>

#include <algorithm>

#include "ledger/packed_events.h"
#include "ledger/usage_event.h"

namespace weir::ledger {

std::optional<Instant> time_in(const Statement& row, EventNumber seen) {
  std::optional<Instant> time;
  auto at = static_cast<EventNumber>(row.number(0));
  const auto last = static_cast<EventNumber>(row.number(1));
  if (last < at) return time;
  unpack(row.bytes(2), last - at + 1, [&](std::string_view body) {
    if (at++ <= seen || time) return;
    // A damaged event has no time; settlement puts it aside.
    if (const auto event = decode(body)) time = event->at;
  });
  return time;
}

Result<JournalCounts> read_counts(Database& db) {
  auto rows = db.prepare(
      "SELECT settled_upto, settled, replayed, skipped,"
      "  max(settled_upto, floor, coalesce((SELECT max(last) FROM events), 0),"
      "      coalesce((SELECT max(number) FROM quarantine), 0)),"
      // Of the first row the ledger may have a part.
      "  (SELECT coalesce(sum(last - max(number, settled_upto + 1) + 1), 0) FROM events),"
      "  (SELECT total(length(packed)) FROM events),"
      "  (SELECT count(*) FROM quarantine), (SELECT total(length(body)) FROM quarantine),"
      // Of those that end never: as bytes_of().
      "  (SELECT total(2 * length(id) + length(body) + 32) FROM notes"
      "    WHERE until = 9223372036854775807)"
      "  FROM journal");
  if (!rows) return rows.error();
  const auto row = rows->step();
  if (!row) return row.error();
  const auto column = [&rows](int i) { return static_cast<std::uint64_t>(rows->number(i)); };
  JournalCounts counts{.last = column(4),
                       .settled_upto = column(0),
                       .settled = column(1),
                       .unsettled = column(5),
                       .unsettled_bytes = column(6),
                       .quarantined = column(7),
                       .quarantined_bytes = column(8),
                       .standing_bytes = column(9),
                       .replayed = column(2),
                       .skipped = column(3),
                       .oldest = std::nullopt};
  auto first = db.prepare("SELECT number, last, packed FROM events ORDER BY number LIMIT 1");
  if (!first) return first.error();
  const auto any = first->step();
  if (!any) return any.error();
  if (*any) counts.oldest = time_in(*first, counts.settled_upto);
  return counts;
}

Result<void> check_mark(const std::string& path, const std::optional<JournalMark::Held>& held,
                        const JournalMark::Held& now) {
  if (!held || held->nothing()) return {};
  if (held->journal != now.journal) {
    return Error{ErrorCode::invalid_argument,
                 path + ": is another journal than the one that was here, which held " +
                     held->words() +
                     "; bring that one back, or remove journal.db-mark to go on with this one"};
  }
  std::string lacks;
  if (held->last > now.last) {
    lacks = "holds events up to number " + std::to_string(now.last) + ", and once held " +
            std::to_string(held->last);
  } else if (held->notes > now.notes) {
    lacks = "holds what " + std::to_string(now.notes) +
            " commits said of reservations, keys of requests and overspend, and once held what " +
            std::to_string(held->notes) + " did";
  } else {
    return {};
  }
  return Error{ErrorCode::invalid_argument,
               path + ": " + lacks +
                   ": it, or its log journal.db-wal, was emptied, cut short, damaged or replaced"
                   "; bring both back as they were, or remove journal.db-mark to go on without "
                   "what is missing"};
}

Result<void> verify_journal(Database& db, const std::function<void(std::uint64_t)>& seen) {
  auto check = db.prepare("PRAGMA integrity_check");
  if (!check) return check.error();
  auto row = check->step();
  if (!row) return row.error();
  if (check->bytes(0) != "ok")
    return Error{ErrorCode::invalid_argument,
                 db.path() + ": damaged: " + std::string(check->bytes(0))};
  check->reset();
  auto events = db.prepare("SELECT number, last, packed FROM events ORDER BY number");
  if (!events) return events.error();
  std::uint64_t count = 0;
  for (;;) {
    row = events->step();
    if (!row) return row.error();
    if (!*row) return {};
    auto at = events->number(0);
    const auto last = events->number(1);
    std::string fault;
    unpack(events->bytes(2), static_cast<std::size_t>(std::max<std::int64_t>(last - at + 1, 0)),
           [&](std::string_view body) {
             const auto event = decode(body);
             if (!event && fault.empty())
               fault = "event " + std::to_string(at) + ": " + event.error().message;
             ++at;
             ++count;
           });
    if (seen) seen(count);
    if (!fault.empty()) return Error{ErrorCode::invalid_argument, db.path() + ": " + fault};
  }
}

std::uint64_t bytes_on_disk(const std::string& path) {
  std::uint64_t bytes = 0;
  for (const char* ending : {"", "-wal", "-shm"}) {
    struct stat found {};
    if (::stat((path + ending).c_str(), &found) == 0)
      bytes += static_cast<std::uint64_t>(found.st_size);
  }
  return bytes;
}

}  // namespace weir::ledger
