// What is charged once, on a real Redis and a real disk: requests that come again under their
// idempotency key, work whose cost is known only afterwards, and overspend across a restart.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "guard/descriptor_values.h"
#include "guard/metered_call.h"
#include "guard/metered_story_test.h"
#include "testing/redis_cluster.h"

namespace weir {
namespace {

using ledger::testing::eventually;
using ledger::testing::TemporaryFolder;
using std::chrono::hours;
using testing::kFull;
using testing::MeteredGuard;
using testing::Naming;
using testing::naming_of;

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

// What is reported under another request's key is nobody's usage that is known of.
TEST_F(MeteredGuard, TakesNothingForALateReportUnderAKeyOfAnotherRequest) {
  auto one = open(0);
  auto two = open(1);
  ASSERT_TRUE(named(*one, "acme", "K1", 2).decision.allowed());
  const auto call = std::make_shared<guard::MeteredCall>();
  call->idempotency_key = "K1";
  call->late = true;
  const std::array<Descriptor, 1> account = {{{"account", "acme"}}};
  const Decision other =
      two->impl().check("export", guard::DescriptorValues(account), {.cost = 3}, call);
  EXPECT_EQ(other.reason, Reason::key_reused);
  EXPECT_EQ(left(*two, "acme"), 8u);
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

// Ten units at one in 100 seconds have run off in a quarter of an hour, and at one an hour in ten:
// what was to go back counted as run off.
TEST_F(MeteredGuard, GivesBackWhatWasReservedBeforeAGcrasLimitWasLowered) {
  const auto under = [&](const std::string& limit) {
    std::string text = policy();
    const std::string_view rule =
        "requests: 10, per: month, by: [account], algorithm: fixed_window";
    text.replace(text.find(rule), rule.size(), limit + ", by: [account], algorithm: gcra");
    return Policy::parse(text).value();
  };
  auto guard = std::make_unique<Guard>(Guard::open(under("requests: 864, per: day")).value());
  await_store(*guard);
  const auto reserve = [&](std::string_view account) {
    return Reservations(*guard).reserve("export", {{"account", account}}, 10, kFull).id;
  };
  const std::string at_once = reserve("acme");
  const std::string later = reserve("other");
  ASSERT_TRUE(guard->reload(under("requests: 24, per: day")));
  EXPECT_EQ(left(*guard, "acme"), 14u);
  ASSERT_TRUE(Reservations(*guard).settle(at_once, 4));
  EXPECT_TRUE(eventually([&] { return left(*guard, "acme") >= 20; }));
  EXPECT_EQ(left(*guard, "acme"), 20u);
  // A restart with another policy is no different.
  guard.reset();
  guard = std::make_unique<Guard>(Guard::open(under("requests: 12, per: day")).value());
  await_store(*guard);
  ASSERT_TRUE(Reservations(*guard).settle(later, 0));
  EXPECT_TRUE(eventually([&] { return left(*guard, "other") == 12; }));
  EXPECT_EQ(guard->impl().usage()->reservations().returns_lost(), 0u);
}

// A limit that a reload took away while reservations of it stood has nothing back, and that is
// counted.
TEST_F(MeteredGuard, CountsWhatCannotGoBackToALimitThatAReloadTookAway) {
  auto guard = open();
  Reservations reservations(*guard);
  const Reservation reserved = reservations.reserve("export", {{"account", "acme"}}, 8, kFull);
  std::string without = policy();
  without.replace(without.find("  export:"), 9, "  import:");
  ASSERT_TRUE(guard->reload(Policy::parse(without).value()));
  ASSERT_TRUE(reservations.settle(reserved.id, 3));
  const auto& book = guard->impl().usage()->reservations();
  EXPECT_TRUE(eventually([&] { return book.returns_lost() == 1; }));
  EXPECT_EQ(book.returns(), 0u);
  ASSERT_TRUE(guard->reload(Policy::parse(policy()).value()));
  EXPECT_EQ(left(*guard, "acme"), 2u);
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

// Two limits on two masters, of which one is away: what the other one said is on the bill.
TEST_F(MeteredGuard, RecordsWhatOneLimitHadNoRoomForThoughAnotherCannotBeAsked) {
  testing::RedisCluster cluster;
  std::string text = policy();
  const auto put = [&](std::string_view what, const std::string& by) {
    ASSERT_NE(text.find(what), text.npos);
    text.replace(text.find(what), what.size(), by);
  };
  put("redis://127.0.0.1:" + std::to_string(redis_.port()), cluster.url());
  put("deadline: 2s", "deadline: 5s");
  put("[account]\n", "[account, zone]\n");
  put("meter: true}\n",
      "meter: true}\n"
      "      - {requests: 1000, per: day, by: [zone], algorithm: fixed_window}\n");
  const auto guard = std::make_unique<Guard>(Guard::open(Policy::parse(text).value()).value());
  Reservations reservations(*guard);
  const auto master_of = [&](const std::string& value) {
    std::size_t i = 0;
    while (i < cluster.size() && cluster.node(i).keys("weir:1:{*}*/" + value).empty()) ++i;
    return i;
  };
  std::string account;
  std::string zone;
  std::string id;
  for (int i = 0; i < 200 && account.empty(); ++i) {
    const std::string a = "a" + std::to_string(i);
    zone = "z" + std::to_string(i);
    id = reservations.reserve("export", {{"account", a}, {"zone", zone}}, 8, kFull).id;
    const std::size_t there = master_of(a);
    if (there != cluster.size() && master_of(zone) != cluster.size() && there != master_of(zone))
      account = a;
  }
  ASSERT_FALSE(account.empty());
  cluster.node(master_of(zone)).kill();
  (void)reservations.settle(id, 20);  // which may wait longer than its caller does
  EXPECT_TRUE(eventually([&] {
    return ledger_of(account) == Sums{1, 20, 10};
  })) << ledger_of(account).units
      << ' ' << ledger_of(account).overspent;
}

// Nine in ten runs that were killed midway had no cost at all.
TEST_F(MeteredGuard, EndsWhatNobodySettlesAsItWasToldTo) {
  auto guard = open();
  Reservations reservations(*guard);
  const auto leave = [&](std::string_view account, OnExpiry how) {
    const Reservation reserved = reservations.reserve(
        "export", {{"account", account}}, 8, {.expire = std::chrono::seconds(4), .on_expiry = how});
    EXPECT_TRUE(reservations.heartbeat(reserved.id, 5));
    return reserved.id;
  };
  const std::string full = leave("full", OnExpiry::full);
  leave("beat", OnExpiry::last_heartbeat);
  leave("zero", OnExpiry::zero);
  EXPECT_TRUE(eventually([&] { return left(*guard, "zero") == 10 && left(*guard, "beat") == 5; }));
  EXPECT_EQ(left(*guard, "full"), 2u);
  EXPECT_TRUE(eventually([&] { return ledger_of("full").units == 8; }));
  EXPECT_TRUE(eventually([&] { return ledger_of("beat").units == 5; }));
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

// How a reservation ends was each call's to say, and a policy could not say it.
TEST_F(MeteredGuard, EndsReservationsAsTheirRouteSaysWhereTheCallDoesNot) {
  auto guard = open(0, "    reservations: {on_expiry: full, expire: 1s}\n");
  Reservations reservations(*guard);
  const auto reserve = [&](std::string_view account, ReservationTerms terms) {
    const Reservation made = reservations.reserve("export", {{"account", account}}, 8, terms);
    EXPECT_TRUE(made.decision.allowed()) << made.decision.fault;
  };
  reserve("route", {});
  reserve("call", {.on_expiry = OnExpiry::zero});
  EXPECT_TRUE(eventually([&] { return left(*guard, "call") == 10; }));
  EXPECT_TRUE(eventually([&] { return ledger_of("route").units == 8; }));
  EXPECT_EQ(ledger_of("call"), (Sums{}));
}

TEST_F(MeteredGuard, ReservesNothingThatNobodySaysTheEndOf) {
  auto guard = open();
  Reservations reservations(*guard);
  const auto fault = [&](ReservationTerms terms) {
    const Reservation refused = reservations.reserve("export", {{"account", "acme"}}, 8, terms);
    EXPECT_EQ(refused.decision.reason, Reason::invalid_request);
    return std::string(refused.decision.fault);
  };
  EXPECT_NE(fault({.expire = hours(1)}).find("on_expiry"), std::string::npos);
  EXPECT_NE(fault({.on_expiry = OnExpiry::full}).find("when it expires"), std::string::npos);
  EXPECT_NE(fault({.expire = hours(25), .on_expiry = OnExpiry::full}).find("a day"),
            std::string::npos);
  EXPECT_EQ(left(*guard, "acme"), 10u);
}

TEST_F(MeteredGuard, TakesNoKeyThatIsTooLong) {
  auto guard = open();
  EXPECT_TRUE(named(*guard, "acme", std::string(255, 'k')).decision.allowed());
  const Decision refused = named(*guard, "acme", std::string(256, 'k')).decision;
  EXPECT_EQ(refused.reason, Reason::invalid_request);
  EXPECT_NE(refused.fault.find("255 bytes"), std::string_view::npos);
}

TEST_F(MeteredGuard, KnowsAKeyOfThoseWhoDoNotWait) {
  auto guard = open();
  for (const bool replayed : {false, true}) {
    std::promise<Decision> told;
    {
      const std::string key = "K1";
      guard->check_async("export", {{"account", "acme"}}, {.cost = 2, .idempotency_key = key},
                         [&](Decision decision) { told.set_value(std::move(decision)); });
    }
    const Decision decision = told.get_future().get();
    EXPECT_TRUE(decision.allowed());
    EXPECT_EQ(decision.replayed, replayed);
  }
  EXPECT_EQ(left(*guard, "acme"), 8u);
}

// What was settled in an outage was kept from the limit until its window ended.
TEST_F(MeteredGuard, GivesBackOnceTheStoreIsBackWhatWasSettledWhileItHung) {
  const auto guard = open();
  ASSERT_TRUE(eventually([&] { return left(*guard, "nobody") == 10; }));
  Reservations reservations(*guard);
  std::vector<std::string> ids;
  constexpr int kAccounts = 24;  // more than open a breaker
  const auto account = [](int i) { return "a" + std::to_string(i); };
  for (int i = 0; i < kAccounts; ++i) {
    const std::string name = account(i);
    ids.push_back(reservations.reserve("export", {{"account", name}}, 8, kFull).id);
    ASSERT_EQ(ids.back().size(), 32u);
  }
  redis_.pause();
  // The first are put to the store, which does not answer; the others find its breaker open.
  for (const std::string& id : ids) ASSERT_TRUE(reservations.settle(id, 3));
  // Who asks after them was not answered by its time either.
  ASSERT_TRUE(eventually([&] {
    return guard->check("export", {{"account", "nobody"}}, {.cost = 0}).rung != Rung::store;
  }));
  std::string text;
  guard->impl().metrics().write(text);
  EXPECT_NE(text.find("\nweir_reservation_returns " + std::to_string(kAccounts) + "\n"), text.npos);
  redis_.resume();
  for (int i = 0; i < kAccounts; ++i) {
    const std::string name = account(i);
    EXPECT_TRUE(eventually([&] { return left(*guard, name) == 7; })) << name;
  }
  ASSERT_TRUE(eventually([&] { return guard->impl().usage()->reservations().returns() == 0; }));
  EXPECT_EQ(guard->impl().usage()->reservations().returns_lost(), 0u);
  for (int i = 0; i < kAccounts; ++i) EXPECT_EQ(left(*guard, account(i)), 7u) << "once";
}

// The other way about: limits never heard of what was used beyond its reservation.
TEST_F(MeteredGuard, TakesOnceTheStoreIsBackWhatWasOverdrawnWhileItHung) {
  const auto guard = open();
  ASSERT_TRUE(eventually([&] { return left(*guard, "nobody") == 10; }));
  Reservations reservations(*guard);
  std::vector<std::string> ids;
  constexpr int kAccounts = 24;
  const auto account = [](int i) { return "b" + std::to_string(i); };
  for (int i = 0; i < kAccounts; ++i) {
    const std::string name = account(i);
    ids.push_back(reservations.reserve("export", {{"account", name}}, 2, kFull).id);
    ASSERT_EQ(ids.back().size(), 32u);
  }
  redis_.pause();
  for (const std::string& id : ids)
    reservations.settle_async(id, 7, [](const Result<Settlement>&) {});
  for (const std::string& id : ids) {
    // Whoever is told to ask again does: it is settled once.
    ASSERT_TRUE(eventually([&] { return reservations.settle(id, 7).has_value(); }));
  }
  EXPECT_EQ(guard->impl().usage()->reservations().returns(), static_cast<std::size_t>(kAccounts));
  redis_.resume();
  ASSERT_TRUE(eventually([&] { return guard->impl().usage()->reservations().returns() == 0; }));
  for (int i = 0; i < kAccounts; ++i) EXPECT_EQ(left(*guard, account(i)), 3u) << "once";
  EXPECT_EQ(guard->impl().usage()->reservations().returns_lost(), 0u);
}

// A second that was over by then kept the month from hearing of it, too.
TEST_F(MeteredGuard, TakesOfTheLimitWhoseWindowStandsWhatComesTooLateForAnother) {
  const auto guard = open(0,
                          "  both:\n"
                          "    limits:\n"
                          "      - {requests: 50, per: second, by: [account], algorithm: "
                          "fixed_window}\n"
                          "      - {requests: 10, per: month, by: [account], algorithm: "
                          "fixed_window, meter: true}\n"
                          "    protects: revenue\n"
                          "    overspend: {cap: 4}\n");
  const auto month_left = [&] {
    return guard->peek("both", {{"account", "acme"}}).rules()[1].remaining.value_or(999);
  };
  Reservations reservations(*guard);
  const std::string id = reservations.reserve("both", {{"account", "acme"}}, 2, kFull).id;
  ASSERT_EQ(id.size(), 32u);
  redis_.pause();
  ASSERT_TRUE(eventually([&] { return reservations.settle(id, 7).has_value(); }));
  std::this_thread::sleep_for(std::chrono::seconds(1));  // its second is over
  const auto& book = guard->impl().usage()->reservations();
  EXPECT_EQ(book.returns(), 1u);
  redis_.resume();
  ASSERT_TRUE(eventually([&] { return book.returns() == 0; }));
  EXPECT_TRUE(eventually([&] { return month_left() == 3; })) << month_left();
  EXPECT_EQ(book.returns_lost(), 0u);
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
    return naming_of(
        guard.check("export", {{"account", "acme"}}, {.cost = cost, .idempotency_key = "K1"}));
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
