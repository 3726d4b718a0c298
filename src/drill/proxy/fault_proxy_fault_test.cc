#include "drill/proxy/fault_proxy.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <thread>

#include "testing/fake_redis.h"
#include "testing/ping_client.h"
#include "testing/redis_server.h"

namespace weir::drill {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::FakeRedis;
using testing::kPatienceMs;
using testing::kPing;
using testing::kPong;
using testing::PingClient;

class FaultProxyTest : public ::testing::Test {
 protected:
  static std::unique_ptr<FaultProxy> to(const FakeRedis& server) {
    return FaultProxy::start({.target = "127.0.0.1:" + std::to_string(server.port())}).value();
  }
  // Whether the server gets to have run so many PINGs.
  bool runs(std::uint64_t pings) {
    const auto give_up = Clock::now() + std::chrono::milliseconds(kPatienceMs);
    while (server_.commands("PING") < pings) {
      if (Clock::now() > give_up) return false;
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }

  FakeRedis server_;
  std::unique_ptr<FaultProxy> proxy_ = to(server_);
};

TEST_F(FaultProxyTest, PassesEverythingOnWhereItIsToldNothing) {
  PingClient client(proxy_->port());
  for (int i = 0; i < 100; ++i) {
    client.ping();
    ASSERT_EQ(client.receive(kPong.size()), kPong);
  }
  const auto counts = proxy_->counts();
  EXPECT_EQ(counts.connections, 1u);
  EXPECT_EQ(counts.open, 1u);
  EXPECT_EQ(counts.request_bytes, 100 * kPing.size());
  EXPECT_EQ(counts.reply_bytes, 100 * kPong.size());
  EXPECT_EQ(counts.lost_bytes, 0u);
}

// More than a socket's buffers hold, from a server that reads later: what cannot be written at once
// is held, and follows in its order.
TEST_F(FaultProxyTest, WhatItsReceiverHasNoRoomForComesLaterAndInOrder) {
  testing::RedisServer redis;
  const auto proxy =
      FaultProxy::start({.target = "127.0.0.1:" + std::to_string(redis.port())}).value();
  std::string large(12U << 20U, 'x');
  for (std::size_t i = 0; i < large.size(); i += 997) large[i] = static_cast<char>('a' + i % 26);
  ASSERT_EQ(redis.execute({"SET", "large", large}), "+OK\r\n");
  PingClient client(proxy->port());
  client.say("*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n");
  // Not read for a while.
  std::this_thread::sleep_for(100ms);
  const std::string head = "$" + std::to_string(large.size()) + "\r\n";
  EXPECT_TRUE(client.receive(head.size() + large.size() + 2) == head + large + "\r\n");
}

TEST_F(FaultProxyTest, OfSeveralLoopsEachDoesAsItIsTold) {
  FakeRedis server;
  const auto proxy =
      FaultProxy::start({.target = "127.0.0.1:" + std::to_string(server.port()), .loops = 3})
          .value();
  std::vector<std::unique_ptr<PingClient>> clients;
  for (int i = 0; i < 7; ++i) clients.push_back(std::make_unique<PingClient>(proxy->port()));
  for (const auto& each : clients) {
    each->ping();
    EXPECT_EQ(each->receive(kPong.size()), kPong);
  }
  EXPECT_EQ(proxy->counts().open, 7U);
  EXPECT_EQ(proxy->counts().connections, 7U);
  EXPECT_EQ(proxy->counts().reply_bytes, 7 * kPong.size());

  proxy->set(ProxyFaults::deaf());
  for (const auto& each : clients) each->ping();
  for (const auto& each : clients) EXPECT_TRUE(each->silent(50));
  proxy->set({});

  proxy->set(ProxyFaults::refuse());
  EXPECT_EQ(PingClient(proxy->port()).connect_error(), ECONNREFUSED);
  proxy->reset_connections();
  for (const auto& each : clients) {
    each->receive(1);
    EXPECT_EQ(each->ended, "reset");
  }
  EXPECT_EQ(proxy->counts().open, 0U);
}

TEST_F(FaultProxyTest, DelaysRepliesAndKeepsTheirOrder) {
  proxy_->set(ProxyFaults::slow(50ms, 30ms));
  PingClient client(proxy_->port());
  const auto begun = Clock::now();
  for (int i = 0; i < 20; ++i) client.ping();
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += kPong;
  EXPECT_EQ(client.receive(expected.size()), expected);
  EXPECT_GE(Clock::now() - begun, 50ms);
  EXPECT_EQ(proxy_->faults(), ProxyFaults::slow(50ms, 30ms));
}

TEST_F(FaultProxyTest, DelaysRequestsSoThatTheyRunLate) {
  proxy_->set({.request_delay = 100ms});
  PingClient client(proxy_->port());
  const auto begun = Clock::now();
  client.ping();
  ASSERT_TRUE(runs(1));
  EXPECT_GE(Clock::now() - begun, 100ms);
  EXPECT_EQ(client.receive(kPong.size()), kPong);
}

TEST_F(FaultProxyTest, RefusesConnectionsWhileItIsToldTo) {
  PingClient stands(proxy_->port());
  stands.ping();
  ASSERT_EQ(stands.receive(kPong.size()), kPong);
  proxy_->set(ProxyFaults::refuse());
  PingClient refused(proxy_->port());
  EXPECT_EQ(refused.connect_error(), ECONNREFUSED);
  stands.ping();
  EXPECT_EQ(stands.receive(kPong.size()), kPong) << "what stands stays";
  proxy_->reset_connections();
  EXPECT_EQ(stands.receive(1), "");
  EXPECT_EQ(stands.ended, "reset");
  proxy_->set({});
  PingClient again(proxy_->port());
  ASSERT_TRUE(again.connected());
  again.ping();
  EXPECT_EQ(again.receive(kPong.size()), kPong);
}

TEST_F(FaultProxyTest, AHoleSwallowsRequestsAndNewConnectionsWithoutAWord) {
  PingClient stands(proxy_->port());
  stands.ping();
  ASSERT_EQ(stands.receive(kPong.size()), kPong);
  proxy_->set(ProxyFaults::blackhole());
  stands.ping();
  PingClient fresh(proxy_->port());
  ASSERT_TRUE(fresh.connected());
  fresh.ping();
  EXPECT_TRUE(stands.silent());
  EXPECT_TRUE(fresh.silent());
  EXPECT_EQ(server_.commands("PING"), 1u) << "nothing came through";
  // What has lost bytes stays silent: what came after the hole would be taken for something else.
  proxy_->set({});
  stands.ping();
  EXPECT_TRUE(stands.silent());
  PingClient after(proxy_->port());
  after.ping();
  EXPECT_EQ(after.receive(kPong.size()), kPong);
}

TEST_F(FaultProxyTest, DropsRepliesOfCommandsThatRan) {
  PingClient client(proxy_->port());
  client.ping();
  ASSERT_EQ(client.receive(kPong.size()), kPong);
  proxy_->set(ProxyFaults::deaf());
  client.ping();
  client.ping();
  ASSERT_TRUE(runs(3));
  EXPECT_TRUE(client.silent());
  EXPECT_EQ(proxy_->counts().lost_bytes, 2 * kPong.size());
}

TEST_F(FaultProxyTest, CutsBeforeInsideAndAfterAReply) {
  using Cut = ProxyFaults::Cut;
  struct Row {
    Cut cut;
    std::string_view received;
  };
  std::uint64_t pings = 0;
  for (const Row& row : {Row{Cut::before_reply, ""}, Row{Cut::inside_reply, kPong.substr(0, 3)},
                         Row{Cut::after_reply, kPong}}) {
    proxy_->set({.cut = row.cut});
    PingClient client(proxy_->port());
    client.ping();
    EXPECT_EQ(client.receive(kPong.size()), row.received);
    EXPECT_EQ(client.receive(1), "");
    EXPECT_EQ(client.ended, "reset");
    EXPECT_TRUE(runs(++pings)) << "the command has run";
  }
  EXPECT_EQ(proxy_->counts().resets, 3u);
}

TEST_F(FaultProxyTest, CutsAsManyAsItIsToldTo) {
  proxy_->set({.cut = ProxyFaults::Cut::before_reply, .percent = 30});
  int cut = 0;
  for (int i = 0; i < 200; ++i) {
    PingClient client(proxy_->port());
    client.ping();
    cut += client.receive(kPong.size()).empty() ? 1 : 0;
  }
  EXPECT_GT(cut, 30);
  EXPECT_LT(cut, 90);
}

TEST_F(FaultProxyTest, SendsRepliesOneByteAtATime) {
  proxy_->set({.between_bytes = 10ms});
  PingClient client(proxy_->port());
  const auto begun = Clock::now();
  client.ping();
  client.ping();
  EXPECT_EQ(client.receive(2 * kPong.size()), std::string(kPong) + std::string(kPong));
  EXPECT_GE(Clock::now() - begun, (2 * kPong.size() - 1) * 10ms);
}

TEST_F(FaultProxyTest, StallsAndThenFlushes) {
  PingClient client(proxy_->port());
  client.ping();
  ASSERT_EQ(client.receive(kPong.size()), kPong);
  proxy_->set(ProxyFaults::stall());
  for (int i = 0; i < 10; ++i) client.ping();
  EXPECT_TRUE(client.silent());
  EXPECT_EQ(server_.commands("PING"), 1u);
  proxy_->set({});
  std::string expected;
  for (int i = 0; i < 10; ++i) expected += kPong;
  EXPECT_EQ(client.receive(expected.size()), expected);
  EXPECT_EQ(proxy_->counts().lost_bytes, 0u);
}

TEST_F(FaultProxyTest, HoldsNoMoreThanItSays) {
  proxy_->set({.requests = ProxyFaults::Flow::stall});
  const std::uint16_t port = proxy_->port();
  std::thread flood([port] {
    try {
      testing::RedisConnection client(port);
      client.execute({"PING", std::string(64U << 20, 'x')});
    } catch (const std::exception&) {
    }
  });
  const auto give_up = Clock::now() + std::chrono::milliseconds(kPatienceMs);
  while (proxy_->counts().request_bytes < FaultProxy::kMaxHeld && Clock::now() < give_up) {
    std::this_thread::sleep_for(1ms);
  }
  std::this_thread::sleep_for(50ms);  // room for reading too much
  EXPECT_EQ(proxy_->counts().request_bytes, FaultProxy::kMaxHeld);
  proxy_->reset_connections();
  flood.join();
}

TEST_F(FaultProxyTest, LeavesWhatStandsWhereItIsWhenItsTargetMoves) {
  FakeRedis other;
  PingClient before(proxy_->port());
  before.ping();
  ASSERT_EQ(before.receive(kPong.size()), kPong);
  ASSERT_TRUE(proxy_->retarget("127.0.0.1:" + std::to_string(other.port())).has_value());
  before.ping();
  ASSERT_EQ(before.receive(kPong.size()), kPong);
  PingClient after(proxy_->port());
  after.ping();
  ASSERT_EQ(after.receive(kPong.size()), kPong);
  EXPECT_EQ(server_.commands("PING"), 2u);
  EXPECT_EQ(other.commands("PING"), 1u);
}

TEST_F(FaultProxyTest, ResetsWhoeverComesWhileNobodyListensBehindIt) {
  const auto nowhere =
      FaultProxy::start({.target = "127.0.0.1:" + std::to_string(testing::free_port())}).value();
  PingClient client(nowhere->port());
  EXPECT_EQ(client.receive(1), "");
  EXPECT_EQ(client.ended, "reset");
}

TEST_F(FaultProxyTest, SaysWhichAddressIsNone) {
  for (const char* address :
       {"", "localhost", ":1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000"}) {
    const auto proxy = FaultProxy::start({.target = address});
    ASSERT_FALSE(proxy) << address;
    EXPECT_EQ(proxy.error().code, ErrorCode::invalid_argument);
    EXPECT_NE(proxy.error().message.find(std::string("'") + address + "'"), std::string::npos);
  }
  EXPECT_FALSE(FaultProxy::start(
      {.listen = "127.0.0.1:" + std::to_string(server_.port()), .target = "127.0.0.1:1"}));
}

}  // namespace
}  // namespace weir::drill
