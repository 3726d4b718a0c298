#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "guard/impl.h"
#include "ledger/journal_story.h"
#include "ledger/ledger.h"
#include "testing/redis_server.h"
#include "weir/guard.h"
#include "weir/reservation.h"

// What the tests of metered routes share: real stores, a real disk, and what can go wrong with it.
namespace weir::testing {

// While it is set no sync of this process comes back, or none succeeds: as on a disk that hangs, or
// fails.
extern std::atomic<bool> g_disk_hangs;
extern std::atomic<bool> g_disk_fails;

// Syncs fail as long as it lives.
class FailingDisk {
 public:
  FailingDisk() { g_disk_fails = true; }
  ~FailingDisk() { heal(); }
  FailingDisk(const FailingDisk&) = delete;
  FailingDisk& operator=(const FailingDisk&) = delete;
  void heal() { g_disk_fails = false; }
};

// What became of a request that names itself.
enum class Naming { fresh, replayed, conflict };
inline Naming naming_of(const Decision& decision) {
  if (decision.reason == Reason::key_reused) {
    EXPECT_EQ(decision.verdict, Verdict::refused);
    EXPECT_EQ(decision.http_status(), 409);
    return Naming::conflict;
  }
  EXPECT_TRUE(decision.allowed() || !decision.replayed);
  return decision.replayed ? Naming::replayed : Naming::fresh;
}

// On a busy machine a Guard may be there before its connection is, and may come back to its store
// key by key.
inline void await_store(Guard& guard) {
  EXPECT_TRUE(ledger::testing::eventually([&] {
    return guard.peek("export", {{"account", "nobody"}}).rung == Rung::store &&
           guard.impl().shared()->state_json().find("\"state\":\"closed\"") != std::string::npos;
  }));
}

class MeteredGuard : public ::testing::Test {
 protected:
  // Ten a month for each account; of two workers each has a part of five, and of a cap of four two.
  // A store that a busy machine keeps waiting is not to be taken for one that is away.
  std::string policy(int index = 0, const std::string& more = "") const {
    return "store:\n  url: redis://127.0.0.1:" + std::to_string(redis_.port()) +
           "\n  deadline: 2s\n  workers: {of: 2, index: " + std::to_string(index) +
           "}\njournal: {folder: " + folder_.path() + "/journal" + std::to_string(index) +
           ", max: 1MiB, within: 20ms, ledger: '" + url() +
           "'}\n"
           "inputs: [account]\n"
           "routes:\n"
           "  export:\n"
           "    limits:\n"
           "      - {requests: 10, per: month, by: [account], algorithm: fixed_window, meter: "
           "true}\n"
           "    protects: revenue\n"
           "    overspend: {cap: 4}\n" +
           more;
  }
  std::string url() const { return "sqlite:" + folder_.path() + "/ledger.db"; }
  std::unique_ptr<Guard> open(int index = 0, const std::string& more = "") {
    auto guard = weir::Guard::open(Policy::parse(policy(index, more)).value());
    EXPECT_TRUE(guard) << guard.error().message;
    auto opened = std::make_unique<Guard>(std::move(*guard));
    if (redis_.pid() > 0) await_store(*opened);
    return opened;
  }
  static void await_store(Guard& guard) { testing::await_store(guard); }
  void kill_redis(std::vector<Guard*> guards) {
    redis_.kill();
    for (Guard* guard : guards) {
      ASSERT_TRUE(ledger::testing::eventually([&] {
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
    Decision decision =
        guard.check("export", {{"account", account}}, {.cost = cost, .idempotency_key = key});
    const Naming naming = naming_of(decision);
    return {std::move(decision), naming};
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
    ASSERT_TRUE(ledger::testing::eventually([&] {
      const std::string state = guard.impl().usage()->state_json();
      return state.find("\"unsettled\":0,") != state.npos &&
             state.find("\"waiting\":0,") != state.npos;
    }));
  }

  ledger::testing::TemporaryFolder folder_;
  RedisServer redis_;
};

constexpr ReservationTerms kFull{.expire = std::chrono::hours(1), .on_expiry = OnExpiry::full};

}  // namespace weir::testing
