#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "weir/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace weir::ledger {

// What SQLite or the disk below it said, in words, and what the caller can do about it:
// resource_exhausted (full), failed_precondition (read-only, no right), unavailable (locked, an
// error of the disk), invalid_argument (damaged, or no such file).
Error sqlite_error(sqlite3* db, int code, const std::string& path, const char* doing);

// One prepared statement. Parameters and columns count as SQLite counts them: from 1, and from 0.
//
// Threads:     one at a time, as its Database.
class Statement {
 public:
  Statement() = default;

  Statement& bind(int at, std::int64_t value);
  // Not copied: `bytes` stay until the next step() is over.
  Statement& bind(int at, std::string_view bytes);
  Statement& bind_text(int at, std::string_view text);

  // True: a row is there. False: done, and ready for the next bind() and step().
  Result<bool> step();
  // Runs to the end, passing over rows.
  Result<void> run();
  void reset() noexcept;

  std::int64_t number(int column) const;
  // Valid until the next step() or reset().
  std::string_view bytes(int column) const;

 private:
  friend class Database;
  struct Finalise {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalise> handle_;
  const std::string* path_ = nullptr;
};

// One connection to a database of SQLite. Movable; statements end before it does.
class Database {
 public:
  struct Options {
    std::string path;
    std::string vfs;  // empty: the system's files
    bool create = false;
    bool read_only = false;
    int busy_ms = 50;  // how long another program's lock is waited for
  };
  // Errors:      as sqlite_error().
  static Result<Database> open(const Options& options);

  Result<void> run(const char* sql);
  Result<Statement> prepare(const char* sql);
  // The first column of the first row; 0 where there is none.
  Result<std::int64_t> number(const char* sql);

  Error error(int code, const char* doing) const;
  sqlite3* handle() const noexcept { return handle_.get(); }
  const std::string& path() const noexcept { return *path_; }

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  std::unique_ptr<std::string> path_;  // statements point to it
  std::unique_ptr<sqlite3, Close> handle_;
};

// A transaction that has the write lock from its begin. Rolled back unless commit() succeeded.
class Transaction {
 public:
  static Result<Transaction> begin(Database& db);
  Transaction(Transaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  // Errors:      what was written may be there all the same: nobody knows after a failed barrier.
  Result<void> commit();

 private:
  explicit Transaction(Database& db) : db_(&db) {}
  Database* db_;
};

}  // namespace weir::ledger
