#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ledger/journal_story.h"
#include "ledger/ledger.h"
#include "ledger/sql_ledger.h"

// What every ledger keeps, whatever database it lies in.
namespace weir::ledger::testing {

using Outcome = Applied::Outcome;

inline StoredEvent stored(EventNumber number, const UsageEvent& event) {
  StoredEvent out{.number = number, .body = {}};
  EXPECT_TRUE(encode(event, out.body));
  return out;
}

inline std::vector<LedgerLine> lines_of(Ledger& ledger) {
  std::vector<LedgerLine> out;
  EXPECT_TRUE(ledger.lines([&](const LedgerLine& line) {
    out.push_back(line);
    return true;
  }));
  return out;
}

// A database of a test: each open() is another session with it.
struct LedgerHome {
  std::function<Result<std::unique_ptr<SqlSession>>()> session;
};
using MakeHome = std::function<std::shared_ptr<LedgerHome>()>;

class LedgerConformance : public ::testing::TestWithParam<MakeHome> {
 protected:
  void SetUp() override {
    home_ = GetParam()();
    if (!home_) GTEST_SKIP() << "its database is not installed here";
    reopen();
  }
  void reopen(LedgerOptions options = {}) {
    ledger_.reset();
    auto session = home_->session();
    ASSERT_TRUE(session) << session.error().message;
    auto opened = SqlLedger::open(std::move(*session), options);
    ASSERT_TRUE(opened) << opened.error().message;
    ledger_ = std::move(*opened);
  }
  std::vector<Outcome> apply(const std::vector<StoredEvent>& events, std::uint64_t journal = 7) {
    const auto applied = ledger_->apply(journal, events, now_);
    EXPECT_TRUE(applied) << applied.error().message;
    std::vector<Outcome> out;
    if (applied) {
      for (const Applied& one : *applied) out.push_back(one.outcome);
    }
    EXPECT_TRUE(ledger_->verify());
    return out;
  }
  std::uint64_t units() {
    std::uint64_t sum = 0;
    for (const LedgerLine& line : lines_of(*ledger_)) sum += line.units;
    return sum;
  }

  std::shared_ptr<LedgerHome> home_;
  std::unique_ptr<SqlLedger> ledger_;
  Instant now_ = at_second(1'700'000'100);
};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LedgerConformance);

TEST_P(LedgerConformance, BillsAnEventOnceHoweverOftenItIsTold) {
  const std::vector<StoredEvent> events = {stored(1, event_of(1)), stored(2, event_of(2))};
  EXPECT_EQ(apply(events), (std::vector{Outcome::billed, Outcome::billed}));
  EXPECT_EQ(apply(events), (std::vector{Outcome::already, Outcome::already}));
  reopen();
  EXPECT_EQ(apply(events), (std::vector{Outcome::already, Outcome::already}));
  ASSERT_EQ(lines_of(*ledger_).size(), 1u);
  const LedgerLine line = lines_of(*ledger_).front();
  EXPECT_EQ(line.tenant, "acme");
  EXPECT_EQ(line.route, "export");
  EXPECT_EQ(line.rule, "1000 per day by account");
  EXPECT_EQ(line.window_start, event_of(1).window_start);
  EXPECT_EQ(line.window, event_of(1).window);
  EXPECT_EQ(line.events, 2u);
  EXPECT_EQ(line.billed(), 2u);
  EXPECT_EQ(ledger_->journal(7)->last, 2u);
  EXPECT_EQ(ledger_->journal(8)->last, 0u);
}

TEST_P(LedgerConformance, ComesToTheSameHoweverTheEventsAreCutIntoBatches) {
  std::mt19937_64 random(4);
  std::vector<StoredEvent> all;
  std::uint64_t sum = 0;
  for (EventNumber number = 1; number <= 60; ++number) {
    UsageEvent event = event_of(number);
    event.units = random() % 9;
    sum += event.units;
    all.push_back(stored(number, event));
  }
  for (EventNumber told = 0; told < all.size();) {
    const EventNumber from = told - std::min<EventNumber>(told, random() % 5);  // told again
    const EventNumber upto = std::min<EventNumber>(all.size(), told + random() % 7);
    const auto applied = ledger_->apply(7, std::span(all).subspan(from, upto - from), now_);
    ASSERT_TRUE(applied);
    told = upto;
  }
  EXPECT_EQ(units(), sum);
  EXPECT_EQ(ledger_->journal(7)->events, 60u);
  EXPECT_TRUE(ledger_->verify());
}

TEST_P(LedgerConformance, KeepsJournalsAndTenantsApart) {
  UsageEvent other = event_of(1);
  const std::string bytes("a\0\xff", 3);
  other.tenant = bytes;
  EXPECT_EQ(apply({stored(1, event_of(1))}, 7), (std::vector{Outcome::billed}));
  EXPECT_EQ(apply({stored(1, other)}, 8), (std::vector{Outcome::billed}));
  const auto lines = lines_of(*ledger_);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].tenant, bytes);
  EXPECT_EQ(lines[1].tenant, "acme");
}

TEST_P(LedgerConformance, CountsALateEventInTheWindowOfItsOwnTime) {
  UsageEvent late = event_of(2);
  UsageEvent present = event_of(1);
  present.window_start += std::chrono::hours(24);
  present.at += std::chrono::hours(24);
  apply({stored(1, present), stored(2, late)});
  const auto lines = lines_of(*ledger_);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].window_start, late.window_start);
  EXPECT_EQ(lines[0].units, 1u);
  EXPECT_EQ(lines[1].units, 1u) << "the present window is not inflated";
}

TEST_P(LedgerConformance, BillsOrForgivesWhatWasOverspentAsWasDecidedBeforehand) {
  UsageEvent event = event_of(1);
  event.units = 10;
  event.overspent = 4;
  event.mode = policy::OverspendMode::forgive;
  UsageEvent billed = event;
  billed.mode = policy::OverspendMode::bill;
  billed.rule = "another";
  UsageEvent capped = event;
  capped.mode = policy::OverspendMode::cap;
  capped.rule = "third";
  apply({stored(1, event), stored(2, billed), stored(3, capped)});
  const auto lines = lines_of(*ledger_);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].billed(), 6u);
  EXPECT_EQ(lines[0].overspent, 4u);
  EXPECT_EQ(lines[1].billed(), 10u);
  EXPECT_EQ(lines[2].billed(), 10u);
}

// Faults of billing systems: a retried request was charged again, or its key was echoed and unused.
TEST_P(LedgerConformance, BillsOneIdempotencyKeyOnceWhicheverWorkerRecordedIt) {
  UsageEvent event = event_of(1);
  event.units = 20;
  event.idempotency_key = "K";
  EXPECT_EQ(apply({stored(1, event)}), (std::vector{Outcome::billed}));
  UsageEvent again = event;
  again.id.lo = 2;
  EXPECT_EQ(apply({stored(2, again)}), (std::vector{Outcome::repeated}));
  again.id.hi = 9;
  EXPECT_EQ(apply({stored(1, again)}, 8), (std::vector{Outcome::repeated})) << "another worker's";
  reopen();
  again.id.lo = 3;
  EXPECT_EQ(apply({stored(3, again), stored(4, again)}),
            (std::vector{Outcome::repeated, Outcome::repeated}));
  EXPECT_EQ(units(), 20u);
  UsageEvent other = again;
  other.tenant = "umbrella";
  EXPECT_EQ(apply({stored(5, other)}), (std::vector{Outcome::billed})) << "keys belong to a tenant";
  EXPECT_EQ(units(), 40u);
}

TEST_P(LedgerConformance, PutsAsideAnIdempotencyKeyThatComesWithOtherUnits) {
  UsageEvent event = event_of(1);
  event.units = 20;
  event.idempotency_key = "K";
  UsageEvent more = event;
  more.units = 30;
  const auto applied = ledger_->apply(
      7, std::vector{stored(1, event), stored(2, more), stored(3, event_of(3))}, now_);
  ASSERT_TRUE(applied);
  EXPECT_EQ((*applied)[1].outcome, Outcome::rejected);
  EXPECT_NE((*applied)[1].reason.find("20 units instead of 30"), std::string::npos)
      << (*applied)[1].reason;
  EXPECT_EQ((*applied)[2].outcome, Outcome::billed) << "it holds up nobody";
  EXPECT_EQ(units(), 21u);
  EXPECT_TRUE(ledger_->verify());
}

TEST_P(LedgerConformance, RemembersWhatItRejected) {
  StoredEvent damaged = stored(1, event_of(1));
  damaged.body[20] = static_cast<char>(damaged.body[20] ^ 1);
  const auto first = ledger_->apply(7, std::vector{damaged}, now_);
  ASSERT_TRUE(first);
  ASSERT_EQ(first->front().outcome, Outcome::rejected);
  ASSERT_TRUE(ledger_->reject(7, 2, "its database would not have it"));
  reopen();
  const auto again = ledger_->apply(7, std::vector{damaged, stored(2, event_of(2))}, now_);
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)[0].outcome, Outcome::rejected);
  EXPECT_EQ((*again)[0].reason, first->front().reason);
  EXPECT_EQ((*again)[1].outcome, Outcome::rejected);
  EXPECT_EQ((*again)[1].reason, "its database would not have it");
  EXPECT_EQ(ledger_->journal(7)->rejected, 2u);
  EXPECT_TRUE(ledger_->verify());
}

// A journal from a backup gives numbers again that the ledger knows: another event under one of
// them must not pass for the old one.
TEST_P(LedgerConformance, TellsAnotherEventUnderAKnownNumberFromTheOldOne) {
  apply({stored(1, event_of(1)), stored(2, event_of(2))});
  EXPECT_EQ(apply({stored(2, event_of(77))}), (std::vector{Outcome::rejected}));
  EXPECT_EQ(units(), 2u);
}

TEST_P(LedgerConformance, RejectsMoreUnitsThanACallCanHave) {
  UsageEvent event = event_of(1);
  event.units = std::uint64_t{1} << 63;
  UsageEvent twisted = event_of(2);
  twisted.overspent = 2;
  EXPECT_EQ(apply({stored(1, event), stored(2, twisted)}),
            (std::vector{Outcome::rejected, Outcome::rejected}));
  EXPECT_EQ(units(), 0u);
}

// A dedupe memory that is shorter than the oldest event bills that event again.
TEST_P(LedgerConformance, PutsAsideWhatIsOlderThanTheKeysItRemembers) {
  UsageEvent event = event_of(1);
  event.idempotency_key = "K";
  apply({stored(1, event)});
  now_ += LedgerOptions{}.key_memory + std::chrono::hours(1);
  apply({stored(2, event_of(2))});  // K is forgotten by now
  UsageEvent retried = event;
  retried.at += std::chrono::minutes(1);
  EXPECT_EQ(apply({stored(3, event), stored(4, retried)}),
            (std::vector{Outcome::rejected, Outcome::rejected}));
  UsageEvent fresh = event;
  fresh.at = now_;
  EXPECT_EQ(apply({stored(5, fresh)}), (std::vector{Outcome::billed}));
}

// The ledger was away for months: what is in the journal is old when it comes, and no less known
// afterwards.
TEST_P(LedgerConformance, KnowsWhatCameLateAsWellAsWhatCameInTime) {
  now_ += std::chrono::hours(24 * 365);
  UsageEvent event = event_of(1);
  event.idempotency_key = "K";
  UsageEvent retried = event;
  retried.id.lo = 2;
  EXPECT_EQ(apply({stored(1, event)}), (std::vector{Outcome::billed}));
  EXPECT_EQ(apply({stored(1, event)}), (std::vector{Outcome::already}));
  EXPECT_EQ(apply({stored(2, retried)}), (std::vector{Outcome::repeated}));
}

TEST_P(LedgerConformance, KeepsItsLinesWhenItForgetsSingleEvents) {
  apply({stored(1, event_of(1)), stored(2, event_of(2))});
  now_ += LedgerOptions{}.entry_memory + std::chrono::hours(1);
  UsageEvent fresh = event_of(3);
  fresh.at = now_;
  apply({stored(3, fresh)});
  EXPECT_EQ(units(), 3u);
  EXPECT_EQ(apply({stored(1, event_of(1))}), (std::vector{Outcome::rejected}))
      << "a number behind us whose event nobody knows any more is not billed blindly";
}

// A page is not the book: what lies behind it was left out, or told twice.
TEST_P(LedgerConformance, TellsEveryLineOfALargeBookOnceAndInOrder) {
  auto session = home_->session();
  ASSERT_TRUE(session);
  constexpr std::uint64_t kLines = 25'000;
  const bool sqlite = (*session)->dialect() == SqlSession::Dialect::sqlite;
  const std::string tenant =
      sqlite ? "CAST('tenant ' || (i / 3) AS BLOB)" : "convert_to('tenant ' || (i / 3), 'UTF8')";
  const std::string insert =
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
      std::to_string(kLines) + ") INSERT INTO lines SELECT " + tenant +
      ", 'export', 'rule ' || (i % 3), 0, 60000000000, 1, i, 0, 0 FROM n";
  ASSERT_TRUE((*session)->script(insert.c_str()));
  using Name = std::pair<std::string, std::string>;
  Name last;
  std::uint64_t lines = 0, units = 0;
  ASSERT_TRUE(ledger_->lines([&](const LedgerLine& line) {
    const Name name{line.tenant, line.rule};
    EXPECT_LT(last, name);
    last = name;
    ++lines;
    units += line.units;
    return true;
  }));
  EXPECT_EQ(lines, kLines);
  EXPECT_EQ(units, kLines * (kLines + 1) / 2);
  EXPECT_EQ(ledger_->count_lines().value(), kLines);
  std::uint64_t seen = 0;
  ASSERT_TRUE(ledger_->lines([&](const LedgerLine&) { return ++seen < 12'345; }));
  EXPECT_EQ(seen, 12'345u);
}

TEST_P(LedgerConformance, IsNotReadByAnOlderRelease) {
  ledger_.reset();
  auto session = home_->session();
  ASSERT_TRUE(session);
  ASSERT_TRUE((*session)->run("UPDATE ledger SET format = $1", {std::int64_t{999}}));
  const auto opened = SqlLedger::open(std::move(*session), {});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::failed_precondition);
}

}  // namespace weir::ledger::testing
