// From the journal into the ledger: once, whatever fails in between.

#include "ledger/settler.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <random>

#include "ledger/journal_story.h"
#include "ledger/sql_ledger.h"

namespace weir::ledger {
namespace {

using testing::append;
using testing::event_of;
using testing::eventually;
using testing::recorded;
using testing::TemporaryFolder;

// A ledger that does as it is told, and fails as it is told.
struct Mischief {
  std::atomic<bool> away{false};
  std::atomic<int> words_lost{0};              // so often it does the work and says it did not
  std::atomic<std::uint64_t> poisoned{~0ULL};  // the event, by its id, whose content it refuses
  std::atomic<int> applied{0};
};

class MischievousLedger final : public Ledger {
 public:
  MischievousLedger(std::unique_ptr<Ledger> real, Mischief& mischief)
      : real_(std::move(real)), mischief_(mischief) {}

  Result<JournalBalance> journal(std::uint64_t name) override { return real_->journal(name); }
  Result<std::vector<Applied>> apply(std::uint64_t journal, std::span<const StoredEvent> events,
                                     Instant now) override {
    if (mischief_.away) return Error{ErrorCode::unavailable, "away"};
    for (const StoredEvent& event : events) {
      if (event.read()->id.lo == mischief_.poisoned) return Error{ErrorCode::internal, "poison"};
    }
    auto done = real_->apply(journal, events, now);
    ++mischief_.applied;
    if (mischief_.words_lost > 0) {
      --mischief_.words_lost;
      return Error{ErrorCode::unavailable, "the word of it was lost"};
    }
    return done;
  }
  Result<void> reject(std::uint64_t journal, EventNumber number,
                      const std::string& reason) override {
    return real_->reject(journal, number, reason);
  }
  Result<void> lines(const std::function<bool(const LedgerLine&)>& each) override {
    return real_->lines(each);
  }
  Result<void> verify() override { return real_->verify(); }

 private:
  std::unique_ptr<Ledger> real_;
  Mischief& mischief_;
};

class Settlement : public ::testing::Test {
 protected:
  void open_journal() {
    auto opened = Journal::open({.folder = folder_.path(), .retry = std::chrono::milliseconds(1)});
    ASSERT_TRUE(opened) << opened.error().message;
    journal_ = std::move(*opened);
    ASSERT_TRUE(eventually([&] { return journal_->writable(); }));
  }
  void SetUp() override { open_journal(); }
  std::string url() const { return "sqlite:" + folder_.path() + "/ledger.db"; }
  std::unique_ptr<Settler> settle(bool accept_loss = false) {
    return std::make_unique<Settler>(
        *journal_,
        [this]() -> Result<std::unique_ptr<Ledger>> {
          if (mischief_.away) return Error{ErrorCode::unavailable, "away"};
          auto real = open_ledger(url());
          if (!real) return real.error();
          return std::unique_ptr<Ledger>(
              std::make_unique<MischievousLedger>(std::move(*real), mischief_));
        },
        Clock::real(),
        Settler::Options{.batch = 10,
                         .wait = std::chrono::milliseconds(1),
                         .max_wait = std::chrono::milliseconds(10),
                         .accept_loss = accept_loss});
  }
  bool all_settled() {
    return eventually([&] {
      const JournalStatus status = journal_->status();
      return status.counts.unsettled == 0 && status.waiting == 0;
    });
  }
  std::uint64_t units() {
    auto ledger = open_ledger(url());
    EXPECT_TRUE(ledger);
    EXPECT_TRUE((*ledger)->verify());
    std::uint64_t sum = 0;
    EXPECT_TRUE((*ledger)->lines([&](const LedgerLine& line) {
      sum += line.units;
      return true;
    }));
    return sum;
  }

  TemporaryFolder folder_;
  Mischief mischief_;
  std::unique_ptr<Journal> journal_;
};

TEST_F(Settlement, BringsEveryEventIntoTheLedgerAndOutOfTheJournal) {
  const auto settler = settle();
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(append(*journal_, event_of(i)));
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(units(), 100u);
  EXPECT_EQ(journal_->status().counts.settled, 100u);
  EXPECT_FALSE(journal_->status().counts.oldest) << "nothing is old that is settled";
  EXPECT_EQ(settler->status().settled, 100u);
}

TEST_F(Settlement, CatchesUpWhenTheLedgerComesBack) {
  mischief_.away = true;
  const auto settler = settle();
  for (std::uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(append(*journal_, event_of(i)));
  ASSERT_TRUE(eventually([&] { return !settler->status().working; }));
  EXPECT_EQ(settler->status().why, "away");
  EXPECT_EQ(journal_->status().counts.oldest, event_of(0).at);
  EXPECT_EQ(journal_->status().counts.unsettled, 50u);
  mischief_.away = false;
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(units(), 50u);
  EXPECT_TRUE(eventually([&] { return settler->status().working; }));
}

// The effect was there and the confirmation was lost: a retry is no second charge.
TEST_F(Settlement, BillsOnceWhenOnlyTheConfirmationIsLost) {
  mischief_.words_lost = 20;
  const auto settler = settle();
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(append(*journal_, event_of(i)));
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(mischief_.words_lost, 0);
  EXPECT_EQ(units(), 100u);
}

// An entry that fails for ever was counted again at each try, or held up all that came after it.
TEST_F(Settlement, PutsAPoisonedEventAsideWithItsReasonAndGoesOn) {
  mischief_.poisoned = 42;
  for (std::uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(append(*journal_, event_of(i)));
  const auto settler = settle();
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(units(), 99u);
  EXPECT_EQ(journal_->status().counts.quarantined, 1u);
  EXPECT_EQ(settler->status().rejected, 1u);
  auto reader = JournalReader::open(Journal::file_in(folder_.path()));
  const auto aside = reader->quarantine(0, 10);
  ASSERT_EQ(aside->size(), 1u);
  EXPECT_EQ(aside->front().event.read()->id.lo, 42u);
  EXPECT_EQ(aside->front().reason, "poison");
}

TEST_F(Settlement, BillsAnEventThatLeftQuarantineOnce) {
  mischief_.poisoned = 3;
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(append(*journal_, event_of(i)));
  auto settler = settle();
  ASSERT_TRUE(all_settled());
  settler.reset();
  journal_.reset();
  {
    auto file = JournalFile::open(Journal::file_in(folder_.path()));
    ASSERT_TRUE(file);
    EXPECT_EQ(file->release_quarantine().value(), 1u);
  }
  mischief_.poisoned = ~0ULL;
  open_journal();
  settler = settle();
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(units(), 10u);
  EXPECT_EQ(journal_->status().counts.quarantined, 0u);
}

// A journal that comes back from a backup must not give numbers again that the ledger knows.
TEST_F(Settlement, BillsWhatAJournalFromABackupRecords) {
  ASSERT_TRUE(append(*journal_, event_of(1)));
  journal_.reset();
  std::filesystem::copy_file(Journal::file_in(folder_.path()).path, folder_.path() + "/backup.db");
  std::filesystem::copy_file(Journal::file_in(folder_.path()).path + "-wal",
                             folder_.path() + "/backup.db-wal");
  open_journal();
  {
    const auto settler = settle();
    for (std::uint64_t i = 2; i <= 20; ++i) ASSERT_TRUE(append(*journal_, event_of(i)));
    ASSERT_TRUE(all_settled());
  }
  journal_.reset();
  for (const char* ending : {"", "-wal"}) {
    std::filesystem::rename(folder_.path() + "/backup.db" + ending,
                            Journal::file_in(folder_.path()).path + ending);
  }
  std::filesystem::remove(Journal::file_in(folder_.path()).path + "-shm");
  // Whoever brings back an older one says so.
  std::filesystem::remove(JournalMark::path_of(Journal::file_in(folder_.path()).path));
  open_journal();
  const auto settler = settle();
  ASSERT_TRUE(eventually([&] { return journal_->readable()->last >= 20; }));
  for (std::uint64_t i = 101; i <= 110; ++i) ASSERT_TRUE(append(*journal_, event_of(i)));
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(units(), 30u);
  EXPECT_EQ(journal_->status().counts.quarantined, 0u);
}

// A ledger that was emptied looked like a new one, and the bill of a month began at nothing.
TEST_F(Settlement, GivesNothingToALedgerThatLostWhatItHadUntilSomebodySaysSo) {
  {
    const auto settler = settle();
    for (std::uint64_t i = 1; i <= 20; ++i) ASSERT_TRUE(append(*journal_, event_of(i)));
    ASSERT_TRUE(all_settled());
  }
  for (const char* ending : {"", "-wal", "-shm"})
    std::filesystem::remove(folder_.path() + "/ledger.db" + ending);
  ASSERT_TRUE(append(*journal_, event_of(21)));
  {
    const auto settler = settle();
    ASSERT_TRUE(eventually([&] { return !settler->status().working; }));
    const std::string why = settler->status().why;
    EXPECT_NE(why.find("confirmed those up to 20"), std::string::npos) << why;
    EXPECT_EQ(journal_->status().counts.unsettled, 1u);
  }
  const auto settler = settle(true);
  ASSERT_TRUE(all_settled());
  EXPECT_EQ(units(), 1u);
  const auto balance = (*look_into_ledger(url()))->journal(journal_->readable()->journal);
  EXPECT_EQ(balance->last, 21u);
  EXPECT_EQ(balance->events, 1u);
  EXPECT_EQ(balance->rejected, 20u) << "what is missing is accounted for";
}

// Journal, settler and ledger in one process that is killed again and again while it serves; the
// last one brings to an end what is left.
TEST(SettlementKilled, BillsEveryAcknowledgedEventOnce) {
  TemporaryFolder folder;
  const std::string url = "sqlite:" + folder.path() + "/ledger.db";
  const auto open = [&url] { return open_ledger(url); };
  constexpr int kKills = 200;
  std::mt19937_64 random(8);
  std::set<std::uint64_t> acknowledged;
  for (int round = 0; round < kKills; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(pipe_ends[0]);
      auto journal = Journal::open({.folder = folder.path()});
      // However long a busy disk takes to open it.
      if (!journal || !eventually([&] { return (*journal)->writable(); })) ::_exit(3);
      Settler settler(**journal, open, Clock::real(), Settler::Options{.batch = 16});
      const auto base = static_cast<std::uint64_t>(round) << 32;
      for (std::uint64_t i = 0;; ++i) {
        const UsageEvent event = event_of(base + i);
        while ((*journal)->status().waiting > 64) std::this_thread::yield();
        (*journal)->append({&event, 1}, [&, id = event.id.lo](const Result<void>& done) {
          if (done && ::write(pipe_ends[1], &id, sizeof(id)) != sizeof(id)) ::_exit(4);
        });
      }
    }
    ::close(pipe_ends[1]);
    const std::size_t until = random() % 300;
    std::uint64_t id = 0;
    for (std::size_t heard = 0;
         heard < until && ::read(pipe_ends[0], &id, sizeof(id)) == sizeof(id); ++heard)
      acknowledged.insert(id);
    ::kill(child, SIGKILL);
    while (::read(pipe_ends[0], &id, sizeof(id)) == sizeof(id)) acknowledged.insert(id);
    ::close(pipe_ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the child ended by itself: " << WEXITSTATUS(status);
  }
  auto journal = Journal::open({.folder = folder.path()});
  ASSERT_TRUE(journal);
  ASSERT_TRUE(eventually([&] { return (*journal)->writable(); }));
  Settler settler(**journal, open, Clock::real());
  ASSERT_TRUE(eventually([&] { return (*journal)->status().counts.unsettled == 0; }));
  EXPECT_EQ((*journal)->status().counts.quarantined, 0u);

  std::map<std::string, int> billed;
  auto db = Database::open({.path = folder.path() + "/ledger.db"});
  ASSERT_TRUE(db);
  auto rows = db->prepare("SELECT id FROM entries");
  ASSERT_TRUE(rows);
  while (rows->step().value()) ++billed[std::string(rows->bytes(0).substr(8))];
  for (const auto& [id, times] : billed) ASSERT_EQ(times, 1);
  for (const std::uint64_t id : acknowledged) {
    std::string key;
    for (int shift = 56; shift >= 0; shift -= 8) key.push_back(static_cast<char>(id >> shift));
    ASSERT_TRUE(billed.contains(key)) << id;
  }
  const auto ledger = open();
  ASSERT_TRUE(ledger);
  EXPECT_TRUE((*ledger)->verify());
  std::uint64_t units = 0;
  ASSERT_TRUE((*ledger)->lines([&](const LedgerLine& line) {
    units += line.units;
    return true;
  }));
  EXPECT_EQ(units, billed.size());
  EXPECT_GE(units, acknowledged.size());
  EXPECT_GT(acknowledged.size(), std::size_t{kKills} * 50);
}

}  // namespace
}  // namespace weir::ledger
