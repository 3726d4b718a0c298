#include "server/grpc/health.h"

#include <algorithm>
#include <utility>

#include "grpc/health/v1/health.pb.h"
#include "server/grpc/message.h"
#include "server/grpc/session.h"

namespace weir::server::grpc {
namespace {

using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;

constexpr Method kMethods[] = {{"/grpc.health.v1.Health/Check", MethodKind::unary},
                               {"/grpc.health.v1.Health/Watch", MethodKind::streaming}};
constexpr std::size_t kCheck = 0;

HealthCheckResponse::ServingStatus serving(bool ready) {
  return ready ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

}  // namespace

HealthService::HealthService(std::function<bool()> ready, std::vector<std::string> names)
    : ready_(std::move(ready)), names_(std::move(names)) {}

std::span<const Method> HealthService::methods() const noexcept {
  return kMethods;
}

bool HealthService::knows(std::string_view name) const {
  return name.empty() || name == "ratelimit" ||
         std::find(names_.begin(), names_.end(), name) != names_.end();
}

void HealthService::on_message(Session& session, const CallContext& call,
                               std::string_view message) {
  HealthCheckRequest request;
  if (!read_message(message, request)) {
    return end(session, call, Code::internal, "the message cannot be read");
  }
  const bool known = knows(request.service());
  if (call.method == kCheck) {
    if (!known) return session.finish(call.id, Code::not_found, "unknown service");
    HealthCheckResponse response;
    response.set_status(serving(ready_()));
    append_message(session, call.id, response);
    return session.finish(call.id, Code::ok);
  }
  const bool watching = std::any_of(watchers_.begin(), watchers_.end(), [&](const Watcher& each) {
    return each.session == &session && each.call == call.id;
  });
  if (watching) return end(session, call, Code::unimplemented, "Watch takes one message");
  watchers_.push_back({&session, call.id, known});
  tell(watchers_.back(), known ? serving(ready_()) : HealthCheckResponse::SERVICE_UNKNOWN);
}

// A watcher says nothing more after its one message, and goes on listening.
void HealthService::on_half_close(Session& /*session*/, const CallContext& /*call*/) {}

void HealthService::on_gone(Session& session, const CallContext& call) noexcept {
  std::erase_if(watchers_, [&](const Watcher& each) {
    return each.session == &session && each.call == call.id;
  });
}

// A finished call is not told as gone.
void HealthService::end(Session& session, const CallContext& call, Code code,
                        std::string_view why) {
  on_gone(session, call);
  session.finish(call.id, code, why);
}

void HealthService::publish() {
  if (watchers_.empty()) return;
  const auto status = serving(ready_());
  for (Watcher& watcher : watchers_) {
    if (!watcher.known || watcher.told == status) continue;
    if (watcher.session->unsent(watcher.call) == 0) tell(watcher, status);
  }
}

void HealthService::tell(Watcher& watcher, int status) {
  HealthCheckResponse response;
  response.set_status(static_cast<HealthCheckResponse::ServingStatus>(status));
  append_message(*watcher.session, watcher.call, response);
  watcher.session->flush(watcher.call);
  watcher.told = status;
}

}  // namespace weir::server::grpc
