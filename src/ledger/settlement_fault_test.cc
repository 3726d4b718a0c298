// Journal, settler and ledger turned by hand, on disks and under clocks that fail: whatever breaks
// in between, the ledger has what was acknowledged, once.

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "ledger/journal_story.h"
#include "ledger/settler.h"
#include "ledger/sql_ledger.h"
#include "ledger/sqlite_session.h"
#include "testing/fault_sweep.h"
#include "testing/forgetful_disk.h"
#include "testing/manual_clock.h"

namespace weir::ledger {
namespace {

using namespace std::chrono_literals;
using testing::event_of;
using testing::TemporaryFolder;
using weir::testing::ForgetfulDisk;
using weir::testing::ManualClock;

class SettlementByHand : public ::testing::Test {
 protected:
  static constexpr const char* kLedger = "ledger.db";

  void begin(std::uint64_t max_bytes = 1 << 20) {
    end();
    auto opened = Journal::open({.folder = folder_.path(),
                                 .max_bytes = max_bytes,
                                 .within = 1ms,
                                 .vfs = journal_disk_.name(),
                                 .log_pages = 6,
                                 .clock = &clock_,
                                 .wake = [] {}});
    ASSERT_TRUE(opened) << opened.error().message;
    journal_ = std::move(*opened);
    settler_ = std::make_unique<Settler>(
        *journal_, [this] { return open_it(); }, clock_,
        Settler::Options{.batch = 2, .driven = true, .seed = 1});
  }
  void end() {
    settler_.reset();
    journal_.reset();
  }
  void TearDown() override { end(); }

  // The same ledger on a disk with nothing on it.
  void begin_anew() {
    end();
    for (ForgetfulDisk* disk : {&journal_disk_, &ledger_disk_}) {
      disk->restart(ForgetfulDisk::Unsynced::kept);
      for (const char* ending : {"", "-wal", "-journal"}) {
        disk->remove(Journal::file_in(folder_.path()).path + ending);
        disk->remove(std::string(kLedger) + ending);
      }
    }
    begin();
  }

  // True: it is durable.
  bool append(const UsageEvent& event) {
    std::optional<bool> durable;
    journal_->append({&event, 1}, [&](const Result<void>& done) { durable = done.has_value(); });
    for (int i = 0; i < 10 && !durable; ++i) (void)journal_->turn();
    return durable.value_or(false);
  }
  // One step of everybody, and the time that it takes until something is to be done again.
  void turn() {
    const Nanos settling = settler_->turn();
    const Nanos writing = journal_->turn().value_or(Nanos{1s});
    clock_.advance(std::max(Nanos{1ms}, std::min(settling, writing)));
    // A server whose power went comes back; nobody's session outlives that.
    if (!ledger_disk_.power_is_cut()) return;
    settler_.reset();
    ledger_disk_.restart(unsynced_, ++restarts_);
    settler_ = std::make_unique<Settler>(
        *journal_, [this] { return open_it(); }, clock_,
        Settler::Options{.batch = 2, .driven = true, .seed = 1});
  }
  bool all_settled() const {
    const JournalStatus status = journal_->status();
    return status.writable && status.waiting == 0 && status.counts.unsettled == 0;
  }
  // How long it took; absent: too long.
  std::optional<Nanos> settle(Nanos within = 60s) {
    const MonoTime from = clock_.mono();
    while (!all_settled()) {
      if (clock_.mono() - from > within) return std::nullopt;
      turn();
    }
    return clock_.mono() - from;
  }
  // By event, how often it is billed, once the ledger is found to balance.
  std::map<std::uint64_t, int> billed() {
    settler_.reset();
    auto ledger = open_it();
    EXPECT_TRUE(ledger) << ledger.error().message;
    if (!ledger) return {};
    if (auto sound = (*ledger)->verify(); !sound) ADD_FAILURE() << sound.error().message;
    std::map<std::uint64_t, int> found;
    auto db = Database::open({.path = kLedger, .vfs = ledger_disk_.name()});
    auto rows = db->prepare("SELECT id FROM entries WHERE billed > 0");
    if (!rows) return found;
    for (auto row = rows->step(); row && *row; row = rows->step())
      ++found[static_cast<unsigned char>(rows->bytes(0).back())];
    return found;
  }

  Result<std::unique_ptr<Ledger>> open_it() {
    if (away_) return Error{ErrorCode::unavailable, "away"};
    auto session = open_sqlite_session(kLedger, ledger_disk_.name());
    if (!session) return session.error();
    auto ledger = SqlLedger::open(std::move(*session), options_);
    if (!ledger) return ledger.error();
    return std::unique_ptr<Ledger>(std::move(*ledger));
  }

  TemporaryFolder folder_;
  ManualClock clock_;
  ForgetfulDisk journal_disk_;
  ForgetfulDisk ledger_disk_;
  ForgetfulDisk::Unsynced unsynced_ = ForgetfulDisk::Unsynced::lost;
  std::uint64_t restarts_ = 0;
  bool away_ = false;
  LedgerOptions options_;
  std::unique_ptr<Journal> journal_;
  std::unique_ptr<Settler> settler_;
};

constexpr std::uint64_t kEvents = 6;

// The ledger's power goes at every write, sync, opening and truncation of a settlement.
TEST_F(SettlementByHand, BillsOnceWhereverTheLedgersPowerIsCut) {
  std::uint64_t cuts = 0;
  for (const auto unsynced : {ForgetfulDisk::Unsynced::lost, ForgetfulDisk::Unsynced::kept,
                              ForgetfulDisk::Unsynced::drawn}) {
    unsynced_ = unsynced;
    for (std::uint64_t cut = 1;; ++cut, ++cuts) {
      SCOPED_TRACE("cut at operation " + std::to_string(cut));
      begin_anew();
      const std::uint64_t before = restarts_;
      ledger_disk_.cut_power_at(ledger_disk_.operations() + cut);
      for (std::uint64_t id = 1; id <= kEvents; ++id) {
        ASSERT_TRUE(append(event_of(id)));
        if (id % 2 == 0) turn();
      }
      ASSERT_TRUE(settle()) << settler_->status().why;
      const bool reached = restarts_ > before;
      ledger_disk_.restart(ForgetfulDisk::Unsynced::lost);
      const auto found = billed();
      ASSERT_EQ(found.size(), kEvents);
      for (const auto& [id, times] : found) ASSERT_EQ(times, 1) << id;
      if (!reached) break;
    }
  }
  EXPECT_GT(cuts, 60u) << "the test is to find a settlement worth cutting";
}

class LedgerFaults : public SettlementByHand,
                     public ::testing::WithParamInterface<weir::testing::DiskFault> {};

TEST_P(LedgerFaults, BillNothingTwiceAndLoseNothing) {
  const auto during = [&] {
    for (std::uint64_t id = 1; id <= kEvents; ++id) {
      ASSERT_TRUE(append(event_of(id))) << "the ledger's disk is not the journal's";
      if (id % 2 == 0) turn();
    }
    for (int i = 0; i < 20 && !all_settled(); ++i) turn();
  };
  const auto after = [&] {
    ASSERT_TRUE(settle()) << settler_->status().why;
    EXPECT_EQ(journal_->status().counts.quarantined, 0u);
    const auto found = billed();
    ASSERT_EQ(found.size(), kEvents);
    for (const auto& [id, times] : found) ASSERT_EQ(times, 1) << id;
  };
  EXPECT_GT(sweep(ledger_disk_, GetParam(), {[&] { begin_anew(); }, during, after}), 4u);
}

INSTANTIATE_TEST_SUITE_P(Every, LedgerFaults, ::testing::ValuesIn(weir::testing::kDiskFaults),
                         weir::testing::name_of_fault);

// The harness can fail: a ledger's disk that confirms and keeps nothing loses what was billed.
TEST_F(SettlementByHand, CanaryALedgerOnALyingDiskLosesWhatItConfirmed) {
  begin();
  ASSERT_TRUE(append(event_of(1)));
  ASSERT_TRUE(settle());
  ledger_disk_.fail(ForgetfulDisk::Fault::lying_sync, 1, ForgetfulDisk::Lasts::until_healed);
  for (std::uint64_t id = 2; id <= kEvents; ++id) ASSERT_TRUE(append(event_of(id)));
  ASSERT_TRUE(settle());
  settler_.reset();
  ledger_disk_.restart(ForgetfulDisk::Unsynced::lost);
  EXPECT_LT(billed().size(), kEvents);
}

// The ledger is away for longer than the journal may grow: the journal says so, and what it took
// is billed once there is a ledger again, and room within five seconds.
TEST_F(SettlementByHand, HasRoomAgainSoonAfterALedgerThatWasAwayForTooLong) {
  begin(2'000);
  away_ = true;
  std::uint64_t taken = 0;
  while (append(event_of(taken + 1))) {
    ++taken;
    ASSERT_LT(taken, 100u) << "it never was full";
    turn();
  }
  ASSERT_GT(taken, 5u);
  // Longer than any of the settler's waits grows.
  for (const MonoTime until = clock_.mono() + 60s; clock_.mono() < until;) turn();
  EXPECT_FALSE(append(event_of(taken + 1))) << "full is full";
  EXPECT_TRUE(journal_->writable()) << "and nothing is wrong with the disk";
  away_ = false;
  const auto took = settle();
  ASSERT_TRUE(took);
  EXPECT_LE(*took, 5s + 1s) << "the longest wait, and the settling";
  EXPECT_TRUE(journal_->has_room());
  ASSERT_TRUE(append(event_of(taken + 1)));
  ASSERT_TRUE(settle());
  const auto found = billed();
  EXPECT_EQ(found.size(), taken + 1) << "all that was acknowledged";
  for (const auto& [id, times] : found) EXPECT_EQ(times, 1) << id;
}

// However long the disk took nothing: it is asked again every half second.
TEST_F(SettlementByHand, TakesEventsAgainWithinFiveSecondsOfTheDiskDoingSo) {
  begin();
  ASSERT_TRUE(append(event_of(1)));
  for (const Nanos away : {Nanos{1s}, Nanos{10min}}) {
    journal_disk_.fail(ForgetfulDisk::Fault::full, 1, ForgetfulDisk::Lasts::until_healed);
    EXPECT_FALSE(append(event_of(2)));
    for (const MonoTime until = clock_.mono() + away; clock_.mono() < until;) {
      clock_.advance(journal_->turn().value_or(Nanos{1s}));
      EXPECT_FALSE(journal_->writable());
    }
    journal_disk_.heal();
    const MonoTime mended = clock_.mono();
    while (!journal_->writable()) {
      clock_.advance(journal_->turn().value_or(Nanos{1s}));
      ASSERT_LE(clock_.mono() - mended, 5s);
    }
    ASSERT_TRUE(append(event_of(away == Nanos{1s} ? 3 : 4)));
  }
  ASSERT_TRUE(settle());
  EXPECT_EQ(billed().size(), 3u) << "and nothing that was refused";
}

// Clocks that step a day and back, or past all that the ledger remembers, between one event and
// the next: nothing is billed twice, and what has no key is never lost.
TEST_F(SettlementByHand, BillsOnceThroughStepsOfTheClock) {
  for (const Nanos step : {Nanos{24h}, Nanos{-24h}, Nanos{40 * 24h}, Nanos{-40 * 24h}}) {
    SCOPED_TRACE(std::to_string(step / 1h) + " h");
    begin_anew();
    std::uint64_t id = 0;
    std::uint64_t keyed = 0;
    const auto serve = [&](std::string_view key) {
      UsageEvent event = event_of(++id);
      event.at = clock_.now();
      event.idempotency_key = key;
      if (!key.empty()) ++keyed;
      ASSERT_TRUE(append(event));
    };
    for (const Nanos by : {Nanos{0}, step, -step, -step, step}) {
      clock_.step_wall(by);
      serve({});
      serve("the same");
      ASSERT_TRUE(settle());
      serve({});
      ASSERT_TRUE(settle());
    }
    const JournalStatus status = journal_->status();
    const auto found = billed();
    for (const auto& [each, times] : found) EXPECT_EQ(times, 1) << each;
    EXPECT_GE(found.size(), id - keyed + 1) << "all without a key, and the key";
    EXPECT_LE(found.size() + status.counts.quarantined, id);
    // Within what keys are remembered for, the request is billed once; beyond it, a repetition is
    // another request, or put aside where nobody knows.
    if (step == Nanos{24h} || step == Nanos{-24h}) {
      EXPECT_EQ(found.size(), id - keyed + 1);
    }
  }
}

// A journal whose clock steps keeps its promise of `within`, and its order.
TEST_F(SettlementByHand, WritesWhatFollowsInTimeThroughStepsOfTheClock) {
  begin();
  for (std::uint64_t id = 1; id <= 4; ++id) {
    clock_.step_wall(id % 2 == 0 ? Nanos{24h} : Nanos{-48h});
    const UsageEvent event = event_of(id);
    ASSERT_TRUE(journal_->follow({&event, 1}));
    clock_.step_wall(id % 2 == 0 ? Nanos{-72h} : Nanos{24h});
    clock_.advance(1ms);
    (void)journal_->turn();
    EXPECT_EQ(journal_->status().waiting, 0u);
    EXPECT_EQ(journal_->status().counts.last, id);
  }
  ASSERT_TRUE(settle());
  EXPECT_EQ(billed().size(), 4u);
}

}  // namespace
}  // namespace weir::ledger
