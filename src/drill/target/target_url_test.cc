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

TEST(TargetUrl, SaysWhatIsWrong) {
  for (const char* text : {"", "api:80", "https://api/", "http://", "http:///x", "http://a b/",
                           "http://u:p@api/", "http://a/\r\nX: y"}) {
    const auto url = parse_target_url(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().code, ErrorCode::invalid_argument);
  }
}

}  // namespace
}  // namespace weir::drill
