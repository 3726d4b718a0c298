#include "ledger/write_ahead_log.h"

#include <sqlite3.h>

#include <algorithm>
#include <string>

namespace weir::ledger {
namespace {

// A page in the log, and what stands before it.
constexpr sqlite3_int64 kFrameBytes = 4'096 + 24;

}  // namespace

// After a failed sync the system may hold pages that it shows to every reader and will never write:
// another sync succeeds, and proves nothing. Written again, they are dirty again, and synced or
// refused like any others. What it shows no longer, the log's own checksums leave out.
Result<void> rewrite_log(Database& db, int pages, bool whole_log) {
  auto transaction = Transaction::begin(db);  // keeps other writers away
  if (!transaction) return transaction.error();
  sqlite3_file* log = nullptr;
  int code = sqlite3_file_control(db.handle(), "main", SQLITE_FCNTL_JOURNAL_POINTER,
                                  static_cast<void*>(&log));
  if (code != SQLITE_OK) return db.error(code, "finding its log");
  if (log == nullptr || log->pMethods == nullptr) return {};
  sqlite3_int64 size = 0;
  if (code = log->pMethods->xFileSize(log, &size); code != SQLITE_OK)
    return db.error(code, "measuring its log");
  std::string piece(std::size_t{64} << 10, '\0');
  for (sqlite3_int64 at = 0; at < size; at += static_cast<sqlite3_int64>(piece.size())) {
    const int bytes = static_cast<int>(
        std::min<sqlite3_int64>(size - at, static_cast<sqlite3_int64>(piece.size())));
    if (code = log->pMethods->xRead(log, piece.data(), bytes, at); code != SQLITE_OK)
      return db.error(code, "reading its log");
    if (code = log->pMethods->xWrite(log, piece.data(), bytes, at); code != SQLITE_OK)
      return db.error(code, "writing its log again");
  }
  // A log that has its length already is written in place: a sync that must also move the end of a
  // file costs twice as much.
  const sqlite3_int64 whole = kFrameBytes * (pages + pages / 4 + 16);
  std::fill(piece.begin(), piece.end(), '\0');
  while (size < whole && code == SQLITE_OK) {
    const int bytes = static_cast<int>(
        std::min<sqlite3_int64>(whole - size, static_cast<sqlite3_int64>(piece.size())));
    code = log->pMethods->xWrite(log, piece.data(), bytes, size);
    size += bytes;
  }
  if (code != SQLITE_OK && whole_log) return db.error(code, "making room for its log");
  if (code = log->pMethods->xSync(log, SQLITE_SYNC_NORMAL); code != SQLITE_OK)
    return db.error(code, "syncing its log");
  return {};
}

}  // namespace weir::ledger
