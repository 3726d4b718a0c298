#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "guard/rate_limiter.h"
#include "server/grpc/service.h"

namespace weir::server::grpc {

// envoy.service.ratelimit.v3.RateLimitService: translates, and decides nothing itself.
//
// Guarantees:  every message that can be read is answered OK or OVER_LIMIT, never UNKNOWN; a gRPC
//              error is sent only where the policy asks for it (`rls_refusal: unavailable`), or
//              where the message is no RateLimitRequest. A proxy would take an error for "allow".
// Cost:        no allocation in a steady state, on a limiter that answers at once.
class RlsService final : public Service, private guard::RateLimitListener {
 public:
  static constexpr std::string_view kName = "envoy.service.ratelimit.v3.RateLimitService";

  // `post` has work done in the lane's thread while the lane's services are there, and drops it
  // otherwise; `limiter` outlives this.
  RlsService(guard::RateLimiter& limiter, std::function<void(std::function<void()>)> post);
  ~RlsService() override;

  std::span<const Method> methods() const noexcept override;
  void on_message(Session& session, const CallContext& call, std::string_view message) override;
  // Answered OVER_LIMIT unread: what is too long to be looked at is not let through.
  void on_too_large(Session& session, const CallContext& call) override;
  void on_gone(Session& session, const CallContext& call) noexcept override;

  // Calls that wait for their answer.
  std::size_t waiting() const noexcept;

 private:
  // Messages above this size leave no room behind.
  static constexpr std::size_t kKeptMessage = 64U << 10U;

  // Texts of metadata kept in their wire form.
  static constexpr std::size_t kKeptMetadata = 4096;

  // A call that waits. `turn` tells a ticket of a place that was reused from the present one.
  struct Waiting {
    Session* session = nullptr;
    CallId call = 0;
    std::uint32_t turn = 0;
  };
  struct Messages;

  void answered(std::uint64_t ticket, guard::RateLimitAnswer answer) override;
  void answer_waiting(std::uint64_t ticket, const guard::RateLimitAnswer& answer);
  void read_ask(const CallContext& call, MonoTime now);
  void answer(Session& session, CallId call, const guard::RateLimitAnswer& answer);
  void write_response(const guard::RateLimitAnswer& answer);
  void write_headers(const guard::RateLimitAnswer& answer);
  void write_kept_metadata(std::string_view json);
  void write_metadata(const Decision& decision);
  std::uint32_t take_place(Session& session, CallId call);
  void free_place(std::uint32_t place) noexcept;

  guard::RateLimiter& limiter_;
  std::function<void(std::function<void()>)> post_;
  std::unique_ptr<Messages> messages_;
  std::vector<guard::DescriptorEntry> entries_;
  std::vector<guard::AskedDescriptor> descriptors_;
  guard::RateLimitAsk ask_;
  guard::RateLimitAnswer answer_;
  std::string lines_;
  std::vector<Waiting> waiting_;
  std::vector<std::uint32_t> free_;
};

}  // namespace weir::server::grpc
