// What the journal is for: whatever happens to the disk or to the process, what it acknowledged is
// there, once, and what it said no to is not.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <random>
#include <vector>

#include "ledger/journal.h"
#include "ledger/journal_story.h"
#include "testing/fault_sweep.h"
#include "testing/forgetful_disk.h"

namespace weir::ledger {
namespace {

using testing::append;
using testing::event_of;
using testing::eventually;
using testing::noted;
using testing::Notes;
using testing::recorded;
using testing::take_note;
using testing::TemporaryFolder;
using weir::testing::ForgetfulDisk;

// Acknowledged, refused, or handed in without waiting.
struct Told {
  std::set<std::uint64_t> yes, no;
  Notes notes;                      // by what was acknowledged
  Notes or_so;                      // the same, and by what was refused last
  std::set<std::uint64_t> settled;  // perhaps: they need not be there any more
};

// What is noted beside an event: something new, something in the place of another, a sum, and
// something that goes.
std::vector<Note> notes_of(std::uint64_t id) {
  const Instant until = testing::at_second(4'000'000'000);
  const std::string text = std::to_string(id);
  std::vector<Note> notes;
  notes.push_back({.id = "k" + text, .until = until, .units = 1, .body = text});
  notes.push_back(
      {.id = "r", .until = until, .units = static_cast<std::int64_t>(id), .body = text});
  notes.push_back({.id = "o", .until = until, .units = 3, .body = {}, .what = Note::Do::add});
  if (id % 2 == 1)
    notes.push_back({.id = "k" + std::to_string(id - 1), .body = {}, .what = Note::Do::remove});
  return notes;
}

class JournalOnBadDisk : public ::testing::Test {
 protected:
  Journal::Options options() {
    return {.folder = folder_.path(),
            .within = std::chrono::milliseconds(1),
            .retry = std::chrono::milliseconds(1),
            .vfs = disk_.name(),
            .log_pages = 6};
  }
  JournalFile::Options file() { return Journal::file_in(folder_.path(), disk_.name()); }

  // Hands in an event and notes; of each third one the notes alone.
  void hand_in(Journal& journal, Told& told, std::uint64_t id) {
    const UsageEvent event = event_of(id);
    const bool alone = id % 3 == 2;
    const std::vector<Note> notes = notes_of(id);
    const bool yes = append(journal, {&event, std::size_t{alone ? 0U : 1U}}, notes).has_value();
    told.or_so = told.notes;
    take_note(told.or_so, notes);
    if (yes) told.notes = told.or_so;
    if (!alone) (yes ? told.yes : told.no).insert(id);
  }

  // A short life of a journal: some events, some of them settled meanwhile.
  void live(Told& told, std::uint64_t first, int events) {
    auto journal = Journal::open(options());
    ASSERT_TRUE(journal) << journal.error().message;
    for (int i = 0; i < events; ++i) {
      const std::uint64_t id = first + static_cast<std::uint64_t>(i);
      hand_in(**journal, told, id);
      if (disk_.power_is_cut()) return;
      if (i % 4 != 3 || !(*journal)->readable()) continue;
      // The ledger took over all but the newest two.
      const auto read = *(*journal)->readable();
      for (const auto& [settled, times] : recorded(file())) {
        if (settled + 2 <= id) told.settled.insert(settled);
      }
      if (read.last > 2)
        (*journal)->settled({.journal = read.journal, .upto = read.last - 2, .at = {}});
    }
  }

  void expect_kept(const Told& told, const std::string& when) {
    const auto found = recorded(file());
    for (const std::uint64_t id : told.yes)
      ASSERT_TRUE(found.contains(id) || told.settled.contains(id))
          << when << ": event " << id << " was acknowledged";
    for (const auto& [id, times] : found) ASSERT_EQ(times, 1) << when << ": event " << id;
  }
  void expect_noted(const Told& told, const std::string& when) {
    EXPECT_EQ(noted(file()), told.notes) << when;
  }

  TemporaryFolder folder_;
  ForgetfulDisk disk_;
};

// The power goes at every write, sync, opening and truncation of a life, and what was not synced is
// lost, kept, or a bit of both; then the journal starts again, goes on, and everything is there.
TEST_F(JournalOnBadDisk, KeepsWhatItAcknowledgedWhereverThePowerIsCut) {
  std::uint64_t cuts = 0;
  for (std::uint64_t cut = 1;; ++cut) {
    bool reached = false;
    for (const auto unsynced : {ForgetfulDisk::Unsynced::lost, ForgetfulDisk::Unsynced::kept,
                                ForgetfulDisk::Unsynced::drawn}) {
      SCOPED_TRACE("cut at operation " + std::to_string(cut));
      disk_.remove(file().path);
      disk_.remove(file().path + "-wal");
      Told told;
      disk_.cut_power_at(disk_.operations() + cut);
      live(told, 0, 12);
      reached = disk_.power_is_cut();
      disk_.restart(unsynced, cut);
      // What the power took the answer of may have come to its end, and then all of it did.
      const Notes after = noted(file());
      ASSERT_TRUE(after == told.notes || after == told.or_so);
      told.notes = after;
      live(told, 99, 4);
      ASSERT_TRUE(told.yes.contains(102)) << "it goes on afterwards";
      expect_kept(told, "after a power cut");
      expect_noted(told, "after a power cut");
      auto opened = JournalFile::open(file());
      ASSERT_TRUE(opened) << opened.error().message;
      ASSERT_TRUE(opened->verify());
      ++cuts;
    }
    if (!reached) break;
  }
  EXPECT_GT(cuts, 100u) << "the test is to find a life worth cutting";
}

class JournalFaults : public JournalOnBadDisk,
                      public ::testing::WithParamInterface<weir::testing::DiskFault> {};

// Then the power goes as well.
TEST_P(JournalFaults, NeverAcknowledgesWhatIsNotThere) {
  Told told;
  std::unique_ptr<Journal> journal;
  const auto begin = [&] {
    journal.reset();
    disk_.remove(file().path);
    disk_.remove(file().path + "-wal");
    told = {};
  };
  const auto during = [&] {
    auto opened = Journal::open(options());
    ASSERT_TRUE(opened);
    journal = std::move(*opened);
    for (std::uint64_t id = 0; id < 8; ++id) hand_in(*journal, told, id);
  };
  const auto after = [&] {
    ASSERT_TRUE(eventually([&] { return journal->writable(); }))
        << "it recovers without a restart: " << journal->status().why;
    // What it was still tidying up may have failed since, once.
    std::uint64_t again = 50;
    ASSERT_TRUE(eventually([&] { return append(*journal, event_of(++again)).has_value(); }));
    told.yes.insert(again);
    const auto found = recorded(file());
    for (const std::uint64_t id : told.no)
      ASSERT_EQ(found.count(id), 0u) << "event " << id << " was refused, and must not be billed";
    expect_kept(told, "after the fault");
    expect_noted(told, "after the fault");
    journal.reset();
    disk_.restart(ForgetfulDisk::Unsynced::lost);
    expect_kept(told, "after the fault and a power cut");
    expect_noted(told, "after the fault and a power cut");
  };
  EXPECT_GT(sweep(disk_, GetParam(), {begin, during, after}), 4u);
}

INSTANTIATE_TEST_SUITE_P(Every, JournalFaults, ::testing::ValuesIn(weir::testing::kDiskFaults),
                         weir::testing::name_of_fault);

// A process that ends between a failed sync and its repair leaves pages that the system shows and
// the disk has not: the next one must not build on them.
TEST_F(JournalOnBadDisk, DoesNotTrustWhatAnEarlierProcessLeftBehindAFailedSync) {
  Told told;
  live(told, 0, 5);
  {
    // One commit whose sync failed, and nobody there to repair it.
    auto opened = JournalFile::open(file());
    ASSERT_TRUE(opened);
    EventBatch batch;
    ASSERT_TRUE(batch.add(event_of(40)));
    disk_.fail(ForgetfulDisk::Fault::sync, 1, ForgetfulDisk::Lasts::once);
    ASSERT_FALSE(opened->commit(batch, {}));
  }
  {
    // The next one carries nothing into the database: all that it has is in the log.
    auto opened = JournalFile::open(file());
    ASSERT_TRUE(opened) << opened.error().message;
    for (std::uint64_t id = 50; id < 55; ++id) {
      EventBatch batch;
      ASSERT_TRUE(batch.add(event_of(id)));
      ASSERT_TRUE(opened->commit(batch, {}));
      told.yes.insert(id);
    }
  }
  disk_.restart(ForgetfulDisk::Unsynced::lost);
  expect_kept(told, "after a failed sync, another process, and a power cut");
}

// The harness can fail: on a disk that lies, acknowledged events are lost, and this sees it.
TEST_F(JournalOnBadDisk, CanaryALyingDiskLosesWhatWasAcknowledged) {
  Told told;
  disk_.fail(ForgetfulDisk::Fault::lying_sync, 10, ForgetfulDisk::Lasts::until_healed);
  live(told, 0, 8);
  ASSERT_EQ(told.yes.size(), 6u) << "of eight, two are notes alone";
  disk_.restart(ForgetfulDisk::Unsynced::lost);
  EXPECT_LT(recorded(file()).size(), 6u);
}

TEST_F(JournalOnBadDisk, KeepsWhatFollowsUntilTheDiskTakesIt) {
  auto journal = Journal::open(options());
  ASSERT_TRUE(journal);
  disk_.fail(ForgetfulDisk::Fault::full, 1, ForgetfulDisk::Lasts::until_healed);
  for (std::uint64_t id = 0; id < 20; ++id) {
    const UsageEvent event = event_of(id);
    ASSERT_TRUE((*journal)->follow({&event, 1}));
    if (id == 10) {
      ASSERT_TRUE(eventually([&] { return !(*journal)->writable(); }));
    }
  }
  const JournalStatus full = (*journal)->status();
  EXPECT_EQ(full.waiting, 20u);
  EXPECT_EQ(full.failures, 1u);
  EXPECT_NE(full.why.find("full"), std::string::npos) << full.why;
  disk_.heal();
  ASSERT_TRUE(eventually([&] { return recorded(file()).size() == 20; }));
  for (const auto& [id, times] : recorded(file())) EXPECT_EQ(times, 1) << id;
  EXPECT_TRUE((*journal)->writable());
}

// What an earlier process noted is read before anything is taken, and asked for again where it
// could not be: never passed over.
TEST_F(JournalOnBadDisk, ReadsWhatAnEarlierProcessNotedBeforeItTakesAnything) {
  Told told;
  live(told, 0, 8);
  for (const auto fault :
       {ForgetfulDisk::Fault::no_descriptor, ForgetfulDisk::Fault::input_output}) {
    for (std::uint64_t nth = 1;; ++nth) {
      SCOPED_TRACE("operation " + std::to_string(nth));
      Notes read;
      std::atomic<int> times{0};
      Journal::Options with = options();
      with.meet = [&](JournalFile& met) {
        Notes now;
        auto done = met.read_notes([&](const Note& note) {
          now[note.id] = {note.units, note.body};
        });
        if (done) read = now;
        if (done) ++times;
        return done;
      };
      disk_.fail(fault, nth, ForgetfulDisk::Lasts::until_healed);
      auto journal = Journal::open(with);
      ASSERT_TRUE(journal);
      const bool failed = disk_.failed();
      EXPECT_EQ((*journal)->met(), times > 0);
      if (!(*journal)->met()) {
        EXPECT_FALSE(append(**journal, event_of(60)));
      }
      disk_.heal();
      ASSERT_TRUE(eventually([&] { return (*journal)->writable(); }));
      EXPECT_TRUE((*journal)->met());
      EXPECT_EQ(times, 1);
      EXPECT_EQ(read, told.notes);
      if (!failed) break;
    }
  }
}

// A journal of a later release may say of its notes what this one would get wrong.
TEST_F(JournalOnBadDisk, LeavesNotesOfALaterFormatAlone) {
  Told told;
  live(told, 0, 3);
  {
    auto db = Database::open({.path = file().path, .vfs = file().vfs});
    ASSERT_TRUE(db);
    ASSERT_TRUE(db->run("UPDATE notes_state SET format = 2"));
  }
  const auto opened = JournalFile::open(file());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::failed_precondition);
  EXPECT_NE(opened.error().message.find("its notes are of format 2, and this release reads those "
                                        "up to 1"),
            std::string::npos)
      << opened.error().message;
  auto reader = JournalReader::open(file());
  ASSERT_TRUE(reader);
  EXPECT_FALSE(reader->notes([](const Note&) {}));
  {
    auto db = Database::open({.path = file().path, .vfs = file().vfs});
    ASSERT_TRUE(db->run("UPDATE notes_state SET format = 1"));
  }
  expect_noted(told, "as it was left");
}

// Journals that were begun before notes had a format go on.
TEST_F(JournalOnBadDisk, TakesUpNotesThatHaveNoFormatYet) {
  Told told;
  live(told, 0, 3);
  {
    auto db = Database::open({.path = file().path, .vfs = file().vfs});
    ASSERT_TRUE(db);
    ASSERT_TRUE(db->run("DROP TABLE notes_state; DROP TABLE notes_before"));
  }
  expect_noted(told, "before they have a format");
  live(told, 3, 3);
  expect_noted(told, "after they have one");
}

TEST_F(JournalOnBadDisk, LeavesNoFilesBehindWhileTheDiskStaysFull) {
  auto journal = Journal::open(options());
  ASSERT_TRUE(journal);
  ASSERT_TRUE(append(**journal, event_of(1)));
  const auto bytes = [&] { return disk_.size(file().path) + disk_.size(file().path + "-wal"); };
  const std::uint64_t before = bytes();
  disk_.fail(ForgetfulDisk::Fault::full, 1, ForgetfulDisk::Lasts::until_healed);
  ASSERT_FALSE(append(**journal, event_of(2)));
  const std::uint64_t tried = disk_.operations();
  ASSERT_TRUE(eventually([&] { return disk_.operations() > tried + 100; })) << "it keeps trying";
  EXPECT_EQ(bytes(), before);
}

TEST_F(JournalOnBadDisk, SaysWhichPageOfItIsDamaged) {
  Told told;
  live(told, 0, 50);
  {
    auto opened = JournalFile::open(file());
    ASSERT_TRUE(opened);
    ASSERT_TRUE(opened->verify());
    auto db = Database::open({.path = file().path, .vfs = file().vfs});
    ASSERT_TRUE(db->run("PRAGMA wal_checkpoint(TRUNCATE)"));
  }
  // Inside the page of the events.
  const std::uint64_t size = disk_.size(file().path);
  bool found = false;
  for (std::uint64_t page = 1; page * 4'096 < size && !found; ++page) {
    disk_.damage(file().path, page * 4'096 + 4'000);
    auto opened = JournalFile::open(file());
    found = !opened || !opened->verify();
    disk_.damage(file().path, page * 4'096 + 4'000);
  }
  EXPECT_TRUE(found);
}

// Real processes on the real disk: one appends as fast as it can and tells through a pipe what was
// acknowledged, while settlement takes all but the newest, until it is killed; the next goes on in
// the same journal.
class JournalKilled : public ::testing::Test {
 protected:
  static constexpr EventNumber kNewest = 24;

  // Tells the number that it begins behind, and then each event that was acknowledged, by its
  // place.
  [[noreturn]] void live(int pipe) {
    auto journal = Journal::open({.folder = folder_.path()});
    // However long a busy disk takes to open it.
    if (!journal || !eventually([&] { return (*journal)->writable(); })) ::_exit(3);
    const auto begun = *(*journal)->readable();
    tell(pipe, begun.last);
    for (std::uint64_t place = 1;; ++place) {
      const UsageEvent event = event_of(begun.last + place);
      // Not so many that memory fills: the answers come from the committing thread.
      while ((*journal)->status().waiting > 256) std::this_thread::yield();
      (*journal)->append({&event, 1}, [&, place](const Result<void>& done) {
        if (!done) ::_exit(5);
        tell(pipe, place);
      });
      const EventNumber last = (*journal)->readable()->last;
      if (place % 16 == 0 && last > kNewest)
        (*journal)->settled({.journal = begun.journal, .upto = last - kNewest, .at = {}});
    }
  }
  static void tell(int pipe, std::uint64_t number) {
    if (::write(pipe, &number, sizeof(number)) != sizeof(number)) ::_exit(4);
  }
  static bool hear(int pipe, std::uint64_t& number) {
    return ::read(pipe, &number, sizeof(number)) == sizeof(number);
  }
  // What a life acknowledged, by the events' numbers, which are their ids, too.
  void live_and_be_killed(std::size_t after, std::chrono::microseconds and_after) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(pipe_ends[0]);
      live(pipe_ends[1]);
    }
    ::close(pipe_ends[1]);
    std::uint64_t begun = 0;
    const bool began = hear(pipe_ends[0], begun);
    std::uint64_t place = 0;
    for (std::size_t heard = 0; began && heard < after && hear(pipe_ends[0], place); ++heard)
      acknowledged_.insert(begun + place);
    std::this_thread::sleep_for(and_after);
    ::kill(child, SIGKILL);
    while (began && hear(pipe_ends[0], place)) acknowledged_.insert(begun + place);
    ::close(pipe_ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
    ASSERT_TRUE(began);
  }

  TemporaryFolder folder_;
  std::set<std::uint64_t> acknowledged_;
};

TEST_F(JournalKilled, KeepsWhatItAcknowledged) {
  constexpr int kKills = 200;
  std::mt19937_64 random(20'261'130);
  for (int round = 0; round < kKills; ++round) {
    live_and_be_killed(random() % 400, std::chrono::microseconds(random() % 300));
    if (HasFatalFailure()) return;
  }
  auto opened = JournalFile::open(Journal::file_in(folder_.path()));
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_TRUE(opened->verify());
  const EventNumber settled = opened->counts().settled_upto;
  EXPECT_GT(settled, EventNumber{kKills}) << "settlement took something";
  EXPECT_EQ(opened->counts().settled, settled);
  const auto found = recorded(Journal::file_in(folder_.path()));
  for (const std::uint64_t id : acknowledged_)
    if (id > settled) {
      ASSERT_EQ(found.count(id), 1u) << id << ", and " << settled << " are settled";
    }
  for (const auto& [id, times] : found) ASSERT_EQ(times, 1) << id;
  EXPECT_GT(acknowledged_.size(), std::size_t{kKills} * 50);
}

}  // namespace
}  // namespace weir::ledger
