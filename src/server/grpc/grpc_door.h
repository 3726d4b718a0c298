#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "guard/rate_limiter.h"
#include "render/exposition.h"
#include "server/door.h"
#include "server/grpc/engine.h"

namespace weir::server::grpc {

// What the gRPC doors of all lanes have counted, as metrics.
//
// Threads:     any.
class GrpcMetrics {
 public:
  void watch(std::shared_ptr<const SessionCounters> counters);
  // Writes its families; to be handed to render::Metrics::add_source.
  void write(render::Exposition& exposition) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const SessionCounters>> lanes_;
};

struct GrpcDoorOptions {
  guard::RateLimiter* limiter = nullptr;  // outlives the lane
  std::function<bool()> ready;            // in any lane's thread; degraded is ready
  SessionLimits limits;
  GrpcMetrics* metrics = nullptr;  // outlives the door; null: nobody counts
};

// Opens connections of gRPC over HTTP/2 with prior knowledge: rate limit service, health,
// reflection.
std::unique_ptr<Door> make_grpc_door(Lane& lane, GrpcDoorOptions options);

}  // namespace weir::server::grpc
