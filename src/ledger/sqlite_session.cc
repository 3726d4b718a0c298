#include "ledger/sqlite_session.h"

#include <map>
#include <utility>

#include "ledger/file_header.h"
#include "ledger/sqlite.h"

namespace weir::ledger {
namespace {

class Row final : public SqlRow {
 public:
  explicit Row(const Statement& statement) : statement_(statement) {}
  std::int64_t number(int column) const override { return statement_.number(column); }
  std::string_view bytes(int column) const override { return statement_.bytes(column); }

 private:
  const Statement& statement_;
};

class SqliteSession final : public SqlSession {
 public:
  explicit SqliteSession(Database db) : db_(std::move(db)) {}

  Dialect dialect() const override { return Dialect::sqlite; }

  Result<void> run(const char* sql, std::initializer_list<SqlValue> values,
                   const std::function<void(const SqlRow&)>& row) override {
    auto found = statements_.find(sql);
    if (found == statements_.end()) {
      auto prepared = db_.prepare(sql);
      if (!prepared) return prepared.error();
      found = statements_.emplace(sql, std::move(*prepared)).first;
    }
    Statement& statement = found->second;
    int at = 0;
    for (const SqlValue& value : values) bind(statement, ++at, value);
    for (;;) {
      const auto more = statement.step();
      if (!more) return more.error();
      if (!*more) return {};
      if (row) row(Row(statement));
    }
  }

  Result<void> script(const char* sql) override { return db_.run(sql); }
  Result<void> begin() override { return db_.run("BEGIN IMMEDIATE"); }
  Result<void> commit() override { return db_.run("COMMIT"); }
  void rollback() noexcept override { (void)db_.run("ROLLBACK"); }

 private:
  static void bind(Statement& statement, int at, const SqlValue& value) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      statement.bind(at, *number);
    } else if (const auto* bytes = std::get_if<std::string_view>(&value)) {
      statement.bind(at, *bytes);
    } else {
      statement.bind_text(at, std::get<SqlText>(value).text);
    }
  }

  Database db_;
  std::map<const char*, Statement> statements_;
};

}  // namespace

Result<std::unique_ptr<SqlSession>> open_sqlite_session(const std::string& path,
                                                        const std::string& vfs) {
  const auto found = look_at_file(path, vfs, kLedgerFile);
  if (!found) return found.error();
  auto db = Database::open({.path = path, .vfs = vfs, .create = true, .busy_ms = 1'000});
  if (!db) return db.error();
  // A beginning that did not come to its end is undone by now.
  const auto pages = db->number("PRAGMA page_count");
  if (!pages) return pages.error();
  if (*pages == 0) {
    // Before there is a write-ahead log: whatever is there is ours from its first page on.
    const std::string marks = "PRAGMA synchronous=FULL;BEGIN IMMEDIATE;PRAGMA application_id=" +
                              std::to_string(kLedgerFile.application) +
                              ";PRAGMA user_version=" + std::to_string(kLedgerFile.format) +
                              ";COMMIT";
    if (auto marked = db->run(marks.c_str()); !marked) return marked.error();
  }
  for (const char* pragma :
       {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "PRAGMA wal_autocheckpoint=1000"}) {
    if (auto set = db->run(pragma); !set) return set.error();
  }
  return std::unique_ptr<SqlSession>(std::make_unique<SqliteSession>(std::move(*db)));
}

Result<std::unique_ptr<SqlSession>> look_into_sqlite(const std::string& path) {
  const auto found = look_at_file(path, {}, kLedgerFile);
  if (!found) return found.error();
  if (*found != Found::ours) {
    return Error{ErrorCode::not_found,
                 path + (*found == Found::absent ? " is not there" : " is empty") +
                     ": nothing was settled yet"};
  }
  auto db = Database::open({.path = path, .vfs = {}, .read_only = true, .busy_ms = 1'000});
  if (!db) return db.error();
  return std::unique_ptr<SqlSession>(std::make_unique<SqliteSession>(std::move(*db)));
}

}  // namespace weir::ledger
