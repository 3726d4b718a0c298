// The ledger of a fleet, on a real PostgreSQL.

#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <fstream>
#include <random>
#include <thread>

#include "ledger/ledger_conformance.h"
#include "ledger/postgres_session.h"
#include "ledger/settler.h"
#include "testing/postgres_server.h"

namespace weir::ledger {
namespace {

using testing::append;
using testing::event_of;
using testing::eventually;
using testing::LedgerConformance;
using testing::LedgerHome;
using testing::TemporaryFolder;
using weir::testing::PostgresServer;

// One server for all tests of this program: starting one takes seconds.
PostgresServer* server() {
  static const std::unique_ptr<PostgresServer> one =
      PostgresServer::installed() ? std::make_unique<PostgresServer>() : nullptr;
  return one.get();
}

std::shared_ptr<LedgerHome> in_postgres() {
  if (server() == nullptr) return nullptr;
  const std::string url = server()->url(server()->make_database());
  return std::make_shared<LedgerHome>(LedgerHome{[url] { return open_postgres_session(url); }});
}
}  // namespace

namespace testing {
INSTANTIATE_TEST_SUITE_P(Postgres, LedgerConformance, ::testing::Values(in_postgres),
                         [](const auto&) { return std::string("Server"); });
}  // namespace testing

namespace {

class FleetLedger : public ::testing::Test {
 protected:
  void SetUp() override {
    if (server() == nullptr) GTEST_SKIP() << "PostgreSQL is not installed here";
    url_ = server()->url(server()->make_database());
  }
  void expect_units(std::uint64_t units) {
    auto ledger = open_ledger(url_);
    ASSERT_TRUE(ledger) << ledger.error().message;
    std::uint64_t sum = 0;
    ASSERT_TRUE((*ledger)->lines([&](const LedgerLine& line) {
      sum += line.units;
      return true;
    }));
    EXPECT_EQ(sum, units);
    EXPECT_TRUE((*ledger)->verify());
  }
  std::string url_;
};

TEST_F(FleetLedger, TakesTheEventsOfManyWorkersAtOnce) {
  constexpr std::uint64_t kWorkers = 4;
  constexpr std::uint64_t kEvents = 200;
  struct Worker {
    TemporaryFolder folder;
    std::unique_ptr<Journal> journal;
    std::unique_ptr<Settler> settler;
  };
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::uint64_t w = 0; w < kWorkers; ++w) {
    auto worker = std::make_unique<Worker>();
    worker->journal = std::move(*Journal::open({.folder = worker->folder.path()}));
    worker->settler = std::make_unique<Settler>(
        *worker->journal, [this] { return open_ledger(url_); }, Clock::real(),
        Settler::Options{.batch = 7});
    workers.push_back(std::move(worker));
  }
  // All bill the same tenants, in every order; every request comes to two workers.
  for (std::uint64_t i = 0; i < kEvents; ++i) {
    for (std::uint64_t w = 0; w < kWorkers; ++w) {
      UsageEvent event = event_of(i, w);
      const std::string tenant = "tenant " + std::to_string((i * 7 + w * 3) % 11);
      const std::string key = "request " + std::to_string(w / 2 * kEvents + i);
      event.tenant = tenant;
      if (w < 2) event.tenant = "shared";
      if (w < 2) event.idempotency_key = key;
      ASSERT_TRUE(workers[w]->journal->follow({&event, 1}));
    }
  }
  for (const auto& worker : workers) {
    ASSERT_TRUE(eventually([&] { return worker->journal->status().counts.settled == kEvents; }))
        << worker->settler->status().why;
  }
  expect_units(kEvents + 2 * kEvents);
}

// Few and larger transactions: each waits for the disk twice, which other tests use, too.
TEST_F(FleetLedger, BillsOnceHoweverOftenTheServerIsKilled) {
  TemporaryFolder folder;
  auto journal = std::move(*Journal::open({.folder = folder.path()}));
  Settler settler(
      *journal, [this] { return open_ledger(url_); }, Clock::real(),
      Settler::Options{.batch = 20, .max_wait = std::chrono::milliseconds(100)});
  std::uint64_t recorded = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(append(*journal, event_of(++recorded)));
    ASSERT_TRUE(eventually([&] { return settler.status().settled > recorded - 190; }))
        << settler.status().why;
    server()->kill();
    server()->start();
  }
  ASSERT_TRUE(eventually([&] { return journal->status().counts.unsettled == 0; }))
      << settler.status().why;
  EXPECT_EQ(journal->status().counts.quarantined, 0u);
  expect_units(recorded);
}

// While it lives nothing of the server runs: connections stand, and nobody answers.
class Frozen {
 public:
  explicit Frozen(const std::string& url) {
    auto session = open_postgres_session(url);
    EXPECT_TRUE(session);
    EXPECT_TRUE((*session)->run("SELECT pid FROM pg_stat_activity", {}, [&](const SqlRow& row) {
      pids_.push_back(static_cast<pid_t>(row.number(0)));
    }));
    // Whose children they are.
    std::ifstream status("/proc/" + std::to_string(pids_.front()) + "/status");
    for (std::string word; status >> word;) {
      if (word != "PPid:") continue;
      pid_t parent = 0;
      status >> parent;
      pids_.push_back(parent);
      break;
    }
    // One that ended meanwhile needs no stopping.
    for (const pid_t pid : pids_) EXPECT_TRUE(::kill(pid, SIGSTOP) == 0 || errno == ESRCH);
  }
  ~Frozen() {
    for (const pid_t pid : pids_) ::kill(pid, SIGCONT);
  }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  std::vector<pid_t> pids_;
};

// A server that said nothing was waited for without end, and nobody heard of it.
TEST_F(FleetLedger, GivesUpOnAServerThatIsFrozenAndBillsOnceItMoves) {
  TemporaryFolder folder;
  auto journal = std::move(*Journal::open({.folder = folder.path()}));
  const auto settle = [&] {
    const auto stop = std::make_shared<std::atomic<bool>>(false);
    return std::make_unique<Settler>(
        *journal,
        [this, stop] {
          return open_ledger(url_, {.patience = std::chrono::milliseconds(500), .stop = stop});
        },
        Clock::real(), Settler::Options{.max_wait = std::chrono::milliseconds(100), .stop = stop});
  };
  auto settler = settle();
  for (std::uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(append(*journal, event_of(i)));
  ASSERT_TRUE(eventually([&] { return settler->status().settled == 10; }));
  {
    const Frozen frozen(url_);
    for (std::uint64_t i = 10; i < 20; ++i) ASSERT_TRUE(append(*journal, event_of(i)));
    ASSERT_TRUE(eventually([&] { return !settler->status().working; }));
    EXPECT_NE(settler->status().why.find("does not answer"), std::string::npos)
        << settler->status().why;
    settler.reset();  // while nobody answers
  }
  settler = settle();
  ASSERT_TRUE(eventually([&] { return journal->status().counts.unsettled == 0; }))
      << settler->status().why;
  EXPECT_TRUE(eventually([&] { return settler->status().working; }));
  expect_units(20);
}

// What no index of the server takes held up every event that came after it.
TEST_F(FleetLedger, PutsAsideWhatIsTooLongForTheServerAndGoesOn) {
  TemporaryFolder folder;
  auto journal = std::move(*Journal::open({.folder = folder.path()}));
  std::string tenant;
  std::mt19937 random(1);
  for (int i = 0; i < 5'000; ++i) tenant.push_back(static_cast<char>(random()));
  UsageEvent event = event_of(1);
  event.tenant = tenant;
  ASSERT_TRUE(append(*journal, event));
  ASSERT_TRUE(append(*journal, event_of(2)));
  Settler settler(
      *journal, [this] { return open_ledger(url_); }, Clock::real(),
      Settler::Options{.wait = std::chrono::milliseconds(1)});
  ASSERT_TRUE(eventually([&] { return journal->status().counts.unsettled == 0; }))
      << settler.status().why;
  EXPECT_EQ(journal->status().counts.quarantined, 1u);
  expect_units(1);
}

TEST_F(FleetLedger, IsMadeOnceByWorkersThatStartTogether) {
  std::vector<std::thread> workers;
  std::atomic<int> opened{0};
  for (int i = 0; i < 6; ++i) {
    workers.emplace_back([&] {
      const auto ledger = open_ledger(url_);
      EXPECT_TRUE(ledger) << ledger.error().message;
      if (ledger) ++opened;
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(opened, 6);
}

TEST(PostgresSession, SaysThatNobodyAnswers) {
  const auto opened = open_ledger("postgresql://weir@127.0.0.1:1/weir");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::unavailable);
  EXPECT_EQ(opened.error().message.find('\n'), std::string::npos) << "one line";
}

}  // namespace
}  // namespace weir::ledger
