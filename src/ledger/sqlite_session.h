#pragma once

#include <memory>
#include <string>

#include "ledger/sql.h"
#include "weir/result.h"

namespace weir::ledger {

// A database file of this process, durable at every commit. `vfs` as Database::Options.
Result<std::unique_ptr<SqlSession>> open_sqlite_session(const std::string& path,
                                                        const std::string& vfs = {});

}  // namespace weir::ledger
