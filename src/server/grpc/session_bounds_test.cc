// What one connection can make us hold or do, each with its constant.

#include <gtest/gtest.h>

#include "server/grpc/session.h"
#include "server/grpc/test_client.h"

namespace weir::server::grpc {
namespace {

using namespace std::chrono_literals;

class SessionBounds : public ::testing::Test {
 protected:
  SessionBounds() {
    limits.max_calls = 8;
    limits.max_message_bytes = 4096;
    limits.max_partial_bytes = 10'000;
    limits.max_header_bytes = 20'000;
    limits.control_burst = 100;
    limits.control_per_second = 10;
    limits.reset_burst = 50;
    limits.reset_per_second = 10;
  }

  // An engine with these limits, for as long as the test lasts.
  Engine& engine() {
    if (!engine_) {
      engine_ = std::make_unique<Engine>(limits);
      engine_->add(echo);
    }
    return *engine_;
  }
  std::string drained(Session& session) {
    std::string out;
    session.pull(out, 1 << 24);
    return out;
  }
  // Repeats one piece of input until the session ends the connection; how often it was taken.
  int feed_until_over(Session& session, std::string_view piece, int most = 100'000) {
    for (int i = 0; i < most; ++i) {
      if (!session.feed(piece, now)) return i;
      std::string out;
      session.pull(out, 1 << 20);
      most_output = std::max(most_output, out.size());
    }
    return most;
  }
  std::string headers(std::int32_t id, std::uint8_t flags = NGHTTP2_FLAG_END_HEADERS) {
    return frame(NGHTTP2_HEADERS, flags, id, request_headers(Echo::kUnary));
  }

  MonoTime now{1h};
  SessionLimits limits;
  Echo echo;
  std::size_t most_output = 0;

 private:
  std::unique_ptr<Engine> engine_;
};

TEST_F(SessionBounds, EndsAPingFlood) {
  Session session(engine(), now);
  session.feed(preface(), now);
  const int taken = feed_until_over(session, frame(NGHTTP2_PING, 0, 0, "12345678"));
  EXPECT_GE(taken, 90);
  EXPECT_LE(taken, 100);
  EXPECT_EQ(session.fault(), Fault::control_flood);
  EXPECT_EQ(goaway_error(drained(session)), NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_TRUE(session.finished());
}

TEST_F(SessionBounds, TakesPingsAtAnHonestRate) {
  Session session(engine(), now);
  session.feed(preface(), now);
  for (int i = 0; i < 1000; ++i) {
    now += 200ms;
    ASSERT_TRUE(session.feed(frame(NGHTTP2_PING, 0, 0, "12345678"), now)) << i;
    drained(session);
  }
}

TEST_F(SessionBounds, EndsASettingsFlood) {
  Session session(engine(), now);
  session.feed(preface(), now);
  const int taken = feed_until_over(session, frame(NGHTTP2_SETTINGS, 0, 0, ""));
  EXPECT_LE(taken, 100);
  EXPECT_EQ(session.fault(), Fault::control_flood);
  EXPECT_EQ(goaway_error(drained(session)), NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST_F(SessionBounds, EndsASettingsFrameOfTooManyEntries) {
  Session session(engine(), now);
  std::string entries;
  for (int i = 0; i < 1000; ++i) entries += std::string("\0\x04\0\0\xff\xff", 6);
  session.feed(preface() + frame(NGHTTP2_SETTINGS, 0, 0, entries), now);
  EXPECT_EQ(goaway_error(drained(session)), NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_TRUE(session.finished());
}

TEST_F(SessionBounds, EndsAWindowUpdateFlood) {
  Session session(engine(), now);
  session.feed(preface(), now);
  const int taken =
      feed_until_over(session, frame(NGHTTP2_WINDOW_UPDATE, 0, 0, std::string("\0\0\0\1", 4)));
  EXPECT_LE(taken, 100);
  EXPECT_EQ(session.fault(), Fault::control_flood);
}

TEST_F(SessionBounds, EndsAWindowThatOverflows) {
  Session session(engine(), now);
  session.feed(preface(), now);
  session.feed(frame(NGHTTP2_WINDOW_UPDATE, 0, 0, "\x7f\xff\xff\xff"), now);
  EXPECT_EQ(goaway_error(drained(session)), NGHTTP2_FLOW_CONTROL_ERROR);
}

TEST_F(SessionBounds, EndsAPriorityFlood) {
  Session session(engine(), now);
  session.feed(preface(), now);
  const int taken =
      feed_until_over(session, frame(NGHTTP2_PRIORITY, 0, 3, std::string("\0\0\0\0\x10", 5)));
  EXPECT_LE(taken, 100);
  EXPECT_EQ(session.fault(), Fault::control_flood);
}

// They start nothing and are answered by nothing, so nothing needs to be bounded.
TEST_F(SessionBounds, UnknownFramesCostNothingButTheirBytes) {
  Session session(engine(), now);
  session.feed(preface(), now);
  drained(session);
  EXPECT_EQ(feed_until_over(session, frame(0xbb, 0, 0, "what"), 1000), 1000);
  EXPECT_EQ(most_output, 0U);
}

TEST_F(SessionBounds, EndsAFloodOfEmptyData) {
  Session session(engine(), now);
  session.feed(preface() + headers(1), now);
  EXPECT_LE(feed_until_over(session, frame(NGHTTP2_DATA, 0, 1, "")), 100);
  EXPECT_EQ(session.fault(), Fault::control_flood);
}

TEST_F(SessionBounds, EndsAContinuationFlood) {
  Session session(engine(), now);
  session.feed(preface() + headers(1, 0), now);
  EXPECT_LE(feed_until_over(session, frame(NGHTTP2_CONTINUATION, 0, 1, "")), 100);
  EXPECT_TRUE(session.fault() == Fault::header_flood || session.fault() == Fault::control_flood);
  EXPECT_EQ(goaway_error(drained(session)), NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST_F(SessionBounds, EndsAHeaderListThatIsTooLong) {
  Session session(engine(), now);
  session.feed(preface() + headers(1, 0), now);
  const std::string more = literal_headers({{"x", std::string(9'000, 'v')}});
  EXPECT_LE(feed_until_over(session, frame(NGHTTP2_CONTINUATION, 0, 1, more)), 3);
  EXPECT_EQ(session.fault(), Fault::header_flood);
  EXPECT_EQ(goaway_error(drained(session)), NGHTTP2_ENHANCE_YOUR_CALM);
}

TEST_F(SessionBounds, EndsAHeaderBombThatIsSmallOnTheWire) {
  Session session(engine(), now);
  // One long header enters the dynamic table; one byte each then repeats it.
  std::string block = request_headers(Echo::kUnary);
  block += "\x40\x01x\x7f";
  std::size_t size = 3000 - 127;
  for (; size >= 128; size >>= 7) block += static_cast<char>(size % 128 + 128);
  block += static_cast<char>(size);
  block += std::string(3000, 'v');
  block += std::string(1000, '\xbe');
  EXPECT_FALSE(
      session.feed(preface() + frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, block), now));
  EXPECT_EQ(session.fault(), Fault::header_flood);
}

TEST_F(SessionBounds, EndsARapidReset) {
  Session session(engine(), now);
  session.feed(preface(), now);
  std::int32_t id = 1;
  int taken = 0;
  while (taken < 10'000 &&
         session.feed(headers(id) + frame(NGHTTP2_RST_STREAM, 0, id, std::string("\0\0\0\x08", 4)),
                      now)) {
    drained(session);
    id += 2;
    ++taken;
  }
  EXPECT_EQ(taken, 50);
  EXPECT_EQ(session.fault(), Fault::reset_flood);
  EXPECT_EQ(goaway_error(drained(session)), NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_LE(session.open_calls(), 1U);
}

TEST_F(SessionBounds, TakesResetsOfAPeerThatAlsoWaitsForAnswers) {
  Session session(engine(), now);
  TestClient client(session);
  for (int i = 0; i < 1000; ++i) {
    const auto dropped = client.call(Echo::kUnary, framed("later"));
    const auto waited = client.call(Echo::kUnary, framed("now"));
    client.run(now);
    client.reset(dropped);
    client.run(now);
    ASSERT_EQ(client.answer(waited).status(), "0") << i;
  }
  EXPECT_EQ(session.fault(), Fault::none);
}

TEST_F(SessionBounds, RefusesCallsBeyondTheBoundAndThenEndsTheFlood) {
  Session session(engine(), now);
  session.feed(preface(), now);
  std::string out = drained(session);
  std::int32_t id = 1;
  for (int i = 0; i < 9; ++i, id += 2) ASSERT_TRUE(session.feed(headers(id), now));
  EXPECT_EQ(session.open_calls(), 8U);
  bool refused = false;
  for (const SentFrame& one : frames_of(drained(session))) {
    refused = refused || (one.type == NGHTTP2_RST_STREAM && one.stream == 17 &&
                          one.word(0) == NGHTTP2_REFUSED_STREAM);
  }
  EXPECT_TRUE(refused);
  int more = 0;
  for (; more < 10'000 && session.feed(headers(id), now); ++more, id += 2) drained(session);
  EXPECT_LE(more, 100);
  EXPECT_EQ(session.fault(), Fault::control_flood);
}

TEST_F(SessionBounds, HoldsNoMoreIncompleteMessagesThanAllowed) {
  Session session(engine(), now);
  session.feed(preface(), now);
  drained(session);
  const std::string part = framed(std::string(4000, 'x')).substr(0, 3000);
  std::size_t most = 0;
  for (std::int32_t id = 1; id < 16; id += 2) {
    ASSERT_TRUE(session.feed(headers(id) + frame(NGHTTP2_DATA, 0, id, part), now));
    most = std::max(most, session.partial_bytes());
  }
  EXPECT_LE(most, 10'000U);
  EXPECT_EQ(engine().counters().code(Code::resource_exhausted).get(), 5U);
}

TEST_F(SessionBounds, ASlowReaderHoldsNoMoreThanItsCalls) {
  Session session(engine(), now);
  // The peer's window is 0: no answer may leave.
  session.feed(std::string(NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN) +
                   frame(NGHTTP2_SETTINGS, 0, 0, std::string("\0\4\0\0\0\0", 6)),
               now);
  std::int32_t id = 1;
  for (int i = 0; i < 100; ++i, id += 2) {
    session.feed(headers(id) + frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, id, framed("hello")),
                 now);
    drained(session);
  }
  EXPECT_EQ(session.open_calls(), 8U);
  EXPECT_EQ(echo.messages, 8);
  // After a while they are given up.
  session.sweep(now + 29s);
  EXPECT_EQ(session.open_calls(), 8U);
  session.sweep(now + 31s);
  drained(session);
  EXPECT_EQ(session.open_calls(), 0U);
}

TEST_F(SessionBounds, GivesUpACallWhoseMessageNeverComes) {
  Session session(engine(), now);
  session.feed(preface() + headers(1), now);
  session.feed(frame(NGHTTP2_DATA, 0, 1, framed("abcdef").substr(0, 7)), now);
  drained(session);
  session.sweep(now + 31s);
  drained(session);
  EXPECT_EQ(session.open_calls(), 0U);
  EXPECT_EQ(session.partial_bytes(), 0U);
}

TEST_F(SessionBounds, LeavesACallAloneThatIsBeingDecided) {
  Session session(engine(), now);
  session.feed(
      preface() + headers(1) + frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, framed("later")),
      now);
  session.sweep(now + 60s);
  drained(session);
  EXPECT_EQ(session.open_calls(), 1U);
}

TEST_F(SessionBounds, EndsAConnectionThatNeverSpeaks) {
  Session session(engine(), now);
  session.sweep(now + 29s);
  EXPECT_EQ(session.fault(), Fault::none);
  session.sweep(now + 31s);
  EXPECT_EQ(session.fault(), Fault::not_http2);
  drained(session);
  EXPECT_TRUE(session.finished());
}

TEST_F(SessionBounds, KeepsAnIdleConnection) {
  Session session(engine(), now);
  session.feed(preface(), now);
  drained(session);
  session.sweep(now + 24h);
  EXPECT_FALSE(session.finished());
}

TEST_F(SessionBounds, OutputIsGivenInPiecesOfTheSizeAskedFor) {
  Session session(engine(), now);
  TestClient client(session);
  const auto id = client.call(Echo::kUnary, framed(std::string(4000, 'a')));
  client.run(now);
  EXPECT_EQ(client.answer(id).status(), "0");
  std::string out;
  session.pull(out, 0);
  EXPECT_TRUE(out.empty());
}

}  // namespace
}  // namespace weir::server::grpc
