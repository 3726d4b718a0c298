#include "server/grpc/engine.h"

#include <nghttp2/nghttp2.h>

#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "server/grpc/call.h"
#include "server/grpc/session_callbacks.h"

namespace weir::server::grpc {

std::string_view to_string(Fault fault) noexcept {
  switch (fault) {
    case Fault::none:
      return "none";
    case Fault::not_http2:
      return "not_http2";
    case Fault::protocol:
      return "protocol";
    case Fault::control_flood:
      return "control_flood";
    case Fault::reset_flood:
      return "reset_flood";
    case Fault::header_flood:
      return "header_flood";
    case Fault::out_of_memory:
      return "out_of_memory";
  }
  return "none";
}

void Call::reset() {
  context = {};
  service = nullptr;
  kind = MethodKind::unary;
  deframer.reset(kKeptBytes);
  held.clear();
  if (held.capacity() > kKeptBytes) held.shrink_to_fit();
  partial = 0;
  out.clear();
  if (out.capacity() > kKeptBytes) out.shrink_to_fit();
  out_sent = 0;
  header_bytes = 0;
  progress = {};
  code = Code::ok;
  message.clear();
  next = nullptr;
  previous = nullptr;
  headers_done = false;
  post = false;
  grpc_type = false;
  bad_timeout = false;
  encoded = false;
  has_message = false;
  half_closed = false;
  dispatched = false;
  responded = false;
  finished = false;
  suspended = false;
}

namespace {

BlockPool& pool_of(void* user) {
  return *static_cast<BlockPool*>(user);
}

}  // namespace

Engine::Engine(SessionLimits limits) : limits_(limits) {
  // Both calls fail only when memory is out, and before there is anything to serve.
  if (nghttp2_session_callbacks_new(&callbacks_) != 0) throw std::bad_alloc();
  SessionCallbacks::install(callbacks_);
  if (nghttp2_option_new(&option_) != 0) throw std::bad_alloc();
  nghttp2_option_set_no_closed_streams(option_, 1);
  nghttp2_option_set_max_outbound_ack(option_, limits_.control_burst);
#ifdef WEIR_NGHTTP2_RESET_RATE
  // The session counts resets itself and gives back for calls that were finished. The library's
  // bound knows no giving back and would end an honest proxy whose own clients leave.
  nghttp2_option_set_stream_reset_rate_limit(option_, std::numeric_limits<std::uint32_t>::max(),
                                             std::numeric_limits<std::uint32_t>::max());
#endif
#ifdef WEIR_NGHTTP2_MAX_CONTINUATIONS
  nghttp2_option_set_max_continuations(option_, limits_.max_header_bytes / 16'384 + 1);
#endif
}

Engine::~Engine() {
  nghttp2_option_del(option_);
  nghttp2_session_callbacks_del(callbacks_);
}

void Engine::add(Service& service) {
  const auto methods = service.methods();
  for (std::size_t i = 0; i < methods.size(); ++i) targets_.push_back({&service, &methods[i], i});
}

Engine::Target Engine::find(std::string_view path) const noexcept {
  for (const Target& target : targets_) {
    if (target.method->path == path) return target;
  }
  return {};
}

nghttp2_session* Engine::new_http2(Session& session) {
  // Copied by the library.
  nghttp2_mem memory;
  memory.mem_user_data = &pool_;
  memory.malloc = [](std::size_t bytes, void* user) { return pool_of(user).take(bytes); };
  memory.free = [](void* block, void* user) { pool_of(user).give(block); };
  memory.calloc = [](std::size_t count, std::size_t each, void* user) {
    void* const block = pool_of(user).take(count * each);
    return block == nullptr ? nullptr : std::memset(block, 0, count * each);
  };
  memory.realloc = [](void* block, std::size_t bytes, void* user) {
    return pool_of(user).resize(block, bytes);
  };
  nghttp2_session* http2 = nullptr;
  nghttp2_session_server_new3(&http2, callbacks_, &session, option_, &memory);
  return http2;
}

std::unique_ptr<Call> Engine::acquire() {
  if (spare_.empty()) return std::make_unique<Call>();
  auto call = std::move(spare_.back());
  spare_.pop_back();
  return call;
}

void Engine::recycle(std::unique_ptr<Call> call) {
  if (spare_.size() >= kSpareCalls) return;
  call->reset();
  spare_.push_back(std::move(call));
}

}  // namespace weir::server::grpc
