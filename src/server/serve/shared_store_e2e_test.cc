// The HTTP door on a store that answers later, or not at all.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "server/serve/served_process.h"
#include "testing/redis_server.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

std::string policy(const testing::RedisServer& redis, const std::string& deadline) {
  return "store: {url: 'redis://127.0.0.1:" + std::to_string(redis.port()) +
         "/0', deadline: " + deadline + R"(}
unmatched: refuse
routes:
  login:
    match: {method: POST, path: /login}
    limits: ["10 per hour by ip"]
    protects: security
)";
}

std::string post(const std::string& body) {
  return "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}
const std::string kByRoute = post(R"({"route":"login","descriptors":{"ip":"192.0.2.7"}})");
const std::string kByRequest =
    post(R"({"request":{"method":"POST","path":"/login","peer":"192.0.2.7"}})");

TEST(SharedStore, AnswersPipelinedChecksInTheirOrder) {
  testing::RedisServer redis;
  ServedProcess weir(policy(redis, "2s"));
  ASSERT_TRUE(weir.ready()) << weir.err();
  TestClient client(weir.http());
  std::string many;
  for (int i = 0; i < 100; ++i) many += i % 2 == 0 ? kByRoute : kByRequest;
  many += "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n";
  ASSERT_TRUE(client.send(many));
  // Ten in all, whichever way they are asked for; and none overtakes another.
  for (int i = 0; i < 100; ++i) {
    const auto answer = client.receive();
    ASSERT_TRUE(answer) << i;
    ASSERT_EQ(answer->status, i < 10 ? 200 : 429) << i << answer->body;
    if (i < 10) {
      EXPECT_THAT(answer->body, HasSubstr("\"remaining\":" + std::to_string(9 - i))) << i;
    }
  }
  const auto last = client.receive();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->status, 404);
}

TEST(SharedStore, EveryAnswerComesWhileTheStoreHangs) {
  testing::RedisServer redis;
  ServedProcess weir(policy(redis, "20ms"));
  ASSERT_TRUE(weir.ready()) << weir.err();
  ASSERT_TRUE(ServedProcess::within([&] {
    TestClient client(weir.http());
    client.send(kByRoute);
    return client.receive().value_or(TestClient::Answer{}).status == 200;
  }));
  redis.pause();
  TestClient client(weir.http());
  std::string many;
  for (int i = 0; i < 200; ++i) many += i % 2 == 0 ? kByRoute : kByRequest;
  ASSERT_TRUE(client.send(many));
  for (int i = 0; i < 200; ++i) {
    const auto answer = client.receive();
    ASSERT_TRUE(answer) << i;
    EXPECT_EQ(answer->status, 503) << answer->body;
    EXPECT_THAT(answer->body, HasSubstr("temporary-reduced-capacity"));
    EXPECT_TRUE(answer->has("Weir-Rung: policy"));
  }
  redis.resume();
  TestClient::Answer last;
  const bool back = ServedProcess::within([&] {
    last = client.send(kByRoute) ? client.receive().value_or(TestClient::Answer{})
                                 : TestClient::Answer{};
    return last.status == 200;
  });
  EXPECT_TRUE(back) << last.status << last.body << weir.admin("GET", "/store").body;
}

// That it cannot be asked is no client's fault: a 429 says that somebody's part was used up, and
// nothing else does.
TEST(SharedStore, OpenAndBoundedRoutesAnswerAStoreThatIsGoneByTheirPolicies) {
  testing::RedisServer redis;
  ServedProcess weir("store: {url: 'redis://127.0.0.1:" + std::to_string(redis.port()) +
                     R"(/0', deadline: 50ms, workers: {of: 2, index: 0}}
inputs: [user]
routes:
  search: {limits: [{requests: 4, per: hour, by: [user]}], protects: capacity}
  status: {limits: [{requests: 4, per: hour, by: [user]}], protects: nothing}
)");
  ASSERT_TRUE(weir.ready()) << weir.err();
  redis.kill();
  TestClient client(weir.http());
  const auto ask = [&](const std::string& route, int cost) {
    client.send(post(R"({"route":")" + route + R"(","descriptors":{"user":"u"},"cost":)" +
                     std::to_string(cost) + "}"));
    return client.receive().value_or(TestClient::Answer{});
  };
  for (int i = 0; i < 20; ++i) {
    const auto open = ask("status", 1);
    EXPECT_EQ(open.status, 200) << open.body;
    EXPECT_TRUE(open.has("Weir-Rung: policy"));
  }
  const auto too_much = ask("search", 3);
  EXPECT_EQ(too_much.status, 503) << too_much.body;
  EXPECT_TRUE(too_much.has("Weir-Rung: policy"));
  EXPECT_TRUE(too_much.has("Retry-After: "));
  EXPECT_THAT(too_much.body, HasSubstr("temporary-reduced-capacity"));
  EXPECT_THAT(too_much.body, HasSubstr("cannot hold this request"));
  for (int i = 0; i < 4; ++i) {
    const auto part = ask("search", 1);
    EXPECT_EQ(part.status, i < 2 ? 200 : 429) << part.body;
    EXPECT_TRUE(part.has("Weir-Rung: share"));
  }
}

TEST(SharedStore, AnswersForClientsThatHaveGoneGoNowhere) {
  testing::RedisServer redis;
  ServedProcess weir(policy(redis, "300ms"));
  ASSERT_TRUE(weir.ready()) << weir.err();
  redis.pause();
  for (int i = 0; i < 50; ++i) {
    TestClient client(weir.http());
    client.send(kByRoute + kByRequest);
  }
  redis.resume();
  EXPECT_TRUE(ServedProcess::within([&] {
    TestClient client(weir.http());
    client.send(post(R"({"route":"login","descriptors":{"ip":"192.0.2.8"}})"));
    return client.receive().value_or(TestClient::Answer{}).status == 200;
  }));
  const bool gone = ServedProcess::within([&] {
    return weir.admin("GET", "/metrics").body.find("weir_connections 0\n") != std::string::npos;
  });
  EXPECT_TRUE(gone) << weir.admin("GET", "/metrics").body;
}

// A server that nobody asks finds out by itself, whether the store is gone or hangs.
TEST(SharedStore, AnOutageInWhichNobodyAsksIsLoggedOnceWhenItBeginsAndOnceWhenItEnds) {
  testing::RedisServer redis;
  ServedProcess weir(policy(redis, "100ms"));
  ASSERT_TRUE(weir.ready()) << weir.err();
  const auto lines = [&](const std::string& event) {
    const std::string log = weir.err();
    int count = 0;
    for (std::size_t at = log.find(event); at != std::string::npos; at = log.find(event, at + 1)) {
      ++count;
    }
    return count;
  };
  const auto logged = [&](const std::string& event, int times) {
    EXPECT_TRUE(ServedProcess::within([&] { return lines(event) == times; })) << weir.err();
  };
  redis.kill();
  logged("event=store_away ", 1);
  EXPECT_THAT(weir.admin("GET", "/store").body,
              ::testing::AllOf(HasSubstr("\"state\":\"closed\""), HasSubstr("\"away\":true")))
      << "nobody asked, so the breaker heard of nothing";
  redis.start();
  logged("event=store_back ", 1);
  redis.pause();
  logged("event=store_away ", 2);
  redis.resume();
  logged("event=store_back ", 2);
  EXPECT_EQ(lines("event=store_away "), 2) << weir.err();
  EXPECT_EQ(lines("event=store_answers_again"), 0) << "the breaker never opened: " << weir.err();
}

// Who counts on it hears at the start, and whenever they look, that it would be of no help.
TEST(SharedStore, AFallbackThatIsAwayIsSaidInTheReadyTextAndByReadyz) {
  testing::RedisServer first;
  testing::RedisServer second;
  second.kill();
  const std::string url = "redis://127.0.0.1:" + std::to_string(second.port()) + "/0";
  std::string text = policy(first, "500ms");
  text.insert(text.find(", deadline"), ", fallback: '" + url + "'");
  ServedProcess weir(text);
  ASSERT_TRUE(weir.ready()) << weir.err();
  EXPECT_THAT(weir.out(), HasSubstr("\n  fallback " + url + " does not answer: "));
  const auto readyz = weir.admin("GET", "/readyz");
  EXPECT_EQ(readyz.status, 200);
  EXPECT_THAT(readyz.body, HasSubstr("{\"ready\":true,\"degraded\":true,"));
  EXPECT_THAT(readyz.body, HasSubstr("\"store_answers\":true"));
  EXPECT_THAT(readyz.body, HasSubstr("\"fallback_answers\":false,\"why_no_fallback\":\""));
  second.start();
  EXPECT_TRUE(ServedProcess::within([&] {
    const std::string body = weir.admin("GET", "/readyz").body;
    return body.find("\"degraded\":false") != std::string::npos &&
           body.find("\"fallback_answers\":true") != std::string::npos;
  })) << weir.admin("GET", "/readyz").body;
}

TEST(SharedStore, AnOutageIsExplainedForWhoAsksAsOften) {
  testing::RedisServer redis;
  ServedProcess weir(policy(redis, "20ms"));
  ASSERT_TRUE(weir.ready()) << weir.err();
  const std::string outage = "/explain?outage=10s&format=json";
  EXPECT_THAT(weir.admin("GET", outage).body, HasSubstr("\"offered\":null"));
  const auto offered = weir.admin("GET", outage + "&offered=30+clients%20at%20200%20per%20second");
  EXPECT_EQ(offered.status, 200);
  EXPECT_THAT(offered.body, HasSubstr("\"offered\":"));
  EXPECT_THAT(offered.body, ::testing::Not(HasSubstr("\"offered\":null")));
}

// Bytes that lie unread at sockets of a port, as the kernel tells.
std::uint64_t unread(std::uint16_t port) {
  std::ifstream table("/proc/net/tcp");
  std::uint64_t bytes = 0;
  for (std::string line; std::getline(table, line);) {
    unsigned local = 0;
    unsigned waiting = 0;
    if (std::sscanf(line.c_str(), " %*d: %*x:%x %*x:%*x %*x %*x:%x", &local, &waiting) != 2)
      continue;
    if (local == port) bytes += waiting;
  }
  return bytes;
}

TEST(SharedStore, DrainWaitsForTheStoresDeadline) {
  testing::RedisServer redis;
  ServedProcess weir(policy(redis, "1s"));
  ASSERT_TRUE(weir.ready()) << weir.err();
  ASSERT_TRUE(ServedProcess::within([&] {
    TestClient client(weir.http());
    client.send(kByRoute);
    return client.receive().value_or(TestClient::Answer{}).status == 200;
  }));
  redis.pause();
  const std::uint64_t before = unread(redis.port());
  TestClient client(weir.http());
  client.send(kByRoute);
  // It is asked when the signal comes.
  ASSERT_TRUE(ServedProcess::within([&] { return unread(redis.port()) > before; }));
  weir.signal(SIGINT);
  const auto answer = client.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 503);
  EXPECT_EQ(weir.wait(), 0);
}

}  // namespace
}  // namespace weir::server
