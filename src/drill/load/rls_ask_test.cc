#include "drill/load/rls_ask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "envoy/service/ratelimit/v3/rls.pb.h"

namespace weir::drill {
namespace {

using ::envoy::service::ratelimit::v3::RateLimitRequest;
using ::envoy::service::ratelimit::v3::RateLimitResponse;
using ::testing::HasSubstr;

std::string framed(const google::protobuf::MessageLite& message) {
  const std::string body = message.SerializeAsString();
  std::string out(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8)
    out += static_cast<char>(body.size() >> shift & 0xff);
  return out + body;
}

TEST(RlsAsk, EachKeyIsAnotherValueInEveryDescriptor) {
  RlsAsk ask("d", "k", 3);
  std::set<std::string> seen;
  for (const std::uint32_t key : {0U, 1U, 10'000U, 4'294'967'295U}) {
    RateLimitRequest request;
    const std::string_view bytes = ask.for_key(key).substr(5);
    ASSERT_TRUE(request.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
    ASSERT_EQ(request.descriptors_size(), 3);
    for (const auto& descriptor : request.descriptors()) {
      ASSERT_EQ(descriptor.entries_size(), 1);
      EXPECT_EQ(descriptor.entries(0).key(), "k");
      EXPECT_TRUE(seen.insert(descriptor.entries(0).value()).second);
    }
  }
  EXPECT_EQ(seen.size(), 12u);
}

TEST(RlsAsk, JsonTellsTextAsText) {
  RateLimitResponse response;
  response.set_overall_code(RateLimitResponse::OVER_LIMIT);
  auto& status = *response.add_statuses();
  status.set_code(RateLimitResponse::OVER_LIMIT);
  status.mutable_current_limit()->set_name("per_user");
  auto& header = *response.add_response_headers_to_add();
  header.set_key("Retry-After");
  header.set_value("7\xff");
  const std::string json = rls_response_json(framed(response));
  EXPECT_THAT(json, HasSubstr(R"("name":"per_user")"));
  EXPECT_THAT(json, HasSubstr("{\"key\":\"Retry-After\",\"value\":\"7\xef\xbf\xbd\"}"));
  EXPECT_EQ(rls_response_json("shor"), "");
}

}  // namespace
}  // namespace weir::drill
