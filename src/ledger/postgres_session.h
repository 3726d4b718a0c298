#pragma once

#include <memory>
#include <string>

#include "ledger/sql.h"
#include "weir/result.h"

namespace weir::ledger {

// A session with PostgreSQL by libpq. `url` is a connection URI or string of libpq's; what it
// leaves out (password file, TLS files) comes from where libpq looks. Unless it says otherwise,
// connecting takes at most 5 s, a statement at most 30 s, and a dead connection is noticed within
// about 15 s.
Result<std::unique_ptr<SqlSession>> open_postgres_session(const std::string& url);

}  // namespace weir::ledger
