// The same rate limit service on grpc++'s callback API: the same limiter, the same messages. Prints
// "127.0.0.1:PORT" when it listens. Argument: a policy.

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/codegen/rpc_service_method.h>
#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/codegen/service_type.h>

#include <cstdio>
#include <limits>
#include <memory>
#include <vector>

#include "envoy/service/ratelimit/v3/rls.pb.h"
#include "guard/domain_limiter.h"
#include "weir/guard.h"

namespace {

using ::envoy::service::ratelimit::v3::RateLimitRequest;
using ::envoy::service::ratelimit::v3::RateLimitResponse;
namespace guard = weir::guard;

class NobodyListens final : public guard::RateLimitListener {
 public:
  void answered(std::uint64_t, guard::RateLimitAnswer) override {}
};

std::uint32_t clamp(std::uint64_t value) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::uint32_t>(value < kMost ? value : kMost);
}

class RlsOnGrpcpp final : public grpc::Service {
 public:
  explicit RlsOnGrpcpp(guard::RateLimiter& limiter) : limiter_(limiter) {
    AddMethod(new grpc::internal::RpcServiceMethod(
        "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
        grpc::internal::RpcMethod::NORMAL_RPC, nullptr));
    MarkMethodCallback(
        0, new grpc::internal::CallbackUnaryHandler<RateLimitRequest, RateLimitResponse>(
               [this](grpc::CallbackServerContext* context, const RateLimitRequest* request,
                      RateLimitResponse* response) {
                 decide(*request, *response);
                 auto* reactor = context->DefaultReactor();
                 reactor->Finish(grpc::Status::OK);
                 return reactor;
               }));
  }

 private:
  void decide(const RateLimitRequest& request, RateLimitResponse& response) {
    thread_local std::vector<guard::DescriptorEntry> entries;
    thread_local std::vector<guard::AskedDescriptor> descriptors;
    thread_local guard::RateLimitAnswer answer;
    std::size_t count = 0;
    for (const auto& each : request.descriptors()) {
      count += static_cast<std::size_t>(each.entries_size());
    }
    entries.clear();
    entries.reserve(count);
    descriptors.clear();
    for (const auto& each : request.descriptors()) {
      const std::size_t first = entries.size();
      for (const auto& entry : each.entries()) entries.push_back({entry.key(), entry.value()});
      descriptors.push_back({{entries.data() + first, entries.size() - first}, {}, {}});
    }
    answer.clear();
    (void)limiter_.decide({.domain = request.domain(), .descriptors = descriptors}, answer, nobody_,
                          0);
    response.set_overall_code(answer.decision.allowed() ? RateLimitResponse::OK
                                                        : RateLimitResponse::OVER_LIMIT);
    for (const auto& status : answer.statuses) {
      auto& to = *response.add_statuses();
      to.set_code(status.over ? RateLimitResponse::OVER_LIMIT : RateLimitResponse::OK);
      to.set_limit_remaining(clamp(status.remaining));
      if (status.until_reset) {
        to.mutable_duration_until_reset()->set_seconds(
            std::chrono::ceil<std::chrono::seconds>(*status.until_reset).count());
      }
      if (!status.limit) continue;
      to.mutable_current_limit()->set_requests_per_unit(clamp(status.limit->requests_per_unit));
      to.mutable_current_limit()->set_unit(
          static_cast<RateLimitResponse::RateLimit::Unit>(status.limit->unit));
    }
  }

  guard::RateLimiter& limiter_;
  NobodyListens nobody_;
};

}  // namespace

int main(int count, char** words) {
  if (count != 2) return 2;
  auto policy = weir::Policy::load(words[1]);
  if (!policy) {
    std::fprintf(stderr, "%s\n", policy.error().message.c_str());
    return 2;
  }
  auto opened = weir::Guard::open(std::move(*policy));
  if (!opened) return 3;
  guard::DomainLimiter limiter(*opened);
  RlsOnGrpcpp service(limiter);
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const auto server = builder.BuildAndStart();
  std::printf("127.0.0.1:%d\n", port);
  std::fflush(stdout);
  server->Wait();
}
