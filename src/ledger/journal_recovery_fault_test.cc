// When a journal says that its disk takes nothing, and when it believes that it does again.

#include <gtest/gtest.h>

#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ledger/journal.h"
#include "ledger/journal_story.h"
#include "testing/forgetful_disk.h"
#include "testing/manual_clock.h"

namespace weir::ledger {
namespace {

using testing::append;
using testing::event_of;
using testing::eventually;
using testing::noted;
using testing::recorded;
using testing::TemporaryFolder;
using weir::testing::ForgetfulDisk;

class JournalRecovery : public ::testing::Test {
 protected:
  std::unique_ptr<Journal> open() {
    auto opened = Journal::open({.folder = folder_.path(),
                                 .within = std::chrono::milliseconds(1),
                                 .retry = std::chrono::milliseconds(1),
                                 .vfs = disk_.name(),
                                 .log_pages = 6,
                                 .changed = [this](bool works, const std::string& why) {
                                   std::lock_guard lock(mutex_);
                                   told_.push_back(works ? "works" : why);
                                 }});
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  JournalFile::Options file() const { return Journal::file_in(folder_.path(), disk_.name()); }
  std::vector<std::string> told() const {
    std::lock_guard lock(mutex_);
    return told_;
  }
  static Note reservation() {
    return {.id = "r1", .until = kStands, .units = 0, .body = "it", .stands = true};
  }
  // However a test ends, its journal must not wait for ever.
  struct Healed {
    ForgetfulDisk& disk;
    ~Healed() { disk.heal(); }
  };
  // Until the disk has no room for what the journal needs.
  std::uint64_t fill(Journal& journal) {
    disk_.fail(ForgetfulDisk::Fault::no_room, 1, ForgetfulDisk::Lasts::until_healed);
    std::uint64_t taken = 0;
    while (append(journal, event_of(taken + 1))) {
      if (++taken > 10'000) {
        ADD_FAILURE() << "it never needed room";
        break;
      }
    }
    return taken;
  }

  TemporaryFolder folder_;
  ForgetfulDisk disk_;
  mutable std::mutex mutex_;
  std::vector<std::string> told_;
};

// What a full disk holds can be read and written again, and commits find place in it for a while:
// none of that is room.
TEST_F(JournalRecovery, IsBelievedOnceADiskThatWasFullHasRoom) {
  const auto journal = open();
  const std::uint64_t taken = fill(*journal);
  const UsageEvent waits = event_of(20'000);
  for (const bool something : {false, true}) {
    if (something) {
      ASSERT_TRUE(journal->follow({&waits, 1}));
    }
    const std::uint64_t before = disk_.operations();
    ASSERT_TRUE(eventually([&] {
      EXPECT_FALSE(append(*journal, event_of(30'000)));
      return disk_.operations() > before + 1'000;
    })) << "it keeps trying";
  }
  EXPECT_FALSE(journal->writable());
  EXPECT_EQ(journal->status().failures, 1u);
  ASSERT_EQ(told().size(), 1u);
  EXPECT_NE(told()[0].find("full"), std::string::npos) << told()[0];
  disk_.heal();
  ASSERT_TRUE(eventually([&] { return told().size() == 2; }));
  EXPECT_EQ(told()[1], "works");
  EXPECT_TRUE(append(*journal, event_of(40'000)));
  EXPECT_EQ(recorded(file()).size(), taken + 2) << "with what waited, and nothing that was refused";
}

// Each try writes the whole log again: a disk in trouble must not be kept busy with that.
TEST_F(JournalRecovery, IsTriedNoMoreOftenThanItSays) {
  weir::testing::ManualClock clock;
  auto opened = Journal::open(
      {.folder = folder_.path(), .vfs = disk_.name(), .log_pages = 6, .clock = &clock, .wake = [] {
       }});
  ASSERT_TRUE(opened);
  Journal& journal = **opened;
  ASSERT_TRUE(journal.writable());
  disk_.fail(ForgetfulDisk::Fault::sync, 1, ForgetfulDisk::Lasts::until_healed);
  bool refused = false;
  const UsageEvent event = event_of(1);
  journal.append({&event, 1}, [&](const Result<void>& done) { refused = !done; });
  // The first time at once, for most errors pass.
  EXPECT_EQ(journal.turn(), Nanos{0});
  EXPECT_TRUE(refused);
  for (int tries = 0; tries < 5; ++tries) {
    const std::uint64_t before = disk_.operations();
    EXPECT_EQ(journal.turn(), journal.options().retry);
    const std::uint64_t after = disk_.operations();
    EXPECT_GT(after, before);
    // Whoever wakes it meanwhile does not make it try.
    for (int wakes = 0; wakes < 3; ++wakes) {
      clock.advance(journal.options().retry / 4);
      EXPECT_EQ(journal.turn(), journal.options().retry / 4 * (3 - wakes));
    }
    EXPECT_EQ(disk_.operations(), after);
    clock.advance(journal.options().retry / 4);
  }
  disk_.heal();
  EXPECT_EQ(journal.turn(), Nanos{0});
  EXPECT_EQ(journal.turn(), Nanos{0});
  EXPECT_TRUE(journal.writable());
}

// Reservations are notes: nothing else need be on its way to a disk that hangs.
TEST_F(JournalRecovery, ADiskThatHangsTakesNothing) {
  std::promise<bool> answered;
  auto answer = answered.get_future();
  const auto journal = open();
  const Healed healed{disk_};
  ASSERT_TRUE(append(*journal, event_of(1)));
  disk_.fail(ForgetfulDisk::Fault::hang, 1, ForgetfulDisk::Lasts::until_healed);
  journal->append({}, {reservation()},
                  [&](const Result<void>& done) { answered.set_value(done.has_value()); });
  ASSERT_TRUE(eventually([&] {
    journal->look();
    return !told().empty();
  })) << "nobody heard of it";
  EXPECT_FALSE(journal->writable());
  const JournalStatus status = journal->status();
  EXPECT_FALSE(status.writable);
  EXPECT_NE(status.why.find("does not answer"), std::string::npos) << status.why;
  EXPECT_GT(status.failing_for, Journal::kStuck);
  EXPECT_EQ(status.failures, 1u);
  EXPECT_FALSE(append(*journal, {}, {reservation()})) << "nobody else waits for it";
  const UsageEvent follows = event_of(2);
  EXPECT_TRUE(journal->follow({&follows, 1})) << "who needs no proof may wait";
  disk_.heal();
  EXPECT_TRUE(answer.get()) << "who was there before is answered as it was";
  EXPECT_TRUE(append(*journal, event_of(3)));
  ASSERT_TRUE(eventually([&] { return told().size() == 2; }));
  EXPECT_EQ(told()[1], "works");
  EXPECT_EQ(noted(file()).size(), 1u);
  EXPECT_EQ(recorded(file()).size(), 3u);
}

// Whoever ends the process hears what it waits for.
TEST_F(JournalRecovery, TheEndSaysThatItWaitsForADiskThatHangs) {
  const auto journal = open();
  ASSERT_TRUE(append(*journal, event_of(1)));
  disk_.fail(ForgetfulDisk::Fault::hang, 1, ForgetfulDisk::Lasts::until_healed);
  const UsageEvent event = event_of(2);
  ASSERT_TRUE(journal->follow({&event, 1}));
  std::thread end([&] { EXPECT_EQ(journal->close(), 0u); });
  EXPECT_TRUE(eventually([&] {
    const auto all = told();
    return !all.empty() && all.back().find("the end of this process waits") != std::string::npos;
  }));
  disk_.heal();
  end.join();
  EXPECT_EQ(told().back(), "works");
  EXPECT_EQ(recorded(file()).size(), 2u);
}

}  // namespace
}  // namespace weir::ledger
