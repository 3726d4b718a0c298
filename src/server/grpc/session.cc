#include "server/grpc/session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <new>

#include "server/grpc/call.h"
#include "server/grpc/session_callbacks.h"

namespace weir::server::grpc {
namespace {

// SETTINGS_NO_RFC7540_PRIORITIES: spares us the tree of a scheme that nobody uses.
constexpr std::int32_t kSettingNoPriorities = 0x09;
constexpr std::int32_t kConnectionWindow = 1 << 20;
// PING payload that asks whether the notice of a drain has arrived.
constexpr std::array<std::uint8_t, 8> kDrainPing = {'w', 'e', 'i', 'r', 'd', 'r', 'n', 0};

// A GOAWAY frame, written by hand: after a fatal error the HTTP/2 library may not be asked.
std::string goaway(CallId last, std::uint32_t error) {
  std::string frame = {0, 0, 8, NGHTTP2_GOAWAY, 0, 0, 0, 0, 0};
  const auto put = [&frame](std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) frame += static_cast<char>(value >> shift & 0xff);
  };
  put(static_cast<std::uint32_t>(last));
  put(error);
  return frame;
}

// Whether the bytes look like the first line of an HTTP/1 request.
bool looks_like_http1(std::string_view bytes) {
  const auto line = bytes.substr(0, bytes.find('\r'));
  return line.find(" HTTP/1.") != std::string_view::npos;
}

constexpr std::string_view kHttp1Farewell =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 37\r\n"
    "Connection: close\r\n\r\nThis port speaks gRPC (HTTP/2) only.\n";

Fault fault_of(int library_error) {
  switch (library_error) {
    case NGHTTP2_ERR_BAD_CLIENT_MAGIC:
      return Fault::not_http2;
    case NGHTTP2_ERR_FLOODED:
      return Fault::control_flood;
#ifdef WEIR_NGHTTP2_MAX_CONTINUATIONS
    case NGHTTP2_ERR_TOO_MANY_CONTINUATIONS:
      return Fault::header_flood;
#endif
    case NGHTTP2_ERR_NOMEM:
      return Fault::out_of_memory;
    default:
      return Fault::protocol;
  }
}

}  // namespace

bool FrameBudget::take(MonoTime now) noexcept {
  if (now > filled_) {
    const auto elapsed = std::min<std::int64_t>((now - filled_).count(), 3'600'000'000'000);
    const std::int64_t gained = elapsed * per_second_ / 1'000'000'000;
    if (gained > 0) {
      left_ = static_cast<std::uint32_t>(std::min<std::int64_t>(burst_, left_ + gained));
      filled_ = now;
    }
  }
  if (left_ == 0) return false;
  --left_;
  return true;
}

void FrameBudget::give(std::uint32_t count) noexcept {
  left_ = std::min(burst_, left_ + count);
}

Session::Session(Engine& engine, MonoTime now, Waker* waker)
    : engine_(engine),
      waker_(waker),
      http2_(engine.new_http2(*this)),
      now_(now),
      began_(now),
      control_(engine.limits().control_burst, engine.limits().control_per_second, now),
      resets_(engine.limits().reset_burst, engine.limits().reset_per_second, now) {
  if (http2_ == nullptr) throw std::bad_alloc();
  const std::array<nghttp2_settings_entry, 3> settings = {{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, engine.limits().max_calls},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, engine.limits().max_header_bytes},
      {kSettingNoPriorities, 1},
  }};
  nghttp2_submit_settings(http2_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(http2_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  engine_.counters().sessions.add();
  engine_.counters().sessions_open.add();
}

Session::~Session() {
  while (first_ != nullptr) close(*first_);
  nghttp2_session_del(http2_);
  engine_.counters().sessions_open.add(-1);
}

bool Session::feed(std::string_view bytes, MonoTime now) {
  now_ = now;
  if (over_) return false;
  attended_ = true;
  const auto taken = nghttp2_session_mem_recv(
      http2_, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  attended_ = false;
  if (taken < 0) {
    if (fault_ == Fault::none) {
      const Fault fault = fault_of(static_cast<int>(taken));
      const bool flood = fault == Fault::control_flood || fault == Fault::header_flood;
      fail(fault, flood ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_PROTOCOL_ERROR);
      if (fault == Fault::not_http2 && looks_like_http1(bytes)) farewell_ = kHttp1Farewell;
    }
    return false;
  }
  notice_end();
  return !over_;
}

void Session::pull(std::string& out, std::size_t max_bytes) {
  if (!farewell_.empty()) {
    out += farewell_;
    farewell_.clear();
  }
  while (!broken_ && out.size() < max_bytes) {
    const std::uint8_t* frame = nullptr;
    const auto size = nghttp2_session_mem_send(http2_, &frame);
    if (size < 0) {
      fail(Fault::out_of_memory, NGHTTP2_INTERNAL_ERROR);
      out += farewell_;
      farewell_.clear();
      return;
    }
    if (size == 0) break;
    out.append(reinterpret_cast<const char*>(frame), static_cast<std::size_t>(size));
  }
  notice_end();
}

// The library stops reading once it has sent a GOAWAY of its own, or the last one of a drain.
void Session::notice_end() {
  if (over_ || nghttp2_session_want_read(http2_) != 0) return;
  over_ = true;
  if (drained_) return;
  fault_ = Fault::protocol;
  engine_.counters().fault(fault_).add();
}

bool Session::wants_write() const noexcept {
  return !farewell_.empty() || (!broken_ && nghttp2_session_want_write(http2_) != 0);
}

bool Session::finished() const noexcept {
  if (wants_write()) return false;
  return broken_ || over_ || nghttp2_session_want_read(http2_) == 0;
}

int Session::fail(Fault fault, std::uint32_t http2_error) {
  if (fault_ == Fault::none) {
    fault_ = fault;
    engine_.counters().fault(fault).add();
    farewell_ = goaway(highest_, http2_error);
  }
  over_ = true;
  broken_ = true;
  return NGHTTP2_ERR_CALLBACK_FAILURE;
}

int Session::take_control() {
  return control_.take(now_) ? 0 : fail(Fault::control_flood, NGHTTP2_ENHANCE_YOUR_CALM);
}

int Session::take_reset() {
  return resets_.take(now_) ? 0 : fail(Fault::reset_flood, NGHTTP2_ENHANCE_YOUR_CALM);
}

void Session::drain(MonoTime now) {
  if (draining_ || broken_) return;
  draining_ = true;
  drain_at_ = now;
  nghttp2_submit_shutdown_notice(http2_);
  nghttp2_submit_ping(http2_, NGHTTP2_FLAG_NONE, kDrainPing.data());
}

void Session::on_ping_ack() {
  if (draining_) finish_drain();
}

void Session::finish_drain() {
  if (drained_) return;
  drained_ = true;
  nghttp2_submit_goaway(http2_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(http2_),
                        NGHTTP2_NO_ERROR, nullptr, 0);
}

void Session::sweep(MonoTime now) {
  now_ = now;
  if (broken_) return;
  const Nanos stall = engine_.limits().stall;
  if (!greeted_ && now - began_ > stall) {
    fail(Fault::not_http2, NGHTTP2_SETTINGS_TIMEOUT);
    return;
  }
  for (Call* call = first_; call != nullptr; call = call->next) {
    // A call that is being decided, or a stream that waits for news, is not at a standstill.
    const bool sending = call->finished || !call->out.empty();
    const bool receiving = !call->half_closed && (call->kind == MethodKind::unary ||
                                                  !call->dispatched || call->partial > 0);
    if ((sending || receiving) && now - call->progress > stall) {
      nghttp2_submit_rst_stream(http2_, NGHTTP2_FLAG_NONE, call->context.id, NGHTTP2_CANCEL);
      call->progress = now;
    }
  }
  if (draining_ && now - drain_at_ > engine_.limits().drain_notice) finish_drain();
}

void Session::wake() {
  if (waker_ != nullptr && !attended_) waker_->wake();
}

Call* Session::find(CallId id) const noexcept {
  if (broken_) return nullptr;
  return static_cast<Call*>(nghttp2_session_get_stream_user_data(http2_, id));
}

char* Session::append_message(CallId id, std::size_t bytes) {
  Call* call = find(id);
  if (call == nullptr || call->finished) return nullptr;
  const std::size_t at = call->out.size();
  call->out.resize(at + 5 + bytes);
  char* prefix = call->out.data() + at;
  prefix[0] = 0;
  for (int i = 0; i < 4; ++i) {
    prefix[1 + i] = static_cast<char>(bytes >> (24 - 8 * i) & 0xff);
  }
  return prefix + 5;
}

void Session::flush(CallId id) {
  Call* call = find(id);
  if (call == nullptr || call->finished || call->out.empty()) return;
  call->progress = now_;
  respond(*call);
  wake();
}

void Session::finish(CallId id, Code code, std::string_view message) {
  Call* call = find(id);
  if (call == nullptr || call->finished) return;
  call->finished = true;
  call->dispatched = true;
  call->progress = now_;
  call->code = code;
  if (!message.empty()) call->message = percent_encode(message);
  control_.give(4);
  resets_.give(1);
  engine_.counters().code(code).add();
  if (call->out.empty() && !call->responded) {
    respond_trailers_only(*call);
  } else {
    respond(*call);
  }
  wake();
}

std::size_t Session::unsent(CallId id) const noexcept {
  const Call* call = find(id);
  return call == nullptr ? 0 : call->out.size() - call->out_sent;
}

}  // namespace weir::server::grpc
