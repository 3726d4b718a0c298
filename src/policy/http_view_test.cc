#include "policy/http_view.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace weir::policy {
namespace {

using State = HttpView::State;

class HttpViewTest : public ::testing::Test {
 protected:
  State take(std::string_view target, std::vector<Descriptor> headers = {},
             std::string_view method = "GET", std::string_view peer = "192.0.2.7:4711") {
    headers_ = std::move(headers);
    request_ = {.method = method, .target = target, .peer = peer, .headers = headers_};
    return view_->take(request_, model_);
  }
  std::string value(std::string_view source) {
    Problem problem;
    const auto parsed = parse_source(source, {"user"}, problem);
    if (!parsed) return problem.what;
    const std::string_view found = view_->value(*parsed);
    return found.data() == nullptr ? "absent" : "'" + std::string(found) + "'";
  }

  Model model_{.trusted_proxies = {parse_cidr("10.0.0.0/8").value()}};
  std::vector<Descriptor> headers_;
  HttpRequest request_;
  std::unique_ptr<HttpView> view_ = std::make_unique<HttpView>();
};

TEST_F(HttpViewTest, TakesARequestApart) {
  ASSERT_EQ(take("/%6Cogin/?a=1", {{"HOST", "Api.Example.:8443"}}, "post"), State::ready);
  EXPECT_EQ(view_->method(), "POST");
  EXPECT_EQ(view_->path(), "/login");
  EXPECT_EQ(view_->query(), "a=1");
  EXPECT_EQ(view_->host(), "api.example");
  EXPECT_EQ(value("ip"), "'192.0.2.7'");
  EXPECT_EQ(value("path"), "'/login'");
  EXPECT_EQ(value("method"), "'POST'");
  EXPECT_EQ(value("user"), "absent");
}

TEST_F(HttpViewTest, TakesEveryFormOfATarget) {
  ASSERT_EQ(take("http://Other.example:80/a?b", {{"Host", "x"}}), State::ready);
  EXPECT_EQ(view_->host(), "other.example");
  EXPECT_EQ(view_->path(), "/a");
  ASSERT_EQ(take("https://other.example"), State::ready);
  EXPECT_EQ(view_->path(), "/");
  ASSERT_EQ(take("*", {}, "OPTIONS"), State::ready);
  EXPECT_EQ(view_->path(), "*");
  ASSERT_EQ(take("/", {{"Host", "[2001:db8::1]:443"}}), State::ready);
  EXPECT_EQ(view_->host(), "[2001:db8::1]");
}

TEST_F(HttpViewTest, RefusesWhatIsMalformed) {
  EXPECT_EQ(take("/", {}, ""), State::bad_method);
  EXPECT_EQ(take("/", {}, "GE T"), State::bad_method);
  EXPECT_EQ(take("/", {}, std::string(33, 'A')), State::bad_method);
  EXPECT_EQ(take(""), State::bad_target);
  EXPECT_EQ(take("example.com:443", {}, "CONNECT"), State::bad_target);
  EXPECT_EQ(take("/%0"), State::bad_target);
  EXPECT_EQ(take("://x/"), State::bad_target);
  EXPECT_EQ(take("http:///x"), State::bad_target);
  EXPECT_EQ(take("/", {{"Host", "a"}, {"host", "b"}}), State::bad_host);
  EXPECT_EQ(take("/", {{"Host", "a b"}}), State::bad_host);
  EXPECT_EQ(take("/", {{"Host", std::string(300, 'a')}}), State::bad_host);
  EXPECT_EQ(take("/", {}, "GET", "somewhere"), State::bad_peer);
  EXPECT_EQ(take("/", {{"", "x"}}), State::bad_encoding);
  EXPECT_EQ(take("/", {{"Host", "a"}, {":authority", "a"}}), State::ready);
}

TEST_F(HttpViewTest, FindsTheClientBehindTrustedProxies) {
  ASSERT_EQ(take("/", {{"X-Forwarded-For", "1.1.1.1"}, {"x-forwarded-for", "2.2.2.2, 10.0.0.9"}},
                 "GET", "10.0.0.1"),
            State::ready);
  EXPECT_EQ(value("ip"), "'2.2.2.2'");
  ASSERT_EQ(take("/", {{"X-Forwarded-For", "1.1.1.1"}}), State::ready);
  EXPECT_EQ(value("ip"), "'192.0.2.7'");
  ASSERT_EQ(take("/", {}, "GET", ""), State::ready);
  EXPECT_EQ(value("ip"), "absent");
}

TEST_F(HttpViewTest, LooksAtTheLastForwardedLines) {
  std::vector<Descriptor> headers(500, {"X-Forwarded-For", "6.6.6.6"});
  headers.push_back({"X-Forwarded-For", "2.2.2.2"});
  ASSERT_EQ(take("/", headers, "GET", "10.0.0.1"), State::ready);
  EXPECT_EQ(value("ip"), "'2.2.2.2'");
}

TEST_F(HttpViewTest, JoinsTheLinesOfOneHeader) {
  ASSERT_EQ(take("/", {{"X-API-Key", " a "}, {"other", "x"}, {"x-api-key", "b"}, {"Empty", ""}}),
            State::ready);
  EXPECT_EQ(value("header:x-API-key"), "'a, b'");
  EXPECT_EQ(value("header:Other"), "'x'");
  EXPECT_EQ(value("header:Empty"), "''");
  EXPECT_EQ(value("header:None"), "absent");
}

TEST_F(HttpViewTest, DecodesQueryValues) {
  ASSERT_EQ(take("/?a=1%2B1+x&%62=y&c&d=&=e&f=%zz&g=%4"), State::ready);
  EXPECT_EQ(value("query:a"), "'1+1 x'");
  EXPECT_EQ(value("query:b"), "'y'");
  EXPECT_EQ(value("query:c"), "''");
  EXPECT_EQ(value("query:d"), "''");
  EXPECT_EQ(value("query:f"), "'%zz'");
  EXPECT_EQ(value("query:g"), "'%4'");
  EXPECT_EQ(value("query:none"), "absent");
}

TEST_F(HttpViewTest, TakesAnAmbiguousValueForAbsent) {
  ASSERT_EQ(take("/?key=a&key=b&same=x&s%61me=%78"), State::ready);
  EXPECT_EQ(value("query:key"), "absent");
  EXPECT_EQ(value("query:same"), "'x'");
  ASSERT_EQ(take("/", {{"Cookie", "sid=a; sid=b"}}), State::ready);
  EXPECT_EQ(value("cookie:sid"), "absent");
}

TEST_F(HttpViewTest, ReadsCookies) {
  ASSERT_EQ(take("/", {{"Cookie", "a=1; sid=\"x y\";b"}, {"cookie", "c = 3 "}}), State::ready);
  EXPECT_EQ(value("cookie:a"), "'1'");
  EXPECT_EQ(value("cookie:sid"), "'x y'");
  EXPECT_EQ(value("cookie:c"), "'3'");
  EXPECT_EQ(value("cookie:b"), "absent");
  EXPECT_EQ(value("cookie:A"), "absent");
}

TEST_F(HttpViewTest, SaysWhenItsBufferIsFull) {
  const std::string large(12'000, 'x');
  ASSERT_EQ(take("/", {{"big", large}, {"big", large}, {"small", "y"}}), State::ready);
  EXPECT_FALSE(view_->overflowed());
  EXPECT_EQ(value("header:big"), "absent");
  EXPECT_TRUE(view_->overflowed());
  // A value that needs no copy may have any length.
  const std::string target = "/?q=" + std::string(100'000, 'z');
  ASSERT_EQ(take(target), State::ready);
  EXPECT_EQ(value("query:q").size(), 100'002u);
  EXPECT_FALSE(view_->overflowed());
}

}  // namespace
}  // namespace weir::policy
