#include "server/grpc/status.h"

#include <gtest/gtest.h>

namespace weir::server::grpc {
namespace {

using namespace std::chrono_literals;

TEST(GrpcTimeout, ReadsEachUnit) {
  EXPECT_EQ(parse_timeout("1H"), 1h);
  EXPECT_EQ(parse_timeout("2M"), 2min);
  EXPECT_EQ(parse_timeout("3S"), 3s);
  EXPECT_EQ(parse_timeout("20m"), 20ms);
  EXPECT_EQ(parse_timeout("100u"), 100us);
  EXPECT_EQ(parse_timeout("99999999n"), 99999999ns);
  EXPECT_EQ(parse_timeout("0m"), 0ms);
}

TEST(GrpcTimeout, DoesNotOverflow) {
  const auto longest = parse_timeout("99999999H");
  ASSERT_TRUE(longest);
  EXPECT_GT(*longest, 24h * 365 * 100);
}

TEST(GrpcTimeout, RefusesEverythingElse) {
  for (const char* text :
       {"", "m", "20", "20x", "-1m", "+1m", " 1m", "1.5S", "123456789m", "1mm"}) {
    EXPECT_EQ(parse_timeout(text), std::nullopt) << text;
  }
}

TEST(GrpcStatus, SpellsItsNumber) {
  EXPECT_EQ(wire_text(Code::ok), "0");
  EXPECT_EQ(wire_text(Code::unimplemented), "12");
  EXPECT_EQ(wire_text(Code::unavailable), "14");
}

TEST(GrpcStatus, EncodesMessagesForTheWire) {
  EXPECT_EQ(percent_encode("plain text"), "plain text");
  EXPECT_EQ(percent_encode("100%\n\xff"), "100%25%0A%FF");
}

TEST(GrpcContentType, AcceptsGrpcAndItsSubtypes) {
  EXPECT_TRUE(is_grpc_content_type("application/grpc"));
  EXPECT_TRUE(is_grpc_content_type("application/grpc+proto"));
  EXPECT_TRUE(is_grpc_content_type("application/grpc;charset=utf-8"));
  EXPECT_FALSE(is_grpc_content_type("application/grpc-web"));
  EXPECT_FALSE(is_grpc_content_type("application/json"));
  EXPECT_FALSE(is_grpc_content_type(""));
}

}  // namespace
}  // namespace weir::server::grpc
