#pragma once

#include <string>
#include <vector>

#include "server/grpc/service.h"

namespace weir::server::grpc {

// grpc.reflection.v1 and v1alpha, so that tools such as grpcurl can list and call what is served.
//
// Guarantees:  messages are described as their published contracts are: what ours hold as bytes is
//              text there, and tools take and show it so.
class ReflectionService final : public Service {
 public:
  // `services`: the full names of what is served, this one included.
  explicit ReflectionService(std::vector<std::string> services);

  std::span<const Method> methods() const noexcept override;
  void on_message(Session& session, const CallContext& call, std::string_view message) override;

 private:
  // A peer that asks and does not read is let go of beyond so many unread bytes.
  static constexpr std::size_t kMostUnread = 1U << 20U;

  std::vector<std::string> services_;
};

}  // namespace weir::server::grpc
