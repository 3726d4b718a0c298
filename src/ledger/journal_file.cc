#include "ledger/journal_file.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/key_digest.h"
#include "ledger/file_header.h"
#include "ledger/journal_contents.h"
#include "ledger/packed_events.h"
#include "ledger/write_ahead_log.h"

namespace weir::ledger {
namespace {

// The database grows in steps, so that most commits move no end of file.
constexpr int kGrowth = 1 << 20;

constexpr const char* kTables =
    "CREATE TABLE journal(id INTEGER PRIMARY KEY, format INTEGER NOT NULL,"
    "  name INTEGER NOT NULL, settled_upto INTEGER NOT NULL, settled INTEGER NOT NULL,"
    "  replayed INTEGER NOT NULL, skipped INTEGER NOT NULL, floor INTEGER NOT NULL);"
    "CREATE TABLE events(number INTEGER PRIMARY KEY, last INTEGER NOT NULL,"
    "  packed BLOB NOT NULL);"
    "CREATE TABLE quarantine(number INTEGER PRIMARY KEY, at INTEGER NOT NULL,"
    "  reason TEXT NOT NULL, body BLOB NOT NULL);"
    "CREATE TABLE notes(id BLOB PRIMARY KEY, until INTEGER NOT NULL, units INTEGER NOT NULL,"
    "  body BLOB NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX notes_by_end ON notes(until);";

int note_pages(void* pages, sqlite3*, const char*, int count) {
  *static_cast<int*>(pages) = count;
  return SQLITE_OK;
}

std::int64_t random_name() {
  const KeyHasher::Secret secret = KeyHasher::random_secret();
  std::uint64_t name = 0;
  for (std::size_t i = 0; i < 8; ++i) name = name << 8 | secret[i];
  return static_cast<std::int64_t>(name >> 1 | 1);  // positive: it is shown to people
}

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::int64_t number(EventNumber event) {
  return static_cast<std::int64_t>(event);
}

// How many events of first to last lie behind `after` and up to `upto`.
std::uint64_t overlap(EventNumber first, EventNumber last, EventNumber after, EventNumber upto) {
  first = std::max(first, after + 1);
  last = std::min(last, upto);
  return last >= first ? last - first + 1 : 0;
}

}  // namespace

std::optional<JournalFile::Seen> JournalFile::seen_at(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return std::nullopt;
  return Seen{found.st_dev, found.st_ino};
}

namespace {

// What to do about a journal that is not what it was.
constexpr const char* kWayOut =
    "; bring it back as it was, or, to begin another journal here, move all files away whose names "
    "begin with journal.db";

Error no_more(const std::string& path, const std::string& what, const JournalMark::Held& held) {
  return Error{ErrorCode::invalid_argument,
               path + ": " + what + ", and held " + held.words() + kWayOut};
}

}  // namespace

Result<JournalFile> JournalFile::open(const Options& options, std::optional<Durable> durable) {
  JournalFile file(options);
  if (auto found = file.find(); !found) return found.error();
  auto db = Database::open({.path = options.path, .vfs = options.vfs, .create = true});
  if (!db) return db.error();
  file.db_ = std::move(*db);
  if (auto set = file.set_up(); !set) {
    Error error = set.error();
    if (error.code == ErrorCode::invalid_argument) error.message += kWayOut;
    return error;
  }
  if (auto opened = file.notes_.open(file.db_); !opened) return opened.error();
  if (durable && durable->journal == file.id_) {
    if (auto removed = file.remove_after(*durable); !removed) return removed.error();
  }
  if (auto prepared = file.prepare(); !prepared) return prepared.error();
  if (auto counted = file.count(); !counted) return counted.error();
  if (auto whole = file.hold_against_mark(); !whole) return whole.error();
  if (options.vfs.empty()) {
    file.seen_ = seen_at(options.path);
    file.seen_log_ = seen_at(options.path + "-wal");
    if (!file.seen_ || !file.seen_log_)
      return Error{ErrorCode::unavailable, options.path + ": was taken away"};
    if (auto fit = file.look(); !fit) return fit.error();
  }
  return file;
}

// Looks before SQLite touches anything.
Result<void> JournalFile::find() {
  if (options_.vfs.empty()) {
    const auto held = JournalMark::read(options_.path);
    if (!held) return held.error();
    held_ = *held;
  }
  const auto found = look_at_file(options_.path, options_.vfs, kJournalFile);
  if (!found) return found.error();
  if (*found == Found::ours || !held_ || held_->nothing()) return {};
  return no_more(options_.path, *found == Found::absent ? "is gone" : "is empty", *held_);
}

Result<void> JournalFile::set_up() {
  int growth = kGrowth;
  sqlite3_file_control(db_.handle(), "main", SQLITE_FCNTL_CHUNK_SIZE, &growth);
  if (auto set = db_.run("PRAGMA synchronous=FULL"); !set) return set;
  if (auto made = make_tables(); !made) return made;
  sqlite3_wal_hook(db_.handle(), note_pages, log_pages_.get());
  if (auto set = db_.run("PRAGMA journal_mode=WAL"); !set) return set;
  auto mode = db_.prepare("PRAGMA journal_mode");
  if (!mode) return mode.error();
  const auto row = mode->step();
  if (!row) return row.error();
  if (!*row || mode->bytes(0) != "wal") {
    return Error{ErrorCode::failed_precondition,
                 options_.path + ": its disk keeps no write-ahead log; take a local one"};
  }
  mode->reset();
  if (auto named = read_name(); !named) return named;
  return rewrite_log(db_, options_.log_pages, options_.whole_log);
}

// The first transaction, whole before there is a write-ahead log: whatever became a file of ours
// has its tables.
Result<void> JournalFile::make_tables() {
  const auto pages = db_.number("PRAGMA page_count");
  if (!pages) return pages.error();
  if (*pages > 0) return {};
  auto transaction = Transaction::begin(db_);
  if (!transaction) return transaction.error();
  const std::string marks = "PRAGMA application_id=" + std::to_string(kJournalFile.application) +
                            ";PRAGMA user_version=" + std::to_string(kJournalFile.format);
  if (auto marked = db_.run(marks.c_str()); !marked) return marked;
  if (auto made = db_.run(kTables); !made) return made;
  if (auto made = NoteTable::make_tables(db_); !made) return made;
  auto first = db_.prepare("INSERT INTO journal VALUES(1, ?, ?, 0, 0, 0, 0, 0)");
  if (!first) return first.error();
  const std::int64_t name = options_.name != 0 ? number(options_.name) : random_name();
  if (auto put = first->bind(1, std::int64_t{kJournalFile.format}).bind(2, name).run(); !put)
    return put;
  return transaction->commit();
}

Result<void> JournalFile::read_name() {
  auto rows = db_.prepare("SELECT format, name FROM journal");
  if (!rows) return rows.error();
  const auto row = rows->step();
  if (!row) return row.error();
  if (!*row || rows->number(0) != std::int64_t{kJournalFile.format} || rows->number(1) <= 0) {
    return Error{ErrorCode::invalid_argument,
                 options_.path + ": damaged: its first row is not what it was"};
  }
  id_ = static_cast<std::uint64_t>(rows->number(1));
  rows->reset();
  return {};
}

Result<void> JournalFile::hold_against_mark() {
  if (!options_.vfs.empty()) return {};
  if (auto whole = check_mark(options_.path, held_, now()); !whole) return whole;
  auto mark = JournalMark::open(options_.path);
  if (!mark) return mark.error();
  mark_.emplace(std::move(*mark));
  mark_->note(now());
  mark_->sync();
  // The names of new files are to survive the machine, too.
  const std::string folder = folder_of(options_.path);
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && ::fsync(descriptor) == 0;
  if (descriptor >= 0) ::close(descriptor);
  if (!synced) return Error{ErrorCode::unavailable, folder + ": the folder cannot be synced"};
  return {};
}

Result<void> JournalFile::remove_after(const Durable& durable) {
  auto transaction = Transaction::begin(db_);
  if (!transaction) return transaction.error();
  auto remove = db_.prepare("DELETE FROM events WHERE number > ?");
  if (!remove) return remove.error();
  if (auto done = remove->bind(1, number(durable.last)).run(); !done) return done;
  if (auto done = notes_.undo_after(durable.notes); !done) return done;
  if (auto done = transaction->commit(); !done) return done;
  return notes_.read_state();
}

Result<void> JournalFile::prepare() {
  const std::pair<Statement*, const char*> all[] = {
      {&insert_, "INSERT INTO events VALUES(?, ?, ?)"},
      {&row_of_,
       "SELECT number, last, packed FROM events WHERE number <= ? ORDER BY number DESC LIMIT 1"},
      {&rows_upto_, "SELECT number, last, length(packed) FROM events WHERE number <= ?"},
      {&delete_upto_, "DELETE FROM events WHERE last <= ?"},
      {&put_aside_, "INSERT OR IGNORE INTO quarantine VALUES(?, ?, ?, ?)"},
      {&set_totals_, "UPDATE journal SET settled_upto = ?, settled = ?"},
      {&oldest_, "SELECT number, last, packed FROM events ORDER BY number LIMIT 1"},
  };
  for (const auto& [statement, sql] : all) {
    auto prepared = db_.prepare(sql);
    if (!prepared) return prepared.error();
    *statement = std::move(*prepared);
  }
  return {};
}

Result<void> JournalFile::count() {
  auto counts = read_counts(db_);
  if (!counts) return counts.error();
  counts_ = *counts;
  return {};
}

Result<void> JournalFile::read_oldest() {
  counts_.oldest.reset();
  auto row = oldest_.step();
  if (!row) return row.error();
  if (*row) {
    counts_.oldest = time_in(oldest_, counts_.settled_upto);
    oldest_.reset();
  }
  return {};
}

// Copies one event into quarantine. True: it was not there before.
Result<bool> JournalFile::put_aside(const Settled::Rejected& rejected, Instant at, Counts& counts) {
  auto row = row_of_.bind(1, number(rejected.number)).step();
  if (!row) return row.error();
  if (!*row) return false;
  const auto first = static_cast<EventNumber>(row_of_.number(0));
  const auto last = static_cast<EventNumber>(row_of_.number(1));
  std::string body;
  EventNumber next = first;
  if (rejected.number <= last) {
    unpack(row_of_.bytes(2), last - first + 1, [&](std::string_view event) {
      if (next++ == rejected.number) body = event;
    });
  }
  row_of_.reset();
  if (rejected.number > last) return false;
  put_aside_.bind(1, number(rejected.number))
      .bind(2, std::int64_t{at.time_since_epoch().count()})
      .bind(3, rejected.reason)
      .bind(4, body);
  const int before = sqlite3_total_changes(db_.handle());
  if (auto done = put_aside_.run(); !done) return done.error();
  if (sqlite3_total_changes(db_.handle()) == before) return false;
  counts.quarantined += 1;
  counts.quarantined_bytes += body.size();
  return true;
}

Result<void> JournalFile::take_over(const Settled& settled, Counts& counts) {
  std::uint64_t aside = 0;
  for (const Settled::Rejected& rejected : settled.rejected) {
    if (rejected.number <= counts.settled_upto) continue;  // an earlier try did it
    auto fresh = put_aside(rejected, settled.at, counts);
    if (!fresh) return fresh.error();
    if (*fresh) ++aside;
  }
  if (settled.upto <= counts.settled_upto) return {};
  std::uint64_t gone = 0;
  std::uint64_t bytes = 0;
  rows_upto_.bind(1, number(settled.upto));
  for (;;) {
    auto row = rows_upto_.step();
    if (!row) return row.error();
    if (!*row) break;
    const auto last = static_cast<EventNumber>(rows_upto_.number(1));
    gone += overlap(static_cast<EventNumber>(rows_upto_.number(0)), last, counts.settled_upto,
                    settled.upto);
    if (last <= settled.upto) bytes += static_cast<std::uint64_t>(rows_upto_.number(2));
  }
  if (auto done = delete_upto_.bind(1, number(settled.upto)).run(); !done) return done;
  counts.settled_upto = settled.upto;
  counts.settled += gone - aside;
  counts.unsettled -= gone;
  counts.unsettled_bytes -= bytes;
  return set_totals_.bind(1, number(counts.settled_upto)).bind(2, number(counts.settled)).run();
}

Result<void> JournalFile::commit(const EventBatch& events, const Settled& settled,
                                 std::span<const Note> notes) {
  // What is refused afterwards is on the disk, and billed where this process ends before it is well
  // again.
  if (auto there = still_in_place(); !there) return there;
  auto transaction = Transaction::begin(db_);
  if (!transaction) return transaction.error();
  Counts counts = counts_;
  const bool moves =
      settled.journal == id_ && (settled.upto > counts.settled_upto || !settled.rejected.empty());
  if (moves) {
    if (auto done = take_over(settled, counts); !done) return done;
  }
  if (!events.empty()) {
    const std::string packed = pack(events);
    insert_.bind(1, number(counts.last + 1))
        .bind(2, number(counts.last + events.size()))
        .bind(3, packed);
    if (auto done = insert_.run(); !done) return done;
    counts.last += events.size();
    counts.unsettled += events.size();
    counts.unsettled_bytes += packed.size();
  }
  if (auto done = notes_.take(notes); !done) return done;
  const bool first = now().nothing();
  if (auto done = transaction->commit(); !done) return done;
  notes_.committed();
  counts.standing_bytes = notes_.holds().standing;
  if (auto there = still_in_place(); !there) return there;
  counts_ = counts;
  if (mark_) {
    mark_->note(now());
    if (first) mark_->sync();
  }
  oldest_moved_ = oldest_moved_ || moves || !counts_.oldest;
  return {};
}

// What is written to files that have lost their names is durable for nobody.
Result<void> JournalFile::still_in_place() const {
  if (!options_.vfs.empty()) return {};
  if (seen_at(options_.path) == seen_ && seen_at(options_.path + "-wal") == seen_log_) return {};
  return Error{ErrorCode::unavailable,
               options_.path + ": was taken away, or replaced, while it was written to"};
}

// Handles that are open would go on where modes, a mount or the file system took the right to write
// away, but nothing could be opened anew after the next error: it is better known before.
Result<void> JournalFile::look() const {
  if (auto there = still_in_place(); !there) return there;
  if (!options_.vfs.empty()) return {};
  for (const std::string& each : {folder_of(options_.path), options_.path, options_.path + "-wal",
                                  JournalMark::path_of(options_.path)}) {
    // Asked of whom it is written as, which access() does not.
    if (::faccessat(AT_FDCWD, each.c_str(), W_OK, AT_EACCESS) != 0) {
      return Error{ErrorCode::unavailable,
                   each + ": cannot be written to: " + std::strerror(errno)};
    }
  }
  return {};
}

Result<void> JournalFile::tidy() {
  if (std::exchange(oldest_moved_, false)) {
    if (auto read = read_oldest(); !read) return read;
  }
  return *log_pages_ < options_.log_pages ? Result<void>() : carry_log();
}

Result<void> JournalFile::prove() {
  auto transaction = Transaction::begin(db_);
  if (!transaction) return transaction.error();
  // Numbers begin at 1: nobody sees it.
  if (auto put = db_.run("INSERT INTO quarantine VALUES(0, 0, '', x'')"); !put) return put;
  if (auto gone = db_.run("DELETE FROM quarantine WHERE number = 0"); !gone) return gone;
  if (auto done = transaction->commit(); !done) return done;
  if (auto there = still_in_place(); !there) return there;
  return carry_log();
}

Result<void> JournalFile::carry_log() {
  const int code =
      sqlite3_wal_checkpoint_v2(db_.handle(), "main", SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr);
  // A reader in the way only puts it off.
  if (code != SQLITE_OK && (code & 0xff) != SQLITE_BUSY) return db_.error(code, "a checkpoint");
  return {};
}

Result<std::uint64_t> JournalFile::release_quarantine() {
  auto transaction = Transaction::begin(db_);
  if (!transaction) return transaction.error();
  EventBatch released;
  {
    auto rows = db_.prepare("SELECT body FROM quarantine ORDER BY number");
    if (!rows) return rows.error();
    for (;;) {
      const auto row = rows->step();
      if (!row) return row.error();
      if (!*row) break;
      released.add_encoded(rows->bytes(0));
    }
  }
  if (released.empty()) return std::uint64_t{0};
  const std::string packed = pack(released);
  insert_.bind(1, number(counts_.last + 1))
      .bind(2, number(counts_.last + released.size()))
      .bind(3, packed);
  if (auto done = insert_.run(); !done) return done.error();
  if (auto done = db_.run("DELETE FROM quarantine"); !done) return done.error();
  auto total = db_.prepare("UPDATE journal SET replayed = replayed + ?");
  if (!total) return total.error();
  if (auto done = total->bind(1, number(released.size())).run(); !done) return done.error();
  if (auto done = transaction->commit(); !done) return done.error();
  if (auto counted = count(); !counted) return counted.error();
  return std::uint64_t{released.size()};
}

Result<void> JournalFile::skip_to(EventNumber to) {
  if (to <= counts_.last) return {};
  auto transaction = Transaction::begin(db_);
  if (!transaction) return transaction.error();
  auto skip = db_.prepare("UPDATE journal SET floor = ?, skipped = skipped + ?");
  if (!skip) return skip.error();
  if (auto done = skip->bind(1, number(to)).bind(2, number(to - counts_.last)).run(); !done)
    return done;
  if (auto done = transaction->commit(); !done) return done;
  return count();
}

Result<void> JournalFile::verify() {
  if (auto sound = verify_journal(db_); !sound) return sound;
  const Counts& c = counts_;
  const std::uint64_t accounted = c.settled + c.unsettled + c.quarantined + c.replayed + c.skipped;
  if (accounted == c.last) return {};
  return Error{ErrorCode::internal, options_.path + ": " + std::to_string(c.last) +
                                        " events were recorded and " + std::to_string(accounted) +
                                        " are accounted for"};
}

}  // namespace weir::ledger
