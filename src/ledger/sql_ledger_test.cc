#include "ledger/sql_ledger.h"

#include "ledger/ledger_conformance.h"
#include "ledger/sqlite_session.h"
#include "testing/forgetful_disk.h"

namespace weir::ledger {
namespace {

using testing::event_of;
using testing::LedgerConformance;
using testing::LedgerHome;
using testing::stored;
using testing::TemporaryFolder;
using weir::testing::ForgetfulDisk;

std::shared_ptr<LedgerHome> in_a_file() {
  const auto folder = std::make_shared<TemporaryFolder>();
  return std::make_shared<LedgerHome>(
      LedgerHome{[folder] { return open_sqlite_session(folder->path() + "/ledger.db"); }});
}
INSTANTIATE_TEST_SUITE_P(Sqlite, LedgerConformance, ::testing::Values(in_a_file),
                         [](const auto&) { return std::string("File"); });

TEST(OpenLedger, RefusesWhatIsNoLedger) {
  for (const char* url : {"", "sqlite:", "ledger.db", "mysql://host/db"}) {
    const auto opened = open_ledger(url);
    ASSERT_FALSE(opened) << url;
    EXPECT_EQ(opened.error().code, ErrorCode::invalid_argument);
  }
  TemporaryFolder folder;
  EXPECT_TRUE(open_ledger("sqlite:" + folder.path() + "/ledger.db"));
}

// The power goes, or the disk fails, at every operation of a ledger's life; told again from where
// it is, it comes to the same.
class SqliteLedgerOnBadDisk : public ::testing::Test {
 protected:
  Result<std::unique_ptr<SqlLedger>> open() {
    auto session = open_sqlite_session("/ledger.db", disk_.name());
    if (!session) return session.error();
    return SqlLedger::open(std::move(*session), {});
  }
  void SetUp() override {
    for (EventNumber number = 1; number <= 12; ++number)
      events_.push_back(stored(number, event_of(number)));
  }
  // As a settler does: what fails is told again, to another session.
  void tell(bool until_done) {
    for (std::size_t told = 0; told < events_.size();) {
      auto ledger = open();
      if (!ledger && !until_done) return;
      if (!ledger) continue;
      while (told < events_.size()) {
        if (!(*ledger)->apply(7, std::span(events_).subspan(told, 3), Instant{})) break;
        told += 3;
      }
      if (!until_done) return;
    }
  }
  void expect_exact() {
    auto ledger = open();
    ASSERT_TRUE(ledger) << ledger.error().message;
    const auto lines = testing::lines_of(**ledger);
    ASSERT_EQ(lines.size(), 1u);
    ASSERT_EQ(lines.front().units, 12u);
    ASSERT_TRUE((*ledger)->verify());
  }
  void clear() {
    disk_.remove("/ledger.db");
    disk_.remove("/ledger.db-wal");
    disk_.remove("/ledger.db-journal");
  }

  ForgetfulDisk disk_;
  std::vector<StoredEvent> events_;
};

TEST_F(SqliteLedgerOnBadDisk, ComesToTheSameWhereverThePowerIsCut) {
  int cuts = 0;
  for (std::uint64_t cut = 1;; ++cut, ++cuts) {
    SCOPED_TRACE("cut at operation " + std::to_string(cut));
    clear();
    disk_.cut_power_at(disk_.operations() + cut);
    tell(false);
    const bool reached = disk_.power_is_cut();
    disk_.restart(ForgetfulDisk::Unsynced::drawn, cut);
    tell(true);
    expect_exact();
    if (HasFatalFailure() || !reached) break;
  }
  EXPECT_GT(cuts, 50);
}

TEST_F(SqliteLedgerOnBadDisk, ComesToTheSameWhicheverOperationFails) {
  for (const auto fault :
       {ForgetfulDisk::Fault::full, ForgetfulDisk::Fault::sync, ForgetfulDisk::Fault::no_descriptor,
        ForgetfulDisk::Fault::input_output}) {
    for (std::uint64_t nth = 1;; ++nth) {
      SCOPED_TRACE("operation " + std::to_string(nth));
      clear();
      disk_.fail(fault, nth, ForgetfulDisk::Lasts::once);
      tell(true);
      const bool failed = disk_.failed();
      disk_.heal();
      expect_exact();
      if (HasFatalFailure() || !failed) break;
    }
  }
}

}  // namespace
}  // namespace weir::ledger
