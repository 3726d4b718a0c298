// What one call costs the allocator, from its bytes to its answer's bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "guard/domain_limiter.h"
#include "server/grpc/rls.h"
#include "server/grpc/test_client.h"
#include "testing/allocations.h"
#include "testing/manual_clock.h"

namespace weir::server::grpc {
namespace {

using ::envoy::service::ratelimit::v3::RateLimitRequest;
using testing::allocations;

constexpr const char* kDomain = R"(
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 1000000, name: per_user}
  - key: path
    descriptors:
      - key: method
        rate_limit: {unit: hour, requests_per_unit: 1000000}
)";

std::string request(int user) {
  RateLimitRequest out;
  out.set_domain("shop");
  auto* entry = out.add_descriptors()->add_entries();
  entry->set_key("user");
  entry->set_value("user-with-quite-a-long-name-" + std::to_string(user % 10));
  auto* second = out.add_descriptors();
  for (const char* key : {"path", "method"}) {
    entry = second->add_entries();
    entry->set_key(key);
    entry->set_value(std::string("some-value-of-") + key);
  }
  return framed(out.SerializeAsString());
}

TEST(RlsAllocation, ACallAllocatesNothingInASteadyState) {
#if defined(__SANITIZE_ADDRESS__) || defined(WEIR_SANITIZE_THREAD)
  GTEST_SKIP() << "what nghttp2 and protobuf take of the sanitizers' allocator is not counted";
#endif
  testing::ManualClock clock;
  Guard guard = Guard::open(Policy::parse(kDomain).value(), {.clock = &clock}).value();
  guard::DomainLimiter limiter(guard);
  RlsService rls(limiter, [](const std::function<void()>&) {});
  Engine engine;
  engine.add(rls);
  const MonoTime now{std::chrono::hours(1)};
  Session session(engine, now);
  std::string out;
  out.reserve(1U << 20U);
  session.feed(preface(), now);
  std::int32_t id = 1;
  std::uint64_t fewest = ~0ULL;
  std::uint64_t calls = 0;
  for (int round = 0; round < 100; ++round) {
    // As they come over the wire: several calls in one read, answered by one write.
    std::string wire;
    for (int i = 0; i < 8; ++i, id += 2) {
      wire +=
          frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, id,
                request_headers("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"));
      wire += frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, id, request(i));
    }
    const std::uint64_t before = allocations();
    ASSERT_TRUE(session.feed(wire, now));
    out.clear();
    session.pull(out, 1U << 20U);
    fewest = std::min(fewest, allocations() - before);
    calls += 8;
  }
  EXPECT_EQ(engine.counters().code(Code::ok).get(), calls);
  EXPECT_GT(allocations(), 0U);
  EXPECT_EQ(fewest, 0U) << "allocations for 8 calls";
}

}  // namespace
}  // namespace weir::server::grpc
