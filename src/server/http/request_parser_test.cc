#include "server/http/request_parser.h"

#include <gtest/gtest.h>

#include <string>

namespace weir::server::http {
namespace {

using State = RequestParser::State;

const Bounds kBounds;

// Parses all at once.
struct Parsed {
  explicit Parsed(const std::string& bytes, const Bounds& bounds = kBounds) : parser(bounds) {
    state = parser.parse(bytes);
    if (state == State::failed) status = parser.fault().status;
  }
  RequestParser parser;
  State state;
  int status = 0;
};

std::string get_with(const std::string& fields) {
  return "GET /a?b=c HTTP/1.1\r\nHost: weir\r\n" + fields + "\r\n";
}
std::string post(const std::string& fields, const std::string& body) {
  return "POST /v1/check HTTP/1.1\r\nHost: weir\r\n" + fields + "\r\n" + body;
}

TEST(RequestParser, ReadsARequestWhateverItsPieces) {
  const std::string bytes = post("X-A:  one \r\nContent-Length: 5\r\nx-a: \r\n", "hello") + "POST";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    RequestParser parser(kBounds);
    std::string moved;  // a new place each time, as a growing buffer has
    State state = State::start;
    for (std::size_t end = piece; state != State::done; end += piece) {
      moved = std::string(bytes, 0, std::min(end, bytes.size()));
      state = parser.parse(moved);
      ASSERT_NE(state, State::failed) << parser.fault().detail;
      ASSERT_TRUE(state == State::done || end < bytes.size());
    }
    const Request& request = parser.request();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.target, "/v1/check");
    EXPECT_EQ(request.body, "hello");
    EXPECT_EQ(request.field("x-A"), "one");
    EXPECT_EQ(request.count("X-A"), 2u);
    EXPECT_EQ(request.field("absent").data(), nullptr);
    EXPECT_TRUE(request.keep_alive);
    EXPECT_EQ(parser.consumed(), bytes.size() - 4);
  }
}

TEST(RequestParser, ReadsChunksWhateverTheirPieces) {
  const std::string bytes = post("Transfer-Encoding: Chunked\r\n",
                                 "3;name=\"v\"\r\nhel\r\n2\r\nlo\r\n0\r\nX-Trailer: t\r\n"
                                 "Content-Type: no\r\n\r\n");
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    RequestParser parser(kBounds);
    State state = State::start;
    std::string moved;
    for (std::size_t end = piece; state != State::done; end += piece) {
      moved = std::string(bytes, 0, std::min(end, bytes.size()));
      state = parser.parse(moved);
      ASSERT_NE(state, State::failed) << parser.fault().detail;
      ASSERT_TRUE(state == State::done || end < bytes.size());
    }
    EXPECT_EQ(parser.request().body, "hello");
    EXPECT_EQ(parser.request().field("X-Trailer").data(), nullptr);  // trailers are not header
    EXPECT_EQ(parser.consumed(), bytes.size());
  }
}

TEST(RequestParser, ForgetsTheRequestBefore) {
  RequestParser parser(kBounds);
  ASSERT_EQ(parser.parse(
                post("Transfer-Encoding: chunked\r\nConnection: close\r\n", "1\r\nx\r\n0\r\n\r\n")),
            State::done);
  EXPECT_FALSE(parser.request().keep_alive);
  parser.reset();
  const std::string next = get_with("");
  ASSERT_EQ(parser.parse(next), State::done);
  EXPECT_EQ(parser.request().method, "GET");
  EXPECT_EQ(parser.request().path(), "/a");
  EXPECT_EQ(parser.request().query(), "b=c");
  EXPECT_EQ(parser.request().body, "");
  EXPECT_EQ(parser.request().fields.size(), 1u);
  EXPECT_TRUE(parser.request().keep_alive);
}

TEST(RequestParser, KeepsConnectionsAsVersionAndFieldSay) {
  const auto kept = [](const std::string& bytes) {
    const Parsed parsed(bytes);
    EXPECT_EQ(parsed.state, State::done) << bytes;
    return parsed.state == State::done && parsed.parser.request().keep_alive;
  };
  EXPECT_TRUE(kept(get_with("")));
  EXPECT_FALSE(kept(get_with("Connection: close\r\n")));
  EXPECT_FALSE(kept(get_with("Connection: x, Close\r\n")));
  EXPECT_FALSE(kept("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_TRUE(kept("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(RequestParser, NeverLetsTwoReadersSeeTwoRequests) {
  struct Row {
    std::string bytes;
    int status;
  };
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  const std::string end = "0\r\n\r\n";
  for (const Row& row : std::initializer_list<Row>{
           {post(chunked + "Content-Length: 5\r\n", end), 400},
           {post("Content-Length: 5\r\n" + chunked, end), 400},
           {post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"), 400},
           {post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), 400},
           {post("Content-Length: 5, 5\r\n", "hello"), 400},
           {post("Content-Length: +5\r\n", "hello"), 400},
           {post("Content-Length: -5\r\n", "hello"), 400},
           {post("Content-Length: 0x5\r\n", "hello"), 400},
           {post("Content-Length: 5 5\r\n", "hello"), 400},
           {post("Content-Length: \r\n", "hello"), 400},
           {post("Content-Length: 18446744073709551621\r\n", "hello"), 400},
           {post("Content-Length : 5\r\n", "hello"), 400},
           {post(chunked + chunked, end), 400},
           {post("Transfer-Encoding: gzip, chunked\r\n", end), 501},
           {post("Transfer-Encoding: chunked, gzip\r\n", end), 501},
           {post("Transfer-Encoding: xchunked\r\n", end), 501},
           {post("Transfer-Encoding: identity\r\n", ""), 501},
           {post("Transfer-Encoding: \"chunked\"\r\n", end), 501},
           {post("Transfer-Encoding:\x0b"
                 "chunked\r\n",
                 end),
            400},
           {post("Transfer-Encoding : chunked\r\n", end), 400},
           {post("Transfer-Encoding\t: chunked\r\n", end), 400},
           {post("X-A: b\r\n Transfer-Encoding: chunked\r\n", end), 400},
           {post("X-A: b\r\n\tfolded\r\n", ""), 400},
           {"POST / HTTP/1.0\r\nHost: a\r\n" + chunked + "\r\n" + end, 400},
           {"GET / HTTP/1.1\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400},
           {"GET / HTTP/1.1\nHost: a\n\n", 400},
           {"GET / HTTP/1.1\r\nHost: a\n\r\n\r\n", 400},
           {get_with("X-A: b\rc\r\n"), 400},
           {get_with(std::string("X-A: b\0c\r\n", 10)), 400},
           {get_with("X-A: \x1b[2J\r\n"), 400},
           {get_with("X(A: b\r\n"), 400},
           {get_with(": b\r\n"), 400},
           {get_with("no colon\r\n"), 400},
           {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
           {"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
           {"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
           {"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
           {"G@T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
           {"GET /\r\n\r\n", 400},
           {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
           {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505},
           {"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505},
           {"GET / HTTP/0.9\r\n\r\n", 505},
           {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
           {"GET / http/1.1\r\nHost: a\r\n\r\n", 400},
           {std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8), 400},
           {post(chunked, "g\r\n"), 400},
           {post(chunked, "-1\r\nx\r\n"), 400},
           {post(chunked, " 1\r\nx\r\n"), 400},
           {post(chunked, "1\r\nxy\r\n0"), 400},
           {post(chunked, "11111111111111111\r\nx"), 400},
           {post(chunked, "1\nx\n0\n\n\r\n"), 400},
           {post(chunked, "0\r\nbad trailer\r\n\r\n"), 400},
           {get_with("Expect: 100-continues\r\n"), 417},
       }) {
    const Parsed parsed(row.bytes);
    EXPECT_EQ(parsed.state, State::failed) << row.bytes;
    EXPECT_EQ(parsed.status, row.status) << row.bytes;
  }
}

TEST(RequestParser, HoldsEveryBoundToTheByte) {
  const Bounds bounds{.target_bytes = 20,
                      .header_bytes = 200,
                      .header_fields = 4,
                      .body_bytes = 10,
                      .framing_bytes = 100};
  const auto status = [&](const std::string& bytes) { return Parsed(bytes, bounds).status; };
  const auto target = [](std::size_t bytes) {
    return "GET /" + std::string(bytes - 1, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n";
  };
  EXPECT_EQ(status(target(20)), 0);
  EXPECT_EQ(status(target(21)), 414);
  EXPECT_EQ(status(target(300)), 431);
  EXPECT_EQ(status("GET /" + std::string(300, 'a')), 431);

  EXPECT_EQ(status(get_with("A: 1\r\nB: 2\r\nC: 3\r\n")), 0);
  EXPECT_EQ(status(get_with("A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\n")), 431);

  const std::size_t rest = get_with("A: \r\n").size();
  EXPECT_EQ(status(get_with("A: " + std::string(200 - rest, 'x') + "\r\n")), 0);
  EXPECT_EQ(status(get_with("A: " + std::string(201 - rest, 'x') + "\r\n")), 431);

  EXPECT_EQ(status(post("Content-Length: 10\r\n", "0123456789")), 0);
  EXPECT_EQ(status(post("Content-Length: 11\r\n", "")), 413);
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  EXPECT_EQ(status(post(chunked, "a\r\n0123456789\r\n0\r\n\r\n")), 0);
  EXPECT_EQ(status(post(chunked, "9\r\n012345678\r\n2\r\n")), 413);
  EXPECT_EQ(status(post(chunked, "1;" + std::string(400, 'e'))), 413);
  EXPECT_EQ(status(post(chunked, "0\r\n" + std::string(400, 't'))), 413);
}

TEST(RequestParser, TakesTargetsInAbsoluteForm) {
  const auto target = [](const std::string& given) {
    const std::string bytes = "GET " + given + " HTTP/1.1\r\nHost: a\r\n\r\n";
    const Parsed parsed(bytes);
    return parsed.state == State::done ? std::string(parsed.parser.request().target) : "";
  };
  EXPECT_EQ(target("http://a.example/v1/check?x=1"), "/v1/check?x=1");
  EXPECT_EQ(target("HTTPS://a.example:8443/"), "/");
  EXPECT_EQ(target("http://a.example"), "/");
  EXPECT_EQ(target("http://a.example?x=1"), "http://a.example?x=1");
  EXPECT_EQ(target("/http://a.example/"), "/http://a.example/");
  EXPECT_EQ(target("ftp://a.example/x"), "ftp://a.example/x");
}

TEST(RequestParser, HoldsTheBoundOfFramingAgainstADrip) {
  // A byte a chunk: the body stays small while the wire does not.
  const Bounds bounds{.header_bytes = 200, .body_bytes = 1000, .framing_bytes = 300};
  RequestParser parser(bounds);
  std::string bytes = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  State state = parser.parse(bytes);
  for (int i = 0; i < 999 && state != State::failed; ++i) {
    bytes += "1\r\nx\r\n";
    state = parser.parse(bytes);
  }
  ASSERT_EQ(state, State::failed);
  EXPECT_EQ(parser.fault().status, 413);
  EXPECT_LE(bytes.size(), 200u + 1000u + 300u + 6u);
}

TEST(RequestParser, HoldsTheHeaderBoundAlsoInPieces) {
  // Beast itself measures only what it has not taken yet.
  const Bounds bounds{.header_bytes = 200};
  RequestParser parser(bounds);
  std::string bytes = "GET / HTTP/1.1\r\nHost: a\r\n";
  State state = State::start;
  for (int i = 0; i < 90 && state != State::failed; ++i) {
    bytes += "X: y\r\n";
    state = parser.parse(bytes);
  }
  ASSERT_EQ(state, State::failed);
  EXPECT_EQ(parser.fault().status, 431);
  EXPECT_LE(bytes.size(), 206u);
}

TEST(RequestParser, TakesAnyByteInAFieldThatHttpAllows) {
  const std::string bytes = get_with("X-A: caf\xc3\xa9 \xff\tend\r\n");
  const Parsed parsed(bytes);
  ASSERT_EQ(parsed.state, State::done);
  EXPECT_EQ(parsed.parser.request().field("X-A"), "caf\xc3\xa9 \xff\tend");
}

TEST(RequestParser, SaysWhenTheClientWaitsForContinue) {
  RequestParser parser(kBounds);
  std::string bytes = post("Content-Length: 5\r\nExpect: 100-Continue\r\n", "");
  ASSERT_EQ(parser.parse(bytes), State::body);
  EXPECT_TRUE(parser.expects_continue());
  bytes += "hello";
  ASSERT_EQ(parser.parse(bytes), State::done);
  EXPECT_EQ(parser.request().body, "hello");
}

}  // namespace
}  // namespace weir::server::http
