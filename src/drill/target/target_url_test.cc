#include "drill/target/target_url.h"

#include <gtest/gtest.h>

namespace weir::drill {
namespace {

TEST(TargetUrl, IsTakenApart) {
  struct Row {
    const char *text, *address, *host, *path;
  };
  for (const Row& row : {Row{"http://api:8080/v1/x?a=b#c", "api:8080", "api:8080", "/v1/x?a=b"},
                         Row{"http://127.0.0.1", "127.0.0.1:80", "127.0.0.1", "/"},
                         Row{"http://[::1]:81?q", "[::1]:81", "[::1]:81", "/?q"},
                         Row{"http://[::1]/", "[::1]:80", "[::1]", "/"}}) {
    const auto url = parse_target_url(row.text).value();
    EXPECT_EQ(url.address, row.address) << row.text;
    EXPECT_EQ(url.host, row.host);
    EXPECT_EQ(url.path, row.path);
  }
}

TEST(TargetUrl, TellsByWhichNameACertificateIsKnown) {
  const auto named = parse_target_url("https://api.example/x").value();
  EXPECT_TRUE(named.tls);
  EXPECT_EQ(named.address, "api.example:443");
  EXPECT_EQ(named.name, "api.example");
  const auto numbered = parse_target_url("https://[::1]:8443").value();
  EXPECT_EQ(numbered.address, "[::1]:8443");
  EXPECT_EQ(numbered.host, "[::1]:8443");
  EXPECT_EQ(numbered.name, "::1");
  EXPECT_FALSE(parse_target_url("http://api")->tls);
}

TEST(TargetUrl, SaysWhatIsWrong) {
  for (const char* text : {"", "api:80", "https://", "http://a:0/", "http://a:65536/",
                           "http://a:x/", "http://a:", "http://:80/", "http://", "http:///x",
                           "http://a b/", "http://u:p@api/", "http://a/\r\nX: y"}) {
    const auto url = parse_target_url(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code, ErrorCode::invalid_argument);
  }
}

}  // namespace
}  // namespace weir::drill
