#include "ledger/note_table.h"

#include <algorithm>
#include <string>
#include <utility>

namespace weir::ledger {
namespace {

// A note before the last transaction that took notes; `until` is null where there was none.
constexpr const char* kTables =
    "CREATE TABLE notes_state(id INTEGER PRIMARY KEY, format INTEGER NOT NULL,"
    "  done INTEGER NOT NULL);"
    "CREATE TABLE notes_before(id BLOB PRIMARY KEY, until INTEGER, units INTEGER, body BLOB)"
    "  WITHOUT ROWID;";

// How many of too many go at once, and how often in one transaction: it is not to take long.
constexpr std::int64_t kFewer = 256;
constexpr int kTimes = 40;

// As bytes_of(), and whether a note stands: its `until` is kStands.
constexpr const char* kBytes = "2 * length(id) + length(body) + 32";
constexpr const char* kIsStanding = "until = 9223372036854775807";

Error of_later_format(const Database& db, std::int64_t format) {
  return Error{ErrorCode::failed_precondition,
               db.path() + ": its notes are of format " + std::to_string(format) +
                   ", and this release reads those up to " + std::to_string(NoteTable::kFormat) +
                   "; run the release that wrote them, or a later one"};
}

// Absent tables are of journals that were begun before notes had a format.
Result<std::int64_t> format_of(Database& db) {
  const auto there = db.number("SELECT count(*) FROM sqlite_schema WHERE name = 'notes_state'");
  if (!there) return there.error();
  return *there == 0 ? std::int64_t{0} : db.number("SELECT format FROM notes_state");
}

}  // namespace

Result<void> NoteTable::open(Database& db) {
  const auto format = format_of(db);
  if (!format) return format.error();
  if (*format > kFormat) return of_later_format(db, *format);
  if (*format == 0) {
    auto transaction = Transaction::begin(db);
    if (!transaction) return transaction.error();
    if (auto made = make_tables(db); !made) return made;
    if (auto kept = transaction->commit(); !kept) return kept;
  }
  if (auto prepared = prepare(db); !prepared) return prepared;
  return read_state();
}

Result<void> NoteTable::make_tables(Database& db) {
  if (auto made = db.run(kTables); !made) return made;
  auto first = db.prepare("INSERT INTO notes_state VALUES(1, ?, 0)");
  if (!first) return first.error();
  return first->bind(1, kFormat).run();
}

Result<void> NoteTable::prepare(Database& db) {
  const std::string bytes = kBytes;
  const std::string standing = kIsStanding;
  const std::string removed = "  RETURNING " + bytes + ", " + standing;
  const std::pair<Statement*, std::string> all[] = {
      {&put_, "INSERT OR REPLACE INTO notes VALUES(?, ?, ?, ?)"},
      {&add_,
       "INSERT INTO notes VALUES(?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET"
       "  units = units + excluded.units, until = excluded.until, body = excluded.body"},
      {&remove_, "DELETE FROM notes WHERE id = ?"},
      // The first of a transaction's steps says what was there before it.
      {&keep_before_,
       "INSERT OR IGNORE INTO notes_before SELECT one.id, old.until, old.units, old.body"
       "  FROM (SELECT ? AS id) AS one LEFT JOIN notes AS old ON old.id = one.id"},
      {&clear_before_, "DELETE FROM notes_before"},
      {&restore_before_,
       "INSERT INTO notes SELECT id, until, units, body FROM notes_before WHERE until IS NOT NULL"},
      {&remove_touched_, "DELETE FROM notes WHERE id IN (SELECT id FROM notes_before)"},
      {&read_done_, "SELECT done FROM notes_state"},
      {&count_all_, "SELECT count(*), total(" + bytes + "), (SELECT total(" + bytes +
                        ") FROM notes WHERE " + standing + ") FROM notes"},
      {&look_, "SELECT " + bytes + ", " + standing + " FROM notes WHERE id = ?"},
      {&set_done_, "UPDATE notes_state SET done = ?"},
      // A few at a time, so that no commit pays for all.
      {&forget_,
       "DELETE FROM notes WHERE id IN"
       "  (SELECT id FROM notes WHERE until < ? ORDER BY until LIMIT 1000)" +
           removed},
      // Keys of requests first: the store and the ledger know them, too, and nobody else knows what
      // was overspent.
      {&fewer_keys_,
       "DELETE FROM notes WHERE id IN"
       "  (SELECT id FROM notes WHERE id >= x'6b' AND id < x'6c' ORDER BY until LIMIT ?)" +
           removed},
      {&fewer_, "DELETE FROM notes WHERE id IN (SELECT id FROM notes WHERE NOT " + standing +
                    " ORDER BY until LIMIT ?)" + removed},
  };
  for (const auto& [statement, sql] : all) {
    auto prepared = db.prepare(sql.c_str());
    if (!prepared) return prepared.error();
    *statement = std::move(*prepared);
  }
  return {};
}

// The statements, unlike the database's handle, stay good when the file that owns both is moved.
Result<std::uint64_t> NoteTable::number_of(Statement& statement) {
  const auto row = statement.step();
  if (!row) return row.error();
  const auto found = static_cast<std::uint64_t>(*row ? statement.number(0) : 0);
  statement.reset();
  return found;
}

Result<void> NoteTable::read_state() {
  const auto done = number_of(read_done_);
  if (!done) return done.error();
  const auto row = count_all_.step();
  if (!row) return row.error();
  const auto column = [this](int i) { return static_cast<std::uint64_t>(count_all_.number(i)); };
  holds_ = {.notes = column(0), .bytes = column(1) - column(2), .standing = column(2)};
  count_all_.reset();
  holding_ = holds_;
  done_ = taking_ = *done;
  return {};
}

// What stands under an id now is about to be something else, or nothing.
Result<void> NoteTable::count_out(const std::string& id) {
  const auto row = look_.bind(1, std::string_view(id)).step();
  if (!row) return row.error();
  if (*row) {
    (look_.number(1) != 0 ? holding_.standing : holding_.bytes) -=
        static_cast<std::uint64_t>(look_.number(0));
    --holding_.notes;
  }
  look_.reset();
  return {};
}

// Carries out what removes notes and returns them.
Result<void> NoteTable::remove_by(Statement& statement) {
  for (;;) {
    const auto row = statement.step();
    if (!row) return row.error();
    if (!*row) return {};
    (statement.number(1) != 0 ? holding_.standing : holding_.bytes) -=
        static_cast<std::uint64_t>(statement.number(0));
    --holding_.notes;
  }
}

Result<void> NoteTable::take(std::span<const Note> notes) {
  taking_ = done_;
  holding_ = holds_;
  if (notes.empty()) return {};
  if (auto done = clear_before_.run(); !done) return done;
  Instant now{};
  for (const Note& note : notes) {
    now = std::max(now, note.at);
    const std::string_view id = note.id;
    if (auto done = keep_before_.bind(1, id).run(); !done) return done;
    if (auto done = count_out(note.id); !done) return done;
    Statement& statement = note.what == Note::Do::put   ? put_
                           : note.what == Note::Do::add ? add_
                                                        : remove_;
    statement.bind(1, id);
    if (note.what != Note::Do::remove) {
      statement.bind(2, std::int64_t{note.until.time_since_epoch().count()})
          .bind(3, note.units)
          .bind(4, std::string_view(note.body));
      (note.until == kStands ? holding_.standing : holding_.bytes) += bytes_of(note);
      ++holding_.notes;
    }
    if (auto done = statement.run(); !done) return done;
  }
  forget_.bind(1, std::int64_t{now.time_since_epoch().count()});
  if (auto done = remove_by(forget_); !done) return done;
  if (auto done = keep_few(); !done) return done;
  taking_ = done_ + 1;
  return set_done_.bind(1, static_cast<std::int64_t>(taking_)).run();
}

Result<void> NoteTable::keep_few() {
  const auto too_many = [this] { return holding_.notes > most_ || holding_.bytes > most_bytes_; };
  for (Statement* fewer : {&fewer_keys_, &fewer_}) {
    for (int times = 0; too_many() && times < kTimes; ++times) {
      const std::uint64_t before = holding_.notes;
      fewer->bind(1, kFewer);
      if (auto done = remove_by(*fewer); !done) return done;
      if (holding_.notes == before) break;  // there are no such ones
    }
  }
  return {};
}

void NoteTable::committed() noexcept {
  done_ = taking_;
  holds_ = holding_;
}

Result<void> NoteTable::undo_after(std::uint64_t done) {
  if (done_ <= done) return {};
  for (Statement* step : {&remove_touched_, &restore_before_, &clear_before_}) {
    if (auto undone = step->run(); !undone) return undone;
  }
  taking_ = done;
  return set_done_.bind(1, static_cast<std::int64_t>(done)).run();
}

Result<std::uint64_t> notes_done(Database& db) {
  const auto format = format_of(db);
  if (!format) return format.error();
  if (*format == 0) return std::uint64_t{0};
  const auto done = db.number("SELECT done FROM notes_state");
  if (!done) return done.error();
  return static_cast<std::uint64_t>(*done);
}

Result<void> read_notes(Database& db, const std::function<void(const Note&)>& each) {
  const auto format = format_of(db);
  if (!format) return format.error();
  if (*format > NoteTable::kFormat) return of_later_format(db, *format);
  // As they lie: by the order of their ends each would be looked for by itself, which takes minutes
  // of a million.
  auto rows = db.prepare("SELECT id, until, units, body FROM notes");
  if (!rows) return rows.error();
  for (;;) {
    const auto row = rows->step();
    if (!row) return row.error();
    if (!*row) return {};
    each({.id = std::string(rows->bytes(0)),
          .at = {},
          .until = Instant{Nanos(rows->number(1))},
          .units = rows->number(2),
          .body = std::string(rows->bytes(3))});
  }
}

}  // namespace weir::ledger
