#include "server/grpc/grpc_door.h"

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "server/grpc/connection.h"
#include "server/grpc/health.h"
#include "server/grpc/reflection.h"
#include "server/grpc/rls.h"

namespace weir::server::grpc {
namespace {

const std::vector<std::string>& service_names() {
  static const std::vector<std::string> names = {std::string(RlsService::kName),
                                                 "grpc.health.v1.Health",
                                                 "grpc.reflection.v1.ServerReflection"};
  return names;
}

// The services of one lane.
struct Services final : LaneShared {
  Services(Lane& its_lane, GrpcDoorOptions& options)
      : LaneShared(its_lane, options.limits),
        health(std::move(options.ready), service_names()),
        reflection(service_names()),
        rls(*options.limiter, [this](std::function<void()> work) { post(std::move(work)); }) {
    engine.add(rls);
    engine.add(health);
    engine.add(reflection);
  }

  void tick() override { health.publish(); }

  void post(std::function<void()> work) {
    lane.post([self = weak_from_this(), work = std::move(work)] {
      if (const auto alive = self.lock()) work();
    });
  }

  HealthService health;
  ReflectionService reflection;
  RlsService rls;
};

class GrpcDoor final : public Door {
 public:
  explicit GrpcDoor(std::shared_ptr<Services> services) : services_(std::move(services)) {}

  void open(Lane& lane, std::unique_ptr<Stream> stream) override {
    lane.adopt(std::make_unique<GrpcConnection>(services_, std::move(stream)));
  }

  // SETTINGS, then GOAWAY naming no stream: a client may try all of its calls elsewhere.
  void turn_away(Lane& /*lane*/, std::unique_ptr<Stream> stream) override {
    static constexpr char kFarewell[] = {0, 0, 0, 4, 0, 0, 0, 0, 0,  //
                                         0, 0, 8, 7, 0, 0, 0, 0, 0,  //
                                         0, 0, 0, 0, 0, 0, 0, 0};
    stream->write_some(kFarewell);
  }

 private:
  std::shared_ptr<Services> services_;
};

}  // namespace

std::unique_ptr<Door> make_grpc_door(Lane& lane, GrpcDoorOptions options) {
  GrpcMetrics* metrics = options.metrics;
  const auto services = std::make_shared<Services>(lane, options);
  if (metrics != nullptr) metrics->watch(services->engine.shared_counters());
  return std::make_unique<GrpcDoor>(services);
}

void GrpcMetrics::watch(std::shared_ptr<const SessionCounters> counters) {
  const std::lock_guard lock(mutex_);
  lanes_.push_back(std::move(counters));
}

void GrpcMetrics::write(render::Exposition& exposition) const {
  using Type = render::Exposition::Type;
  const std::lock_guard lock(mutex_);
  const auto sum = [this](auto read) {
    std::uint64_t total = 0;
    for (const auto& lane : lanes_) total += read(*lane).get();
    return total;
  };
  exposition.family("weir_grpc_calls_total", Type::counter, "Calls answered, by gRPC status code.");
  for (std::size_t code = 0; code < kCodes; ++code) {
    const std::uint64_t count =
        sum([code](const SessionCounters& c) -> const LaneCounter& { return c.finished[code]; });
    if (count == 0 && code != 0) continue;
    exposition.sample({{"code", std::to_string(code)}}, count);
  }
  exposition.family("weir_grpc_calls_abandoned_total", Type::counter,
                    "Calls that the caller gave up before they were answered.");
  exposition.sample(
      sum([](const SessionCounters& c) -> const LaneCounter& { return c.abandoned; }));
  exposition.family("weir_grpc_connections_ended_total", Type::counter,
                    "gRPC connections that Weir ended, by what the peer did.");
  for (std::size_t fault = 1; fault < kFaults; ++fault) {
    exposition.sample(
        {{"fault", to_string(static_cast<Fault>(fault))}},
        sum([fault](const SessionCounters& c) -> const LaneCounter& { return c.faults[fault]; }));
  }
}

}  // namespace weir::server::grpc
