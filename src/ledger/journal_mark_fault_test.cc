// The mark beside a journal, on a real disk.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "ledger/journal.h"
#include "ledger/journal_mark.h"
#include "ledger/journal_reader.h"
#include "ledger/journal_story.h"
#include "ledger/sqlite.h"

namespace weir::ledger {
namespace {

using testing::append;
using testing::event_of;
using testing::eventually;
using testing::noted;
using testing::recorded;
using testing::TemporaryFolder;

class JournalMarkOnDisk : public ::testing::Test {
 protected:
  JournalFile::Options file() const { return Journal::file_in(folder_.path()); }
  std::string mark() const { return JournalMark::path_of(file().path); }
  std::string read_mark() const {
    std::ifstream in(mark(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write_mark(const std::string& text) const {
    std::ofstream(mark(), std::ios::binary | std::ios::trunc) << text;
  }
  std::unique_ptr<Journal> open() const {
    auto opened = Journal::open({.folder = folder_.path(), .retry = std::chrono::milliseconds(1)});
    EXPECT_TRUE(opened);
    return std::move(*opened);
  }
  std::string read_log() const {
    std::ifstream in(file().path + "-wal", std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write_log(const std::string& bytes) const {
    std::ofstream(file().path + "-wal", std::ios::binary | std::ios::trunc) << bytes;
  }
  void record(std::uint64_t first, std::uint64_t last) const {
    const auto journal = open();
    ASSERT_TRUE(eventually([&] { return journal->writable(); })) << journal->status().why;
    for (std::uint64_t id = first; id <= last; ++id) ASSERT_TRUE(append(*journal, event_of(id)));
  }

  TemporaryFolder folder_;
};

// Cut short anywhere it is damage, and said so, until somebody brings it back; the journal beside
// it is left as it is.
TEST_F(JournalMarkOnDisk, IsDamagedWhereverItIsCutShort) {
  record(1, 3);
  const std::string whole = read_mark();
  ASSERT_EQ(whole.size(), 63u);
  for (std::size_t bytes = 1; bytes < whole.size(); ++bytes) {
    SCOPED_TRACE(bytes);
    write_mark(whole.substr(0, bytes));
    const auto opened = JournalFile::open(file());
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(opened.error().message.find("journal.db-mark: damaged"), std::string::npos)
        << opened.error().message;
    EXPECT_EQ(read_mark(), whole.substr(0, bytes));
  }
  write_mark(whole);
  record(4, 4);
  EXPECT_EQ(recorded(file()).size(), 4u);
}

// A mark that its disk took no more, or that a power cut set back, says less, and never keeps what
// is there from being read.
TEST_F(JournalMarkOnDisk, MayLieBehindWhatTheJournalHolds) {
  record(1, 2);
  const std::string behind = read_mark();
  record(3, 6);
  ASSERT_NE(read_mark(), behind);
  for (const std::string& mark : {behind, std::string()}) {
    write_mark(mark);
    record(7, 7);
    EXPECT_EQ(recorded(file()).size(), 7u);
    {
      auto journal = JournalFile::open(file());
      ASSERT_TRUE(journal) << journal.error().message;
      EXPECT_TRUE(journal->verify());
    }
    // For the next round: without the seventh.
    auto db = Database::open({.path = file().path});
    ASSERT_TRUE(db);
    ASSERT_TRUE(db->run("DELETE FROM events WHERE number = 7"));
    write_mark(behind);
  }
}

// So many descriptors may be open and no more, in this process.
class DescriptorLimit {
 public:
  DescriptorLimit() { ::getrlimit(RLIMIT_NOFILE, &before_); }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;
  // Only `more` than are open now, where no number is free among them.
  void set(rlim_t more) const {
    const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(next);
    const rlimit limit{static_cast<rlim_t>(next) + more, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  void lift() const { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

// The n-th descriptor is refused, for n = 1, 2, 3 … until a journal opens: its database, its log,
// its mark, its folder. Nothing is begun anew, and nothing is lost.
TEST_F(JournalMarkOnDisk, IsNeverPassedOverWhereDescriptorsRunOut) {
  record(1, 3);
  const std::string held = read_mark();
  const DescriptorLimit limit;
  int refusals = 0;
  for (rlim_t more = 0;; ++more, ++refusals) {
    SCOPED_TRACE(more);
    ASSERT_LT(more, 64u);
    limit.set(more);
    bool opened = false;
    {
      auto journal = JournalFile::open(file());
      opened = journal.has_value();
    }
    limit.lift();
    EXPECT_EQ(read_mark(), held);
    EXPECT_EQ(recorded(file()).size(), 3u);
    if (opened) break;
  }
  EXPECT_GT(refusals, 2);
  record(4, 4);
  EXPECT_EQ(recorded(file()).size(), 4u);
}

// What is lost where a journal's log loses its end.
struct LostEnd {
  const char* name;
  bool events;  // some came before, too
  // What becomes of the log, as it is and as it was before its last commit.
  std::string (*harmed)(const std::string& log, const std::string& before);
};
class JournalWithoutItsEnd : public JournalMarkOnDisk,
                             public ::testing::WithParamInterface<LostEnd> {};

std::string cut_before_its_end(const std::string& log, const std::string& before) {
  const auto [at, there] = std::mismatch(log.begin(), log.end(), before.begin(), before.end());
  return {log.begin(), at};
}
std::string damaged_at_its_end(const std::string& log, const std::string& before) {
  std::string harmed = log;
  harmed[cut_before_its_end(log, before).size()] ^= 0x5a;
  return harmed;
}
std::string none_at_all(const std::string&, const std::string&) {
  return {};
}

// A reservation is a note, and so is one that ends as nothing used: no event need come with it.
TEST_P(JournalWithoutItsEnd, IsNotTakenForOneThatNeverHadIt) {
  const LostEnd& lost = GetParam();
  if (lost.events) record(1, 3);
  std::string before;
  {
    auto journal = JournalFile::open(file());
    ASSERT_TRUE(journal) << journal.error().message;
    const auto take = [&](const char* id) {
      const Note note{.id = id, .until = kStands, .units = 0, .body = "what was reserved"};
      ASSERT_TRUE(journal->commit({}, {}, {&note, 1}));
    };
    take("r1");
    before = read_log();
    take("r2");
  }
  const std::string log = read_log();
  ASSERT_NE(log, before);
  const std::string harmed = lost.harmed(log, before);
  write_log(harmed);

  {
    auto reader = JournalReader::open(file());
    ASSERT_TRUE(reader) << reader.error().message;
    ASSERT_FALSE(reader->whole()) << "a reader noticed nothing";
  }
  const auto opened = JournalFile::open(file());
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(opened.error().message.find("journal.db-wal, was emptied, cut short"),
            std::string::npos)
      << opened.error().message;
  EXPECT_NE(opened.error().message.find("once held what 2 did"), std::string::npos)
      << opened.error().message;

  write_log(log);
  EXPECT_TRUE(JournalFile::open(file())) << "brought back as it was";
  EXPECT_EQ(noted(file()).size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Journal, JournalWithoutItsEnd,
                         ::testing::Values(LostEnd{"cut", false, cut_before_its_end},
                                           LostEnd{"cut_behind_events", true, cut_before_its_end},
                                           LostEnd{"damaged", false, damaged_at_its_end},
                                           LostEnd{"damaged_behind_events", true,
                                                   damaged_at_its_end},
                                           LostEnd{"whole_log_lost", false, none_at_all}),
                         [](const auto& lost) { return std::string(lost.param.name); });

TEST_F(JournalMarkOnDisk, KnowsAJournalOfNotesAloneThatIsGone) {
  {
    auto journal = JournalFile::open(file());
    ASSERT_TRUE(journal);
    const Note note{.id = "r1", .until = kStands, .units = 0, .body = "what was reserved"};
    ASSERT_TRUE(journal->commit({}, {}, {&note, 1}));
  }
  std::filesystem::remove(file().path);
  const auto opened = JournalFile::open(file());
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("is gone, and held reservations"), std::string::npos)
      << opened.error().message;
  EXPECT_FALSE(std::filesystem::exists(file().path));
}

// Marks of earlier releases say nothing of notes.
TEST_F(JournalMarkOnDisk, OfAnEarlierReleaseIsReadAndBroughtUpToDate) {
  record(1, 3);
  const Note note{.id = "r1", .until = kStands, .units = 0, .body = "what was reserved"};
  {
    auto journal = JournalFile::open(file());
    ASSERT_TRUE(journal);
    ASSERT_TRUE(journal->commit({}, {}, {&note, 1}));
  }
  const std::string whole = read_mark();
  write_mark(whole.substr(0, 41) + "\n");
  ASSERT_TRUE(JournalFile::open(file()));
  EXPECT_EQ(read_mark(), whole);
  // Events that are missing are missing by it, too.
  write_mark(whole.substr(0, 40) + "4\n");
  const auto opened = JournalFile::open(file());
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("once held 4"), std::string::npos)
      << opened.error().message;
}

}  // namespace
}  // namespace weir::ledger
