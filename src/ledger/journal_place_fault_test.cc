// A journal that writes nothing still knows whether its files are there, and whether they may be
// written to.

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ledger/journal.h"
#include "ledger/journal_story.h"
#include "testing/manual_clock.h"

namespace weir::ledger {
namespace {

using testing::append;
using testing::event_of;
using testing::eventually;
using testing::recorded;
using testing::TemporaryFolder;

class JournalInItsPlace : public ::testing::Test {
 protected:
  std::string folder() const { return outer_.path() + "/journal"; }
  std::string path() const { return folder() + "/journal.db"; }
  std::unique_ptr<Journal> open() {
    auto opened = Journal::open({.folder = folder(),
                                 .retry = std::chrono::milliseconds(10),
                                 .changed = [this](bool works, const std::string& why) {
                                   std::lock_guard lock(mutex_);
                                   told_.push_back(works ? "works" : why);
                                 }});
    EXPECT_TRUE(opened) << opened.error().message;
    EXPECT_TRUE(eventually([&] { return (*opened)->writable(); }));
    return std::move(*opened);
  }
  std::vector<std::string> told() const {
    std::lock_guard lock(mutex_);
    return told_;
  }
  // Nothing is brought from the harm to the healing but by whoever asks whether it is there.
  void expect_noticed(const std::function<void()>& harm, const std::function<void()>& heal) {
    told_.clear();
    const auto journal = open();
    ASSERT_TRUE(append(*journal, event_of(1)));
    harm();
    ASSERT_TRUE(eventually([&] { return !journal->writable(); })) << "nobody looked";
    ASSERT_TRUE(eventually([&] { return !told().empty(); }));
    EXPECT_NE(told()[0].find(folder()), std::string::npos) << told()[0];
    EXPECT_EQ(journal->status().failures, 1u);
    EXPECT_FALSE(append(*journal, event_of(2)));
    const UsageEvent follows = event_of(3);
    EXPECT_TRUE(journal->follow({&follows, 1})) << "who needs no proof may wait";
    heal();
    ASSERT_TRUE(eventually([&] { return journal->writable(); })) << journal->status().why;
    ASSERT_TRUE(append(*journal, event_of(4)));
    EXPECT_EQ(recorded({.path = path()}), (std::map<std::uint64_t, int>{{1, 1}, {3, 1}, {4, 1}}));
    EXPECT_EQ(told().size(), 2u) << "once each";
    EXPECT_EQ(told().back(), "works");
  }
  // The same in a process of its own, which `prepare` makes one that harm comes to. False: it
  // cannot be one here.
  bool expect_noticed_apart(const std::function<bool()>& prepare, const std::function<void()>& harm,
                            const std::function<void()>& heal) {
    constexpr int kCannot = 77;
    const pid_t child = ::fork();
    EXPECT_GE(child, 0);
    if (child == 0) {
      if (!prepare()) ::_exit(kCannot);
      expect_noticed(harm, heal);
      std::fflush(stdout);
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == kCannot) return false;
    EXPECT_EQ(WEXITSTATUS(status), 0) << "see above";
    return true;
  }
  void move(const std::string& from, const std::string& to) {
    ASSERT_EQ(::rename(from.c_str(), to.c_str()), 0);
  }

  TemporaryFolder outer_;
  mutable std::mutex mutex_;
  std::vector<std::string> told_;
};

TEST_F(JournalInItsPlace, MissesItsFolder) {
  expect_noticed([&] { move(folder(), folder() + ".away"); },
                 [&] { move(folder() + ".away", folder()); });
}

TEST_F(JournalInItsPlace, MissesItsFile) {
  expect_noticed([&] { move(path(), path() + ".away"); }, [&] { move(path() + ".away", path()); });
}

// What it wrote last is in it alone.
TEST_F(JournalInItsPlace, MissesItsLog) {
  const auto journal = open();
  ASSERT_TRUE(append(*journal, event_of(1)));
  move(path() + "-wal", folder() + "/away");
  ASSERT_TRUE(eventually([&] { return !told().empty(); })) << "nobody looked";
  EXPECT_NE(told()[0].find("was taken away, or replaced"), std::string::npos) << told()[0];
  ASSERT_TRUE(eventually([&] {
    return journal->status().why.find("and once held 1") != std::string::npos;
  })) << journal->status().why;
}

// Without the mark a journal that lost its end could not be told from a new one.
TEST_F(JournalInItsPlace, MakesItsMarkAgainWhereThatIsTakenAway) {
  const auto journal = open();
  ASSERT_TRUE(append(*journal, event_of(1)));
  ASSERT_EQ(::unlink(JournalMark::path_of(path()).c_str()), 0);
  ASSERT_TRUE(eventually([&] {
    const auto held = JournalMark::read(path());
    return held && *held && (*held)->last == 1;
  }));
  ASSERT_TRUE(eventually([&] { return journal->writable(); }));
  EXPECT_TRUE(append(*journal, event_of(2)));
}

// A root that may write whatever the modes say is not the one that they are for.
TEST_F(JournalInItsPlace, MissesTheRightToWriteThatModesTookAway) {
  constexpr uid_t kNobody = 65'534;
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(outer_.path().c_str(), kNobody, kNobody), 0);
  }
  const auto as_nobody = [] {
    return ::geteuid() != 0 || (::setgid(kNobody) == 0 && ::setuid(kNobody) == 0);
  };
  const std::string log = path() + "-wal";
  for (const std::string& which : {folder(), path(), log}) {
    SCOPED_TRACE(which);
    const bool possible = expect_noticed_apart(
        as_nobody, [&] { ASSERT_EQ(::chmod(which.c_str(), which == folder() ? 0550 : 0440), 0); },
        [&] { ASSERT_EQ(::chmod(which.c_str(), which == folder() ? 0750 : 0640), 0); });
    std::filesystem::remove_all(folder());
    if (!possible) GTEST_SKIP() << "this process can be nobody else";
  }
}

// A process that took another user's rights writes with these, not with those it was started with.
TEST_F(JournalInItsPlace, MissesTheRightToWriteOfTheUserAsWhomItWrites) {
  if (::geteuid() != 0) GTEST_SKIP() << "this process can be nobody else";
  constexpr uid_t kNobody = 65'534;
  ASSERT_EQ(::chown(outer_.path().c_str(), kNobody, kNobody), 0);
  const bool possible =
      expect_noticed_apart([] { return ::setegid(kNobody) == 0 && ::seteuid(kNobody) == 0; },
                           [&] { ASSERT_EQ(::chmod(path().c_str(), 0440), 0); },
                           [&] { ASSERT_EQ(::chmod(path().c_str(), 0640), 0); });
  if (!possible) GTEST_SKIP() << "this process can be nobody else";
}

// As a file system that its system remounted after an error, or a volume of a container.
TEST_F(JournalInItsPlace, MissesTheRightToWriteThatAMountTookAway) {
  const auto of_its_own = [] {
    return ::unshare(CLONE_NEWNS) == 0 &&
           ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  };
  const bool possible = expect_noticed_apart(
      of_its_own,
      [&] {
        const std::string at = folder();
        ASSERT_EQ(::mount(at.c_str(), at.c_str(), nullptr, MS_BIND, nullptr), 0);
        ASSERT_EQ(::mount(nullptr, at.c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr),
                  0);
      },
      [&] { ASSERT_EQ(::umount2(folder().c_str(), MNT_DETACH), 0); });
  if (!possible) GTEST_SKIP() << "this process may mount nothing";
}

// That it looks again says nothing of what it takes.
TEST_F(JournalInItsPlace, IsNotBelievedAfterALookThatHungBeforeItTookSomething) {
  weir::testing::ManualClock clock;
  const auto opened = Journal::open({.folder = folder(), .clock = &clock, .wake = [] {}});
  ASSERT_TRUE(opened) << opened.error().message;
  Journal& journal = **opened;
  ASSERT_TRUE(journal.writable()) << journal.status().why;
  const auto log = [&] {
    std::ifstream in(path() + "-wal", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string before = log();
  std::atomic<bool> over{false};
  std::thread turns([&] {
    while (!over) {
      (void)journal.turn();
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // or nobody else gets its lock
    }
  });
  // Nothing is to be written: what takes so long is a look.
  EXPECT_TRUE(eventually([&] {
    for (int i = 0; i < 20'000; ++i) {
      clock.advance(Journal::kStuck * 2);
      journal.look();
    }
    return journal.status().failures > 0;
  }));
  EXPECT_TRUE(eventually([&] { return journal.writable(); })) << journal.status().why;
  over = true;
  turns.join();
  EXPECT_TRUE(log() != before) << "nothing was written";
}

// An empty folder where the journal's was may be what its disk was mounted on: what was recorded
// there would be hidden once the disk is back.
TEST_F(JournalInItsPlace, BeginsNoOtherJournalInAFolderThatTookThePlaceOfIts) {
  const auto journal = open();
  ASSERT_TRUE(append(*journal, event_of(1)));
  move(folder(), folder() + ".away");
  ASSERT_EQ(::mkdir(folder().c_str(), 0750), 0);
  ASSERT_TRUE(eventually([&] {
    return journal->status().why.find("there is no journal in it") != std::string::npos;
  })) << journal->status().why;
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
  ASSERT_EQ(::rmdir(folder().c_str()), 0);
  move(folder() + ".away", folder());
  ASSERT_TRUE(eventually([&] { return journal->writable(); })) << journal->status().why;
  ASSERT_TRUE(append(*journal, event_of(2)));
  EXPECT_EQ(recorded({.path = path()}), (std::map<std::uint64_t, int>{{1, 1}, {2, 1}}));
}

// Its lock went away with its own folder.
TEST_F(JournalInItsPlace, LeavesAFolderThatTookThePlaceOfItsToWhoHoldsIt) {
  const std::string away = outer_.path() + "/away";
  const auto journal = open();
  ASSERT_TRUE(append(*journal, event_of(1)));
  move(folder(), away);
  auto other = open();
  ASSERT_TRUE(append(*other, event_of(7)));
  ASSERT_TRUE(eventually([&] {
    return journal->status().why.find("another process") != std::string::npos;
  })) << journal->status().why;
  ASSERT_TRUE(append(*other, event_of(8)));
  EXPECT_FALSE(append(*journal, event_of(2)));
  EXPECT_EQ(recorded({.path = path()}), (std::map<std::uint64_t, int>{{7, 1}, {8, 1}}));
  // Once that one is gone, what it left is this one's, whom nobody else may disturb.
  other.reset();
  ASSERT_TRUE(eventually([&] { return journal->writable(); })) << journal->status().why;
  ASSERT_TRUE(append(*journal, event_of(3)));
  EXPECT_EQ(recorded({.path = path()}), (std::map<std::uint64_t, int>{{3, 1}, {7, 1}, {8, 1}}));
  EXPECT_FALSE(Journal::open({.folder = folder()}));
}

}  // namespace
}  // namespace weir::ledger
