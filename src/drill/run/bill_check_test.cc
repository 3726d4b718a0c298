// Every kind of wrong bill is seen: a drill that finds nothing of these would find nothing.

#include "drill/run/bill_check.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "ledger/journal.h"
#include "ledger/ledger.h"
#include "ledger/settler.h"
#include "weir/policy.h"

namespace weir::drill {
namespace {

using namespace std::chrono_literals;

const Policy& policy() {
  static const Policy read = *Policy::parse(
      "store: {url: redis://127.0.0.1:6379/0, workers: {of: 2, index: 0}}\n"
      "journal: journal\ninputs: [account]\nroutes:\n"
      "  export:\n"
      "    limits: [{name: credits, requests: 100, per: hour, by: [account], meter: true}]\n"
      "    protects: revenue\n    overspend: {cap: 2}\n"
      "  search:\n    limits: [10 per second by account]\n    protects: capacity\n");
  return read;
}

// Four units for one account, of which so many are beyond the part.
class BillCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/weir-bill-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void serve(std::uint64_t beyond, bool settle = true, std::string_view route = "export") {
    auto journal = ledger::Journal::open({.folder = folder_});
    ASSERT_TRUE(journal) << journal.error().message;
    for (std::uint64_t i = 1; i <= 4; ++i) {
      const ledger::UsageEvent event{.id = {1, i},
                                     .tenant = "acme",
                                     .route = route,
                                     .rule = "credits",
                                     .idempotency_key = {},
                                     .units = 1,
                                     .overspent = i <= beyond ? 1U : 0U,
                                     .outage = true,
                                     .at = Instant{1'700'000'000s},
                                     .window_start = Instant{1'699'999'200s},
                                     .window = 1h};
      ASSERT_TRUE((*journal)->follow({&event, 1}));
    }
    const auto written = [&] { return (*journal)->status().counts.last == 4; };
    for (int i = 0; i < 10'000 && !written(); ++i) std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(written());
    if (!settle) return;
    ledger::Settler settler(
        **journal, [this] { return ledger::open_ledger("sqlite:" + folder_ + "/ledger.db"); },
        Clock::real());
    const auto settled = [&] { return (*journal)->status().counts.unsettled == 0; };
    for (int i = 0; i < 10'000 && !settled(); ++i) std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(settled());
  }
  UsageReport check(std::uint64_t served, std::uint64_t unanswered = 0) {
    const CallsOfRoute calls[] = {{"export", served, unanswered}, {"search", 50, 0}};
    return check_bill(policy().model(), calls, folder_);
  }

  std::string folder_;
};

TEST_F(BillCheck, FindsABillOfWhatWasServedToBeRight) {
  serve(2);
  const UsageReport report = check(4);
  ASSERT_EQ(report.rules.size(), 1u) << "of metered rules alone";
  const UsageCheck& rule = report.rules.front();
  EXPECT_EQ(rule.billed, 4u);
  EXPECT_EQ(rule.overspent, 2u);
  EXPECT_EQ(rule.cap, 2u);
  EXPECT_TRUE(rule.nothing_lost());
  EXPECT_TRUE(rule.nothing_more());
  EXPECT_TRUE(rule.capped());
  EXPECT_EQ(report.journalled, 4u);
  EXPECT_EQ(report.settled, 4u);
  EXPECT_EQ(report.unsettled, 0u);
  EXPECT_EQ(report.of_nobody, 0u);
  EXPECT_EQ(report.fault, "");
}

TEST_F(BillCheck, FindsWhatWasServedAndIsOnNoBill) {
  serve(0);
  EXPECT_FALSE(check(5).rules.front().nothing_lost());
}

TEST_F(BillCheck, FindsWhatIsBilledAndWasNeverServed) {
  serve(0);
  EXPECT_FALSE(check(3).rules.front().nothing_more());
  EXPECT_TRUE(check(3, 1).rules.front().nothing_more()) << "nobody knows of a call without answer";
}

TEST_F(BillCheck, FindsACapThatWasBroken) {
  serve(3);
  EXPECT_FALSE(check(4).rules.front().capped());
}

TEST_F(BillCheck, FindsWhatNobodyAskedFor) {
  serve(0, true, "import");
  EXPECT_EQ(check(0).of_nobody, 4u);
}

TEST_F(BillCheck, FindsWhatIsLeftInTheJournal) {
  serve(0, false);
  const UsageReport report = check(4);
  EXPECT_EQ(report.unsettled, 4u);
  EXPECT_NE(report.fault, "") << "there is no ledger";
  EXPECT_FALSE(report.rules.front().nothing_lost());
}

TEST_F(BillCheck, KnowsWhichPoliciesBill) {
  EXPECT_TRUE(is_metered(policy().model()));
  EXPECT_FALSE(
      is_metered(Policy::parse("inputs: [account]\nroutes:\n  search:\n    limits: [10 per "
                               "second by account]\n    protects: capacity\n")
                     ->model()));
}

}  // namespace
}  // namespace weir::drill
