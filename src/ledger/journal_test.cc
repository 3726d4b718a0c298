#include "ledger/journal.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "ledger/journal_story.h"
#include "testing/forgetful_disk.h"

namespace weir::ledger {
namespace {

using testing::append;
using testing::event_of;
using testing::eventually;
using testing::recorded;
using testing::TemporaryFolder;

class JournalOnDisk : public ::testing::Test {
 protected:
  Journal::Options options() { return {.folder = folder_.path()}; }
  std::unique_ptr<Journal> open(Journal::Options options) {
    auto opened = Journal::open(std::move(options));
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  JournalFile::Options file() { return Journal::file_in(folder_.path()); }

  TemporaryFolder folder_;
};

TEST_F(JournalOnDisk, KeepsWhatItAcknowledged) {
  {
    const auto journal = open(options());
    for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(append(*journal, event_of(i)));
    EXPECT_EQ(recorded(file()).size(), 100u);
    EXPECT_EQ(journal->status().counts.last, 100u);
    EXPECT_EQ(journal->status().recorded, 100u);
  }
  const auto journal = open(options());
  EXPECT_EQ(journal->status().counts.unsettled, 100u);
  EXPECT_EQ(journal->status().counts.oldest, event_of(0).at);
  ASSERT_TRUE(append(*journal, event_of(100)));
  EXPECT_EQ(recorded(file()).size(), 101u);
}

TEST_F(JournalOnDisk, WritesWhatFollowsWithinItsTime) {
  Journal::Options slow = options();
  slow.within = std::chrono::milliseconds(20);
  const auto journal = open(slow);
  const UsageEvent event = event_of(7);
  ASSERT_TRUE(journal->follow({&event, 1}));
  EXPECT_TRUE(eventually([&] { return recorded(file()).contains(7); }));
}

TEST_F(JournalOnDisk, WritesWhatFollowsBeforeItEnds) {
  Journal::Options slow = options();
  slow.within = std::chrono::hours(1);
  {
    const auto journal = open(slow);
    const UsageEvent event = event_of(7);
    ASSERT_TRUE(journal->follow({&event, 1}));
    EXPECT_TRUE(recorded(file()).empty());
    EXPECT_EQ(journal->status().waiting, 1u);
  }
  EXPECT_TRUE(recorded(file()).contains(7));
}

TEST_F(JournalOnDisk, TellsASecondProcessWhoHasIt) {
  const auto journal = open(options());
  const auto second = Journal::open(options());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::failed_precondition);
  EXPECT_NE(second.error().message.find("process " + std::to_string(::getpid())), std::string::npos)
      << second.error().message;
}

TEST_F(JournalOnDisk, RefusesAFolderThatCannotBeMade) {
  const auto opened = Journal::open({.folder = "/proc/no-such-folder/journal"});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::invalid_argument);
}

TEST_F(JournalOnDisk, IsFullAtItsBoundAndHasRoomOnceTheLedgerHasTheEvents) {
  Journal::Options small = options();
  small.max_bytes = 2'000;
  const auto journal = open(small);
  std::uint64_t fitted = 0;
  Result<void> answer;
  while ((answer = append(*journal, event_of(fitted)))) ++fitted;
  EXPECT_EQ(answer.error().code, ErrorCode::resource_exhausted);
  EXPECT_GT(fitted, 10u);
  EXPECT_EQ(recorded(file()).size(), fitted);
  const UsageEvent event = event_of(99);
  EXPECT_FALSE(journal->follow({&event, 1}));
  EXPECT_EQ(journal->status().refused, 2u);
  EXPECT_TRUE(journal->writable()) << "full is no fault of the disk";

  journal->settled({.journal = journal->readable()->journal, .upto = fitted - 1, .at = {}});
  EXPECT_TRUE(eventually([&] { return journal->status().counts.unsettled == 1; }));
  EXPECT_TRUE(append(*journal, event_of(99)));
  EXPECT_EQ(recorded(file()).size(), 2u);
}

TEST_F(JournalOnDisk, HoldsNoMoreInMemoryThanItMay) {
  Journal::Options narrow = options();
  narrow.max_waiting = 3;
  narrow.within = std::chrono::hours(1);
  const auto journal = open(narrow);
  const UsageEvent event = event_of(1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(journal->follow({&event, 1}));
  EXPECT_FALSE(journal->follow({&event, 1}));
}

TEST_F(JournalOnDisk, TakesEventsOfOneDecisionTogetherOrNotAtAll) {
  const auto journal = open(options());
  const std::string long_text(kMaxEventBytes, 'x');
  UsageEvent both[2] = {event_of(1), event_of(2)};
  both[1].tenant = long_text;
  Result<void> answer;
  journal->append(both, [&](const Result<void>& done) { answer = done; });
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::invalid_argument);
  ASSERT_TRUE(append(*journal, event_of(3)));
  EXPECT_EQ(recorded(file()), (std::map<std::uint64_t, int>{{3, 1}}));
}

TEST_F(JournalOnDisk, SettledEventsLeaveAndRejectedOnesArePutAside) {
  {
    const auto journal = open(options());
    for (std::uint64_t i = 1; i <= 10; ++i) ASSERT_TRUE(append(*journal, event_of(i)));
    journal->settled({.journal = journal->readable()->journal,
                      .upto = 6,
                      .rejected = {{3, "its tenant is gone"}},
                      .at = testing::at_second(5)});
    ASSERT_TRUE(eventually([&] { return journal->status().counts.settled_upto == 6; }));
    const auto counts = journal->status().counts;
    EXPECT_EQ(counts.settled, 5u);
    EXPECT_EQ(counts.unsettled, 4u);
    EXPECT_EQ(counts.quarantined, 1u);
  }
  auto reader = JournalReader::open(file());
  ASSERT_TRUE(reader);
  const auto aside = reader->quarantine(0, 10);
  ASSERT_TRUE(aside);
  ASSERT_EQ(aside->size(), 1u);
  EXPECT_EQ(aside->front().event.number, 3u);
  EXPECT_EQ(aside->front().reason, "its tenant is gone");
  EXPECT_EQ(aside->front().at, testing::at_second(5));
  EXPECT_EQ(aside->front().event.read()->id.lo, 3u);

  auto opened = JournalFile::open(file());
  ASSERT_TRUE(opened);
  EXPECT_TRUE(opened->verify());
  EXPECT_EQ(opened->release_quarantine().value(), 1u);
  EXPECT_EQ(opened->counts().last, 11u) << "it has a new number: the old one is behind the ledger";
  EXPECT_TRUE(opened->verify());
  EXPECT_EQ(recorded(file()),
            (std::map<std::uint64_t, int>{{3, 1}, {7, 1}, {8, 1}, {9, 1}, {10, 1}}));
}

TEST_F(JournalOnDisk, PassesOverNumbersThatTheLedgerHasSeen) {
  const auto journal = open(options());
  ASSERT_TRUE(append(*journal, event_of(1)));
  journal->skip_to(500);
  ASSERT_TRUE(eventually([&] { return journal->readable()->last == 500; }));
  ASSERT_TRUE(append(*journal, event_of(2)));
  EXPECT_EQ(journal->readable()->last, 501u);
  EXPECT_EQ(journal->status().counts.skipped, 499u);
}

TEST_F(JournalOnDisk, WhoseFileIsTakenAwaySaysNoUntilAllOfItIs) {
  Journal::Options quick = options();
  quick.retry = std::chrono::milliseconds(1);
  const auto journal = open(quick);
  ASSERT_TRUE(append(*journal, event_of(1)));
  const auto before = journal->readable()->journal;
  std::filesystem::rename(file().path, folder_.path() + "/aside.db");
  std::filesystem::rename(file().path + "-wal", folder_.path() + "/aside.db-wal");
  EXPECT_FALSE(append(*journal, event_of(2))) << "it would go to a file without a name";
  ASSERT_TRUE(eventually([&] {
    const auto answer = append(*journal, event_of(2));
    EXPECT_FALSE(answer);
    return answer.error().message.find("is gone, and held 1 event;") != std::string::npos;
  })) << journal->status().why;
  EXPECT_FALSE(std::filesystem::exists(file().path));
  std::filesystem::remove(JournalMark::path_of(file().path));
  ASSERT_TRUE(eventually([&] { return journal->writable(); }));
  ASSERT_TRUE(append(*journal, event_of(3)));
  EXPECT_EQ(recorded(file()), (std::map<std::uint64_t, int>{{3, 1}}));
  EXPECT_NE(journal->readable()->journal, before);
  const auto aside = recorded({.path = folder_.path() + "/aside.db"});
  EXPECT_EQ(aside, (std::map<std::uint64_t, int>{{1, 1}})) << "what was refused is not there";
}

TEST_F(JournalOnDisk, TreatsForeignBytesAsDamageAndComesBackOnceTheyAreGone) {
  {
    std::FILE* foreign = std::fopen(file().path.c_str(), "w");
    ASSERT_NE(foreign, nullptr);
    for (int i = 0; i < 1'000; ++i) std::fputs("this is no journal of anything\n", foreign);
    std::fclose(foreign);
  }
  Journal::Options quick = options();
  quick.retry = std::chrono::milliseconds(1);
  const auto journal = open(quick);
  EXPECT_FALSE(journal->writable());
  const auto answer = append(*journal, event_of(1));
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("damaged"), std::string::npos) << answer.error().message;
  const UsageEvent event = event_of(2);
  EXPECT_TRUE(journal->follow({&event, 1})) << "who needs no proof may wait";

  std::filesystem::remove(file().path);
  ASSERT_TRUE(eventually([&] { return journal->writable(); }));
  EXPECT_TRUE(append(*journal, event_of(3)));
  EXPECT_EQ(recorded(file()), (std::map<std::uint64_t, int>{{2, 1}, {3, 1}}));
}

// What may become of the files of a journal while nobody writes to it.
struct Harm {
  const char* name;
  void (*done)(const std::string& path);
  const char* said;
};
class HarmedJournal : public JournalOnDisk, public ::testing::WithParamInterface<Harm> {};

void cut(const std::string& path, std::uintmax_t bytes) {
  std::filesystem::resize_file(path, bytes);
}
void overwrite(const std::string& path, long at, std::size_t bytes) {
  std::FILE* file = std::fopen(path.c_str(), "r+");
  ASSERT_NE(file, nullptr);
  std::fseek(file, at, SEEK_SET);
  for (std::size_t i = 0; i < bytes; ++i) std::fputc(0x5a, file);
  std::fclose(file);
}

TEST_P(HarmedJournal, IsNeverBegunAnew) {
  const Harm& harm = GetParam();
  {
    const auto journal = open(options());
    for (std::uint64_t i = 1; i <= 20; ++i) ASSERT_TRUE(append(*journal, event_of(i)));
  }
  const std::string path = file().path;
  harm.done(path);
  const auto bytes = [&] {
    std::string all;
    for (const char* ending : {"", "-wal"}) {
      std::FILE* read = std::fopen((path + ending).c_str(), "r");
      if (read == nullptr) continue;
      for (int c = 0; (c = std::fgetc(read)) != EOF;) all.push_back(static_cast<char>(c));
      std::fclose(read);
    }
    return all;
  };
  const std::string before = bytes();

  auto reader = JournalReader::open(file());
  auto whole = reader ? reader->whole() : Result<void>(reader.error());
  if (whole) whole = reader->verify();
  ASSERT_FALSE(whole) << "a reader noticed nothing";
  EXPECT_EQ(bytes(), before) << "who reads changes nothing";

  Journal::Options quick = options();
  quick.retry = std::chrono::milliseconds(1);
  const auto journal = open(quick);
  EXPECT_FALSE(journal->writable());
  const auto answer = append(*journal, event_of(21));
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find(path), std::string::npos) << answer.error().message;
  EXPECT_NE(answer.error().message.find(harm.said), std::string::npos) << answer.error().message;
  EXPECT_TRUE(answer.error().message.find("bring it back") != std::string::npos ||
              answer.error().message.find("bring both back") != std::string::npos ||
              answer.error().message.find("bring the journal back") != std::string::npos ||
              answer.error().message.find("bring that one back") != std::string::npos)
      << answer.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Journal, HarmedJournal,
    ::testing::Values(
        Harm{"emptied", [](const std::string& path) { cut(path, 0); }, "is empty, and held 20"},
        Harm{"emptied_with_its_log",
             [](const std::string& path) {
               cut(path, 0);
               cut(path + "-wal", 0);
             },
             "is empty, and held 20"},
        Harm{"removed", [](const std::string& path) { std::filesystem::remove(path); },
             "is gone, and held 20"},
        Harm{"cut_in_its_header", [](const std::string& path) { cut(path, 50); }, "damaged"},
        Harm{"cut_behind_its_first_page", [](const std::string& path) { cut(path, 4'096); },
             "damaged"},
        Harm{"its_header_overwritten", [](const std::string& path) { overwrite(path, 0, 16); },
             "damaged"},
        Harm{"its_first_page_overwritten",
             [](const std::string& path) { overwrite(path, 100, 3'996); }, "damaged"},
        Harm{"its_log_emptied", [](const std::string& path) { cut(path + "-wal", 0); },
             "once held 20"},
        Harm{"its_log_removed",
             [](const std::string& path) { std::filesystem::remove(path + "-wal"); },
             "once held 20"},
        Harm{"its_log_cut", [](const std::string& path) { cut(path + "-wal", 32 + 5 * 4'120); },
             "once held 20"},
        Harm{"its_log_damaged",
             [](const std::string& path) { overwrite(path + "-wal", 32 + 7 * 4'120 + 100, 64); },
             "once held 20"},
        Harm{"replaced_by_another",
             [](const std::string& path) {
               testing::TemporaryFolder other;
               const std::string made = Journal::file_in(other.path()).path;
               { ASSERT_TRUE(JournalFile::open({.path = made})); }
               std::filesystem::remove(path + "-wal");
               std::filesystem::copy_file(made, path,
                                          std::filesystem::copy_options::overwrite_existing);
             },
             "is another journal"}),
    [](const auto& harmed) { return std::string(harmed.param.name); });

TEST_F(JournalOnDisk, LeavesTheDatabaseOfAnotherProgramAsItIs) {
  {
    auto foreign = Database::open({.path = file().path, .create = true});
    ASSERT_TRUE(foreign);
    ASSERT_TRUE(foreign->run("CREATE TABLE theirs(a); INSERT INTO theirs VALUES(1)"));
  }
  const auto bytes = [&] {
    std::string all;
    std::FILE* read = std::fopen(file().path.c_str(), "r");
    for (int c = 0; (c = std::fgetc(read)) != EOF;) all.push_back(static_cast<char>(c));
    std::fclose(read);
    return all;
  };
  const std::string before = bytes();
  EXPECT_FALSE(JournalReader::open(file()));
  const auto journal = open(options());
  const auto answer = append(*journal, event_of(1));
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("a database of another program"), std::string::npos)
      << answer.error().message;
  EXPECT_EQ(bytes(), before);
  EXPECT_FALSE(std::filesystem::exists(file().path + "-wal"));
}

TEST_F(JournalOnDisk, BeginsWhereAnEarlierBeginningWasInterrupted) {
  std::fclose(std::fopen(file().path.c_str(), "w"));  // made, and nothing in it
  const auto journal = open(options());
  EXPECT_TRUE(append(*journal, event_of(1)));
}

TEST_F(JournalOnDisk, GoesOnAfterAnotherProgramCarriedItsLogIntoIt) {
  {
    const auto journal = open(options());
    for (std::uint64_t i = 1; i <= 20; ++i) ASSERT_TRUE(append(*journal, event_of(i)));
  }
  {
    // As the sqlite3 shell does at its end.
    auto db = Database::open({.path = file().path});
    ASSERT_TRUE(db);
    ASSERT_TRUE(db->run("PRAGMA wal_checkpoint(TRUNCATE)"));
  }
  std::filesystem::remove(file().path + "-wal");
  const auto journal = open(options());
  EXPECT_TRUE(append(*journal, event_of(21)));
  EXPECT_EQ(recorded(file()).size(), 21u);
}

TEST_F(JournalOnDisk, SaysHowMuchEndedWithIt) {
  Journal::Options quick = options();
  quick.retry = std::chrono::milliseconds(1);
  const auto journal = open(quick);
  ASSERT_TRUE(append(*journal, event_of(1)));
  cut(file().path, 0);
  // The log is gone with the file, so that the next look at both finds it.
  std::filesystem::remove(file().path + "-wal");
  const UsageEvent events[] = {event_of(2), event_of(3)};
  ASSERT_TRUE(journal->follow(events));
  EXPECT_EQ(journal->close(), 2u);
  EXPECT_FALSE(append(*journal, event_of(4))) << "nothing is taken any more";
  EXPECT_EQ(journal->close(), 2u);
}

// More than it holds: those that end first go, of requests' keys before all others. (A file that
// had been moved once it was opened crashed here.)
TEST_F(JournalOnDisk, LetsGoOfNotesThatAreTooMany) {
  JournalFile::Options few = file();
  few.most_notes = 20;
  auto journal = JournalFile::open(few);
  ASSERT_TRUE(journal) << journal.error().message;
  const auto put = [&](const std::string& id) {
    const Note note{.id = id,
                    .at = testing::at_second(100),
                    .until = testing::at_second(10'000),
                    .units = 1,
                    .body = {},
                    .what = Note::Do::put};
    return journal->commit({}, {}, {&note, 1});
  };
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(put("o" + std::to_string(i)));
  for (int i = 0; i < 30; ++i) ASSERT_TRUE(put("k" + std::to_string(i)));
  std::size_t overspent = 0, all = 0;
  ASSERT_TRUE(journal->read_notes([&](const Note& note) {
    ++all;
    overspent += note.id[0] == 'o' ? 1 : 0;
  }));
  EXPECT_EQ(overspent, 5u);
  EXPECT_LE(all, 20u);
}

TEST_F(JournalOnDisk, KnowsItsNotesAgainUntilTheyEnd) {
  const auto note = [](const char* id, int until, std::int64_t units,
                       Note::Do what = Note::Do::put) {
    return Note{.id = id,
                .at = testing::at_second(100),
                .until = testing::at_second(until),
                .units = units,
                .body = std::string("of ") + id,
                .what = what};
  };
  const auto notes = [&] {
    std::map<std::string, std::int64_t> found;
    auto reader = JournalReader::open(file());
    EXPECT_TRUE(reader->notes([&](const Note& each) {
      EXPECT_EQ(each.body, "of " + each.id);
      found[each.id] = each.units;
    }));
    return found;
  };
  {
    const auto journal = open(options());
    ASSERT_TRUE(journal->follow({}, {note("a", 200, 1), note("b", 300, 2), note("c", 99, 3)}));
    const UsageEvent event = event_of(1);
    std::atomic<int> told{0};
    journal->append({&event, 1},
                    {note("b", 300, 5, Note::Do::add), note("d", 400, 7, Note::Do::add),
                     note("a", 0, 0, Note::Do::remove)},
                    [&](const Result<void>& done) { told = done ? 1 : 2; });
    ASSERT_TRUE(eventually([&] { return told != 0; }));
    EXPECT_EQ(told, 1);
  }
  EXPECT_EQ(notes(), (std::map<std::string, std::int64_t>{{"b", 7}, {"d", 7}}));
  EXPECT_EQ(recorded(file()).size(), 1u);
  const auto journal = open(options());
  EXPECT_EQ(notes().size(), 2u);
}

TEST_F(JournalOnDisk, KnowsItsOwnThread) {
  const auto journal = open(options());
  EXPECT_FALSE(journal->in_its_thread());
  std::atomic<int> inside{-1};
  const UsageEvent event = event_of(1);
  journal->append({&event, 1}, [&](const Result<void>&) { inside = journal->in_its_thread(); });
  ASSERT_TRUE(eventually([&] { return inside >= 0; }));
  EXPECT_EQ(inside, 1);
}

TEST_F(JournalOnDisk, SaysWhatItCouldNotRecordBeforeItsEnd) {
  {
    std::FILE* foreign = std::fopen(file().path.c_str(), "w");
    ASSERT_NE(foreign, nullptr);
    for (int i = 0; i < 1'000; ++i) std::fputs("this is no journal of anything\n", foreign);
    std::fclose(foreign);
  }
  std::string last;
  {
    Journal::Options told = options();
    told.retry = std::chrono::milliseconds(1);
    told.changed = [&](bool works, std::string_view why) {
      if (!works) last = why;
    };
    const auto journal = open(told);
    const UsageEvent event = event_of(7);
    EXPECT_TRUE(journal->follow({&event, 1}));
  }
  EXPECT_NE(last.find("1 events were never recorded"), std::string::npos) << last;
}

TEST_F(JournalOnDisk, WaitsForAnotherProgramsLockNoLongerThanItsCallersMay) {
  Journal::Options quick = options();
  quick.retry = std::chrono::milliseconds(1);
  const auto journal = open(quick);
  ASSERT_TRUE(append(*journal, event_of(1)));
  {
    auto other = Database::open({.path = file().path});
    ASSERT_TRUE(other);
    auto held = Transaction::begin(*other);
    ASSERT_TRUE(held);
    const auto answer = append(*journal, event_of(2));
    ASSERT_FALSE(answer);
    EXPECT_NE(answer.error().message.find("lock"), std::string::npos) << answer.error().message;
    EXPECT_FALSE(journal->writable());
  }
  ASSERT_TRUE(eventually([&] { return journal->writable(); }));
  EXPECT_TRUE(append(*journal, event_of(3)));
  EXPECT_EQ(recorded(file()), (std::map<std::uint64_t, int>{{1, 1}, {3, 1}}));
}

TEST_F(JournalOnDisk, CommitsManyCallersWithOneSync) {
  const auto journal = open(options());
  std::atomic<int> answered{0};
  std::vector<std::thread> callers;
  for (std::uint64_t caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&, caller] {
      for (std::uint64_t i = 0; i < 100; ++i) {
        const UsageEvent event = event_of(caller * 1'000 + i);
        journal->append({&event, 1}, [&](const Result<void>& done) {
          if (done) ++answered;
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  ASSERT_TRUE(eventually([&] { return answered == 800; }));
  const auto found = recorded(file());
  EXPECT_EQ(found.size(), 800u);
  for (const auto& [id, times] : found) EXPECT_EQ(times, 1) << id;
}

}  // namespace
}  // namespace weir::ledger
