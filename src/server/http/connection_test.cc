#include "server/http/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <regex>
#include <vector>

#include "server/http/memory_stream.h"
#include "testing/manual_clock.h"

namespace weir::server::http {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Answers with what it was asked: "METHOD target body". Holds answers back on paths that begin with
// /later, until told.
class EchoHandler final : public Handler {
 public:
  void handle(const Request& request, Exchange& exchange) override {
    ++handled;
    if (request.path().starts_with("/later")) {
      waiting.push_back(exchange.later());
      return;
    }
    if (request.path() == "/silent") return;
    std::string text = std::string(request.method) + " " + std::string(request.target) + " ";
    text += request.body;
    exchange.body(200, "text/plain", text);
  }
  int handled = 0;
  std::vector<Later> waiting;
};

// One connection on a lane that nobody runs: the test is its thread.
struct Rig {
  explicit Rig(Bounds bounds = {}) : lane({.clock = &clock}), metrics() {
    auto made = std::make_unique<EchoHandler>();
    handler = made.get();
    door.emplace(std::move(made), &metrics, bounds);
    auto stream_made = std::make_unique<MemoryStream>(client);
    stream = stream_made.get();
    door->open(lane, std::move(stream_made));
  }
  void pass(Nanos time) {
    clock.advance(time);
    lane.sweep();
    if (lane.connections() != 0) stream->run();
  }
  void drain() {
    lane.drain([] {});
    stream->run();
  }
  bool gone() const { return lane.connections() == 0; }
  std::string rejected(const std::string& bound) const {
    std::string text;
    metrics.write(text);
    std::smatch found;
    const std::regex line("weir_http_rejected_total\\{bound=\"" + bound + "\"\\} (\\d+)");
    return std::regex_search(text, found, line) ? found[1].str() : "none";
  }

  testing::ManualClock clock;
  Lane lane;
  render::Metrics metrics;
  MemoryClient client;
  EchoHandler* handler = nullptr;
  std::optional<HttpDoor> door;
  MemoryStream* stream = nullptr;
};

std::string get(const std::string& target, const std::string& fields = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: weir\r\n" + fields + "\r\n";
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) {
    ++found;
  }
  return found;
}

TEST(HttpConnection, SaysOfACodedBodyThatItReadsNone) {
  Rig rig;
  rig.stream->feed(
      "POST /a HTTP/1.1\r\nHost: weir\r\nContent-Encoding: gzip\r\nContent-Length: "
      "2\r\n\r\n\x1f\x8b");
  EXPECT_THAT(rig.client.received, StartsWith("HTTP/1.1 415 Unsupported Media Type\r\n"));
  EXPECT_THAT(rig.client.received, HasSubstr("Accept-Encoding: identity\r\n"));
  EXPECT_THAT(rig.client.received, HasSubstr("uncompressed"));
  rig.client.received.clear();
  // The next is read where it begins; one that holds itself, or nothing, is no fault.
  rig.stream->feed(
      "POST /b HTTP/1.1\r\nHost: weir\r\nContent-Encoding: Identity\r\nContent-Length: "
      "2\r\n\r\nhi");
  EXPECT_THAT(rig.client.received, EndsWith("POST /b hi"));
  rig.client.received.clear();
  rig.stream->feed(get("/c", "Content-Encoding: gzip\r\n"));
  EXPECT_THAT(rig.client.received, EndsWith("GET /c "));
}

TEST(HttpConnection, AnswersAndStaysOpen) {
  Rig rig;
  rig.stream->feed(get("/a"));
  EXPECT_THAT(rig.client.received, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(rig.client.received, HasSubstr("Content-Length: 7\r\n"));
  EXPECT_THAT(rig.client.received, HasSubstr("Date: "));
  EXPECT_THAT(rig.client.received, Not(HasSubstr("Connection:")));
  EXPECT_THAT(rig.client.received, EndsWith("\r\n\r\nGET /a "));
  rig.client.received.clear();
  rig.stream->feed("POST /b HTTP/1.1\r\nHost: weir\r\nContent-Length: 2\r\n\r\nhi");
  EXPECT_THAT(rig.client.received, EndsWith("POST /b hi"));
  EXPECT_FALSE(rig.client.closed);
}

TEST(HttpConnection, AnswersPipelinedRequestsInOrderWhateverTheirPieces) {
  const std::string bytes = get("/1") + "\r\n" + get("/2") +
                            "POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                            "2\r\nxy\r\n0\r\n\r\n" +
                            get("/4", "Connection: close\r\n") + get("/5");
  std::string expected;
  for (std::size_t piece = bytes.size(); piece >= 1; piece = piece > 40 ? piece / 2 : piece - 1) {
    Rig rig;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      rig.stream->feed(bytes.substr(at, piece));
    }
    if (expected.empty()) expected = rig.client.received;
    ASSERT_EQ(rig.client.received, expected) << "pieces of " << piece;
    EXPECT_EQ(rig.handler->handled, 4);
    EXPECT_TRUE(rig.client.send_shut);
    rig.stream->end();
    EXPECT_TRUE(rig.gone());
  }
  const std::size_t three = expected.find("POST /3 xy");
  EXPECT_LT(expected.find("GET /2 "), three);
  EXPECT_LT(three, expected.find("GET /4 "));
  EXPECT_EQ(count(expected, "Connection: close"), 1u);
}

TEST(HttpConnection, AnswersInOrderWhenAnswersComeLate) {
  Rig rig;
  rig.stream->feed(get("/later/1") + get("/2") + get("/later/3") + get("/4"));
  EXPECT_EQ(rig.client.received, "");
  ASSERT_EQ(rig.handler->waiting.size(), 2u);
  rig.handler->waiting[1].send([](Responder& r) { r.body(200, "text/plain", "third"); });
  EXPECT_EQ(rig.client.received, "");
  rig.handler->waiting[0].send([](Responder& r) { r.problem(503, "First."); });
  const std::string& got = rig.client.received;
  EXPECT_THAT(got, StartsWith("HTTP/1.1 503 "));
  EXPECT_LT(got.find("First."), got.find("GET /2 "));
  EXPECT_LT(got.find("GET /2 "), got.find("third"));
  EXPECT_LT(got.find("third"), got.find("GET /4 "));
  rig.client.received.clear();
  rig.stream->feed(get("/5"));
  EXPECT_THAT(rig.client.received, HasSubstr("GET /5 "));
}

TEST(HttpConnection, LateAnswersToAClientThatHasGoneGoNowhere) {
  Rig rig;
  rig.stream->feed(get("/later"));
  rig.stream->owner().on_failed();
  rig.stream->run();
  ASSERT_TRUE(rig.gone());
  rig.handler->waiting[0].send([](Responder& r) { r.body(200, "text/plain", "late"); });
  EXPECT_EQ(rig.client.received, "");
}

TEST(HttpConnection, AnswersAClientThatSendsNothingMore) {
  Rig rig;
  rig.stream->feed(get("/1") + get("/later") + get("/3"));
  rig.stream->end();
  EXPECT_FALSE(rig.client.closed);
  rig.handler->waiting[0].send([](Responder& r) { r.body(200, "text/plain", "2"); });
  EXPECT_THAT(rig.client.received, HasSubstr("GET /3 "));
  rig.stream->run();
  EXPECT_TRUE(rig.gone());
}

TEST(HttpConnection, AnswersEveryRequestEvenIfTheHandlerForgets) {
  Rig rig;
  rig.stream->feed(get("/silent"));
  EXPECT_THAT(rig.client.received, StartsWith("HTTP/1.1 500 "));
}

TEST(HttpConnection, HeadHasLengthsAndNoBody) {
  Rig rig;
  rig.stream->feed("HEAD /a HTTP/1.1\r\nHost: weir\r\n\r\n" + get("/b"));
  const std::size_t end = rig.client.received.find("\r\n\r\n");
  EXPECT_THAT(rig.client.received.substr(0, end), HasSubstr("Content-Length: 8"));
  EXPECT_THAT(rig.client.received.substr(end + 4), StartsWith("HTTP/1.1 200 OK"));
}

TEST(HttpConnection, Http10ClosesUnlessAskedNotTo) {
  Rig rig;
  rig.stream->feed("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_THAT(rig.client.received, HasSubstr("Connection: keep-alive\r\n"));
  EXPECT_FALSE(rig.client.send_shut);
  rig.stream->feed("GET /a HTTP/1.0\r\n\r\n");
  EXPECT_THAT(rig.client.received, HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(rig.client.send_shut);
}

TEST(HttpConnection, SaysContinueOnceAndOnlyToThoseWhoWait) {
  Rig rig;
  const std::string head =
      "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
  rig.stream->feed(head.substr(0, 20));
  EXPECT_EQ(rig.client.received, "");
  rig.stream->feed(head.substr(20));
  EXPECT_EQ(rig.client.received, "HTTP/1.1 100 Continue\r\n\r\n");
  rig.stream->feed("bo");
  rig.stream->feed("dy");
  EXPECT_EQ(count(rig.client.received, "100 Continue"), 1u);
  EXPECT_THAT(rig.client.received, EndsWith("POST /a body"));
  rig.client.received.clear();
  rig.stream->feed(head + "body");
  EXPECT_THAT(rig.client.received, StartsWith("HTTP/1.1 200 OK"));
}

TEST(HttpConnection, RefusesATooLongBodyBeforeItIsSent) {
  Rig rig;
  rig.stream->feed(
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_THAT(rig.client.received, StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(rig.rejected("body_bytes"), "1");
}

TEST(HttpConnection, TakesABodyOfTheWholeBound) {
  Rig rig;
  const std::string body(Bounds{}.body_bytes, 'b');
  rig.stream->feed("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1048576\r\n\r\n" + body);
  EXPECT_THAT(rig.client.received, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(rig.client.received, EndsWith(body));
}

TEST(HttpConnection, AMalformedRequestGetsAProblemAndTheEnd) {
  Rig rig;
  rig.stream->feed(get("/1") + "BAD\r\n\r\n" + get("/3"));
  EXPECT_EQ(rig.handler->handled, 1);
  EXPECT_THAT(rig.client.received, HasSubstr("GET /1 HTTP/1.1 400 Bad Request\r\n"));
  EXPECT_THAT(rig.client.received, HasSubstr("Content-Type: application/problem+json\r\n"));
  EXPECT_THAT(rig.client.received, HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(rig.client.send_shut);
  // What the client still sends is read, so that it can read our answer; then time is up.
  rig.stream->feed(std::string(100'000, 'x'));
  EXPECT_FALSE(rig.client.closed);
  rig.pass(Bounds{}.linger);
  EXPECT_TRUE(rig.gone());
}

TEST(HttpConnection, CountsWhatIsTooLong) {
  const std::string long_target = "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n";
  Rig target;
  target.stream->feed(long_target);
  EXPECT_THAT(target.client.received, StartsWith("HTTP/1.1 414 "));
  EXPECT_EQ(target.rejected("target_bytes"), "1");
  Rig header;
  header.stream->feed(get("/", "A: " + std::string(20'000, 'a') + "\r\n"));
  EXPECT_THAT(header.client.received, StartsWith("HTTP/1.1 431 "));
  EXPECT_EQ(header.rejected("header_bytes"), "1");
}

TEST(HttpConnection, ClosesWhatIsIdle) {
  Rig rig;
  rig.pass(Bounds{}.idle - 1ns);
  EXPECT_FALSE(rig.gone());
  rig.stream->feed(get("/a"));
  rig.client.received.clear();
  rig.pass(Bounds{}.idle - 1ns);
  EXPECT_FALSE(rig.gone());
  rig.pass(1ns);
  EXPECT_TRUE(rig.gone());
  EXPECT_EQ(rig.client.received, "");
  EXPECT_EQ(rig.rejected("idle_time"), "1");
}

TEST(HttpConnection, BlankLinesDoNotKeepAConnectionOpen) {
  Rig rig;
  rig.stream->feed("\r\n\r\n");
  rig.pass(Bounds{}.idle / 2);
  rig.stream->feed("\r\n\r\n");
  rig.pass(Bounds{}.idle / 2);
  EXPECT_TRUE(rig.gone());
}

TEST(HttpConnection, ASlowRequestHasOneDeadlineFromFirstByteToLast) {
  Rig rig;
  const std::string bytes = get("/slow");
  for (std::size_t i = 0; i < 9; ++i) {
    rig.stream->feed(bytes.substr(i, 1));
    rig.pass(Bounds{}.receive / 10);
  }
  EXPECT_EQ(rig.client.received, "");
  rig.stream->feed("x");
  rig.pass(Bounds{}.receive / 10);
  EXPECT_THAT(rig.client.received, StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ(rig.rejected("receive_time"), "1");
  rig.stream->end();
  EXPECT_TRUE(rig.gone());
}

TEST(HttpConnection, EachRequestHasADeadlineOfItsOwn) {
  Rig rig;
  for (int i = 0; i < 5; ++i) {
    const std::string bytes = get("/slow");
    rig.stream->feed(bytes.substr(0, 10));
    rig.pass(Bounds{}.receive - 1ns);
    rig.stream->feed(bytes.substr(10) + "GET");
    rig.pass(Bounds{}.receive - 1ns);
    rig.stream->feed(" /x HTTP/1.1\r\nHost: a\r\n\r\n");
  }
  EXPECT_EQ(rig.handler->handled, 10);
}

TEST(HttpConnection, ASlowBodyHasTheSameDeadline) {
  Rig rig;
  rig.stream->feed("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbo");
  rig.pass(Bounds{}.receive);
  EXPECT_THAT(rig.client.received, StartsWith("HTTP/1.1 408 "));
}

TEST(HttpConnection, WaitsForItsOwnAnswersWithoutBlamingTheClient) {
  Rig rig;
  rig.stream->feed(get("/later"));
  rig.pass(1h);
  EXPECT_FALSE(rig.client.closed);
  rig.handler->waiting[0].send([](Responder& r) { r.body(200, "text/plain", "at last"); });
  EXPECT_THAT(rig.client.received, EndsWith("at last"));
}

TEST(HttpConnection, StopsReadingForAClientThatDoesNotTakeItsAnswers) {
  const Bounds bounds{.unsent_bytes = 2000};
  Rig rig(bounds);
  rig.client.window = 0;
  std::string many;
  for (int i = 0; i < 500; ++i) many += get("/" + std::to_string(i));
  rig.stream->feed(many);
  // At most the bound and one answer over it.
  const int before = rig.handler->handled;
  EXPECT_LE(before, 16);
  for (int i = 0; i < 10'000 && rig.handler->handled < 500; ++i) rig.stream->take(1000);
  EXPECT_EQ(rig.handler->handled, 500);
  rig.stream->take(1 << 20);
  for (int i = 0; i < 500; ++i) {
    EXPECT_THAT(rig.client.received, HasSubstr("GET /" + std::to_string(i) + " "));
  }
}

TEST(HttpConnection, ClosesOnAClientThatNeverTakesItsAnswer) {
  Rig rig;
  rig.client.window = 10;
  rig.stream->feed(get("/a"));
  rig.pass(Bounds{}.send - 1ns);
  rig.stream->take(10);  // a byte now and then is not enough
  EXPECT_FALSE(rig.client.closed);
  rig.pass(1ns);
  EXPECT_TRUE(rig.gone());
  EXPECT_EQ(rig.rejected("send_time"), "1");
}

TEST(HttpConnection, BoundsRequestsAheadOfTheirAnswers) {
  const Bounds bounds{.pipelined = 3};
  Rig rig(bounds);
  std::string many;
  for (int i = 0; i < 200; ++i) many += get("/later/" + std::to_string(i));
  rig.stream->feed(many);
  EXPECT_EQ(rig.handler->handled, 3);
  for (std::size_t i = 0; i < 200; ++i) {
    ASSERT_LT(i, rig.handler->waiting.size());
    EXPECT_LE(rig.handler->waiting.size(), i + 3);
    rig.handler->waiting[i].send([](Responder& r) { r.body(200, "text/plain", "x"); });
    rig.stream->run();
  }
  EXPECT_EQ(count(rig.client.received, "HTTP/1.1 200 OK"), 200u);
}

TEST(HttpConnection, DrainAnswersWhatIsOnItsWayAndSaysItIsTheLast) {
  Rig rig;
  rig.stream->feed(get("/1").substr(0, 12));
  rig.drain();
  rig.pass(Bounds{}.drain_idle * 2);
  EXPECT_FALSE(rig.client.closed);
  rig.stream->feed(get("/1").substr(12) + get("/2"));
  EXPECT_THAT(rig.client.received, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(rig.client.received, HasSubstr("Connection: close\r\n"));
  EXPECT_EQ(rig.handler->handled, 1);
  rig.stream->end();
  EXPECT_TRUE(rig.gone());
}

TEST(HttpConnection, DrainClosesWhatIsQuietAfterALastLook) {
  Rig rig;
  rig.stream->feed(get("/1"));
  rig.drain();
  rig.pass(Bounds{}.drain_idle - 1ns);
  EXPECT_FALSE(rig.client.closed);
  rig.pass(1ns);
  EXPECT_TRUE(rig.gone());
  EXPECT_EQ(rig.rejected("idle_time"), "0");
}

TEST(HttpConnection, DrainWaitsForLateAnswers) {
  Rig rig;
  rig.stream->feed(get("/later"));
  rig.drain();
  rig.pass(10s);
  EXPECT_FALSE(rig.client.closed);
  rig.handler->waiting[0].send([](Responder& r) { r.body(200, "text/plain", "done"); });
  EXPECT_THAT(rig.client.received, EndsWith("done"));
  rig.stream->run();
  rig.pass(Bounds{}.drain_idle);
  EXPECT_TRUE(rig.gone());
}

TEST(HttpConnection, TurnsAwayWithAReason) {
  Rig rig;
  MemoryClient late;
  rig.door->turn_away(rig.lane, std::make_unique<MemoryStream>(late));
  EXPECT_THAT(late.received, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(late.received, HasSubstr("Retry-After: 1\r\n"));
  EXPECT_THAT(late.received, HasSubstr("Connection: close\r\n"));
  EXPECT_EQ(rig.rejected("connections"), "1");
}

TEST(HttpConnection, EndsWithAClientThatTakesItsAnswersInPieces) {
  for (std::size_t window = 1; window < 400; window += 7) {
    Rig rig;
    rig.client.window = window;
    rig.stream->feed(get("/1") + get("/2"));
    rig.stream->take(1 << 20);
    EXPECT_THAT(rig.client.received, EndsWith("GET /2 "));
    rig.stream->end();
    EXPECT_TRUE(rig.gone()) << window;
  }
}

TEST(HttpConnection, GivesLargeBuffersBack) {
  Rig rig;
  rig.stream->feed("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n" +
                   std::string(900'000, 'b'));
  EXPECT_LE(static_cast<HttpConnection&>(rig.stream->owner()).held_bytes(), 64u * 1024);
}

}  // namespace
}  // namespace weir::server::http
