#include "server/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weir::server {
namespace {

using testing::HasSubstr;

TEST(Address, ReadsAndWritesTheSameText) {
  for (const char* text : {"127.0.0.1:8080", "[::1]:0", "localhost:65535", "0.0.0.0:1",
                           "unix:/run/weir.sock", "unix:relative.sock", "off"}) {
    const auto address = parse_address(text);
    ASSERT_TRUE(address) << text << ": " << address.error().message;
    EXPECT_EQ(address->text(), text);
  }
}

TEST(Address, KeepsTheParts) {
  const Address v6 = parse_address("[2001:db8::1]:6070").value();
  EXPECT_EQ(v6.kind, Address::Kind::tcp);
  EXPECT_EQ(v6.host, "2001:db8::1");
  EXPECT_EQ(v6.port, 6070);
  EXPECT_EQ(parse_address("unix:/a:b").value().path, "/a:b");
  EXPECT_EQ(parse_address("off").value().kind, Address::Kind::off);
}

TEST(Address, UrlOfEveryInterfaceIsTheLoopbackAddress) {
  EXPECT_EQ(parse_address("0.0.0.0:8080").value().url(), "http://127.0.0.1:8080");
  EXPECT_EQ(parse_address("[::]:8080").value().url(), "http://[::1]:8080");
  EXPECT_EQ(parse_address("10.0.0.1:80").value().url(), "http://10.0.0.1:80");
  EXPECT_EQ(parse_address("unix:/x").value().url(), "");
}

TEST(Address, NamesWhatIsWrongAndWhatIsAllowed) {
  struct Row {
    const char* text;
    const char* problem;
  };
  for (const Row& row : std::initializer_list<Row>{
           {"", "has no port"},
           {"8080", "has no port"},
           {"localhost", "has no port"},
           {":8080", "names no host"},
           {"h:", "not a number from 0 to 65535"},
           {"h:65536", "not a number from 0 to 65535"},
           {"h:-1", "not a number from 0 to 65535"},
           {"h:80x", "not a number from 0 to 65535"},
           {"h: 80", "not a number from 0 to 65535"},
           {"::1:80", "without brackets"},
           {"[::1:80", "unfinished"},
           {"[]:80", "unfinished"},
           {"a b:80", "cannot be one"},
           {"http://h:80", "without brackets"},
           {"unix:", "names no socket file"},
       }) {
    const auto address = parse_address(row.text);
    ASSERT_FALSE(address) << row.text;
    EXPECT_EQ(address.error().code, ErrorCode::invalid_argument);
    EXPECT_THAT(address.error().message, HasSubstr(row.problem)) << row.text;
    EXPECT_THAT(address.error().message, HasSubstr("allowed: HOST:PORT")) << row.text;
  }
  EXPECT_FALSE(parse_address("unix:" + std::string(200, 'a')));
}

}  // namespace
}  // namespace weir::server
