#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "server/serve/served_process.h"

namespace weir::server {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

const std::string kDrained =
    "routes:\n  r:\n    limits: [1000000000 per second]\n    protects: nothing\n";
const std::string kBody = R"({"route":"r"})";

TEST(Drain, ReadinessFallsFirst) {
  ServedProcess weir(kDrained, [](ServeOptions& options) { options.drain_delay = 60s; });
  TestClient kept(weir.http());
  ASSERT_TRUE(kept.ask("POST", "/v1/check", kBody));
  weir.signal(SIGTERM);
  ASSERT_TRUE(ServedProcess::within([&] { return weir.admin("GET", "/readyz").status == 503; }));
  EXPECT_THAT(weir.admin("GET", "/readyz").body, HasSubstr("\"reason\":\"draining\""));
  EXPECT_EQ(weir.admin("GET", "/healthz").status, 200);
  // Who still comes is served.
  EXPECT_EQ(weir.http("POST", "/v1/check", kBody).status, 200);
  EXPECT_TRUE(kept.ask("POST", "/v1/check", kBody));
  weir.signal(SIGTERM);
  EXPECT_EQ(weir.wait(), 128 + SIGTERM);  // the second one means it
}

TEST(Drain, EveryRequestThatWasSentIsAnswered) {
  ServedProcess weir(kDrained);
  std::atomic<bool> stopping{false};
  std::atomic<int> answered{0}, cut{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      for (;;) {
        TestClient client(weir.http());
        if (!client.connected()) return;  // no longer listening
        for (bool fresh = true;; fresh = false) {
          const auto answer = client.ask("POST", "/v1/check", kBody);
          if (!answer) {
            // A connection that the kernel took in the very moment in which listening ended may be
            // reset unseen by us; nobody was promised anything on it yet.
            if (fresh && stopping) return;
            ++cut;
            return;
          }
          ++answered;
          if (answer->has("Connection: close")) break;
        }
      }
    });
  }
  ASSERT_TRUE(ServedProcess::within([&] { return answered > 2000; }));
  stopping = true;
  weir.signal(SIGTERM);
  EXPECT_EQ(weir.wait(), 0);
  for (std::thread& each : callers) each.join();
  EXPECT_EQ(cut, 0);
  EXPECT_THAT(weir.err(), HasSubstr("event=drained"));
  EXPECT_THAT(weir.err(), HasSubstr("connections_cut=0"));
}

TEST(Drain, ARequestThatIsHalfSentIsAnswered) {
  ServedProcess weir(kDrained);
  TestClient client(weir.http());
  const std::string head = "POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 13\r\n\r\n";
  // Who has the answer to the first knows that the half of the second was read with it.
  client.send(head + kBody + head + "{\"rou");
  ASSERT_TRUE(client.receive());
  weir.signal(SIGINT);
  ASSERT_TRUE(ServedProcess::within([&] { return !TestClient(weir.http()).connected(); }));
  client.send("te\":\"r\"}");
  const auto answer = client.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_TRUE(answer->has("Connection: close"));
  EXPECT_EQ(weir.wait(), 0);
}

TEST(Drain, GraceEndsForClientsThatNeverFinish) {
  ServedProcess weir(kDrained, [](ServeOptions& options) { options.drain_grace = 200ms; });
  TestClient client(weir.http());
  client.send("POST /v1/check HTTP/1.1\r\nHost: a\r\nContent-Length: 13\r\n\r\n" + kBody +
              "POST /v1/check HTTP/1.1\r\n");
  ASSERT_TRUE(client.receive());
  weir.signal(SIGINT);
  EXPECT_EQ(weir.wait(), 0);
  EXPECT_THAT(weir.err(), HasSubstr("connections_cut=1"));
}

TEST(Drain, ClosesQuietConnectionsSoon) {
  ServedProcess weir(kDrained, [](ServeOptions& options) { options.drain_grace = 60s; });
  TestClient client(weir.http());
  ASSERT_TRUE(client.ask("POST", "/v1/check", kBody));
  weir.signal(SIGINT);
  EXPECT_EQ(client.rest(), "");
  EXPECT_EQ(weir.wait(), 0);
}

}  // namespace
}  // namespace weir::server
