// What was reserved and not used goes back to the limits once, also where the store did it and
// nobody heard.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "drill/proxy/fault_proxy.h"
#include "fault_rig.h"
#include "guard/impl.h"
#include "testing/redis_server.h"
#include "weir/reservation.h"

namespace weir::fault {
namespace {

using drill::FaultProxy;
using drill::ProxyFaults;
using testing::RedisServer;

class SettlingThroughAProxy : public ::testing::Test {
 protected:
  SettlingThroughAProxy() {
    std::string name = std::filesystem::temp_directory_path() / "weir-settle-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    proxy_ = FaultProxy::start({.target = "127.0.0.1:" + std::to_string(redis_.port())}).value();
  }
  ~SettlingThroughAProxy() override { std::filesystem::remove_all(folder_); }

  // `first`: a rule in front of the metered one.
  Policy policy(const std::string& first = "") const {
    return Policy::parse("store: {url: 'redis://127.0.0.1:" + std::to_string(proxy_->port()) +
                         "', deadline: 1s, workers: {of: 1, index: 0}}\n"
                         "journal: {folder: " +
                         folder_ +
                         "/journal, within: 20ms}\n"
                         "inputs: [account]\n"
                         "routes:\n"
                         "  export:\n"
                         "    limits:\n" +
                         first +
                         "      - {requests: 10, per: month, by: [account], algorithm: "
                         "fixed_window, meter: true}\n"
                         "    protects: revenue\n"
                         "    overspend: {cap: 4}\n")
        .value();
  }
  Guard open() { return Guard::open(policy()).value(); }
  static std::uint64_t left(Guard& guard) {
    const Decision decision = guard.peek("export", {{"account", "acme"}});
    if (decision.rung != Rung::store) return 999;
    return decision.rules()[0].remaining.value_or(999);
  }

  std::string folder_;
  RedisServer redis_;
  std::unique_ptr<FaultProxy> proxy_;
};

constexpr ReservationTerms kFull{.expire = std::chrono::hours(1), .on_expiry = OnExpiry::full};

TEST_F(SettlingThroughAProxy, GivesBackOnceThoughNobodyHeardThatTheStoreDid) {
  Guard guard = open();
  Reservations reservations(guard);
  ASSERT_TRUE(eventually([&] { return left(guard) == 10; }));
  // Two, so that a second giving back of the first would find something to give.
  const Reservation first = reservations.reserve("export", {{"account", "acme"}}, 5, kFull);
  const Reservation second = reservations.reserve("export", {{"account", "acme"}}, 4, kFull);
  ASSERT_EQ(first.decision.rung, Rung::store);
  ASSERT_EQ(second.decision.rung, Rung::store);
  proxy_->set(ProxyFaults::deaf());
  ASSERT_TRUE(reservations.settle(first.id, 2));
  auto& book = guard.impl().usage()->reservations();
  ASSERT_TRUE(eventually([&] { return left(guard) == 999; })) << "nobody hears anything";
  EXPECT_EQ(book.returns(), 1u);
  proxy_->set(ProxyFaults{});
  ASSERT_TRUE(eventually([&] { return book.returns() == 0; }));
  EXPECT_EQ(book.returns_lost(), 0u);
  ASSERT_TRUE(eventually([&] { return left(guard) != 999; }));
  EXPECT_TRUE(eventually([&] { return left(guard) == 4; })) << "two and four of ten are used";
  ASSERT_TRUE(reservations.settle(second.id, 0));
  EXPECT_TRUE(eventually([&] { return left(guard) == 8; }));
}

// The mark by which a second try is known stood beside the first rule of the present policy: where
// a reload had removed that one between two tries, all others had it back twice.
TEST_F(SettlingThroughAProxy, GivesBackOnceThoughAReloadRemovesARuleBetweenTwoTries) {
  Guard guard =
      Guard::open(policy("      - {requests: 100, per: day, algorithm: fixed_window}\n")).value();
  Reservations reservations(guard);
  const auto left_of_last = [&] {
    const Decision decision = guard.peek("export", {{"account", "acme"}});
    return decision.rung == Rung::store ? decision.rules().back().remaining.value_or(999) : 999;
  };
  ASSERT_TRUE(eventually([&] { return left_of_last() == 10; }));
  const Reservation first = reservations.reserve("export", {{"account", "acme"}}, 5, kFull);
  const Reservation second = reservations.reserve("export", {{"account", "acme"}}, 4, kFull);
  ASSERT_EQ(first.decision.rung, Rung::store);
  ASSERT_EQ(second.decision.rung, Rung::store);
  proxy_->set(ProxyFaults::deaf());
  ASSERT_TRUE(reservations.settle(first.id, 2));
  auto& book = guard.impl().usage()->reservations();
  ASSERT_TRUE(eventually([&] { return left_of_last() == 999; })) << "nobody hears anything";
  EXPECT_EQ(book.returns(), 1u);
  ASSERT_TRUE(guard.reload(policy()));
  proxy_->set(ProxyFaults{});
  proxy_->reset_connections();
  ASSERT_TRUE(eventually([&] { return book.returns() == 0; }));
  ASSERT_TRUE(eventually([&] { return left(guard) != 999; }));
  EXPECT_EQ(left(guard), 4u) << "two and four of ten are used";
}

// The store answers, and takes nothing: what it is to be told of is not given up, and whoever asks
// for it hears that nothing was done.
TEST_F(SettlingThroughAProxy, GivesBackToAStoreThatWasFullMeanwhile) {
  Guard guard = open();
  Reservations reservations(guard);
  ASSERT_TRUE(eventually([&] { return left(guard) == 10; }));
  const Reservation reserved = reservations.reserve("export", {{"account", "acme"}}, 6, kFull);
  const Decision checked = guard.check("export", {{"account", "acme"}}, {.cost = 3});
  ASSERT_EQ(checked.rung, Rung::store);
  redis_.execute({"CONFIG", "SET", "maxmemory", "1"});
  const auto refunded = guard.refund(checked);
  ASSERT_FALSE(refunded);
  EXPECT_NE(refunded.error().message.find("nothing was given back"), std::string::npos)
      << refunded.error().message;
  ASSERT_TRUE(reservations.settle(reserved.id, 2));
  auto& book = guard.impl().usage()->reservations();
  EXPECT_EQ(book.returns(), 1u);
  redis_.execute({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_TRUE(eventually([&] { return book.returns() == 0; }));
  EXPECT_EQ(book.returns_lost(), 0u);
  EXPECT_TRUE(eventually([&] { return left(guard) == 5; })) << left(guard);
}

TEST_F(SettlingThroughAProxy, GivesBackWhatNeverReachedTheStore) {
  Guard guard = open();
  Reservations reservations(guard);
  ASSERT_TRUE(eventually([&] { return left(guard) == 10; }));
  const Reservation reserved = reservations.reserve("export", {{"account", "acme"}}, 9, kFull);
  ASSERT_EQ(reserved.decision.rung, Rung::store);
  proxy_->set(ProxyFaults::blackhole());
  ASSERT_TRUE(reservations.settle(reserved.id, 2));
  auto& book = guard.impl().usage()->reservations();
  ASSERT_TRUE(eventually([&] { return left(guard) == 999; }));
  EXPECT_EQ(book.returns(), 1u);
  proxy_->set(ProxyFaults{});
  proxy_->reset_connections();
  EXPECT_TRUE(eventually([&] { return left(guard) == 8; }));
  EXPECT_TRUE(eventually([&] { return book.returns() == 0; }));
}

}  // namespace
}  // namespace weir::fault
