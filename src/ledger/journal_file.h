#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ledger/event_batch.h"
#include "ledger/journal_contents.h"
#include "ledger/journal_mark.h"
#include "ledger/note_table.h"
#include "ledger/sqlite.h"
#include "weir/clock.h"
#include "weir/result.h"

namespace weir::ledger {

// How far the ledger is, and what it would not take.
struct Settled {
  struct Rejected {
    EventNumber number = 0;
    std::string reason;
  };
  std::uint64_t journal = 0;  // whose events: JournalFile::id()
  EventNumber upto = 0;
  std::vector<Rejected> rejected;
  Instant at{};
};

// The journal on its disk: one database of SQLite, written ahead (WAL) and synced at every commit.
//
// Guarantees:  once commit() returned well, its events are there after kill -9 and after a power
//              cut, on a disk that keeps what it confirmed. After an error nobody knows whether
//              they are: drop the file and open it again, saying what is known to be durable.
// Threads:     one at a time; other connections may read.
class JournalFile {
 public:
  struct Options {
    std::string path;
    std::string vfs;  // empty: the system's files
    // Pages of the write-ahead log before they are carried into the database: 4 MiB.
    int log_pages = 1'000;
    // It is opened only where there is room for all of its log: of a disk that was full.
    bool whole_log = false;
    std::uint64_t name = 0;  // of a journal that is made; 0: drawn
    std::uint64_t most_notes = kMostNotes;
    std::uint64_t most_note_bytes = kMostNoteBytes;  // of those that end by themselves
  };
  using Counts = JournalCounts;

  // What an earlier handle is known to have made durable.
  struct Durable {
    std::uint64_t journal = 0;
    EventNumber last = 0;
    std::uint64_t notes = 0;  // notes_done()
  };
  // Opens or makes the journal, and sees to it that what can be read in it is durable: what an
  // earlier handle, or an earlier process, wrote may never have reached the disk, although the
  // system shows it. What lies behind `durable` was never acknowledged: events are removed, and
  // notes are what they were before.
  //
  // Errors:      invalid_argument: what is there is no journal of ours, or one that does not hold
  //              any more what it held (see JournalMark). It is left as it is: a journal is begun
  //              only where none ever took anything. Else as sqlite_error().
  static Result<JournalFile> open(const Options& options, std::optional<Durable> durable = {});

  // One transaction: takes over what the ledger settled, then appends the events and takes note of
  // the notes.
  Result<void> commit(const EventBatch& events, const Settled& settled,
                      std::span<const Note> notes = {});
  // What need not keep anybody waiting: carries a long log into the database.
  Result<void> tidy();
  // Whether the disk takes what a journal writes: a commit, of nothing, and the log carried into
  // the database, for which that may have to grow.
  Result<void> prove();
  // Whether its files are still where they were, and may be written to: what a journal can know of
  // its disk while it writes nothing, without asking anything of it. Always so on a disk of tests.
  //
  // Errors:      unavailable.
  Result<void> look() const;
  // Moves what is in quarantine back among the events, under new numbers.
  Result<std::uint64_t> release_quarantine();
  // The next event's number will be greater than `number`: of a journal that came back from a
  // backup, whose later numbers the ledger has seen already.
  Result<void> skip_to(EventNumber number);
  // Every page, every event, and their number.
  Result<void> verify();

  // As weir::ledger::read_notes().
  Result<void> read_notes(const std::function<void(const Note&)>& each) {
    return ledger::read_notes(db_, each);
  }
  // How many commits took notes.
  std::uint64_t notes_done() const noexcept { return notes_.done(); }

  const Counts& counts() const noexcept { return counts_; }
  // Drawn when the journal was made: the ledger tells journals apart by it.
  std::uint64_t id() const noexcept { return id_; }

 private:
  explicit JournalFile(Options options)
      : options_(std::move(options)), notes_(options_.most_notes, options_.most_note_bytes) {}

  Result<void> find();
  Result<void> set_up();
  Result<void> prepare();
  Result<void> make_tables();
  Result<void> read_name();
  Result<void> hold_against_mark();
  Result<void> remove_after(const Durable& durable);
  Result<void> count();
  Result<void> read_oldest();
  Result<void> carry_log();
  Result<bool> put_aside(const Settled::Rejected& rejected, Instant at, Counts& counts);
  Result<void> take_over(const Settled& settled, Counts& counts);
  Result<void> still_in_place() const;
  // What is durable of it.
  JournalMark::Held now() const noexcept {
    return {.journal = id_, .last = counts_.last, .notes = notes_.done()};
  }

  struct Seen {
    dev_t device = 0;
    ino_t inode = 0;
    friend bool operator==(const Seen&, const Seen&) = default;
  };
  static std::optional<Seen> seen_at(const std::string& path);

  Options options_;
  Database db_;
  Statement insert_;
  Statement row_of_;
  Statement rows_upto_;
  Statement delete_upto_;
  Statement put_aside_;
  Statement set_totals_;
  Statement oldest_;
  NoteTable notes_;
  Counts counts_;
  std::uint64_t id_ = 0;
  bool oldest_moved_ = false;
  std::unique_ptr<int> log_pages_ = std::make_unique<int>(0);
  std::optional<Seen> seen_;
  std::optional<Seen> seen_log_;
  std::optional<JournalMark::Held> held_;  // what was marked before
  std::optional<JournalMark> mark_;
};

}  // namespace weir::ledger
