// Breakers that two workers share on a store that real sentinels watch: what the store publishes of
// them is heard from the server that is the master now.

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "sentinel_rig.h"

namespace weir::fault {
namespace {

using testing::RedisServer;
using namespace std::chrono_literals;

class BreakersUnderSentinels : public GuardUnderSentinels {
 protected:
  static constexpr const char* kChannel = "weir:1:{!}circuits";

  void SetUp() override {
    GuardUnderSentinels::SetUp();
    know_each_other();
  }
  // Opened by an operator's word or a directive alone: 60 s, so that nothing closes by itself.
  Guard open_worker() {
    return Guard::open(Policy::parse("store: {url: '" + url() +
                                     "', deadline: 1s, startup: degrade}\n"
                                     "breakers: {payments: {shared: true, open_wait: 60s, "
                                     "max_open_wait: 60s, jitter: 0%, ramp: off}}\n")
                           .value())
        .value();
  }
  static bool told(const Breaker& breaker) {
    const BreakerSnapshot shot = breaker.snapshot();
    return shot.tie == FleetTie::follows && shot.pushed;
  }
  static int listeners(RedisServer& server) {
    const std::string reply = server.execute({"PUBSUB", "NUMSUB", kChannel});
    const std::size_t at = reply.rfind(':');
    return at == std::string::npos ? -1 : std::stoi(reply.substr(at + 1));
  }
  // What one opens the other sees, and what it closes.
  static void go_together(Breaker& one, Breaker& two) {
    one.trip(60s);
    EXPECT_TRUE(eventually([&] { return two.state() == BreakerState::open; }));
    one.close();
    EXPECT_TRUE(eventually([&] { return two.state() == BreakerState::closed; }));
  }
};

TEST_F(BreakersUnderSentinels, HearFromTheNewMasterWhereTheOldOneDied) {
  Guard a = open_worker();
  Guard b = open_worker();
  Breaker one = a.breaker("payments").value();
  Breaker two = b.breaker("payments").value();
  ASSERT_TRUE(eventually([&] { return told(one) && told(two); }));
  EXPECT_EQ(listeners(*master_), 2);
  go_together(one, two);
  master_->kill();
  EXPECT_TRUE(one.admit()) << "nobody waits for a store";
  ASSERT_TRUE(eventually([&] { return is_master(*replica_); }));
  EXPECT_TRUE(eventually([&] { return listeners(*replica_) == 2; }));
  ASSERT_TRUE(eventually([&] { return told(one) && told(two); }));
  go_together(one, two);
  // The old one comes back, and is nobody's to listen to.
  master_->start();
  ASSERT_TRUE(eventually([&] { return !is_master(*master_); }));
  EXPECT_EQ(listeners(*master_), 0);
  go_together(one, two);
}

// Nobody dies, so that no connection breaks by itself.
TEST_F(BreakersUnderSentinels, LeaveTheOldMasterWhereAnotherWasMadeMaster) {
  Guard a = open_worker();
  Guard b = open_worker();
  Breaker one = a.breaker("payments").value();
  Breaker two = b.breaker("payments").value();
  ASSERT_TRUE(eventually([&] { return told(one) && told(two); }));
  ASSERT_EQ(sentinels_[0]->text({"SENTINEL", "FAILOVER", "main"}), "OK");
  ASSERT_TRUE(eventually([&] { return is_master(*replica_); }));
  EXPECT_TRUE(eventually([&] { return listeners(*replica_) == 2; })) << listeners(*replica_);
  EXPECT_TRUE(eventually([&] { return listeners(*master_) == 0; })) << listeners(*master_);
  ASSERT_TRUE(eventually([&] { return told(one) && told(two); }));
  go_together(one, two);
}

}  // namespace
}  // namespace weir::fault
