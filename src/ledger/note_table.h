#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "ledger/note.h"
#include "ledger/sqlite.h"
#include "weir/result.h"

namespace weir::ledger {

// The notes of a journal, in its database.
//
// Guarantees:  what a transaction did to notes can be undone until the next one is taken: a commit
//              whose barrier failed leaves nothing of what it said no to, neither events nor notes.
// Threads:     one at a time, as its Database.
class NoteTable {
 public:
  // It holds so many at most, and so many bytes of those that do not stand.
  explicit NoteTable(std::uint64_t most = kMostNotes, std::uint64_t most_bytes = kMostNoteBytes)
      : most_(most), most_bytes_(most_bytes) {}

  // Of the notes' tables and of what is in them. A journal's file has a format of its own.
  static constexpr std::int64_t kFormat = 1;

  // Within the caller's transaction: the tables of a database that has none of them.
  static Result<void> make_tables(Database& db);
  // Makes what is missing of the tables, in a transaction of its own.
  //
  // Errors:      failed_precondition: the notes are of a later format. They are left as they are.
  Result<void> open(Database& db);

  // Within the caller's transaction: takes note, and forgets what ended by the way.
  Result<void> take(std::span<const Note> notes);
  // The caller's transaction came to its end: it was taken.
  void committed() noexcept;
  // Within the caller's transaction: what was taken after transaction number `done` never was.
  Result<void> undo_after(std::uint64_t done);
  // What it holds, from the database: after undo_after() was committed.
  Result<void> read_state();

  // How many transactions took notes.
  std::uint64_t done() const noexcept { return done_; }

  // What it holds: see bytes_of().
  struct Holds {
    std::uint64_t notes = 0;
    std::uint64_t bytes = 0;     // of those that end by themselves
    std::uint64_t standing = 0;  // bytes of the others
  };
  const Holds& holds() const noexcept { return holds_; }

 private:
  Result<void> prepare(Database& db);
  Result<void> count_out(const std::string& id);
  Result<void> remove_by(Statement& statement);
  Result<void> keep_few();
  static Result<std::uint64_t> number_of(Statement& statement);

  std::uint64_t most_ = kMostNotes;
  std::uint64_t most_bytes_ = kMostNoteBytes;
  Statement put_;
  Statement add_;
  Statement remove_;
  Statement keep_before_;
  Statement clear_before_;
  Statement restore_before_;
  Statement remove_touched_;
  Statement read_done_;
  Statement count_all_;
  Statement look_;
  Statement set_done_;
  Statement forget_;
  Statement fewer_keys_;
  Statement fewer_;
  std::uint64_t done_ = 0;
  std::uint64_t taking_ = 0;  // done_, once the transaction is committed
  Holds holds_;
  Holds holding_;  // holds_, once the transaction is committed
};

// As NoteTable::done(), from the database.
Result<std::uint64_t> notes_done(Database& db);

// Calls `each` for every note, in no order; their `what` and `at` mean nothing.
//
// Errors:      failed_precondition: the notes are of a later format; else as sqlite_error().
Result<void> read_notes(Database& db, const std::function<void(const Note&)>& each);

}  // namespace weir::ledger
