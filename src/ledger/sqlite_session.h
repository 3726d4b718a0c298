#pragma once

#include <memory>
#include <string>

#include "ledger/sql.h"
#include "weir/result.h"

namespace weir::ledger {

// A ledger's file, of this process, durable at every commit; begun where there is none. `vfs` as
// Database::Options.
//
// Errors:      as look_at_file(): what is no ledger stays as it is.
Result<std::unique_ptr<SqlSession>> open_sqlite_session(const std::string& path,
                                                        const std::string& vfs = {});
// One that is there, only to be read.
//
// Errors:      not_found: there is none.
Result<std::unique_ptr<SqlSession>> look_into_sqlite(const std::string& path);

}  // namespace weir::ledger
