// What each toxic does to a connection, as its client sees it.

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>

#include "drill/proxy/fault_proxy.h"
#include "testing/fake_redis.h"
#include "testing/ping_client.h"

namespace weir::drill {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::kPing;
using testing::kPong;
using testing::PingClient;
using Kind = Toxic::Kind;
using Stream = Toxic::Stream;

class ToxicTest : public ::testing::Test {
 protected:
  Toxic toxic(Kind kind, std::array<std::int64_t, Toxic::kMostAttributes> values = {},
              Stream stream = Stream::downstream) {
    return {.name = "t", .kind = kind, .stream = stream, .values = values, .id = ++last_id_};
  }
  std::string pongs(int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += kPong;
    return all;
  }

  testing::FakeRedis server_;
  std::unique_ptr<FaultProxy> proxy_ =
      FaultProxy::start({.target = "127.0.0.1:" + std::to_string(server_.port())}).value();
  std::uint64_t last_id_ = 0;
};

TEST_F(ToxicTest, LatencyAddsUpAndWhatItHoldsComesWhenItIsTakenAway) {
  proxy_->set_toxics(
      {toxic(Kind::latency, {60}), toxic(Kind::latency, {60, 20}, Stream::upstream)});
  PingClient client(proxy_->port());
  auto begun = Clock::now();
  ASSERT_TRUE(client.answers());
  EXPECT_GE(Clock::now() - begun, 100ms);
  proxy_->set_toxics({toxic(Kind::latency, {3'000'000})});
  client.ping();
  EXPECT_TRUE(client.silent());
  proxy_->set_toxics({});
  EXPECT_EQ(client.receive(kPong.size()), kPong);
}

TEST_F(ToxicTest, StrikesAsManyConnectionsAsItIsToldToAndEachForGood) {
  Toxic half = toxic(Kind::timeout, {});
  half.toxicity = Toxic::kAlways / 2;
  proxy_->set_toxics({half});
  int well = 0;
  for (int i = 0; i < 60; ++i) {
    PingClient client(proxy_->port());
    client.ping();
    if (client.receive(kPong.size(), 50) != kPong) continue;
    ++well;
    EXPECT_TRUE(client.answers()) << "a connection that is spared stays so";
  }
  EXPECT_GT(well, 10);
  EXPECT_LT(well, 50);
}

TEST_F(ToxicTest, BandwidthHoldsOverManyReplies) {
  // 100 replies of 7 bytes at 1000 bytes a second.
  proxy_->set_toxics({toxic(Kind::bandwidth, {1})});
  PingClient client(proxy_->port());
  const auto begun = Clock::now();
  for (int i = 0; i < 100; ++i) client.ping();
  EXPECT_EQ(client.receive(700), pongs(100));
  EXPECT_GE(Clock::now() - begun, 600ms);
}

TEST_F(ToxicTest, SlowCloseTellsTheGoodbyeLate) {
  proxy_->set_toxics({toxic(Kind::slow_close, {200}, Stream::upstream)});
  PingClient client(proxy_->port());
  ASSERT_TRUE(client.answers());
  const auto begun = Clock::now();
  client.say_goodbye();
  EXPECT_EQ(client.receive(1), "");
  EXPECT_EQ(client.ended, "closed");
  EXPECT_GE(Clock::now() - begun, 200ms);
}

TEST_F(ToxicTest, TimeoutLosesBytesAndThenClosesPolitely) {
  proxy_->set_toxics({toxic(Kind::timeout, {150})});
  const auto begun = Clock::now();  // the time runs from the connection on
  PingClient client(proxy_->port());
  client.ping();
  EXPECT_EQ(client.receive(1), "");
  EXPECT_EQ(client.ended, "closed");
  EXPECT_GE(Clock::now() - begun, 150ms);
  EXPECT_EQ(server_.commands("PING"), 1u);
}

TEST_F(ToxicTest, TimeoutOfZeroIsSilentUntilItIsTakenAwayAndThenCloses) {
  PingClient stands(proxy_->port());
  ASSERT_TRUE(stands.answers());
  proxy_->set_toxics({toxic(Kind::timeout)});
  stands.ping();
  EXPECT_TRUE(stands.silent());
  proxy_->set_toxics({});
  EXPECT_EQ(stands.receive(1), "");
  EXPECT_EQ(stands.ended, "closed");
}

TEST_F(ToxicTest, ResetPeerResetsWhatStandsAndWhatComes) {
  PingClient stands(proxy_->port());
  ASSERT_TRUE(stands.answers());
  proxy_->set_toxics({toxic(Kind::reset_peer, {100})});
  PingClient fresh(proxy_->port());
  fresh.ping();
  for (PingClient* each : {&stands, &fresh}) {
    EXPECT_EQ(each->receive(1), "");
    EXPECT_EQ(each->ended, "reset");
  }
  proxy_->set_toxics({toxic(Kind::reset_peer)});
  PingClient at_once(proxy_->port());
  EXPECT_EQ(at_once.receive(1), "");
  EXPECT_EQ(at_once.ended, "reset");
}

TEST_F(ToxicTest, SlicerSendsPiecesApart) {
  proxy_->set_toxics({toxic(Kind::slicer, {4, 2, 20'000})});
  PingClient client(proxy_->port());
  const auto begun = Clock::now();
  for (int i = 0; i < 6; ++i) client.ping();
  EXPECT_EQ(client.receive(42), pongs(6));
  EXPECT_GE(Clock::now() - begun, 120ms) << "at least seven pieces of at most six bytes";
}

TEST_F(ToxicTest, LimitDataPassesThatMuchAndCloses) {
  PingClient stands(proxy_->port());
  ASSERT_TRUE(stands.answers());
  proxy_->set_toxics({toxic(Kind::limit_data, {10})});
  ASSERT_TRUE(stands.answers()) << "what passed before does not count";
  stands.ping();
  EXPECT_EQ(stands.receive(10), kPong.substr(0, 3));
  EXPECT_EQ(stands.ended, "closed");
}

TEST_F(ToxicTest, RefuseClosesTheDoorAndLeavesWhatStands) {
  PingClient stands(proxy_->port());
  ASSERT_TRUE(stands.answers());
  proxy_->set_toxics({toxic(Kind::refuse)});
  EXPECT_FALSE(PingClient(proxy_->port()).connected());
  EXPECT_TRUE(stands.answers());
  proxy_->set_toxics({});
  EXPECT_TRUE(PingClient(proxy_->port()).answers());
}

TEST_F(ToxicTest, BlackholeDropAndStallAreSilent) {
  PingClient stands(proxy_->port());
  ASSERT_TRUE(stands.answers());
  proxy_->set_toxics({toxic(Kind::stall)});
  stands.ping();
  EXPECT_TRUE(stands.silent());
  proxy_->set_toxics({toxic(Kind::stall, {}, Stream::upstream)});
  EXPECT_EQ(stands.receive(kPong.size()), kPong) << "that way is free again";
  proxy_->set_toxics({toxic(Kind::drop)});
  stands.ping();
  EXPECT_TRUE(stands.silent());
  EXPECT_EQ(server_.commands("PING"), 3u);
  proxy_->set_toxics({toxic(Kind::blackhole)});
  PingClient fresh(proxy_->port());
  ASSERT_TRUE(fresh.connected());
  fresh.ping();
  EXPECT_TRUE(fresh.silent());
  EXPECT_EQ(server_.commands("PING"), 3u) << "nothing came through";
}

TEST_F(ToxicTest, DripAndTruncate) {
  proxy_->set_toxics({toxic(Kind::drip, {20})});
  PingClient client(proxy_->port());
  const auto begun = Clock::now();
  ASSERT_TRUE(client.answers());
  EXPECT_GE(Clock::now() - begun, 6 * 20ms);
  proxy_->set_toxics({toxic(Kind::truncate, {100})});
  client.ping();
  EXPECT_EQ(client.receive(kPong.size()), kPong.substr(0, 3));
  EXPECT_EQ(client.ended, "reset");
}

}  // namespace
}  // namespace weir::drill
