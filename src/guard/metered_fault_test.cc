// What is charged once, on a real Redis and a real disk: requests that come again under their
// idempotency key, work whose cost is known only afterwards, and overspend across a restart.

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "guard/descriptor_values.h"
#include "guard/impl.h"
#include "guard/metered_call.h"
#include "ledger/journal_story.h"
#include "ledger/ledger.h"
#include "testing/redis_server.h"
#include "weir/reservation.h"

namespace weir {
namespace {

using guard::MeteredCall;
using ledger::testing::eventually;
using ledger::testing::TemporaryFolder;
using Naming = MeteredCall::Naming;
using std::chrono::hours;
using testing::RedisServer;

class MeteredGuard : public ::testing::Test {
 protected:
  // Ten a day for each account; of two workers each has a part of five, and of a cap of four two.
  std::string policy(int index = 0, const std::string& more = "") const {
    return "store:\n  url: redis://127.0.0.1:" + std::to_string(redis_.port()) +
           "\n  deadline: 200ms\n  workers: {of: 2, index: " + std::to_string(index) +
           "}\njournal: {folder: " + folder_.path() + "/journal" + std::to_string(index) +
           ", max: 1MiB, within: 20ms, ledger: '" + url() +
           "'}\n"
           "inputs: [account]\n"
           "routes:\n"
           "  export:\n"
           "    limits:\n"
           "      - {requests: 10, per: day, by: [account], algorithm: fixed_window, meter: true}\n"
           "    protects: revenue\n"
           "    overspend: {cap: 4}\n" +
           more;
  }
  std::string url() const { return "sqlite:" + folder_.path() + "/ledger.db"; }
  std::unique_ptr<Guard> open(int index = 0, const std::string& more = "") {
    auto guard = Guard::open(Policy::parse(policy(index, more)).value());
    EXPECT_TRUE(guard) << guard.error().message;
    return std::make_unique<Guard>(std::move(*guard));
  }
  void kill_redis(std::vector<Guard*> guards) {
    redis_.kill();
    for (Guard* guard : guards) {
      ASSERT_TRUE(eventually([&] {
        return guard->check("export", {{"account", "nobody"}}, {.cost = 0}).rung != Rung::store;
      }));
    }
  }

  struct Answer {
    Decision decision;
    Naming naming = Naming::fresh;
  };
  static Answer named(Guard& guard, std::string_view account, const std::string& key,
                      std::uint64_t cost = 1) {
    auto call = std::make_shared<MeteredCall>();
    call->idempotency_key = key;
    const Descriptor descriptors[] = {{"account", account}};
    Decision decision =
        guard.impl().check("export", guard::DescriptorValues(descriptors), {.cost = cost}, call);
    return {std::move(decision), call->naming};
  }
  static std::uint64_t left(Guard& guard, std::string_view account) {
    return guard.peek("export", {{"account", account}}).rules()[0].remaining.value_or(999);
  }

  struct Sums {
    std::uint64_t events = 0, units = 0, overspent = 0;
    friend bool operator==(const Sums&, const Sums&) = default;
  };
  Sums ledger_of(const std::string& account) {
    Sums sums;
    auto ledger = ledger::look_into_ledger(url());
    if (!ledger) return sums;
    (void)(*ledger)->lines([&](const ledger::LedgerLine& line) {
      if (line.tenant != account) return true;
      sums.events += line.events;
      sums.units += line.units;
      sums.overspent += line.overspent;
      return true;
    });
    return sums;
  }
  // Waits until all that was recorded so far is in the ledger.
  static void all_settled(Guard& guard) {
    ASSERT_TRUE(eventually([&] {
      const std::string state = guard.impl().usage()->state_json();
      return state.find("\"unsettled\":0,") != state.npos &&
             state.find("\"waiting\":0,") != state.npos;
    }));
  }

  TemporaryFolder folder_;
  RedisServer redis_;
};

// A response that was lost was a second debit: on the same node, on another, and after a restart.
TEST_F(MeteredGuard, ChargesARepeatedRequestOnceOnAnyWorkerAndAfterARestart) {
  auto one = open(0);
  auto two = open(1);
  const Answer first = named(*one, "acme", "K1", 4);
  EXPECT_TRUE(first.decision.allowed());
  EXPECT_EQ(first.naming, Naming::fresh);
  for (int i = 0; i < 5; ++i) {
    for (Guard* guard : {one.get(), two.get()}) {
      const Answer again = named(*guard, "acme", "K1", 4);
      EXPECT_TRUE(again.decision.allowed());
      EXPECT_EQ(again.naming, Naming::replayed);
    }
  }
  EXPECT_EQ(left(*one, "acme"), 6u);
  one.reset();
  one = open(0);
  EXPECT_EQ(named(*one, "acme", "K1", 4).naming, Naming::replayed);
  EXPECT_EQ(left(*one, "acme"), 6u);
  all_settled(*one);
  all_settled(*two);
  EXPECT_EQ(ledger_of("acme"), (Sums{1, 4, 0}));
}

TEST_F(MeteredGuard, RefusesAKeyThatWasUsedForAnotherRequest) {
  auto one = open(0);
  auto two = open(1);
  ASSERT_TRUE(named(*one, "acme", "K1", 2).decision.allowed());
  for (Guard* guard : {one.get(), two.get()}) {
    const Answer other = named(*guard, "acme", "K1", 3);
    EXPECT_FALSE(other.decision.allowed());
    EXPECT_EQ(other.naming, Naming::conflict);
  }
  EXPECT_EQ(left(*one, "acme"), 8u);
  EXPECT_EQ(named(*two, "other", "K1", 3).naming, Naming::fresh) << "keys are a tenant's own";
}

TEST_F(MeteredGuard, ReplaysWhatWasAdmittedThoughTheLimitIsUsedUpSince) {
  auto one = open(0);
  auto two = open(1);
  ASSERT_TRUE(named(*one, "acme", "K1", 6).decision.allowed());
  ASSERT_TRUE(one->check("export", {{"account", "acme"}}, {.cost = 4}).allowed());
  const Answer denied = named(*one, "acme", "K2");
  EXPECT_EQ(denied.decision.verdict, Verdict::limited);
  EXPECT_EQ(denied.naming, Naming::fresh);
  for (Guard* guard : {one.get(), two.get()}) {
    const Answer again = named(*guard, "acme", "K1", 6);
    EXPECT_TRUE(again.decision.allowed());
    EXPECT_EQ(again.naming, Naming::replayed);
  }
  EXPECT_EQ(named(*two, "acme", "K2").decision.verdict, Verdict::limited)
      << "what was denied is decided anew";
}

TEST_F(MeteredGuard, AdmitsOneOfManyThatComeAtOnceAndTellsAllOfThemSo) {
  auto one = open(0);
  auto two = open(1);
  std::vector<std::thread> callers;
  std::atomic<int> fresh{0}, replayed{0};
  for (int i = 0; i < 16; ++i) {
    callers.emplace_back([&, i] {
      const Answer answer = named(i % 2 == 0 ? *one : *two, "acme", "K1", 3);
      if (!answer.decision.allowed()) return;
      ++(answer.naming == Naming::fresh ? fresh : replayed);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(fresh, 1);
  EXPECT_EQ(replayed, 15);
  EXPECT_EQ(left(*one, "acme"), 7u);
}

TEST_F(MeteredGuard, InAnOutageReplaysOnOneWorkerAndBillsOnceAcrossWorkers) {
  auto one = open(0);
  auto two = open(1);
  kill_redis({one.get(), two.get()});
  const Answer first = named(*one, "acme", "K1", 2);
  EXPECT_TRUE(first.decision.allowed());
  EXPECT_EQ(first.decision.rung, Rung::share);
  const Answer again = named(*one, "acme", "K1", 2);
  EXPECT_EQ(again.naming, Naming::replayed);
  EXPECT_EQ(again.decision.rung, Rung::share);
  EXPECT_EQ(named(*one, "acme", "K1", 3).naming, Naming::conflict);
  // Another worker cannot know: it serves, and the bill has it once.
  const Answer elsewhere = named(*two, "acme", "K1", 2);
  EXPECT_TRUE(elsewhere.decision.allowed());
  EXPECT_EQ(elsewhere.naming, Naming::fresh);
  // From its journal, after a restart too.
  one.reset();
  one = open(0);
  kill_redis({one.get()});
  EXPECT_EQ(named(*one, "acme", "K1", 2).naming, Naming::replayed);
  EXPECT_EQ(named(*one, "acme", "K1", 3).naming, Naming::conflict);
  all_settled(*one);
  all_settled(*two);
  EXPECT_EQ(ledger_of("acme"), (Sums{1, 2, 0}));
}

// `cap: N` began anew with each start of a worker.
TEST_F(MeteredGuard, RenewsNoOverspendByARestart) {
  std::map<int, int> beyond;
  for (int life = 0; life < 3; ++life) {
    auto guard = open(0);
    kill_redis({guard.get()});
    for (int i = 0; i < 12; ++i)
      beyond[life] += guard->check("export", {{"account", "acme"}}).rung == Rung::journal ? 1 : 0;
    guard.reset();
    redis_.start();
  }
  EXPECT_EQ(beyond, (std::map<int, int>{{0, 2}, {1, 0}, {2, 0}}));
}

constexpr ReservationTerms kFull{.expire = hours(1), .on_expiry = OnExpiry::full};

TEST_F(MeteredGuard, SettlesWhatWasUsedAndGivesTheRestBack) {
  auto guard = open();
  Reservations reservations(*guard);
  const Reservation reserved = reservations.reserve("export", {{"account", "acme"}}, 8, kFull);
  ASSERT_TRUE(reserved.decision.allowed());
  ASSERT_EQ(reserved.id.size(), 32u);
  EXPECT_EQ(left(*guard, "acme"), 2u) << "reserved units are nobody else's";
  const auto settled = reservations.settle(reserved.id, 3);
  ASSERT_TRUE(settled) << settled.error().message;
  EXPECT_EQ(settled->reserved, 8u);
  EXPECT_EQ(settled->units, 3u);
  EXPECT_EQ(settled->overdraft, 0u);
  EXPECT_TRUE(eventually([&] { return left(*guard, "acme") == 7; }));

  EXPECT_TRUE(reservations.settle(reserved.id, 3)->repeated);
  EXPECT_EQ(reservations.settle(reserved.id, 4).error().code, ErrorCode::failed_precondition);
  EXPECT_EQ(reservations.settle("no such", 4).error().code, ErrorCode::not_found);
  EXPECT_EQ(reservations.heartbeat(reserved.id, 4).error().code, ErrorCode::failed_precondition);
  all_settled(*guard);
  EXPECT_EQ(ledger_of("acme"), (Sums{1, 3, 0}));
}

TEST_F(MeteredGuard, RecordsAnOverdraftAndWhatTheLimitHadNoRoomFor) {
  auto guard = open();
  Reservations reservations(*guard);
  const Reservation reserved = reservations.reserve("export", {{"account", "acme"}}, 4, kFull);
  const auto settled = reservations.settle(reserved.id, 14);
  ASSERT_TRUE(settled) << settled.error().message;
  EXPECT_EQ(settled->overdraft, 10u);
  EXPECT_EQ(left(*guard, "acme"), 0u) << "six were left, and are taken";
  all_settled(*guard);
  EXPECT_EQ(ledger_of("acme"), (Sums{1, 14, 4}));
}

// Nine in ten runs that were killed midway had no cost at all.
TEST_F(MeteredGuard, EndsWhatNobodySettlesAsItWasToldTo) {
  auto guard = open();
  Reservations reservations(*guard);
  const auto leave = [&](std::string_view account, OnExpiry how) {
    const Reservation reserved = reservations.reserve(
        "export", {{"account", account}}, 8, {.expire = std::chrono::seconds(1), .on_expiry = how});
    EXPECT_TRUE(reservations.heartbeat(reserved.id, 5));
    return reserved.id;
  };
  const std::string full = leave("full", OnExpiry::full);
  leave("beat", OnExpiry::last_heartbeat);
  leave("zero", OnExpiry::zero);
  EXPECT_TRUE(eventually([&] { return left(*guard, "zero") == 10 && left(*guard, "beat") == 5; }));
  EXPECT_EQ(left(*guard, "full"), 2u);
  all_settled(*guard);
  EXPECT_EQ(ledger_of("full").units, 8u);
  EXPECT_EQ(ledger_of("beat").units, 5u);
  EXPECT_EQ(ledger_of("zero"), (Sums{}));
  const auto late = reservations.settle(full, 3);
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().message.find("expired, and was settled as 8 units"), std::string::npos)
      << late.error().message;
}

TEST_F(MeteredGuard, KnowsItsReservationsAfterARestart) {
  std::string open_one, ended;
  {
    auto guard = open();
    Reservations reservations(*guard);
    open_one = reservations.reserve("export", {{"account", "acme"}}, 6, kFull).id;
    ended = reservations.reserve("export", {{"account", "acme"}}, 2, kFull).id;
    ASSERT_TRUE(reservations.settle(ended, 2));
  }
  auto guard = open();
  Reservations reservations(*guard);
  EXPECT_TRUE(reservations.settle(ended, 2)->repeated);
  ASSERT_TRUE(reservations.settle(open_one, 1));
  EXPECT_TRUE(eventually([&] { return left(*guard, "acme") == 7; }));
  all_settled(*guard);
  EXPECT_EQ(ledger_of("acme"), (Sums{2, 3, 0}));
}

TEST_F(MeteredGuard, ReservesAndSettlesWithoutTheStore) {
  auto guard = open();
  Reservations reservations(*guard);
  kill_redis({guard.get()});
  const Reservation reserved = reservations.reserve("export", {{"account", "acme"}}, 5, kFull);
  EXPECT_EQ(reserved.decision.rung, Rung::share);
  const auto settled = reservations.settle(reserved.id, 7);
  ASSERT_TRUE(settled) << settled.error().message;
  EXPECT_EQ(settled->overdraft, 2u);
  all_settled(*guard);
  EXPECT_EQ(ledger_of("acme").units, 7u);
}

TEST_F(MeteredGuard, RefusesToReserveWhereNothingIsMetered) {
  auto guard =
      open(0,
           "  free: {limits: [5 per minute by account], protects: capacity, ceiling: 9 per "
           "second}\n");
  Reservations reservations(*guard);
  EXPECT_EQ(reservations.reserve("free", {{"account", "acme"}}, 1, kFull).decision.reason,
            Reason::invalid_request);
  EXPECT_EQ(reservations.reserve("export", {{"account", "acme"}}, 1, {.expire = Nanos(1)})
                .decision.reason,
            Reason::invalid_request);
  EXPECT_EQ(reservations.reserve("export", {{"account", "acme"}}, 11, kFull).decision.verdict,
            Verdict::limited);
}

TEST(MeteredGuardEmbedded, ChargesOnceOnTheMemoryStoreToo) {
  TemporaryFolder folder;
  const auto open = [&] {
    return Guard::open(Policy::parse("journal: {folder: " + folder.path() +
                                     "/journal, within: 5ms}\n"
                                     "inputs: [account]\n"
                                     "routes: {export: {limits: [{requests: 9, per: day, by: "
                                     "[account], meter: true}], protects: revenue, overspend: "
                                     "{cap: 5}}}\n")
                           .value())
        .value();
  };
  const auto ask = [](Guard& guard, std::uint64_t cost) {
    auto call = std::make_shared<MeteredCall>();
    call->idempotency_key = "K1";
    const Descriptor descriptors[] = {{"account", "acme"}};
    (void)guard.impl().check("export", guard::DescriptorValues(descriptors), {.cost = cost}, call);
    return call->naming;
  };
  {
    Guard guard = open();
    EXPECT_EQ(ask(guard, 2), Naming::fresh);
    EXPECT_EQ(ask(guard, 2), Naming::replayed);
    EXPECT_EQ(ask(guard, 3), Naming::conflict);
    Reservations reservations(guard);
    const auto reserved = reservations.reserve("export", {{"account", "acme"}}, 7, kFull);
    ASSERT_TRUE(reserved.decision.allowed());
    ASSERT_TRUE(reservations.settle(reserved.id, 1));
    EXPECT_EQ(guard.peek("export", {{"account", "acme"}}).rules()[0].remaining, 6u);
  }
  Guard guard = open();
  EXPECT_EQ(ask(guard, 2), Naming::replayed);
  EXPECT_EQ(ask(guard, 3), Naming::conflict);
}

}  // namespace
}  // namespace weir
