// Frames of any kind into a session: nothing ends the process, nothing grows beyond its bound.
//
// Input: one byte of options (bit 0: the preface comes first; bits 1 to 7: the size of the pieces
// that the rest is fed in), then bytes as they would stand on the wire.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "server/grpc/health.h"
#include "server/grpc/reflection.h"
#include "server/grpc/session.h"
#include "server/grpc/test_client.h"

namespace weir::server::grpc {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

SessionLimits small_limits() {
  SessionLimits limits;
  limits.max_calls = 16;
  limits.max_message_bytes = 2000;
  limits.max_partial_bytes = 4000;
  limits.max_header_bytes = 8000;
  return limits;
}

void run(std::uint8_t options, std::string_view bytes) {
  Echo echo;
  HealthService health([] { return true; }, {});
  ReflectionService reflection({});
  Engine engine(small_limits());
  engine.add(echo);
  engine.add(health);
  engine.add(reflection);
  MonoTime now{std::chrono::hours(1)};
  Session session(engine, now);
  std::string out;
  if ((options & 1U) != 0) session.feed(preface(), now);
  const std::size_t piece = std::max<std::size_t>(1, options >> 1U);
  bool open = true;
  for (int turn = 0; open && !bytes.empty(); ++turn) {
    open = session.feed(bytes.substr(0, piece), now);
    bytes.remove_prefix(std::min(bytes.size(), piece));
    require(session.open_calls() <= engine.limits().max_calls);
    require(session.partial_bytes() <= engine.limits().max_partial_bytes);
    if (turn % 3 == 0) session.pull(out, 1U << 16U);
    if (turn % 16 == 7) {
      // What was to be answered later is; also where its call has left by now.
      Echo::answer(session, echo.last.id, "late");
      session.finish(echo.last.id, Code::ok);
      now += std::chrono::seconds(11);
      session.sweep(now);
      health.publish();
    }
    if (turn % 64 == 63) session.drain(now);
    out.clear();
  }
  session.pull(out, 1U << 20U);
  if (session.fault() != Fault::none) require(!session.feed("x", now));
}

}  // namespace
}  // namespace weir::server::grpc

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  weir::server::grpc::run(data[0], {reinterpret_cast<const char*>(data + 1), size - 1});
  return 0;
}
