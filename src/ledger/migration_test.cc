// Files that older releases left, by the SQL that made them; and files of releases to come.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ledger/file_header.h"
#include "ledger/journal.h"
#include "ledger/journal_story.h"
#include "ledger/ledger.h"
#include "ledger/packed_events.h"
#include "ledger/settler.h"
#include "ledger/sqlite.h"

namespace weir::ledger {
namespace {

using testing::event_of;
using testing::eventually;
using testing::noted;
using testing::Notes;
using testing::recorded;
using testing::TemporaryFolder;

// Journals before their notes had a format of their own.
constexpr const char* kOlderJournal =
    "PRAGMA application_id=1464158538;"
    "PRAGMA user_version=1;"
    "CREATE TABLE journal(id INTEGER PRIMARY KEY, format INTEGER NOT NULL,"
    "  name INTEGER NOT NULL, settled_upto INTEGER NOT NULL, settled INTEGER NOT NULL,"
    "  replayed INTEGER NOT NULL, skipped INTEGER NOT NULL, floor INTEGER NOT NULL);"
    "CREATE TABLE events(number INTEGER PRIMARY KEY, last INTEGER NOT NULL,"
    "  packed BLOB NOT NULL);"
    "CREATE TABLE quarantine(number INTEGER PRIMARY KEY, at INTEGER NOT NULL,"
    "  reason TEXT NOT NULL, body BLOB NOT NULL);"
    "CREATE TABLE notes(id BLOB PRIMARY KEY, until INTEGER NOT NULL, units INTEGER NOT NULL,"
    "  body BLOB NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX notes_by_end ON notes(until);"
    "INSERT INTO journal VALUES(1, 1, 77, 2, 1, 0, 0, 0);"
    "PRAGMA journal_mode=WAL;";

class OlderFiles : public ::testing::Test {
 protected:
  JournalFile::Options file() const { return Journal::file_in(folder_.path()); }
  std::string url() const { return "sqlite:" + folder_.path() + "/ledger.db"; }

  // Five events, of which the ledger has one and would not take the second; and a note of each
  // kind.
  void leave_journal() const {
    auto db = Database::open({.path = file().path, .create = true});
    ASSERT_TRUE(db) << db.error().message;
    ASSERT_TRUE(db->run(kOlderJournal));
    const auto put_event = [&](std::uint64_t first, std::uint64_t last) {
      EventBatch batch;
      for (std::uint64_t id = first; id <= last; ++id) ASSERT_TRUE(batch.add(event_of(id)));
      const std::string packed = pack(batch);
      auto put = db->prepare("INSERT INTO events VALUES(?, ?, ?)");
      ASSERT_TRUE(put);
      put->bind(1, static_cast<std::int64_t>(first)).bind(2, static_cast<std::int64_t>(last));
      ASSERT_TRUE(put->bind(3, packed).run());
    };
    put_event(3, 4);
    put_event(5, 5);
    std::string body;
    ASSERT_TRUE(encode(event_of(2), body));
    auto aside = db->prepare("INSERT INTO quarantine VALUES(2, 0, 'poison', ?)");
    ASSERT_TRUE(aside);
    ASSERT_TRUE(aside->bind(1, body).run());
    for (const char* note : {"INSERT INTO notes VALUES(x'6b31', 4000000000000000000, 1, x'aa')",
                             "INSERT INTO notes VALUES(x'6f31', 4000000000000000000, 3, x'')",
                             "INSERT INTO notes VALUES(x'7231', 9223372036854775807, 0, x'bb')"})
      ASSERT_TRUE(db->run(note));
  }
  const Notes kNotes{{"k1", {1, "\xaa"}}, {"o1", {3, ""}}, {"r1", {0, "\xbb"}}};

  TemporaryFolder folder_;
};

TEST_F(OlderFiles, AJournalWhoseNotesHaveNoFormatGoesOnAndLosesNothing) {
  leave_journal();
  {
    auto opened = Journal::open({.folder = folder_.path()});
    ASSERT_TRUE(opened) << opened.error().message;
    ASSERT_TRUE(eventually([&] { return (*opened)->writable(); })) << (*opened)->status().why;
    const JournalStatus status = (*opened)->status();
    EXPECT_EQ((*opened)->readable()->journal, 77u);
    EXPECT_EQ(status.counts.last, 5u);
    EXPECT_EQ(status.counts.unsettled, 3u);
    EXPECT_EQ(status.counts.quarantined, 1u);
    EXPECT_GT(status.counts.standing_bytes, 0u);
    EXPECT_EQ(noted(file()), kNotes);
    Note more{.id = "o1", .until = testing::at_second(4'000'000'000), .units = 2};
    more.what = Note::Do::add;
    const UsageEvent event = event_of(6);
    ASSERT_TRUE(testing::append(**opened, {&event, 1}, {more}));
    // What its ledger has it goes on from.
    Settler settler(
        **opened,
        [this]() -> Result<std::unique_ptr<Ledger>> {
          auto ledger = open_ledger(url());
          if (ledger && (*ledger)->journal(77)->last == 0) {
            std::string body;
            (void)encode(event_of(1), body);
            const StoredEvent first{.number = 1, .body = body};
            (void)(*ledger)->apply(77, {&first, 1}, testing::at_second(1'700'000'000));
            (void)(*ledger)->reject(77, 2, "poison");
          }
          return ledger;
        },
        Clock::real());
    ASSERT_TRUE(eventually([&] { return (*opened)->status().counts.unsettled == 0; }))
        << settler.status().why;
  }
  Notes expected = kNotes;
  expected["o1"].first = 5;
  EXPECT_EQ(noted(file()), expected);
  auto opened = JournalFile::open(file());
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->counts().settled, 5u);
  EXPECT_TRUE(opened->verify());
  EXPECT_EQ(opened->release_quarantine().value(), 1u);
  EXPECT_EQ(recorded(file()).count(2), 1u);
  std::uint64_t units = 0;
  ASSERT_TRUE((*look_into_ledger(url()))->lines([&](const LedgerLine& line) {
    units += line.units;
    return true;
  }));
  EXPECT_EQ(units, 5u);
}

// A release that goes back finds what a later one began, and leaves it alone.
TEST_F(OlderFiles, AJournalOfALaterFormatIsRefusedAndLeftAsItIs) {
  leave_journal();
  const auto contents = [&] {
    auto db = Database::open({.path = file().path});
    return db ? db->number("SELECT sum(length(packed)) FROM events").value() : -1;
  };
  const auto before = contents();
  for (const bool by_header : {true, false}) {
    {
      auto db = Database::open({.path = file().path});
      ASSERT_TRUE(db);
      ASSERT_TRUE(db->run(by_header ? "PRAGMA user_version=2"
                                    : "PRAGMA user_version=1; UPDATE journal SET format = 2"));
      ASSERT_TRUE(db->run("PRAGMA wal_checkpoint(TRUNCATE)"));
    }
    const auto opened = JournalFile::open(file());
    ASSERT_FALSE(opened);
    if (by_header) {
      EXPECT_EQ(opened.error().code, ErrorCode::failed_precondition);
      EXPECT_NE(
          opened.error().message.find("a journal of format 2, which this release does not read"),
          std::string::npos)
          << opened.error().message;
    }
    auto journal = Journal::open({.folder = folder_.path()});
    ASSERT_TRUE(journal);
    EXPECT_FALSE((*journal)->writable());
    EXPECT_FALSE((*journal)->status().why.empty());
    EXPECT_EQ(contents(), before);
  }
}

TEST_F(OlderFiles, ALedgerOfALaterFormatIsRefusedAndLeftAsItIs) {
  ASSERT_TRUE(open_ledger(url()));
  const std::string path = folder_.path() + "/ledger.db";
  {
    auto db = Database::open({.path = path});
    ASSERT_TRUE(db);
    ASSERT_TRUE(db->run("UPDATE ledger SET format = 9"));
  }
  for (const bool writes : {true, false}) {
    const auto opened = writes ? open_ledger(url()) : look_into_ledger(url());
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::failed_precondition);
    EXPECT_NE(opened.error().message.find("format 9"), std::string::npos) << opened.error().message;
  }
  auto db = Database::open({.path = path});
  ASSERT_TRUE(db);
  EXPECT_EQ(db->number("SELECT format FROM ledger").value(), 9);
}

}  // namespace
}  // namespace weir::ledger
