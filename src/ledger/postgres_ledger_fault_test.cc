// The ledger of a fleet, on a real PostgreSQL.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
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

// Between one client and its server; counts how often the client waited for an answer and then said
// something more.
class CountingRelay {
 public:
  explicit CountingRelay(std::uint16_t to) : listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at = loopback(0);
    socklen_t size = sizeof(at);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this, to] { carry(to); });
  }
  ~CountingRelay() {
    ::shutdown(listener_, SHUT_RDWR);
    thread_.join();
    ::close(listener_);
  }
  CountingRelay(const CountingRelay&) = delete;
  CountingRelay& operator=(const CountingRelay&) = delete;
  std::uint16_t port() const { return port_; }
  int turns() const { return turns_; }

 private:
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(port);
    return at;
  }
  // Until one of them is gone.
  void carry(std::uint16_t to) {
    pollfd ends[2] = {{.fd = ::accept(listener_, nullptr, nullptr), .events = POLLIN, .revents = 0},
                      {.fd = ::socket(AF_INET, SOCK_STREAM, 0), .events = POLLIN, .revents = 0}};
    const sockaddr_in server = loopback(to);
    bool open = ends[0].fd >= 0 && ::connect(ends[1].fd, reinterpret_cast<const sockaddr*>(&server),
                                             sizeof(server)) == 0;
    bool answered = false;
    while (open && ::poll(ends, 2, -1) > 0) {
      for (const std::size_t from : {0U, 1U}) {
        if (ends[from].revents == 0) continue;
        char bytes[65'536];
        const ssize_t count = ::read(ends[from].fd, bytes, sizeof(bytes));
        open = open && count > 0 && send_all(ends[1 - from].fd, bytes, count);
        if (from == 0 && std::exchange(answered, false)) ++turns_;
        if (from == 1) answered = true;
      }
    }
    for (const pollfd& end : ends) {
      if (end.fd >= 0) ::close(end.fd);
    }
  }
  static bool send_all(int to, const char* bytes, ssize_t count) {
    for (ssize_t sent = 0; sent < count;) {
      const ssize_t now =
          ::send(to, bytes + sent, static_cast<std::size_t>(count - sent), MSG_NOSIGNAL);
      if (now <= 0) return false;
      sent += now;
    }
    return true;
  }

  int listener_;
  std::uint16_t port_ = 0;
  std::atomic<int> turns_{0};
  std::thread thread_;
};

// How often the server at `url` is waited for while it takes the events.
int turns_of(const std::string& url, const std::vector<StoredEvent>& events,
             std::vector<Applied>& applied) {
  const auto port_at = url.find("127.0.0.1:") + 10;
  const auto port_end = url.find('/', port_at);
  CountingRelay relay(static_cast<std::uint16_t>(std::stoi(url.substr(port_at))));
  auto ledger = open_ledger(url.substr(0, port_at) + std::to_string(relay.port()) +
                            url.substr(port_end) + "?sslmode=disable&gssencmode=disable");
  EXPECT_TRUE(ledger) << ledger.error().message;
  if (!ledger) return 0;
  const int before = relay.turns();
  auto done = (*ledger)->apply(7, events, testing::at_second(1'700'000'100));
  EXPECT_TRUE(done) << done.error().message;
  if (done) applied = std::move(*done);
  const int turns = relay.turns() - before;
  ledger->reset();
  return turns;
}

// What an answer is in pieces may count as several; a statement at a time is 4,000.
constexpr int kTurnsOfABatch = 400;

// A server that is a millisecond away took 4 s for a batch, and fell behind a worker that served
// 500 calls a second.
TEST_F(FleetLedger, IsNotWaitedForAStatementAtATime) {
  constexpr EventNumber kEvents = 2'000;
  std::vector<StoredEvent> events;
  for (EventNumber i = 1; i <= kEvents; ++i) {
    UsageEvent event = event_of(i);
    const std::string tenant = "tenant " + std::to_string(i);
    event.tenant = tenant;
    events.push_back(testing::stored(i, event));
  }
  std::vector<Applied> applied;
  EXPECT_LT(turns_of(url_, events, applied), kTurnsOfABatch);
  EXPECT_EQ(applied.size(), kEvents);
  expect_units(kEvents);
}

// Whether a key is new decides what is billed, and was asked for one at a time.
TEST_F(FleetLedger, IsNotWaitedForAnIdempotencyKeyAtATime) {
  constexpr EventNumber kEvents = 2'000;
  std::vector<StoredEvent> events;
  for (EventNumber i = 1; i <= kEvents; ++i) {
    UsageEvent event = event_of(i);
    const std::string key = "request " + std::to_string(i / 2);
    event.idempotency_key = key;
    if (i % 200 == 1) event.units = 5;  // not what came with the key before
    events.push_back(testing::stored(i, event));
  }
  std::vector<Applied> applied;
  EXPECT_LT(turns_of(url_, events, applied), kTurnsOfABatch);
  ASSERT_EQ(applied.size(), kEvents);
  using Outcome = Applied::Outcome;
  for (EventNumber i = 1; i <= kEvents; ++i) {
    // Of each pair the first is billed; request 0 has one.
    const Outcome due = i % 2 == 0 || i == 1 ? Outcome::billed
                        : i % 200 == 1       ? Outcome::rejected
                                             : Outcome::repeated;
    ASSERT_EQ(applied[i - 1].outcome, due) << i << ": " << applied[i - 1].reason;
  }
  expect_units(kEvents / 2 + 5);
}

// Why the server ended the connection is said, not only that it is gone.
TEST_F(FleetLedger, SaysWhyAConnectionWasLost) {
  auto session = open_postgres_session(url_);
  ASSERT_TRUE(session) << session.error().message;
  Result<void> done =
      (*session)->run_by_the_way("SELECT pg_terminate_backend(pg_backend_pid())", {});
  if (done) done = (*session)->run_by_the_way("SELECT 1", {});
  if (done) done = (*session)->hear();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::unavailable);
  EXPECT_NE(done.error().message.find("57P01"), std::string::npos) << done.error().message;
}

// What is refused is known when all of it is sent, and takes nothing along.
TEST_F(FleetLedger, TakesAllOfABatchOrNothing) {
  auto ledger = open_ledger(url_);
  ASSERT_TRUE(ledger) << ledger.error().message;
  std::vector<StoredEvent> events;
  for (EventNumber i = 1; i <= 1'500; ++i) {
    UsageEvent event = event_of(i);
    const std::string tenant = i == 700 ? "\xff\xfe text" : "tenant";
    if (i == 700) event.route = tenant;  // no UTF-8, which the server takes for no text
    events.push_back(testing::stored(i, event));
  }
  const auto applied = (*ledger)->apply(7, events, testing::at_second(1'700'000'100));
  ASSERT_FALSE(applied);
  EXPECT_EQ(applied.error().code, ErrorCode::internal) << applied.error().message;
  EXPECT_EQ((*ledger)->journal(7)->last, 0u) << "the session goes on";
  events.erase(events.begin() + 699);
  ASSERT_TRUE((*ledger)->apply(7, events, testing::at_second(1'700'000'100)));
  expect_units(1'499);
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
