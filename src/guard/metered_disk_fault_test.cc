// What is reserved, settled and named once, while the disk or the journal cannot do its part.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "guard/metered_story_test.h"
#include "ledger/journal.h"
#include "ledger/journal_reader.h"
#include "testing/fake_redis.h"

namespace weir {
namespace {

using ledger::testing::eventually;
using ledger::testing::TemporaryFolder;
using testing::FailingDisk;
using testing::kFull;
using testing::MeteredGuard;
using testing::Naming;
using testing::naming_of;

// What is told of it all is on the disk before it is told; in a process that ends at once.
class MeteredGuardAndDisk : public MeteredGuard {
 protected:
  static std::string state_of(Guard& guard) { return guard.impl().usage()->state_json(); }
  static void wait_until_writable(Guard& guard) {
    ASSERT_TRUE(eventually([&] { return guard.impl().usage()->writable(); }));
  }
  std::string journal() const { return folder_.path() + "/journal0/journal.db"; }
};

// A settlement that was told that it cannot be recorded was found recorded by the next process, and
// its usage was on nobody's bill.
TEST_F(MeteredGuardAndDisk, SettlesAfterARestartWhatCouldNotBeSettledBefore) {
  std::string id;
  {
    auto guard = open();
    Reservations reservations(*guard);
    id = reservations.reserve("export", {{"account", "acme"}}, 8, kFull).id;
    FailingDisk disk;
    const auto refused = reservations.settle(id, 5);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
    disk.heal();
    wait_until_writable(*guard);
  }
  auto guard = open();
  Reservations reservations(*guard);
  const auto settled = reservations.settle(id, 5);
  ASSERT_TRUE(settled) << settled.error().message;
  EXPECT_FALSE(settled->repeated);
  all_settled(*guard);
  EXPECT_EQ(ledger_of("acme"), (Sums{1, 5, 0}));
}

// What was refused was billed after the next start, when it expired.
TEST_F(MeteredGuardAndDisk, BillsNoReservationThatWasRefused) {
  {
    auto guard = open();
    kill_redis({guard.get()});
    Reservations reservations(*guard);
    ASSERT_TRUE(reservations.reserve("export", {{"account", "acme"}}, 1, kFull).decision.allowed());
    FailingDisk disk;
    const Reservation refused =
        reservations.reserve("export", {{"account", "acme"}}, 3,
                             {.expire = std::chrono::seconds(1), .on_expiry = OnExpiry::full});
    EXPECT_EQ(refused.decision.verdict, Verdict::refused);
    EXPECT_EQ(refused.decision.rung, Rung::journal);
    disk.heal();
    wait_until_writable(*guard);
  }
  auto guard = open();
  EXPECT_NE(state_of(*guard).find("\"reservations\":1,"), std::string::npos) << state_of(*guard);
}

// A key of a request that was refused made its next call a repetition, or a conflict.
TEST_F(MeteredGuardAndDisk, KnowsNoKeyOfARequestThatWasRefused) {
  {
    auto guard = open();
    kill_redis({guard.get()});
    FailingDisk disk;
    EXPECT_FALSE(named(*guard, "acme", "K1", 2).decision.allowed());
    disk.heal();
    wait_until_writable(*guard);
  }
  auto guard = open();
  kill_redis({guard.get()});
  EXPECT_EQ(named(*guard, "acme", "K1", 3).naming, Naming::fresh);
}

// The id of a reservation left before anything was on the disk.
TEST_F(MeteredGuardAndDisk, ReservesNothingInGoodTimesThatTheDiskDoesNotTake) {
  auto guard = open();
  Reservations reservations(*guard);
  {
    const FailingDisk disk;
    for (int i = 0; i < 3; ++i) {
      const Reservation refused = reservations.reserve("export", {{"account", "acme"}}, 2, kFull);
      EXPECT_EQ(refused.decision.verdict, Verdict::refused);
      EXPECT_EQ(refused.decision.rung, Rung::journal);
      EXPECT_EQ(refused.decision.http_status(), 503);
      EXPECT_TRUE(refused.id.empty());
    }
  }
  EXPECT_TRUE(eventually([&] { return left(*guard, "acme") == 10; })) << "what it took goes back";
  wait_until_writable(*guard);
  const Reservation reserved = reservations.reserve("export", {{"account", "acme"}}, 2, kFull);
  ASSERT_TRUE(reserved.decision.allowed());
  EXPECT_EQ(reserved.decision.rung, Rung::store);
  auto reader = ledger::JournalReader::open({.path = journal()});
  ASSERT_TRUE(reader);
  bool there = false;
  ASSERT_TRUE(
      reader->notes([&](const ledger::Note& note) { there |= note.id == "r" + reserved.id; }));
  EXPECT_TRUE(there) << "whoever has the id finds it in the journal";
}

TEST_F(MeteredGuardAndDisk, ReservesForThoseWhoDoNotWaitWhatTheDiskTakes) {
  auto guard = open();
  Reservations reservations(*guard);
  for (const bool fails : {true, false}) {
    if (!fails) wait_until_writable(*guard);
    std::optional<FailingDisk> disk;
    if (fails) disk.emplace();
    std::promise<Reservation> told;
    const Descriptor descriptors[] = {{"account", "acme"}};
    reservations.reserve_async("export", descriptors, 2, kFull,
                               [&](Reservation reservation) { told.set_value(reservation); });
    const Reservation answer = told.get_future().get();
    EXPECT_EQ(answer.decision.allowed(), !fails);
    EXPECT_EQ(answer.id.empty(), fails);
  }
}

// Each try took its units from the limits anew, and the bill called them overspent.
TEST_F(MeteredGuardAndDisk, TakesFromTheLimitsOnceHoweverOftenSettlingIsTried) {
  auto guard = open();
  Reservations reservations(*guard);
  const std::string id = reservations.reserve("export", {{"account", "acme"}}, 1, kFull).id;
  {
    const FailingDisk disk;
    for (int i = 0; i < 4; ++i) EXPECT_FALSE(reservations.settle(id, 4));
    EXPECT_EQ(left(*guard, "acme"), 6u);
    EXPECT_FALSE(reservations.settle(id, 6)) << "more than before: two more";
    EXPECT_EQ(left(*guard, "acme"), 4u);
  }
  wait_until_writable(*guard);
  const auto settled = reservations.settle(id, 5);
  ASSERT_TRUE(settled) << settled.error().message;
  EXPECT_TRUE(eventually([&] { return left(*guard, "acme") == 5; })) << "and one goes back";
  all_settled(*guard);
  EXPECT_EQ(ledger_of("acme"), (Sums{1, 5, 0}));
}

// What the store was never asked of in time it does not get back either.
TEST_F(MeteredGuardAndDisk, GivesBackNoMoreThanTheStoreSaidThatItTook) {
  auto guard = open();
  Reservations reservations(*guard);
  ASSERT_TRUE(eventually([&] { return left(*guard, "acme") == 10; }));
  const std::string id = reservations.reserve("export", {{"account", "acme"}}, 2, kFull).id;
  ASSERT_TRUE(eventually([&] { return left(*guard, "acme") == 8; }));
  {
    const FailingDisk disk;
    redis_.pause();
    EXPECT_FALSE(reservations.settle(id, 5));
    // Long after its time, which the store is given two seconds of: it finds that it is late.
    std::this_thread::sleep_for(std::chrono::seconds(3));
    redis_.resume();
    ASSERT_TRUE(eventually([&] { return left(*guard, "acme") == 8; }));
  }
  wait_until_writable(*guard);
  const auto settled = reservations.settle(id, 3);
  ASSERT_TRUE(settled) << settled.error().message;
  ASSERT_TRUE(eventually([&] { return guard->impl().usage()->reservations().returns() == 0; }));
  ASSERT_TRUE(eventually([&] { return left(*guard, "nobody") == 10; }));
  EXPECT_EQ(left(*guard, "acme"), 8u);
  all_settled(*guard);
  EXPECT_EQ(ledger_of("acme"), (Sums{1, 3, 0}));
}

// Of calls under one key that came together in an outage each was served, and one was billed.
TEST_F(MeteredGuardAndDisk, ServesOneOfManyThatComeAtOnceInAnOutage) {
  auto guard = open(0);
  kill_redis({guard.get()});
  for (int key = 0; key < 16; ++key) {
    std::vector<std::thread> callers;
    std::mutex mutex;
    std::map<Naming, int> came;
    const std::string account = "account " + std::to_string(key);
    // Together they fit this worker's part, which is five.
    for (int i = 0; i < 3; ++i) {
      callers.emplace_back([&, i] {
        const Answer answer = named(*guard, account, "K1", i % 2 == 0 ? 1 : 2);
        EXPECT_EQ(answer.decision.allowed(), answer.naming != Naming::conflict);
        std::lock_guard lock(mutex);
        ++came[answer.naming];
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_EQ(came[Naming::fresh], 1);
    EXPECT_GE(came[Naming::conflict], 1);
    all_settled(*guard);
    const Sums billed = ledger_of(account);
    EXPECT_EQ(billed.events, 1u);
    // Only that one took of it.
    std::uint64_t more = 0;
    for (int i = 0; i < 12; ++i) {
      const Decision decision = guard->check("export", {{"account", account}});
      more += decision.allowed() && decision.rung == Rung::share ? 1 : 0;
    }
    EXPECT_EQ(billed.units + more, 5u);
  }
  EXPECT_NE(state_of(*guard).find("\"quarantined\":0,"), std::string::npos) << state_of(*guard);
}

// Checks of one account after the other, until the journal has no room for one of them. Returns
// whose that was; empty: it took them all.
std::string fill_up(Guard& guard, const std::function<std::string(int)>& account_of) {
  const ledger::Journal& journal = guard.impl().usage()->journal();
  for (int i = 0; i < 70'000; ++i) {
    std::string account = account_of(i);
    const Decision decision = guard.check("export", {{"account", account}}, {.cost = 3});
    if (decision.verdict != Verdict::refused || decision.rung != Rung::journal) continue;
    // Whom a busy machine kept waiting for too long was refused as well.
    EXPECT_TRUE(eventually([&] { return journal.status().waiting == 0; }));
    constexpr std::uint64_t kARecord = 200;
    if (journal.status().counts.unsettled_bytes + kARecord > journal.options().max_bytes)
      return account;
  }
  return {};
}

// A call that the journal had no room for had been charged all the same; and one that was a
// repetition was served without a record.
TEST_F(MeteredGuardAndDisk, ChargesNothingThatAFullJournalCannotTake) {
  std::string text = policy();
  text.replace(text.find(url()), url().size(), "postgresql://weir@127.0.0.1:1/weir");
  const auto open_full = [&] {
    auto guard = std::make_unique<Guard>(Guard::open(Policy::parse(text).value()).value());
    await_store(*guard);
    return guard;
  };
  auto guard = open_full();
  ASSERT_EQ(named(*guard, "acme", "K1", 2).naming, Naming::fresh);
  guard = nullptr;
  guard = open_full();
  const std::string long_name(50, 'x');
  const std::string account = fill_up(*guard, [&](int i) { return long_name + std::to_string(i); });
  ASSERT_FALSE(account.empty());
  EXPECT_TRUE(eventually([&] { return left(*guard, account) == 10; })) << left(*guard, account);
  // A record may still find room that is shorter than the one that did not: until none does that is
  // shorter than the repetition's.
  ASSERT_FALSE(fill_up(*guard, [](int i) { return std::to_string(i); }).empty());
  const Decision repeated = named(*guard, "acme", "K1", 2).decision;
  EXPECT_EQ(repeated.verdict, Verdict::refused);
  EXPECT_EQ(repeated.rung, Rung::journal);
}

// What an earlier process left in the journal was read once, at the start, or never.
TEST_F(MeteredGuardAndDisk, KnowsWhatWasBeforeOnceItsJournalIsBroughtBack) {
  std::string id;
  {
    auto guard = open();
    Reservations reservations(*guard);
    id = reservations.reserve("export", {{"account", "acme"}}, 4, kFull).id;
    ASSERT_TRUE(guard->check("export", {{"account", "acme"}}).allowed());
    kill_redis({guard.get()});
    for (int i = 0; i < 12; ++i) (void)guard->check("export", {{"account", "acme"}});
    ASSERT_TRUE(named(*guard, "other", "K1", 2).decision.allowed());
  }
  std::filesystem::rename(journal(), journal() + ".away");
  std::filesystem::rename(journal() + "-wal", journal() + "-wal.away");
  auto guard = open();
  Reservations reservations(*guard);
  kill_redis({guard.get()});
  EXPECT_EQ(reservations.settle(id, 3).error().code, ErrorCode::unavailable)
      << "nobody can say yet that there is none of that name";
  EXPECT_EQ(reservations.heartbeat(id, 3).error().code, ErrorCode::unavailable);
  EXPECT_FALSE(named(*guard, "other", "K1", 2).decision.allowed());
  EXPECT_EQ(guard->check("export", {{"account", "acme"}}).allowed(), false);
  std::filesystem::rename(journal() + "-wal.away", journal() + "-wal");
  std::filesystem::rename(journal() + ".away", journal());
  wait_until_writable(*guard);
  EXPECT_EQ(named(*guard, "other", "K1", 2).naming, Naming::replayed);
  EXPECT_EQ(named(*guard, "other", "K1", 1).naming, Naming::conflict);
  int beyond = 0;
  for (int i = 0; i < 12; ++i)
    beyond += guard->check("export", {{"account", "acme"}}).rung == Rung::journal ? 1 : 0;
  EXPECT_EQ(beyond, 0) << "its cap is used up, as before";
  ASSERT_TRUE(reservations.settle(id, 3));
}

TEST_F(MeteredGuardAndDisk, CountsTheNotesThatItCannotRead) {
  {
    auto guard = open();
    Reservations reservations(*guard);
    ASSERT_TRUE(reservations.reserve("export", {{"account", "acme"}}, 4, kFull).decision.allowed());
  }
  {
    auto file = ledger::JournalFile::open({.path = journal()});
    ASSERT_TRUE(file);
    const std::vector<ledger::Note> notes{
        {.id = "rdamaged", .until = Instant::max(), .units = 0, .body = "no reservation"}};
    ASSERT_TRUE(file->commit({}, {}, notes));
  }
  auto guard = open();
  std::string metrics;
  guard->impl().metrics().write(metrics);
  EXPECT_NE(metrics.find("\nweir_journal_unreadable_notes_total 1\n"), std::string::npos);
  EXPECT_NE(metrics.find("\nweir_reservations 1\n"), std::string::npos);
}

// A ledger of its own for each worker bills a request once a worker.
TEST_F(MeteredGuardAndDisk, NeedsToBeToldWhichLedgerBillsAFleet) {
  std::string text = policy();
  const std::string ledger = ", ledger: '" + url() + "'";
  text.erase(text.find(ledger), ledger.size());
  const auto guard = Guard::open(Policy::parse(text).value());
  ASSERT_FALSE(guard);
  EXPECT_EQ(guard.error().code, ErrorCode::failed_precondition);
  EXPECT_NE(guard.error().message.find("journal.ledger: route 'export' settles on a store that "
                                       "several workers can share"),
            std::string::npos)
      << guard.error().message;
  const std::string of_two = "{of: 2, index: 0}";
  text.replace(text.find(of_two), of_two.size(), "{of: 1}");
  EXPECT_TRUE(Guard::open(Policy::parse(text).value())) << "who is alone has one ledger";
}

// A worker that admitted a request without the store tells it, once it is back.
TEST_F(MeteredGuardAndDisk, TellsTheStoreWhichRequestsItAdmittedWithoutIt) {
  auto one = open(0);
  auto two = open(1);
  kill_redis({one.get(), two.get()});
  ASSERT_EQ(named(*one, "acme", "K1", 2).naming, Naming::fresh);
  redis_.start();
  // Until it asks about every key again.
  for (Guard* guard : {one.get(), two.get()}) {
    ASSERT_TRUE(eventually([&] {
      return guard->impl().shared()->state_json().find("\"state\":\"closed\"") != std::string::npos;
    }));
  }
  ASSERT_TRUE(
      eventually([&] { return state_of(*one).find("\"untold_keys\":0,") != std::string::npos; }));
  EXPECT_EQ(named(*two, "acme", "K1", 3).naming, Naming::conflict);
  EXPECT_EQ(named(*two, "acme", "K1", 2).naming, Naming::replayed);
  EXPECT_GE(left(*two, "acme"), 8u) << "no more than it was admitted for";
  all_settled(*one);
  all_settled(*two);
  EXPECT_EQ(ledger_of("acme"), (Sums{1, 2, 0}));
}

// A server whose replies take their time, and a disk that does: the store has charged a call that
// was decided without it.
class LateChargeAndDisk : public MeteredGuardAndDisk {
 protected:
  // Whose part is five, and who serves far beyond it: what was refused may have been recorded.
  std::unique_ptr<Guard> open_on_slow(int index) {
    std::string text = policy(index);
    const auto put = [&](const std::string& what, const std::string& by) {
      ASSERT_NE(text.find(what), text.npos);
      text.replace(text.find(what), what.size(), by);
    };
    put(":" + std::to_string(redis_.port()), ":" + std::to_string(slow_.port()));
    put("{cap: 4}", "{cap: 4000}");
    put("deadline: 2s", "deadline: 1s");
    auto guard = std::make_unique<Guard>(Guard::open(Policy::parse(text).value()).value());
    await_store(*guard);
    EXPECT_TRUE(eventually([&] { return guard->impl().usage()->writable(); }));
    return guard;
  }
  // Asks with all the patience that it takes, or in a hurry.
  static std::future<Decision> ask(Guard& guard, std::uint64_t cost, bool waits, Nanos deadline) {
    const auto told = std::make_shared<std::promise<Decision>>();
    std::future<Decision> decision = told->get_future();
    const auto call = [&guard, cost, waits, deadline, told] {
      const CheckOptions options{.cost = cost, .deadline = deadline};
      if (waits) return told->set_value(guard.check("export", {{"account", "acme"}}, options));
      guard.check_async("export", {{"account", "acme"}}, options,
                        [told](Decision answer) { told->set_value(std::move(answer)); });
    };
    std::thread(call).detach();
    return decision;
  }

  testing::FakeRedis slow_;
};

// What a call took that was refused, because its usage could not be recorded, was kept from the
// limit until its window ended.
TEST_F(LateChargeAndDisk, IsGivenBackWhereTheCallIsNotServedAfterAll) {
  // Whoever asks after a counter tells what it owes there, too: another worker looks.
  auto other = open_on_slow(1);
  const auto remaining = [&] { return left(*other, "acme"); };
  for (const bool waits : {true, false}) {
    for (const std::uint64_t cost : {3, 7}) {  // from the part, and beyond it
      for (const bool heard_before : {true, false}) {
        SCOPED_TRACE(::testing::Message() << waits << ' ' << cost << ' ' << heard_before);
        auto guard = open_on_slow(0);
        slow_.hold_replies(true);
        testing::g_disk_hangs = true;
        auto told = ask(
            *guard, cost, waits,
            heard_before ? Nanos{std::chrono::minutes(1)} : Nanos{std::chrono::milliseconds(50)});
        // Where the disk hung before the call came to it, or for a second, the call is refused at
        // once.
        const auto refused = [&] {
          return told.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
        };
        if (heard_before) {
          EXPECT_TRUE(eventually([&] {
            return refused() || guard->impl().usage()->journal().status().waiting > 0;
          })) << "it waits for the disk: "
              << state_of(*guard) << guard->impl().shared()->state_json();
          slow_.hold_replies(false);
          // What is answered later was heard of later.
          EXPECT_TRUE(eventually([&] { return left(*guard, "nobody") == 10; }));
          EXPECT_TRUE(eventually([&] { return refused() || remaining() == 10 - cost; }))
              << remaining();
          testing::g_disk_fails = true;
          testing::g_disk_hangs = false;
        }
        const Decision decision = told.get();
        EXPECT_FALSE(decision.allowed());
        if (!heard_before) slow_.hold_replies(false);
        EXPECT_TRUE(eventually([&] { return remaining() == 10; })) << remaining();
        testing::g_disk_fails = testing::g_disk_hangs = false;
      }
    }
  }
}

TEST_F(LateChargeAndDisk, StandsWhereTheCallIsServed) {
  auto guard = open_on_slow(0);
  slow_.hold_replies(true);
  auto told = ask(*guard, 3, true, std::chrono::minutes(1));
  const Decision decision = told.get();
  EXPECT_TRUE(decision.allowed());
  EXPECT_EQ(decision.rung, Rung::share);
  slow_.hold_replies(false);
  EXPECT_TRUE(eventually([&] {
    return left(*guard, "acme") == 7 &&
           guard->impl().shared()->state_json().find("\"owed_units\":0,") != std::string::npos;
  }));
}

// Whose caller had left, for the disk was slow, stood for ever where the Guard was closed
// meanwhile: nobody was left who would have said that it was refused.
TEST_F(MeteredGuardAndDisk, EndsWhatItRefusedOnASlowDiskAlthoughItCloses) {
  {
    auto guard = open();
    wait_until_writable(*guard);
    Reservations reservations(*guard);
    testing::g_disk_hangs = true;
    const Reservation refused = reservations.reserve("export", {{"account", "acme"}}, 8, kFull);
    EXPECT_EQ(refused.decision.rung, Rung::journal);
    EXPECT_TRUE(refused.id.empty());
    ledger::Journal& journal = guard->impl().usage()->journal();
    std::thread closes([&] { (void)guard->impl().close(); });
    EXPECT_TRUE(eventually([&] { return !journal.follow({}, {}); })) << "it takes nothing any more";
    testing::g_disk_hangs = false;
    closes.join();
  }
  auto guard = open();
  EXPECT_NE(state_of(*guard).find("\"reservations\":0,"), std::string::npos) << state_of(*guard);
}

// A month of 31 days gave its cap again on the last of them; and any window in its last moments,
// to a process that went by a clock behind the one before it.
TEST_F(MeteredGuardAndDisk, RemembersOverspendToTheEndOfItsMonth) {
  auto guard = open();
  kill_redis({guard.get()});
  for (int i = 0; i < 12; ++i) (void)guard->check("export", {{"account", "acme"}});
  guard.reset();
  auto reader = ledger::JournalReader::open({.path = journal()});
  ASSERT_TRUE(reader);
  const auto now = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  const std::chrono::year_month_day today{now};
  const std::chrono::sys_days next = (today.year() / today.month() + std::chrono::months(1)) / 1;
  int found = 0;
  ASSERT_TRUE(reader->notes([&](const ledger::Note& note) {
    if (note.id[0] != 'o') return;
    ++found;
    EXPECT_EQ(note.until.time_since_epoch(), (next + std::chrono::minutes(1)).time_since_epoch());
  }));
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace weir
