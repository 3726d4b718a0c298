#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <variant>

#include "weir/result.h"

namespace weir::ledger {

// Text as a database understands it; other bytes go as std::string_view.
struct SqlText {
  std::string_view text;
};
using SqlValue = std::variant<std::int64_t, std::string_view, SqlText>;

class SqlRow {
 public:
  virtual ~SqlRow() = default;
  virtual std::int64_t number(int column) const = 0;
  virtual std::string_view bytes(int column) const = 0;  // of text, too
};

// One session with a database, in the words that SQLite and PostgreSQL share: parameters are $1, $2
// … in the order in which they stand.
//
// Errors:      of every call: unavailable (nobody answers, or someone else is in the way: try
// again),
//              internal (it refuses this content), else what must be put right first.
// Threads:     one at a time.
class SqlSession {
 public:
  enum class Dialect { sqlite, postgresql };
  virtual ~SqlSession() = default;
  virtual Dialect dialect() const = 0;

  // `sql` is a literal: its statement is prepared once. `row` may be empty.
  virtual Result<void> run(const char* sql, std::initializer_list<SqlValue> values,
                           const std::function<void(const SqlRow&)>& row = {}) = 0;
  // The same, sooner or later: a server that is far need not be waited for a statement at a time.
  // Its rows come, and what went wrong with it is said, by a later call, by hear() or commit() at
  // the latest; after an error nothing of the transaction stands. `row` must live until then, or
  // until rollback().
  virtual Result<void> run_by_the_way(const char* sql, std::initializer_list<SqlValue> values,
                                      const std::function<void(const SqlRow&)>& row = {}) {
    return run(sql, values, row);
  }
  // Waits for what was to run by the way.
  virtual Result<void> hear() { return {}; }
  // Several statements without parameters.
  virtual Result<void> script(const char* sql) = 0;

  virtual Result<void> begin() = 0;
  virtual Result<void> commit() = 0;
  virtual void rollback() noexcept = 0;
};

}  // namespace weir::ledger
