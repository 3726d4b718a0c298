#pragma once

#include <memory>
#include <string>

#include "ledger/ledger.h"
#include "ledger/sql.h"
#include "weir/result.h"

namespace weir::ledger {

// A session with PostgreSQL by libpq. `url` is a connection URI or string of libpq's; what it
// leaves out (password file, TLS files) comes from where libpq looks. Connecting takes at most 5 s,
// unless `url` says otherwise (connect_timeout); a statement at most as long as `options` say, by
// our own clock: a server that is frozen keeps its connections open and says nothing. A session
// that gave up on its server is of no use any more: every call of it is unavailable.
Result<std::unique_ptr<SqlSession>> open_postgres_session(const std::string& url,
                                                          const LedgerOptions& options = {});

}  // namespace weir::ledger
