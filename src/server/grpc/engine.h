#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "server/grpc/block_pool.h"
#include "server/grpc/service.h"
#include "server/grpc/status.h"
#include "weir/clock.h"

struct nghttp2_session_callbacks;
struct nghttp2_option;
struct nghttp2_session;

namespace weir::server::grpc {

struct Call;

// What one connection may make us hold or do.
struct SessionLimits {
  // Most calls open at once; more are refused with REFUSED_STREAM, which a client may retry.
  std::uint32_t max_calls = 1024;
  // Longest message. Longer ones are refused without being read.
  std::uint32_t max_message_bytes = 4U << 20U;
  // Most bytes of incomplete messages, over all calls.
  std::uint32_t max_partial_bytes = 8U << 20U;
  // Longest header list of one call, names and values; more ends the connection.
  std::uint32_t max_header_bytes = 256U << 10U;
  // Frames that ask for work and bring nothing (PING, SETTINGS, PRIORITY, WINDOW_UPDATE, empty DATA
  // or CONTINUATION): at most `control_burst` at once and `control_per_second` after that. A
  // finished call gives four back, for the frames that honest clients send with it.
  std::uint32_t control_burst = 2'000;
  std::uint32_t control_per_second = 500;
  // Calls that the peer gives up before they are answered. A finished call gives one back.
  std::uint32_t reset_burst = 5'000;
  std::uint32_t reset_per_second = 500;
  // Bytes waiting to be sent above which nothing more is read.
  std::size_t output_high_water = 256U << 10U;
  // How long the preface, an incomplete request or an answer that the peer does not take may stand
  // still.
  Nanos stall{std::chrono::seconds(30)};
  // After the notice of a drain, how long calls in flight on the wire are still taken.
  Nanos drain_notice{std::chrono::milliseconds(500)};
};

// Why a session was ended by us.
enum class Fault : std::uint8_t {
  none,
  not_http2,      // the first bytes are not HTTP/2's preface
  protocol,       // a frame broke the rules of HTTP/2
  control_flood,  // more control frames than allowed
  reset_flood,    // more abandoned calls than allowed
  header_flood,   // a header list longer than allowed, or too many continuations
  out_of_memory,
};
inline constexpr std::size_t kFaults = 7;
std::string_view to_string(Fault fault) noexcept;

// A number that its lane alone changes and any thread may read.
class LaneCounter {
 public:
  void add(std::int64_t count = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(count),
                 std::memory_order_relaxed);
  }
  std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

struct SessionCounters {
  LaneCounter sessions;
  LaneCounter sessions_open;
  LaneCounter calls_open;
  std::array<LaneCounter, kCodes> finished{};  // by Code
  LaneCounter abandoned;                       // by the caller, before they were finished
  LaneCounter http_errors;                     // requests that are not gRPC's: 405, 415
  std::array<LaneCounter, kFaults> faults{};   // by Fault

  LaneCounter& fault(Fault fault) noexcept { return faults[static_cast<std::size_t>(fault)]; }
  LaneCounter& code(Code code) noexcept { return finished[static_cast<std::size_t>(code)]; }
};

// What the sessions of one lane share: the services, the bounds, the counters and spare room.
//
// Threads:     belongs to one lane.
class Engine {
 public:
  explicit Engine(SessionLimits limits = {});
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // Adds the methods of a service, which outlives the engine. Requires: no session yet.
  void add(Service& service);

  struct Target {
    Service* service = nullptr;
    const Method* method = nullptr;
    std::size_t index = 0;
  };
  // Finds a method by its path; Target::service is null where there is none.
  Target find(std::string_view path) const noexcept;

  const SessionLimits& limits() const noexcept { return limits_; }
  SessionCounters& counters() noexcept { return *counters_; }
  // For a reader that outlives the engine.
  std::shared_ptr<const SessionCounters> shared_counters() const noexcept { return counters_; }

 private:
  friend class Session;

  // Calls are kept for reuse with the room that they have grown, up to kSpareCalls.
  static constexpr std::size_t kSpareCalls = 4096;
  // The library's side of a session; null when memory is out.
  nghttp2_session* new_http2(Session& session);
  std::unique_ptr<Call> acquire();
  void recycle(std::unique_ptr<Call> call);

  SessionLimits limits_;
  std::shared_ptr<SessionCounters> counters_ = std::make_shared<SessionCounters>();
  std::vector<Target> targets_;
  std::vector<std::unique_ptr<Call>> spare_;
  BlockPool pool_;  // where the HTTP/2 library's objects come from
  nghttp2_session_callbacks* callbacks_ = nullptr;
  nghttp2_option* option_ = nullptr;
};

}  // namespace weir::server::grpc
