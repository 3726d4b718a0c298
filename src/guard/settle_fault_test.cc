// Serve and settle, on a real Redis and a real disk: what a metered route serves is recorded,
// before the answer where nobody could count it, and comes into the ledger once.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "guard/impl.h"
#include "guard/metered_story_test.h"
#include "ledger/journal_reader.h"
#include "ledger/journal_story.h"
#include "ledger/ledger.h"
#include "testing/patience.h"
#include "testing/redis_server.h"
#include "weir/guard.h"
#include "weir/reservation.h"

namespace weir::testing {

std::atomic<bool> g_disk_hangs{false};
std::atomic<bool> g_disk_fails{false};

}  // namespace weir::testing

namespace {

int as_the_disk_is(int file) {
  while (weir::testing::g_disk_hangs.load())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (weir::testing::g_disk_fails.load()) {
    errno = EIO;
    return -1;
  }
  // No machine loses its power here, and a disk that others keep busy takes seconds.
  return ::fcntl(file, F_GETFD) == -1 ? -1 : 0;
}

}  // namespace

// In place of the C library's, for all that this process is made of.
extern "C" int fsync(int file) {
  return as_the_disk_is(file);
}
extern "C" int fdatasync(int file) {
  return as_the_disk_is(file);
}

namespace weir {
namespace {

using ledger::testing::eventually;
using ledger::testing::TemporaryFolder;
using std::chrono::milliseconds;
using testing::g_disk_hangs;
using testing::RedisServer;

class HeardJournal final : public Observer {
 public:
  void on_store_event(const StoreEvent& event) override {
    std::lock_guard lock(mutex_);
    ++events_[event.kind];
  }
  int count(StoreEvent::Kind kind) {
    std::lock_guard lock(mutex_);
    return events_[kind];
  }

 private:
  std::mutex mutex_;
  std::map<StoreEvent::Kind, int> events_;
};

class SettlingGuard : public ::testing::Test {
 protected:
  // A limit of ten a month for each account, over two workers; this one's part is five. A store
  // that a busy machine keeps waiting is not to be taken for one that is away.
  std::string policy(const std::string& overspend = "{cap: 4}", const std::string& more = "",
                     const std::string& ledger = "") const {
    return "store:\n  url: redis://127.0.0.1:" + std::to_string(redis_.port()) +
           "\n  deadline: 2s\n  workers: {of: 2, index: 0}\n"
           "journal: {folder: " +
           folder_.path() + "/journal, max: 1MiB, within: 20ms" + ", ledger: '" +
           (ledger.empty() ? "sqlite:" + folder_.path() + "/journal/ledger.db" : ledger) + "'" +
           "}\n"
           "inputs: [account]\n"
           "routes:\n"
           "  export:\n"
           "    limits:\n"
           "      - {requests: 10, per: month, by: [account], algorithm: fixed_window, meter: "
           "true}\n"
           "    protects: revenue\n"
           "    overspend: " +
           overspend + "\n" + more;
  }
  Guard open(const std::string& text) {
    Guard guard = Guard::open(Policy::parse(text).value(), {.observer = &heard_}).value();
    if (redis_.pid() > 0) testing::await_store(guard);
    return guard;
  }
  void kill_redis(Guard& guard) {
    redis_.kill();
    ASSERT_TRUE(eventually([&] {
      return guard.check("export", {{"account", "nobody"}}, {.cost = 0}).rung != Rung::store;
    }));
  }
  struct Sums {
    std::uint64_t units = 0, billed = 0, overspent = 0;
  };
  Sums ledger_of(const std::string& account) {
    Sums sums;
    auto ledger = ledger::open_ledger("sqlite:" + folder_.path() + "/journal/ledger.db");
    if (!ledger) return sums;
    (void)(*ledger)->lines([&](const ledger::LedgerLine& line) {
      if (line.tenant != account) return true;
      sums.units += line.units;
      sums.billed += line.billed();
      sums.overspent += line.overspent;
      return true;
    });
    return sums;
  }

  TemporaryFolder folder_;
  RedisServer redis_;
  HeardJournal heard_;
};

TEST_F(SettlingGuard, RecordsWhatTheStoreAdmitsSoonAfter) {
  Guard guard = open(policy());
  int allowed = 0;
  for (int i = 0; i < 12; ++i) allowed += guard.check("export", {{"account", "acme"}}).allowed();
  EXPECT_EQ(allowed, 10);
  EXPECT_TRUE(guard.check("export", {{"account", "other"}}, {.cost = 3}).allowed());
  (void)guard.peek("export", {{"account", "third"}});
  EXPECT_TRUE(eventually([&] { return ledger_of("acme").units == 10; }));
  EXPECT_TRUE(eventually([&] { return ledger_of("other").units == 3; }));
  EXPECT_EQ(ledger_of("third").units, 0u) << "a probe uses nothing";
  EXPECT_EQ(ledger_of("acme").overspent, 0u);
}

TEST_F(SettlingGuard, ServesBeyondItsPartIntoTheJournalUpToTheCap) {
  Guard guard = open(policy());
  kill_redis(guard);
  std::map<Rung, int> served;
  for (int i = 0; i < 20; ++i) {
    const Decision decision = guard.check("export", {{"account", "acme"}});
    if (decision.allowed()) ++served[decision.rung];
    if (decision.rung == Rung::journal) {
      EXPECT_EQ(decision.reason, Reason::over_share);
      EXPECT_EQ(decision.http_status(), 200);
      ASSERT_EQ(decision.rules().size(), 1U);
      EXPECT_FALSE(decision.rules()[0].fits) << "which rule it is that was served beyond its part";
    } else if (decision.allowed()) {
      EXPECT_TRUE(decision.rules().empty() || decision.rules()[0].fits);
    }
  }
  EXPECT_EQ(served[Rung::share], 5);
  EXPECT_EQ(served[Rung::journal], 2) << "half of a cap of four: another worker has the other";
  const Decision over = guard.check("export", {{"account", "acme"}});
  EXPECT_EQ(over.verdict, Verdict::limited);
  EXPECT_EQ(over.reason, Reason::over_share);
  EXPECT_TRUE(eventually([&] { return ledger_of("acme").units == 7; }));
  EXPECT_EQ(ledger_of("acme").overspent, 2u);
  EXPECT_EQ(ledger_of("acme").billed, 7u);
}

TEST_F(SettlingGuard, RenewsNoOverspendHoweverOftenTheStoreComesAndGoes) {
  Guard guard = open(policy());
  int beyond = 0;
  for (int outage = 0; outage < 3; ++outage) {
    kill_redis(guard);
    for (int i = 0; i < 20; ++i)
      beyond += guard.check("export", {{"account", "acme"}}).rung == Rung::journal ? 1 : 0;
    redis_.start();
    testing::await_store(guard);
  }
  EXPECT_EQ(beyond, 2);
}

// Usage of an outage that was told late blocked the customer in the window that followed.
TEST_F(SettlingGuard, BillsAWindowThatIsOverAndLeavesThePresentOneAlone) {
  std::string text = policy();
  text.replace(text.find("per: month"), 10, "per: second");
  Guard guard = open(text);
  kill_redis(guard);
  std::uint64_t served = 0, refused = 0;
  std::optional<Decision> last;
  for (int i = 0; i < 6; ++i) {
    last = guard.check("export", {{"account", "acme"}});
    ++(last->allowed() ? served : refused);
  }
  EXPECT_GT(served, 0u);
  const Instant over =
      std::chrono::floor<std::chrono::seconds>(last->decided_at) + std::chrono::seconds(1);
  redis_.start();
  testing::await_store(guard);
  ASSERT_TRUE(eventually([&] { return guard.impl().shared()->moment().store > over; }));
  const Decision first = guard.check("export", {{"account", "acme"}});
  ASSERT_EQ(first.rung, Rung::store);
  EXPECT_EQ(first.rules()[0].remaining, 9u);
  ++served;
  // Whoever was told no because a busy machine took too long may be on the bill.
  EXPECT_TRUE(eventually([&] {
    const std::uint64_t billed = ledger_of("acme").units;
    return billed >= served && billed <= served + refused;
  })) << ledger_of("acme").units
      << " of " << served;
}

TEST_F(SettlingGuard, ForgivesWhatItWasToForgive) {
  Guard guard = open(policy("forgive", "    ceiling: 100 per second\n"));
  kill_redis(guard);
  int allowed = 0;
  for (int i = 0; i < 12; ++i) allowed += guard.check("export", {{"account", "acme"}}).allowed();
  EXPECT_EQ(allowed, 12);
  EXPECT_TRUE(eventually([&] { return ledger_of("acme").units == 12; }));
  EXPECT_EQ(ledger_of("acme").overspent, 7u);
  EXPECT_EQ(ledger_of("acme").billed, 5u);
}

TEST_F(SettlingGuard, RecordsOnlyOutagesWhereThePolicySaysSo) {
  Guard guard = open(policy("{cap: 4}", "    journal: outage\n"));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(guard.check("export", {{"account", "acme"}}).allowed());
  kill_redis(guard);
  EXPECT_TRUE(guard.check("export", {{"account", "acme"}}).allowed());
  EXPECT_TRUE(eventually([&] { return ledger_of("acme").units > 0; }));
  EXPECT_EQ(ledger_of("acme").units, 1u);
}

TEST_F(SettlingGuard, AnswersThoseWhoDoNotWaitOnceTheirUsageIsDurable) {
  Guard guard = open(policy("{cap: 1000}"));
  kill_redis(guard);
  std::atomic<int> answered{0}, allowed{0};
  for (int i = 0; i < 300; ++i) {
    guard.check_async("export", {{"account", "acme"}}, {}, [&](Decision decision) {
      if (decision.allowed()) ++allowed;
      ++answered;
    });
  }
  ASSERT_TRUE(eventually([&] { return answered == 300; }));
  EXPECT_EQ(allowed, 300);
  EXPECT_TRUE(eventually([&] { return ledger_of("acme").units == 300; }));
}

TEST_F(SettlingGuard, AnswersEverybodyWhoIsStillWaitingWhenItGoes) {
  std::atomic<int> answered{0};
  std::atomic<std::uint64_t> allowed{0}, refused{0};
  {
    Guard guard = open(policy("{cap: 100000}"));
    kill_redis(guard);
    for (int i = 0; i < 2'000; ++i) {
      guard.check_async("export", {{"account", "acme"}}, {}, [&](Decision decision) {
        ++(decision.allowed() ? allowed : refused);
        ++answered;
      });
    }
  }
  EXPECT_EQ(answered, 2'000);
  Guard again = open(policy());
  ASSERT_TRUE(eventually([&] {
    return again.impl().usage()->state_json().find("\"unsettled\":0,") != std::string::npos;
  }));
  // Whoever was told no because a busy machine took too long may be on the bill: they are counted.
  EXPECT_GE(ledger_of("acme").units, allowed);
  EXPECT_LE(ledger_of("acme").units, allowed + refused);
}

// A check in a callback waited for the thread that it ran in.
TEST_F(SettlingGuard, DecidesAtOnceInTheThreadThatSaysWhatIsDurable) {
  Guard guard = open(policy());
  kill_redis(guard);
  std::promise<Decision> inner;
  guard.check_async("export", {{"account", "acme"}}, {}, [&](Decision outer) {
    EXPECT_TRUE(outer.allowed());
    inner.set_value(guard.check("export", {{"account", "acme"}}));
  });
  auto answered = inner.get_future();
  ASSERT_EQ(answered.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  const Decision decision = answered.get();
  EXPECT_EQ(decision.verdict, Verdict::refused);
  EXPECT_EQ(decision.rung, Rung::journal);
  // It took nothing: of a part of five, and two beyond it, one is used.
  int more = 0;
  for (int i = 0; i < 10; ++i) more += guard.check("export", {{"account", "acme"}}).allowed();
  EXPECT_EQ(more, 6);
  EXPECT_TRUE(eventually([&] { return ledger_of("acme").units == 7; }));
}

// A file that may grow no more stands for a full disk: a real one, of this process alone.
class FileSizeLimit {
 public:
  FileSizeLimit() { ::getrlimit(RLIMIT_FSIZE, &before_); }
  ~FileSizeLimit() { lift(); }
  void set(rlim_t bytes) {
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  void lift() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

// Nobody is told yes of what is not on the disk, and nobody waits for it longer than it said.
TEST_F(SettlingGuard, ADiskThatHangsHoldsNoCallLongerThanItsDeadline) {
  Guard guard = open(policy());
  kill_redis(guard);
  ASSERT_TRUE(guard.check("export", {{"account", "acme"}}).allowed());
  // For as long as it hangs: whoever comes back was not held by it.
  g_disk_hangs = true;
  const auto begun = std::chrono::steady_clock::now();
  const Decision late =
      guard.check("export", {{"account", "acme"}}, {.deadline = milliseconds(50)});
  EXPECT_EQ(late.verdict, Verdict::refused);
  EXPECT_EQ(late.rung, Rung::journal);
  const Decision without_deadline = guard.check("export", {{"account", "acme"}});
  EXPECT_EQ(without_deadline.verdict, Verdict::refused);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, testing::kPatience);
  g_disk_hangs = false;
  // What they took is given back: four of the five are left of this worker's part.
  int allowed = 0;
  EXPECT_TRUE(eventually([&] {
    const Decision decision = guard.check("export", {{"account", "acme"}});
    allowed += decision.rung == Rung::share && decision.allowed() ? 1 : 0;
    return decision.rung == Rung::journal && decision.allowed();
  }));
  EXPECT_EQ(allowed, 4);
  std::string text;
  guard.impl().metrics().write(text);
  const std::string sample = "\nweir_journal_unserved_total ";
  const std::size_t found = text.find(sample);
  ASSERT_NE(found, std::string::npos);
  EXPECT_GE(std::stoi(text.substr(found + sample.size())), 1) << "it is not kept quiet";
}

// Those who do not wait in a thread of their own waited for as long as the disk hung.
TEST_F(SettlingGuard, ADiskThatHangsHoldsNobodyWhoWaitsForAnAnswerLongerThanADeadline) {
  Guard guard = open(policy());
  kill_redis(guard);
  ASSERT_TRUE(guard.check("export", {{"account", "acme"}}).allowed());
  struct Answer {
    std::optional<Nanos> deadline;
    Decision decision;
    std::chrono::steady_clock::time_point at;
  };
  std::mutex mutex;
  std::vector<Answer> answers;
  const auto ask = [&](std::optional<Nanos> deadline) {
    guard.check_async(
        "export", {{"account", "acme"}}, {.deadline = deadline}, [&, deadline](Decision decision) {
          std::lock_guard lock(mutex);
          answers.push_back({deadline, std::move(decision), std::chrono::steady_clock::now()});
        });
  };
  const auto answered = [&](std::size_t count) {
    return eventually([&] {
      std::lock_guard lock(mutex);
      return answers.size() == count;
    });
  };
  g_disk_hangs = true;
  const auto begun = std::chrono::steady_clock::now();
  ask(std::nullopt);
  ask(milliseconds(50));
  ask(milliseconds(60));
  EXPECT_TRUE(answered(3));
  g_disk_hangs = false;
  ASSERT_EQ(answers.size(), 3u);
  for (const Answer& answer : answers) {
    EXPECT_EQ(answer.decision.verdict, Verdict::refused);
    EXPECT_EQ(answer.decision.rung, Rung::journal);
  }
  // While it hung, and each by its own time: those who asked later were in a hurry.
  EXPECT_EQ(answers[2].deadline, std::nullopt);
  EXPECT_GE(answers[2].at - begun, milliseconds(1'000));
  // What they took is given back: four of the five are left of this worker's part.
  int allowed = 0;
  std::uint64_t served = 1;
  EXPECT_TRUE(eventually([&] {
    const Decision decision = guard.check("export", {{"account", "acme"}});
    served += decision.allowed() ? 1U : 0U;
    allowed += decision.rung == Rung::share && decision.allowed() ? 1 : 0;
    return decision.rung == Rung::journal && decision.allowed();
  }));
  EXPECT_EQ(allowed, 4);
  // What the disk took of the three is billed and counted, and nothing else is.
  const auto unserved = [&] {
    std::string text;
    guard.impl().metrics().write(text);
    const std::string sample = "\nweir_journal_unserved_total ";
    return static_cast<std::uint64_t>(std::stoi(text.substr(text.find(sample) + sample.size())));
  };
  EXPECT_TRUE(eventually([&] { return ledger_of("acme").units == served + unserved(); }))
      << ledger_of("acme").units << " billed, " << served << " served, " << unserved();
  EXPECT_GE(unserved(), 1u);
  std::lock_guard lock(mutex);
  EXPECT_EQ(answers.size(), 3u) << "each was answered once";
}

TEST_F(SettlingGuard, ADiskThatHangsHoldsNoSettlingLongerThanASecondAndItIsOnceOnTheBill) {
  Guard guard = open(policy());
  Reservations reservations(guard);
  const Reservation reserved =
      reservations.reserve("export", {{"account", "acme"}}, 8,
                           {.expire = std::chrono::hours(1), .on_expiry = OnExpiry::full});
  ASSERT_TRUE(reserved.decision.allowed());
  g_disk_hangs = true;
  const auto hung = reservations.settle(reserved.id, 3);
  ASSERT_FALSE(hung);
  EXPECT_EQ(hung.error().code, ErrorCode::unavailable);
  g_disk_hangs = false;
  EXPECT_TRUE(eventually([&] { return reservations.settle(reserved.id, 3).has_value(); }));
  EXPECT_TRUE(eventually([&] { return ledger_of("acme").units == 3; }));
}

TEST_F(SettlingGuard, NeverSaysYesWhileTheDiskTakesNothingAndComesBackByItself) {
  Guard guard = open(policy("{cap: 1000}"));
  kill_redis(guard);
  ASSERT_TRUE(guard.check("export", {{"account", "acme"}}).allowed());
  {
    FileSizeLimit limit;
    limit.set(1);
    for (int i = 0; i < 50; ++i) {
      const Decision decision = guard.check("export", {{"account", "acme"}});
      ASSERT_FALSE(decision.allowed());
      // Within its part nobody could count; beyond it, it is over its part. Neither says 429 for
      // what was not checked.
      if (decision.verdict == Verdict::refused) {
        EXPECT_EQ(decision.rung, Rung::journal);
        EXPECT_EQ(decision.http_status(), 503);
      }
    }
    EXPECT_TRUE(eventually([&] { return heard_.count(StoreEvent::Kind::journal_fails) == 1; }));
    std::string metrics;
    guard.impl().metrics().write(metrics);
    EXPECT_NE(metrics.find("weir_journal_writable 0"), std::string::npos);
  }
  ASSERT_TRUE(eventually([&] { return guard.check("export", {{"account", "acme"}}).allowed(); }));
  EXPECT_EQ(heard_.count(StoreEvent::Kind::journal_works), 1);
  EXPECT_TRUE(eventually([&] { return ledger_of("acme").units == 2; }))
      << "nothing that was refused is billed: " << ledger_of("acme").units;
}

TEST_F(SettlingGuard, KeepsGoodTimesGoingOnABadDiskUntilItsBufferIsFull) {
  Guard guard = open(policy());
  FileSizeLimit limit;
  limit.set(1);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(guard.check("export", {{"account", "acme"}}).allowed());
  ASSERT_TRUE(eventually([&] { return heard_.count(StoreEvent::Kind::journal_fails) == 1; }));
  EXPECT_TRUE(guard.check("export", {{"account", "acme"}}).allowed());
  limit.lift();
  EXPECT_TRUE(eventually([&] { return ledger_of("acme").units == 9; }));
}

TEST_F(SettlingGuard, RefusesMeteredCallsOnceTheJournalIsFull) {
  // Nobody settles: the journal fills.
  Guard guard = open(policy("{cap: 4}", "", "postgresql://weir@127.0.0.1:1/weir"));
  const std::string long_name(64, 'x');
  std::uint64_t served = 0;
  Decision last;
  const auto full = [&] { return last.verdict == Verdict::refused && last.rung == Rung::journal; };
  for (std::uint64_t i = 0; i < 70'000 && !full(); ++i) {
    last = guard.check("export", {{"account", long_name.substr(0, 50) + std::to_string(i)}});
    served += last.allowed() ? 1 : 0;
  }
  // The buffer of 65,536 events, or a mebibyte: whichever a busy disk comes to first.
  EXPECT_EQ(last.verdict, Verdict::refused);
  EXPECT_EQ(last.rung, Rung::journal);
  EXPECT_EQ(last.http_status(), 503);
  EXPECT_GT(served, 5'000u);
  EXPECT_TRUE(eventually([&] { return heard_.count(StoreEvent::Kind::ledger_fails) == 1; }));
}

TEST_F(SettlingGuard, TellsASecondProcessThatTheJournalIsTaken) {
  Guard guard = open(policy());
  const auto second = Guard::open(Policy::parse(policy()).value());
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("another process"), std::string::npos);
  EXPECT_TRUE(Guard::open(Policy::parse(policy()).value(), {.role = FleetRole::guest}))
      << "who only asks and goes records nothing";
}

// Who tidied up its folder had two processes write to one journal.
TEST_F(SettlingGuard, TheJournalIsTakenThoughItsLockFileIsRemoved) {
  Guard guard = open(policy());
  ASSERT_TRUE(std::filesystem::remove(folder_.path() + "/journal/journal.lock"));
  for (int i = 0; i < 2; ++i) {
    const auto second = Guard::open(Policy::parse(policy()).value());
    ASSERT_FALSE(second);
    EXPECT_NE(second.error().message.find("another process"), std::string::npos);
  }
}

TEST_F(SettlingGuard, DoesNotMoveItsJournalAtAReload) {
  Guard guard = open(policy());
  std::string moved = policy();
  moved.replace(moved.find("/journal,"), 9, "/another,");
  EXPECT_FALSE(guard.reload(Policy::parse(moved).value()));
  EXPECT_TRUE(guard.reload(Policy::parse(policy("{cap: 6}")).value()));
}

TEST(SettlingGuardEmbedded, RecordsWhatTheMemoryStoreAdmits) {
  TemporaryFolder folder;
  Guard guard = Guard::open(Policy::parse("journal: {folder: " + folder.path() +
                                          "/journal, within: 5ms}\n"
                                          "inputs: [account]\n"
                                          "routes: {export: {limits: [{requests: 5, per: day, by: "
                                          "[account], meter: true}, 100 per second], protects: "
                                          "revenue, overspend: {cap: 5}}}\n")
                                .value())
                    .value();
  for (int i = 0; i < 9; ++i) (void)guard.check("export", {{"account", "a/b%~"}});
  EXPECT_TRUE(eventually([&] {
    auto ledger = ledger::open_ledger("sqlite:" + folder.path() + "/journal/ledger.db");
    if (!ledger) return false;  // the guard makes it just now
    std::uint64_t units = 0;
    (void)(*ledger)->lines([&](const ledger::LedgerLine& line) {
      EXPECT_EQ(line.tenant, "a%2fb%25~");
      EXPECT_EQ(line.route, "export");
      EXPECT_EQ(line.window, std::chrono::hours(24));
      units += line.units;
      return true;
    });
    return units == 5;
  }));
}

}  // namespace
}  // namespace weir
