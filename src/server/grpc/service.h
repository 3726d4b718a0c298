#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "server/grpc/status.h"
#include "weir/clock.h"

namespace weir::server::grpc {

class Session;

// One call of a session: its HTTP/2 stream. Never reused within a session, so a late answer to a
// call that is gone is dropped and cannot reach another.
using CallId = std::int32_t;

enum class MethodKind : std::uint8_t {
  unary,      // exactly one message; handed over once the caller has half-closed
  streaming,  // any number, each handed over as it comes; the call stays open until finish()
};

struct Method {
  std::string_view path;  // "/package.Service/Method"
  MethodKind kind = MethodKind::unary;
};

struct CallContext {
  CallId id = 0;
  std::size_t method = 0;        // index into Service::methods()
  std::optional<Nanos> timeout;  // the caller's patience from `began` on: its grpc-timeout
  MonoTime began{};              // when its headers arrived
};

// What answers the calls of some methods.
//
// Threads:     one Service belongs to one lane; every member is called in its thread.
class Service {
 public:
  virtual ~Service() = default;

  virtual std::span<const Method> methods() const noexcept = 0;

  // Takes one message, which holds during the call. Answers now or later through `session`.
  virtual void on_message(Session& session, const CallContext& call, std::string_view message) = 0;
  // The caller of a streaming method will send no more. Finishes the call unless overridden.
  virtual void on_half_close(Session& session, const CallContext& call);
  // The message is longer than allowed, or the connection already holds too much; it was not read.
  // RESOURCE_EXHAUSTED unless overridden.
  virtual void on_too_large(Session& session, const CallContext& call);
  // The call ended before it was finished: the caller left, or the connection did.
  virtual void on_gone(Session& session, const CallContext& call) noexcept;
};

}  // namespace weir::server::grpc
