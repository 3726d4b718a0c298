#include "server/grpc/health.h"

#include <gtest/gtest.h>

#include "grpc/health/v1/health.pb.h"
#include "server/grpc/test_client.h"

namespace weir::server::grpc {
namespace {

using namespace std::chrono_literals;
using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;

constexpr std::string_view kCheck = "/grpc.health.v1.Health/Check";
constexpr std::string_view kWatch = "/grpc.health.v1.Health/Watch";

class HealthTest : public ::testing::Test {
 protected:
  HealthTest() : health([this] { return ready; }, {"test.Service"}) { engine.add(health); }

  static std::string ask(const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    return framed(request.SerializeAsString());
  }
  // The states in a body, in order.
  static std::vector<int> states(std::string body) {
    std::vector<int> out;
    while (body.size() >= 5) {
      const auto size = static_cast<std::size_t>(body[4]);
      HealthCheckResponse response;
      EXPECT_TRUE(response.ParseFromString(body.substr(5, size)));
      out.push_back(response.status());
      body.erase(0, 5 + size);
    }
    return out;
  }

  bool ready = true;
  MonoTime now{1h};
  HealthService health;
  Engine engine;
};

TEST_F(HealthTest, CheckFollowsReadiness) {
  Session session(engine, now);
  TestClient client(session);
  for (const char* name : {"", "ratelimit", "test.Service"}) {
    const auto id = client.call(kCheck, ask(name));
    client.run(now);
    EXPECT_EQ(states(client.answer(id).body), std::vector<int>{HealthCheckResponse::SERVING});
  }
  ready = false;
  const auto id = client.call(kCheck, ask(""));
  client.run(now);
  EXPECT_EQ(states(client.answer(id).body), std::vector<int>{HealthCheckResponse::NOT_SERVING});
  EXPECT_EQ(client.answer(id).status(), "0");
}

TEST_F(HealthTest, CheckSaysThatAServiceIsUnknown) {
  Session session(engine, now);
  TestClient client(session);
  const auto id = client.call(kCheck, ask("nobody"));
  client.run(now);
  EXPECT_EQ(client.answer(id).status(), "5");
}

TEST_F(HealthTest, WatchTellsEachChangeOnce) {
  Session session(engine, now);
  TestClient client(session);
  const auto id = client.call(kWatch, ask(""));
  client.run(now);
  health.publish();
  ready = false;
  health.publish();
  health.publish();
  client.run(now);
  ready = true;
  health.publish();
  client.run(now);
  EXPECT_EQ(states(client.answer(id).body),
            (std::vector<int>{HealthCheckResponse::SERVING, HealthCheckResponse::NOT_SERVING,
                              HealthCheckResponse::SERVING}));
  EXPECT_FALSE(client.answer(id).closed);
}

TEST_F(HealthTest, WatchOfAnUnknownServiceStaysOpen) {
  Session session(engine, now);
  TestClient client(session);
  const auto id = client.call(kWatch, ask("nobody"));
  client.run(now);
  ready = false;
  health.publish();
  client.run(now);
  EXPECT_EQ(states(client.answer(id).body), std::vector<int>{HealthCheckResponse::SERVICE_UNKNOWN});
  EXPECT_FALSE(client.answer(id).closed);
}

TEST_F(HealthTest, AWatcherThatDoesNotReadHoldsOneMessage) {
  Session session(engine, now);
  session.feed(std::string(NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN) +
                   frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\4\0\0\0\0", 6)) +
                   frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, request_headers(kWatch)) +
                   frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, ask("")),
               now);
  std::string out;
  session.pull(out, 1 << 20);
  for (int i = 0; i < 100; ++i) {
    ready = !ready;
    health.publish();
    session.pull(out, 1 << 20);
  }
  EXPECT_EQ(session.unsent(1), 7U);
}

TEST_F(HealthTest, WatchTakesOneMessage) {
  Session session(engine, now);
  TestClient client(session);
  const auto id = client.call(kWatch, ask("") + ask(""), false);
  client.run(now);
  EXPECT_EQ(client.answer(id).status(), "12");
  EXPECT_EQ(health.watchers(), 0U);
}

TEST_F(HealthTest, ForgetsWatchersThatLeave) {
  {
    Session session(engine, now);
    TestClient client(session);
    const auto first = client.call(kWatch, ask(""));
    client.call(kWatch, ask("ratelimit"));
    client.run(now);
    EXPECT_EQ(health.watchers(), 2U);
    client.reset(first);
    client.run(now);
    EXPECT_EQ(health.watchers(), 1U);
  }
  EXPECT_EQ(health.watchers(), 0U);
}

}  // namespace
}  // namespace weir::server::grpc
