#pragma once

#include "ledger/sqlite.h"
#include "weir/result.h"

namespace weir::ledger {

// Sees to it that what can be read in a database's write-ahead log is on the disk, and makes the
// log as long as `pages` pages and some more, so that commits need not move its end. Where there is
// no room for that the log grows as it needs, or, with `whole_log`, that is an error.
//
// Errors:      as sqlite_error(): nobody knows what is on the disk.
Result<void> rewrite_log(Database& db, int pages, bool whole_log);

}  // namespace weir::ledger
