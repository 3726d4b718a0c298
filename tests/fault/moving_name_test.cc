// The store's name leads to another host, as after a failover behind DNS.

#include <gtest/gtest.h>

#include <atomic>

#include "drill/proxy/fault_proxy.h"
#include "testing/redis_rig.h"
#include "testing/redis_server.h"

namespace weir::fault {
namespace {

using drill::FaultProxy;
using drill::ProxyFaults;
using testing::RedisRig;
using testing::RedisServer;
using testing::RigRule;
using namespace std::chrono_literals;

// Two servers on one port of two loopback addresses, and a name that leads to either.
class MovingName : public ::testing::Test {
 protected:
  static std::unique_ptr<FaultProxy> at(const std::string& listen, const RedisServer& server) {
    return FaultProxy::start(
               {.listen = listen, .target = "127.0.0.1:" + std::to_string(server.port())})
        .value();
  }
  RedisRig::Options by_name() {
    auto options = RedisRig::on_port(first_->port());
    options.endpoint.host = "store.example";
    options.lookup = [this](const std::string& host) {
      ++lookups_;
      return host == "store.example" ? (moved_ ? "127.0.0.2" : "127.0.0.1") : host;
    };
    return options;
  }

  RedisServer old_;
  RedisServer new_;
  std::unique_ptr<FaultProxy> first_ = at("127.0.0.1:0", old_);
  std::unique_ptr<FaultProxy> second_ = at("127.0.0.2:" + std::to_string(first_->port()), new_);
  bool moved_ = false;
  int lookups_ = 0;
};

TEST_F(MovingName, IsLookedUpAgainWhereTheOldPrimaryIsDemotedUnderItsConnection) {
  RedisRig rig(by_name());
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 1'000, 86'400s);
  EXPECT_TRUE(rig.ask(rule.counter()).allowed);
  const std::string before = rig.client().report().run_id;
  moved_ = true;
  EXPECT_TRUE(rig.ask(rule.counter()).allowed) << "a connection that stands is not looked up";
  old_.execute({"REPLICAOF", "127.0.0.1", std::to_string(new_.port())});
  EXPECT_FALSE(rig.ask(rule.counter()).decided);
  ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); }));
  EXPECT_NE(rig.client().report().run_id, before);
  EXPECT_TRUE(rig.ask(rule.counter()).allowed);
  EXPECT_EQ(second_->counts().connections, 1u);
  EXPECT_EQ(lookups_, 2);
}

TEST_F(MovingName, IsLookedUpAgainWhereTheOldHostIsSilent) {
  auto options = by_name();
  options.deadline = 1s;
  options.client.session.hang_after = 1s;
  RedisRig rig(options);
  ASSERT_TRUE(rig.connect());
  const RigRule rule(1, 1'000, 86'400s);
  EXPECT_TRUE(rig.ask(rule.counter()).allowed);
  first_->set(ProxyFaults::blackhole());
  moved_ = true;
  EXPECT_FALSE(rig.ask(rule.counter()).decided);
  ASSERT_TRUE(rig.run_until([&] { return rig.client().ready() && lookups_ == 2; }));
  EXPECT_TRUE(rig.ask(rule.counter()).allowed);
  EXPECT_EQ(second_->counts().connections, 1u);
}

// Until the name moves, every attempt asks for it again.
TEST_F(MovingName, IsLookedUpForEveryAttempt) {
  auto options = by_name();
  options.client.backoff = 5ms;
  RedisRig rig(options);
  ASSERT_TRUE(rig.connect());
  first_->set(ProxyFaults::refuse());
  first_->reset_connections();
  ASSERT_TRUE(rig.run_until([&] { return rig.disconnects.size() >= 4; }));
  EXPECT_GE(lookups_, 4);
  moved_ = true;
  ASSERT_TRUE(rig.run_until([&] { return rig.client().ready(); }));
}

}  // namespace
}  // namespace weir::fault
