#include "server/grpc/session.h"

#include <gtest/gtest.h>

#include "server/grpc/test_client.h"

namespace weir::server::grpc {
namespace {

using namespace std::chrono_literals;

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() { engine.add(echo); }

  MonoTime now{1h};
  Echo echo;
  Engine engine;
};

TEST_F(SessionTest, AnswersAUnaryCall) {
  Session session(engine, now);
  TestClient client(session);
  const auto id = client.call(Echo::kUnary, framed("hello"));
  client.run(now);
  const auto& answer = client.answer(id);
  EXPECT_EQ(answer.headers.at(":status"), "200");
  EXPECT_EQ(answer.headers.at("content-type"), "application/grpc");
  EXPECT_EQ(answer.status(), "0");
  EXPECT_EQ(answer.message(), "hello");
  EXPECT_TRUE(answer.closed);
  EXPECT_EQ(answer.reset, 0U);
  EXPECT_EQ(session.open_calls(), 0U);
  EXPECT_EQ(engine.counters().code(Code::ok).get(), 1U);
}

TEST_F(SessionTest, AnswersCallsInAnyOrder) {
  Session session(engine, now);
  TestClient client(session);
  const auto slow = client.call(Echo::kUnary, framed("later"));
  const auto quick = client.call(Echo::kUnary, framed("now"));
  client.run(now);
  EXPECT_TRUE(client.answer(quick).closed);
  EXPECT_FALSE(client.answer(slow).closed);
  Echo::answer(session, slow, "done");
  session.finish(slow, Code::ok);
  client.run(now);
  EXPECT_EQ(client.answer(slow).message(), "done");
}

TEST_F(SessionTest, TakesAMessageInAnyNumberOfPieces) {
  Session session(engine, now);
  TestClient client(session);
  const std::string wire = framed("in pieces");
  const auto id = client.call(Echo::kUnary, "", false);
  for (const char c : wire) {
    client.more(id, std::string_view(&c, 1), false);
    client.run(now);
    EXPECT_EQ(echo.messages, 0);
  }
  EXPECT_GT(session.partial_bytes(), 0U);
  client.more(id, "", true);
  client.run(now);
  EXPECT_EQ(client.answer(id).message(), "in pieces");
  EXPECT_EQ(session.partial_bytes(), 0U);
}

TEST_F(SessionTest, AnswersAreWholeBeyondTheFlowControlWindow) {
  Session session(engine, now);
  TestClient client(session);
  const std::string big(300'000, 'z');
  const auto id = client.call(Echo::kUnary, framed(big));
  client.run(now);
  EXPECT_EQ(client.answer(id).message(), big);
  EXPECT_EQ(client.answer(id).status(), "0");
}

TEST_F(SessionTest, StreamsBothWays) {
  Session session(engine, now);
  TestClient client(session);
  const auto id = client.call(Echo::kStream, framed("a") + framed("b"), false);
  client.run(now);
  EXPECT_EQ(client.answer(id).body, framed("a") + framed("b"));
  EXPECT_FALSE(client.answer(id).closed);
  client.more(id, framed("c"), true);
  client.run(now);
  EXPECT_EQ(client.answer(id).body, framed("a") + framed("b") + framed("c"));
  EXPECT_EQ(client.answer(id).status(), "0");
  EXPECT_TRUE(client.answer(id).closed);
}

TEST_F(SessionTest, HandsTheTimeoutToTheService) {
  Session session(engine, now);
  TestClient client(session);
  client.call(Echo::kUnary, framed("x"), true, {{"grpc-timeout", "20m"}});
  client.run(now);
  EXPECT_EQ(echo.last.timeout, 20ms);
  EXPECT_EQ(echo.last.began, now);
  client.call(Echo::kUnary, framed("x"));
  client.run(now);
  EXPECT_EQ(echo.last.timeout, std::nullopt);
}

TEST_F(SessionTest, RefusesAMalformedTimeout) {
  Session session(engine, now);
  TestClient client(session);
  const auto id = client.call(Echo::kUnary, framed("x"), true, {{"grpc-timeout", "soon"}});
  client.run(now);
  EXPECT_EQ(client.answer(id).status(), "13");
  EXPECT_EQ(echo.messages, 0);
}

TEST_F(SessionTest, SaysThatAMethodIsUnknown) {
  Session session(engine, now);
  TestClient client(session);
  const auto id = client.call("/test.Echo/Nothing", framed("x"));
  client.run(now);
  EXPECT_EQ(client.answer(id).headers.at(":status"), "200");
  EXPECT_EQ(client.answer(id).status(), "12");
  EXPECT_EQ(client.answer(id).headers.at("grpc-message"), "no such method");
}

TEST_F(SessionTest, RefusesWhatIsNotGrpc) {
  Session session(engine, now);
  TestClient client(session);
  const auto json = client.call(Echo::kUnary, "{}", true, {{"content-type", "application/json"}});
  const auto get = client.call(Echo::kUnary, "", true, {{":method", "GET"}});
  client.run(now);
  EXPECT_EQ(client.answer(json).headers.at(":status"), "415");
  EXPECT_EQ(client.answer(get).headers.at(":status"), "405");
  EXPECT_EQ(engine.counters().http_errors.get(), 2U);
}

TEST_F(SessionTest, RefusesCompressedMessagesAndNamesWhatItTakes) {
  Session session(engine, now);
  TestClient client(session);
  const auto gzip = client.call(Echo::kUnary, framed("x", 1), true, {{"grpc-encoding", "gzip"}});
  const auto bare = client.call(Echo::kUnary, framed("x", 1));
  const auto plain = client.call(Echo::kUnary, framed("x"), true, {{"grpc-encoding", "gzip"}});
  client.run(now);
  EXPECT_EQ(client.answer(gzip).status(), "12");
  EXPECT_EQ(client.answer(gzip).headers.at("grpc-accept-encoding"), "identity");
  EXPECT_EQ(client.answer(bare).status(), "13");
  EXPECT_EQ(client.answer(plain).status(), "0");
}

TEST_F(SessionTest, AUnaryMethodTakesExactlyOneMessage) {
  Session session(engine, now);
  TestClient client(session);
  const auto none = client.call(Echo::kUnary, "");
  const auto two = client.call(Echo::kUnary, framed("a") + framed("b"));
  const auto cut = client.call(Echo::kUnary, framed("abc").substr(0, 7));
  const auto nonsense = client.call(Echo::kUnary, "\x07nonsense");
  client.run(now);
  EXPECT_EQ(client.answer(none).status(), "12");
  EXPECT_EQ(client.answer(two).status(), "12");
  EXPECT_EQ(client.answer(cut).status(), "13");
  EXPECT_EQ(client.answer(nonsense).status(), "13");
  EXPECT_EQ(echo.messages, 0);
}

TEST_F(SessionTest, RefusesALongMessageWithoutReadingIt) {
  SessionLimits limits;
  limits.max_message_bytes = 1000;
  Engine small(limits);
  small.add(echo);
  Session session(small, now);
  TestClient client(session);
  const auto id = client.call(Echo::kUnary, framed(std::string(5000, 'x')));
  client.run(now);
  EXPECT_EQ(client.answer(id).status(), "8");
  EXPECT_EQ(echo.messages, 0);
  EXPECT_EQ(session.partial_bytes(), 0U);
  const auto fits = client.call(Echo::kUnary, framed(std::string(1000, 'x')));
  client.run(now);
  EXPECT_EQ(client.answer(fits).status(), "0");
}

TEST_F(SessionTest, EndsAnEarlyAnswerWithAResetThatIsNoError) {
  Session session(engine, now);
  TestClient client(session);
  const auto id = client.call("/no/Method", framed("x"), false);
  client.run(now);
  EXPECT_EQ(client.answer(id).status(), "12");
  EXPECT_TRUE(client.answer(id).closed);
  EXPECT_EQ(client.answer(id).reset, static_cast<std::uint32_t>(NGHTTP2_NO_ERROR));
  EXPECT_EQ(session.open_calls(), 0U);
}

TEST_F(SessionTest, TellsTheServiceOfCallsThatLeave) {
  Session session(engine, now);
  TestClient client(session);
  const auto id = client.call(Echo::kUnary, framed("later"));
  client.run(now);
  client.reset(id);
  client.run(now);
  EXPECT_EQ(echo.gone, std::vector<CallId>{id});
  EXPECT_EQ(engine.counters().abandoned.get(), 1U);
  // A late answer reaches nobody.
  EXPECT_EQ(session.append_message(id, 3), nullptr);
  session.finish(id, Code::ok);
  EXPECT_EQ(engine.counters().code(Code::ok).get(), 0U);
}

TEST_F(SessionTest, TellsTheServiceWhenTheConnectionGoes) {
  std::int32_t id = 0;
  {
    Session session(engine, now);
    TestClient client(session);
    id = client.call(Echo::kUnary, framed("later"));
    client.run(now);
  }
  EXPECT_EQ(echo.gone, std::vector<CallId>{id});
  EXPECT_EQ(engine.counters().sessions_open.get(), 0U);
  EXPECT_EQ(engine.counters().calls_open.get(), 0U);
}

TEST_F(SessionTest, AnswersPings) {
  Session session(engine, now);
  std::string out;
  session.feed(preface() + frame(NGHTTP2_PING, 0, 0, "8 bytes!"), now);
  session.pull(out, 1 << 20);
  bool answered = false;
  for (const SentFrame& one : frames_of(out)) {
    answered = answered || (one.type == NGHTTP2_PING && one.flags == NGHTTP2_FLAG_ACK &&
                            one.payload == "8 bytes!");
  }
  EXPECT_TRUE(answered);
}

TEST_F(SessionTest, DrainsWithoutLosingACall) {
  Session session(engine, now);
  TestClient client(session);
  const auto open = client.call(Echo::kUnary, framed("later"));
  client.run(now);
  session.drain(now);
  // On the wire before the notice is heard: still answered.
  std::string notice;
  session.pull(notice, 1 << 20);
  const auto crossing = client.call(Echo::kUnary, framed("crossing"));
  const std::uint8_t* data = nullptr;
  for (auto size = nghttp2_session_mem_send(client.http2(), &data); size > 0;
       size = nghttp2_session_mem_send(client.http2(), &data)) {
    session.feed({reinterpret_cast<const char*>(data), static_cast<std::size_t>(size)}, now);
  }
  nghttp2_session_mem_recv(client.http2(), reinterpret_cast<const std::uint8_t*>(notice.data()),
                           notice.size());
  client.run(now);
  EXPECT_EQ(client.answer(crossing).message(), "crossing");
  EXPECT_EQ(client.goaways(), 2);
  EXPECT_FALSE(session.finished());
  Echo::answer(session, open, "done");
  session.finish(open, Code::ok);
  client.run(now);
  EXPECT_EQ(client.answer(open).message(), "done");
  EXPECT_TRUE(session.finished());
  EXPECT_EQ(session.fault(), Fault::none);
}

TEST_F(SessionTest, DrainsAPeerThatDoesNotAnswerPings) {
  Session session(engine, now);
  session.feed(preface(), now);
  session.drain(now);
  std::string out;
  session.pull(out, 1 << 20);
  session.sweep(now + 2s);
  out.clear();
  session.pull(out, 1 << 20);
  EXPECT_EQ(goaway_error(out), NGHTTP2_NO_ERROR);
  EXPECT_TRUE(session.finished());
}

TEST_F(SessionTest, TellsAnHttp1ClientWhatThePortSpeaks) {
  Session session(engine, now);
  EXPECT_FALSE(session.feed("GET /healthz HTTP/1.1\r\nHost: weir\r\n\r\n", now));
  std::string out;
  session.pull(out, 1 << 20);
  EXPECT_TRUE(out.starts_with("HTTP/1.1 400 ")) << out;
  const auto body = out.substr(out.find("\r\n\r\n") + 4);
  EXPECT_NE(out.find("Content-Length: " + std::to_string(body.size()) + "\r\n"), std::string::npos);
  EXPECT_TRUE(session.finished());
  EXPECT_EQ(session.fault(), Fault::not_http2);
}

TEST_F(SessionTest, EndsTheConnectionOnAFrameThatBreaksTheRules) {
  Session session(engine, now);
  session.feed(preface() + frame(NGHTTP2_DATA, 0, 1, "idle stream"), now);
  std::string out;
  session.pull(out, 1 << 20);
  EXPECT_EQ(goaway_error(out), NGHTTP2_PROTOCOL_ERROR);
  EXPECT_TRUE(session.finished());
  EXPECT_EQ(session.fault(), Fault::protocol);
  EXPECT_FALSE(session.feed(frame(NGHTTP2_PING, 0, 0, "8 bytes!"), now));
}

TEST_F(SessionTest, EndsOnlyTheStreamOnAHeaderThatBreaksTheRules) {
  Session session(engine, now);
  TestClient client(session);
  const auto bad = client.call(Echo::kUnary, framed("x"), true, {{"connection", "close"}});
  client.run(now);
  EXPECT_TRUE(client.answer(bad).closed);
  EXPECT_EQ(client.answer(bad).reset, static_cast<std::uint32_t>(NGHTTP2_PROTOCOL_ERROR));
  const auto good = client.call(Echo::kUnary, framed("y"));
  client.run(now);
  EXPECT_EQ(client.answer(good).message(), "y");
}

}  // namespace
}  // namespace weir::server::grpc
