// What is done to a journal's file beside recording events, while its disk fails: events that leave
// quarantine, numbers that are passed over, and notes that are too many.

#include <gtest/gtest.h>

#include <optional>
#include <string>
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
using testing::TemporaryFolder;
using weir::testing::DiskFault;
using weir::testing::ForgetfulDisk;

class JournalFileFaults : public ::testing::TestWithParam<DiskFault> {
 protected:
  JournalFile::Options file() const {
    return {.path = "journal.db", .vfs = disk_.name(), .log_pages = 6, .most_notes = 4};
  }
  void remove() {
    for (const char* ending : {"", "-wal", "-journal"}) disk_.remove(file().path + ending);
  }
  static Result<void> record(JournalFile& journal, std::uint64_t first, std::uint64_t last,
                             const Settled& settled = {}) {
    EventBatch batch;
    for (std::uint64_t id = first; id <= last; ++id) {
      if (auto added = batch.add(event_of(id)); !added) return added;
    }
    return journal.commit(batch, settled);
  }
  // Six events, of which the ledger has the first four but for two.
  void begin_with_quarantine() {
    remove();
    auto journal = JournalFile::open(file());
    ASSERT_TRUE(journal) << journal.error().message;
    ASSERT_TRUE(record(*journal, 1, 4));
    ASSERT_TRUE(record(*journal, 5, 6));
    const Settled settled{
        .journal = journal->id(), .upto = 4, .rejected = {{2, "poison"}, {3, "poison"}}, .at = {}};
    ASSERT_TRUE(journal->commit({}, settled));
  }
  // Opens it as a process that comes later.
  void look(const std::function<void(JournalFile&)>& at) {
    auto journal = JournalFile::open(file());
    ASSERT_TRUE(journal) << journal.error().message;
    auto sound = journal->verify();
    ASSERT_TRUE(sound) << sound.error().message;
    at(*journal);
  }

  ForgetfulDisk disk_;
};

// Released, an event is in one place: it is billed once, or is still put aside.
TEST_P(JournalFileFaults, LeaveWhatLeavesQuarantineInOnePlace) {
  std::optional<std::uint64_t> released;
  const auto expect_once = [&](JournalFile& journal) {
    const auto found = recorded(file());
    const std::size_t outside = found.count(2) + found.count(3);
    EXPECT_EQ(outside + journal.counts().quarantined, 2u);
    EXPECT_TRUE(outside == 0 || outside == 2) << "all or none";
    if (released) {
      EXPECT_EQ(outside, 2u) << "it said that they are released";
    }
    for (const auto& [id, times] : found) EXPECT_EQ(times, 1) << id;
  };
  const auto during = [&] {
    released.reset();
    auto journal = JournalFile::open(file());
    if (!journal) return;
    if (const auto done = journal->release_quarantine()) released = *done;
    if (released) {
      EXPECT_EQ(*released, 2u);
    }
  };
  const auto after = [&] {
    look(expect_once);
    disk_.restart(ForgetfulDisk::Unsynced::lost);
    look(expect_once);
    // Whoever tries again comes to an end.
    auto journal = JournalFile::open(file());
    ASSERT_TRUE(journal);
    ASSERT_TRUE(journal->release_quarantine());
    EXPECT_EQ(journal->counts().quarantined, 0u);
    EXPECT_EQ(recorded(file()).count(2), 1u);
  };
  EXPECT_GT(sweep(disk_, GetParam(), {[&] { begin_with_quarantine(); }, during, after}), 4u);
}

// A number that was passed over is never given: the ledger would take its event for one it has.
TEST_P(JournalFileFaults, NeverGiveANumberThatWasPassedOver) {
  constexpr EventNumber kTo = 40;
  bool skipped = false;
  const auto begin = [&] {
    remove();
    auto journal = JournalFile::open(file());
    ASSERT_TRUE(journal);
    ASSERT_TRUE(record(*journal, 1, 3));
  };
  const auto during = [&] {
    skipped = false;
    auto journal = JournalFile::open(file());
    if (journal) skipped = journal->skip_to(kTo).has_value();
  };
  const auto expect_skipped = [&](JournalFile& journal) {
    if (skipped) {
      EXPECT_EQ(journal.counts().last, kTo);
    }
    EXPECT_TRUE(journal.counts().last == 3 || journal.counts().last == kTo);
    EXPECT_EQ(recorded(file()).size(), 3u);
  };
  const auto after = [&] {
    look(expect_skipped);
    disk_.restart(ForgetfulDisk::Unsynced::lost);
    look(expect_skipped);
    auto journal = JournalFile::open(file());
    ASSERT_TRUE(journal);
    ASSERT_TRUE(journal->skip_to(kTo));
    ASSERT_TRUE(record(*journal, 4, 4));
    EXPECT_EQ(journal->counts().last, kTo + 1);
    EXPECT_EQ(journal->counts().skipped, kTo - 3);
    EXPECT_TRUE(journal->verify());
  };
  EXPECT_GT(sweep(disk_, GetParam(), {begin, during, after}), 4u);
}

// Notes that are too many go, and never one that stands; what a failed commit did to them is undone
// as to the others, and what they take is counted as it is.
TEST_P(JournalFileFaults, KeepWhatStandsAmongNotesThatAreTooMany) {
  const auto note = [](std::string id, std::int64_t until) {
    return Note{.id = std::move(id),
                .at = testing::at_second(100),
                .until = until < 0 ? kStands : testing::at_second(until),
                .units = 1,
                .body = "body",
                .stands = until < 0};
  };
  Notes standing;
  const auto begin = [&] {
    remove();
    standing.clear();
    auto journal = JournalFile::open(file());
    ASSERT_TRUE(journal);
    ASSERT_TRUE(journal->commit({}, {}, std::vector{note("r0", -1), note("o0", 5'000)}));
    standing["r0"] = {1, "body"};
  };
  const auto during = [&] {
    std::optional<JournalFile> journal;
    std::optional<JournalFile::Durable> durable;
    for (int i = 1; i <= 6; ++i) {
      if (!journal) {
        // As the journal itself: opened anew, what was refused never was.
        auto opened = JournalFile::open(file(), durable);
        if (!opened) continue;
        journal = std::move(*opened);
      }
      durable = {
          .journal = journal->id(), .last = journal->counts().last, .notes = journal->notes_done()};
      const std::string name = std::to_string(i);
      std::vector notes{note("k" + name, 1'000 + i)};
      if (i % 3 == 0) notes.push_back(note("r" + name, -1));
      if (!journal->commit({}, {}, notes)) {
        journal.reset();
        continue;
      }
      durable->notes = journal->notes_done();
      if (i % 3 == 0) standing["r" + name] = {1, "body"};
    }
    journal.reset();
    if (durable) (void)JournalFile::open(file(), durable);
  };
  const auto after = [&] {
    const Notes found = noted(file());
    EXPECT_LE(found.size(), 4u + 1u);
    std::uint64_t bytes = 0;
    for (const auto& [id, value] : found) {
      if (id[0] != 'r') continue;
      bytes += bytes_of(note(id, -1));
    }
    for (const auto& [id, value] : standing) EXPECT_TRUE(found.contains(id)) << id;
    look([&](JournalFile& journal) { EXPECT_EQ(journal.counts().standing_bytes, bytes); });
  };
  EXPECT_GT(sweep(disk_, GetParam(), {begin, during, after}), 4u);
}

INSTANTIATE_TEST_SUITE_P(Every, JournalFileFaults, ::testing::ValuesIn(weir::testing::kDiskFaults),
                         weir::testing::name_of_fault);

// ---- What notes take.

class NotesWithinBounds : public ::testing::Test {
 protected:
  static Note reservation(int number, std::size_t bytes) {
    return {.id = "r" + std::to_string(number),
            .until = kStands,
            .units = 0,
            .body = std::string(bytes, 'x'),
            .stands = true};
  }
  std::unique_ptr<Journal> open(std::uint64_t max_bytes) {
    auto opened = Journal::open({.folder = folder_.path(), .max_bytes = max_bytes, .wake = {}});
    EXPECT_TRUE(opened) << opened.error().message;
    EXPECT_TRUE(eventually([&] { return (*opened)->writable(); }));
    return std::move(*opened);
  }
  TemporaryFolder folder_;
};

// Reservations were in nobody's bound: as many as there may be took hundreds of megabytes of a
// journal that was to take one.
TEST_F(NotesWithinBounds, ReservationsThatStandTakeHalfOfTheJournalAndEventsTheRest) {
  constexpr std::uint64_t kMax = 64 << 10;
  const auto journal = open(kMax);
  int stand = 0;
  Result<void> taken;
  while ((taken = append(*journal, {}, {reservation(stand, 1'000)}))) ASSERT_LT(++stand, 1'000);
  EXPECT_EQ(taken.error().code, ErrorCode::resource_exhausted);
  EXPECT_NE(taken.error().message.find("reservations that stand take 32768 bytes"),
            std::string::npos)
      << taken.error().message;
  EXPECT_LE(journal->status().counts.standing_bytes, kMax / 2);
  EXPECT_GT(journal->status().counts.standing_bytes, kMax / 2 - 1'100);
  // One that was there may say more of itself, and end: that needs no room of its own.
  Note beat = reservation(0, 1'000);
  beat.stands = false;
  EXPECT_TRUE(journal->follow({}, {beat}));
  std::uint64_t events = 0;
  while (append(*journal, event_of(events))) ASSERT_LT(++events, 10'000u);
  EXPECT_GT(events, 100u) << "half of it is theirs";
  EXPECT_LE(journal->status().counts.unsettled_bytes + journal->status().counts.standing_bytes,
            kMax);
  // Full of both, a reservation ends as soon as the ledger has taken some events.
  const UsageEvent used = event_of(20'000);
  const Note end{.id = "r0", .until = testing::at_second(4'000'000'000), .body = "ended"};
  EXPECT_FALSE(append(*journal, {&used, 1}, {end}));
  const auto readable = *journal->readable();
  journal->settled({.journal = readable.journal, .upto = readable.last, .at = {}});
  ASSERT_TRUE(eventually([&] { return journal->status().counts.unsettled == 0; }));
  ASSERT_TRUE(append(*journal, {&used, 1}, {end}));
  EXPECT_TRUE(append(*journal, {}, {reservation(1'000, 900)})) << "and there is room for another";
}

// More than the journal may hold, of a process that might have more.
TEST_F(NotesWithinBounds, ReservationsOfALargerJournalDoNotKeepTheirOwnEndsOut) {
  {
    const auto journal = open(1 << 20);
    for (int i = 0; i < 100; ++i) ASSERT_TRUE(append(*journal, {}, {reservation(i, 1'000)}));
  }
  const auto journal = open(64 << 10);
  EXPECT_GT(journal->status().counts.standing_bytes, 100'000u);
  EXPECT_FALSE(append(*journal, {}, {reservation(100, 1'000)}));
  const UsageEvent used = event_of(1);
  for (int i = 0; i < 80; ++i) {
    const Note end{
        .id = "r" + std::to_string(i), .until = testing::at_second(4'000'000'000), .body = {}};
    ASSERT_TRUE(append(*journal, {&used, 1}, {end})) << i;
  }
  EXPECT_TRUE(append(*journal, {}, {reservation(100, 1'000)}));
}

TEST_F(NotesWithinBounds, KeysOfRequestsGoByTheirBytes) {
  JournalFile::Options file = Journal::file_in(folder_.path());
  file.most_note_bytes = 100'000;
  auto journal = JournalFile::open(file);
  ASSERT_TRUE(journal);
  ASSERT_TRUE(journal->commit({}, {}, std::vector{reservation(0, 50'000)}));
  for (int i = 0; i < 60; ++i) {
    std::vector<Note> notes;
    for (int j = 0; j < 20; ++j) {
      notes.push_back({.id = "k" + std::to_string(100 * i + j),
                       .at = testing::at_second(100),
                       .until = testing::at_second(1'000 + i),
                       .units = 0,
                       .body = std::string(100, 'x')});
    }
    ASSERT_TRUE(journal->commit({}, {}, notes));
  }
  std::uint64_t bytes = 0;
  const Notes found = noted(file);
  for (const auto& [id, value] : found) {
    if (id[0] == 'k') bytes += bytes_of({.id = id, .body = value.second});
  }
  EXPECT_LE(bytes, 100'000u);
  EXPECT_GT(bytes, 50'000u) << "no more go than need to";
  EXPECT_TRUE(found.contains("r0"));
  EXPECT_TRUE(found.contains("k5919")) << "the newest";
  EXPECT_FALSE(found.contains("k0"));
}

}  // namespace
}  // namespace weir::ledger
