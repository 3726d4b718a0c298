#include "ledger/sqlite.h"

#include <sqlite3.h>

#include <cstring>
#include <utility>

namespace weir::ledger {
namespace {

struct Said {
  ErrorCode code;
  const char* words;
};

Said said(int code) {
  switch (code & 0xff) {
    case SQLITE_FULL:
      return {ErrorCode::resource_exhausted, "the disk is full"};
    case SQLITE_READONLY:
      return {ErrorCode::failed_precondition, "the file or its disk is read-only"};
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return {ErrorCode::failed_precondition, "access is denied"};
    case SQLITE_CANTOPEN:
      return {ErrorCode::unavailable, "the file cannot be opened"};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::unavailable, "another program holds its lock"};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {ErrorCode::invalid_argument, "the file is damaged, or no journal"};
    case SQLITE_NOMEM:
      return {ErrorCode::resource_exhausted, "memory is exhausted"};
    default:
      break;
  }
  if (code == SQLITE_IOERR_FSYNC || code == SQLITE_IOERR_DIR_FSYNC)
    return {ErrorCode::unavailable, "the disk did not confirm what it was given"};
  if ((code & 0xff) == SQLITE_IOERR) return {ErrorCode::unavailable, "the disk reports an error"};
  return {ErrorCode::internal, "SQLite refuses it"};
}

}  // namespace

Error sqlite_error(sqlite3* db, int code, const std::string& path, const char* doing) {
  const Said what = said(code);
  std::string message = path + ": " + doing + ": " + what.words + " (" + sqlite3_errstr(code);
  const int system = db != nullptr ? sqlite3_system_errno(db) : 0;
  const int kind = code & 0xff;
  if (system != 0 && (kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN || kind == SQLITE_FULL)) {
    message += std::string("; ") + std::strerror(system);
  } else if (what.code == ErrorCode::internal && db != nullptr) {
    message += std::string("; ") + sqlite3_errmsg(db);
  }
  return Error{what.code, message + ")"};
}

void Statement::Finalise::operator()(sqlite3_stmt* statement) const {
  sqlite3_finalize(statement);
}

Statement& Statement::bind(int at, std::int64_t value) {
  sqlite3_bind_int64(handle_.get(), at, value);
  return *this;
}

Statement& Statement::bind(int at, std::string_view bytes) {
  // No bytes are an empty blob; a null pointer would bind NULL.
  sqlite3_bind_blob64(handle_.get(), at, bytes.empty() ? "" : bytes.data(), bytes.size(),
                      SQLITE_STATIC);
  return *this;
}

Statement& Statement::bind_text(int at, std::string_view text) {
  sqlite3_bind_text64(handle_.get(), at, text.empty() ? "" : text.data(), text.size(),
                      SQLITE_STATIC, SQLITE_UTF8);
  return *this;
}

Result<bool> Statement::step() {
  const int code = sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) {
    reset();
    return false;
  }
  sqlite3* db = sqlite3_db_handle(handle_.get());
  Error error = sqlite_error(db, sqlite3_extended_errcode(db), *path_, "a statement");
  reset();
  return error;
}

Result<void> Statement::run() {
  for (;;) {
    const Result<bool> row = step();
    if (!row) return row.error();
    if (!*row) return {};
  }
}

void Statement::reset() noexcept {
  sqlite3_reset(handle_.get());
}

std::int64_t Statement::number(int column) const {
  return sqlite3_column_int64(handle_.get(), column);
}

std::string_view Statement::bytes(int column) const {
  const void* data = sqlite3_column_blob(handle_.get(), column);
  const int size = sqlite3_column_bytes(handle_.get(), column);
  if (data == nullptr) return {};
  return {static_cast<const char*>(data), static_cast<std::size_t>(size)};
}

void Database::Close::operator()(sqlite3* handle) const {
  sqlite3_close_v2(handle);
}

Result<Database> Database::open(const Options& options) {
  Database db;
  db.path_ = std::make_unique<std::string>(options.path);
  sqlite3* handle = nullptr;
  const int flags = (options.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE) |
                    (options.create ? SQLITE_OPEN_CREATE : 0) | SQLITE_OPEN_NOMUTEX |
                    SQLITE_OPEN_EXRESCODE;
  const int code = sqlite3_open_v2(options.path.c_str(), &handle, flags,
                                   options.vfs.empty() ? nullptr : options.vfs.c_str());
  db.handle_.reset(handle);
  if (code != SQLITE_OK) return db.error(code, "opening");
  sqlite3_busy_timeout(handle, options.busy_ms);
  // Closing writes nothing: what a failed handle would still write is not to be trusted.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  return db;
}

Result<void> Database::run(const char* sql) {
  const int code = sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code, sql);
  return {};
}

Result<Statement> Database::prepare(const char* sql) {
  sqlite3_stmt* handle = nullptr;
  const int code =
      sqlite3_prepare_v3(handle_.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
  if (code != SQLITE_OK) return error(code, sql);
  Statement statement;
  statement.handle_.reset(handle);
  statement.path_ = path_.get();
  return statement;
}

Result<std::int64_t> Database::number(const char* sql) {
  auto statement = prepare(sql);
  if (!statement) return statement.error();
  const auto row = statement->step();
  if (!row) return row.error();
  return *row ? statement->number(0) : 0;
}

Error Database::error(int code, const char* doing) const {
  return sqlite_error(handle_.get(), code, *path_, doing);
}

Result<Transaction> Transaction::begin(Database& db) {
  if (auto begun = db.run("BEGIN IMMEDIATE"); !begun) return begun.error();
  return Transaction(db);
}

Transaction::~Transaction() {
  if (db_ != nullptr) (void)db_->run("ROLLBACK");
}

Result<void> Transaction::commit() {
  if (auto done = db_->run("COMMIT"); !done) return done;
  db_ = nullptr;
  return {};
}

}  // namespace weir::ledger
