// Any bytes as a RateLimitRequest: answered OK or OVER_LIMIT where protobuf can read them, and with
// an error where it cannot; what the limiter is shown is what protobuf read.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "server/grpc/rls.h"
#include "server/grpc/test_client.h"

namespace weir::server::grpc {
namespace {

using ::envoy::service::ratelimit::v3::RateLimitRequest;
using ::envoy::service::ratelimit::v3::RateLimitResponse;

void require(bool holds) {
  if (!holds) std::abort();
}

// Denies every other descriptor, and repeats what it was asked in its answer.
class MirrorLimiter final : public guard::RateLimiter {
 public:
  bool decide(const guard::RateLimitAsk& ask, guard::RateLimitAnswer& answer,
              guard::RateLimitListener&, std::uint64_t) override {
    compare(ask);
    answer.decision.verdict = Verdict::allowed;
    answer.decision.rung = Rung::store;
    for (const guard::AskedDescriptor& descriptor : ask.descriptors) {
      guard::DescriptorStatus& status = answer.statuses.emplace_back();
      status.over = answer.statuses.size() % 2 == 0;
      if (status.over) answer.decision.verdict = Verdict::limited;
      status.remaining = descriptor.hits.value_or(ask.hits);
      if (descriptor.limit) {
        status.limit = {descriptor.limit->requests_per_unit, descriptor.limit->unit, ask.domain};
        status.until_reset = Nanos(static_cast<std::int64_t>(status.remaining >> 1U));
      }
    }
    return true;
  }
  void refuse_unread(guard::RateLimitAnswer&) override {}

  RateLimitRequest expected;

 private:
  void compare(const guard::RateLimitAsk& ask) const {
    require(ask.domain == expected.domain());
    require(ask.hits >= 1);
    require(static_cast<int>(ask.descriptors.size()) == expected.descriptors_size());
    for (int i = 0; i < expected.descriptors_size(); ++i) {
      const auto& asked = ask.descriptors[static_cast<std::size_t>(i)];
      const auto& read = expected.descriptors(i);
      require(static_cast<int>(asked.entries.size()) == read.entries_size());
      for (int j = 0; j < read.entries_size(); ++j) {
        require(asked.entries[static_cast<std::size_t>(j)].key == read.entries(j).key());
        require(asked.entries[static_cast<std::size_t>(j)].value == read.entries(j).value());
      }
      require(asked.limit.has_value() == read.has_limit());
      require(asked.hits.has_value() == read.has_hits_addend());
    }
  }
};

// Kept from input to input: nothing of one may show in the next.
struct World {
  MonoTime now{std::chrono::hours(1)};
  MirrorLimiter limiter;
  RlsService rls{limiter, [](const std::function<void()>& work) { work(); }};
  Engine engine;
  World() { engine.add(rls); }
};

void run(std::string_view bytes) {
  static World world;
  world.limiter.expected.Clear();
  const bool readable =
      world.limiter.expected.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
  Session session(world.engine, world.now);
  TestClient client(session);
  const auto id =
      client.call("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", framed(bytes));
  client.run(world.now);
  require(client.answer(id).closed);
  require(client.answer(id).status() == (readable ? "0" : "13"));
  if (!readable) return;
  RateLimitResponse response;
  require(response.ParseFromString(client.answer(id).message()));
  require(response.overall_code() != RateLimitResponse::UNKNOWN);
  require(response.statuses_size() == world.limiter.expected.descriptors_size());
  for (const auto& status : response.statuses()) {
    require(status.code() != RateLimitResponse::UNKNOWN);
  }
}

}  // namespace
}  // namespace weir::server::grpc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 60'000) return 0;  // beyond what one window of flow control carries at once
  weir::server::grpc::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
