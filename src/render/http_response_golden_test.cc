#include "render/http_response.h"

#include <gtest/gtest.h>

#include <map>

namespace weir::render {
namespace {

using namespace std::chrono_literals;

Decision allowed() {
  Decision d;
  d.verdict = Verdict::allowed;
  d.rung = Rung::store;
  d.reason = Reason::within_limit;
  d.profiles = kHeadersDelta;
  d.add({.rule = "a", .limit = 5, .period = 60s, .burst = 5, .remaining = 4, .reset_after = 12s});
  return d;
}

Decision refused() {
  Decision d;
  d.verdict = Verdict::refused;
  d.reason = Reason::unknown_route;
  return d;
}

TEST(HttpResponse, AnswersAnAllowedCheck) {
  std::string out = "earlier bytes";
  append_http_response(out, allowed(), {.date = "Sun, 06 Nov 1994 08:49:37 GMT"});
  EXPECT_EQ(out,
            "earlier bytesHTTP/1.1 200 OK\r\n"
            "RateLimit-Limit: 5\r\n"
            "RateLimit-Remaining: 4\r\n"
            "RateLimit-Reset: 12\r\n"
            "Cache-Control: no-store\r\n"
            "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
            "Content-Type: application/json\r\n"
            "Content-Length: 148\r\n"
            "\r\n"
            R"({"verdict":"allowed","rung":"store","reason":"within_limit","rules":[{"rule":"a",)"
            R"("limit":5,"period_ms":60000,"remaining":4,"reset_after_ms":12000}]})");
}

TEST(HttpResponse, AnswersADenialWithAProblem) {
  std::string out;
  append_http_response(out, refused(), {.connection = HttpResponse::Connection::close});
  EXPECT_EQ(out,
            "HTTP/1.1 404 Not Found\r\n"
            "Cache-Control: no-store\r\n"
            "Connection: close\r\n"
            "Content-Type: application/problem+json\r\n"
            "Content-Length: 167\r\n"
            "\r\n"
            R"({"type":"about:blank","title":"Not Found","status":404,)"
            R"("detail":"the policy has no such route",)"
            R"("verdict":"refused","rung":"policy","reason":"unknown_route","rules":[]})");
}

TEST(HttpResponse, AnswersHeadWithTheLengthAndNoBody) {
  std::string out;
  append_http_body(out, 200, "text/plain", "fine\n",
                   {.connection = HttpResponse::Connection::keep_alive, .head = true});
  EXPECT_EQ(out,
            "HTTP/1.1 200 OK\r\n"
            "Cache-Control: no-store\r\n"
            "Connection: keep-alive\r\n"
            "Content-Type: text/plain\r\n"
            "Content-Length: 5\r\n"
            "\r\n");
}

TEST(HttpResponse, AnswersWhatNeverBecameACheck) {
  std::string out;
  append_http_problem(out, 405, "only POST is answered here", {.lines = "Allow: POST\r\n"});
  EXPECT_EQ(out,
            "HTTP/1.1 405 Method Not Allowed\r\n"
            "Cache-Control: no-store\r\n"
            "Allow: POST\r\n"
            "Content-Type: application/problem+json\r\n"
            "Content-Length: 102\r\n"
            "\r\n"
            R"({"type":"about:blank","title":"Method Not Allowed","status":405,)"
            R"("detail":"only POST is answered here"})");
}

// Two lines of one name were read as one value, "1000,1000", and swallowed.
TEST(HttpResponse, NamesEachHeaderOnceAndCountsItsBody) {
  for (const Decision& d : {allowed(), refused()}) {
    std::string out;
    append_http_response(
        out, d, {.connection = HttpResponse::Connection::close, .date = "x", .lines = "A: b\r\n"});
    const std::size_t end = out.find("\r\n\r\n");
    std::map<std::string, std::string> headers;
    for (std::size_t at = out.find("\r\n") + 2; at < end + 2;) {
      const std::size_t colon = out.find(": ", at);
      const std::size_t line_end = out.find("\r\n", at);
      EXPECT_TRUE(
          headers.emplace(out.substr(at, colon - at), out.substr(colon + 2, line_end - colon - 2))
              .second);
      at = line_end + 2;
    }
    EXPECT_EQ(headers["Content-Length"], std::to_string(out.size() - end - 4));
    EXPECT_EQ(headers["Cache-Control"], "no-store");
  }
}

TEST(HttpResponse, SaysTheDateAsHttpWantsIt) {
  std::string out;
  append_http_date(out, Instant(784'111'777s + 999ms));
  EXPECT_EQ(out, "Sun, 06 Nov 1994 08:49:37 GMT");
  out.clear();
  append_http_date(out, Instant(951'827'696s));
  EXPECT_EQ(out, "Tue, 29 Feb 2000 12:34:56 GMT");
}

}  // namespace
}  // namespace weir::render
