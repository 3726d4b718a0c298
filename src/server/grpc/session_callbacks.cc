#include "server/grpc/session_callbacks.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "server/grpc/call.h"
#include "server/grpc/session.h"

namespace weir::server::grpc {
namespace {

Session& session_of(void* user) {
  return *static_cast<Session*>(user);
}

Call* call_of(nghttp2_session* http2, std::int32_t stream) {
  return static_cast<Call*>(nghttp2_session_get_stream_user_data(http2, stream));
}

std::string_view text_of(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

bool is_request(const nghttp2_frame* frame) {
  return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

}  // namespace

void SessionCallbacks::install(nghttp2_session_callbacks* callbacks) {
  nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
  nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
  nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
  nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk_recv);
  nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
  nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}

// Every frame passes here before its payload is read, so this is where floods are counted.
int SessionCallbacks::on_begin_frame(nghttp2_session*, const nghttp2_frame_hd* head, void* user) {
  Session& session = session_of(user);
  switch (head->type) {
    case NGHTTP2_DATA: {
      session.frame_left_ = head->length;
      const bool empty = head->length == 0 && (head->flags & NGHTTP2_FLAG_END_STREAM) == 0;
      return empty ? session.take_control() : 0;
    }
    case NGHTTP2_HEADERS:
      // A call beyond the bound will be refused; asking for it all the same is not work.
      return session.open_calls_ < session.engine_.limits().max_calls ? 0 : session.take_control();
    case NGHTTP2_RST_STREAM:
      return session.take_reset();
    default:
      return session.take_control();
  }
}

int SessionCallbacks::on_begin_headers(nghttp2_session* http2, const nghttp2_frame* frame,
                                       void* user) {
  if (!is_request(frame)) return 0;
  Call* call = session_of(user).open(frame->hd.stream_id);
  return nghttp2_session_set_stream_user_data(http2, frame->hd.stream_id, call);
}

int SessionCallbacks::on_header(nghttp2_session* http2, const nghttp2_frame* frame,
                                const std::uint8_t* name, std::size_t name_size,
                                const std::uint8_t* value, std::size_t value_size,
                                std::uint8_t /*flags*/, void* user) {
  Call* call = call_of(http2, frame->hd.stream_id);
  if (call == nullptr) return 0;
  return session_of(user).on_header(*call, text_of(name, name_size), text_of(value, value_size));
}

int SessionCallbacks::on_frame_recv(nghttp2_session* http2, const nghttp2_frame* frame,
                                    void* user) {
  Session& session = session_of(user);
  switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA: {
      Call* call = call_of(http2, frame->hd.stream_id);
      if (call == nullptr) return 0;
      if (is_request(frame)) session.on_headers_end(*call);
      if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) session.on_half_close(*call);
      return 0;
    }
    case NGHTTP2_SETTINGS:
      session.greeted_ = true;
      return 0;
    case NGHTTP2_PING:
      if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) session.on_ping_ack();
      return 0;
    default:
      return 0;
  }
}

int SessionCallbacks::on_data_chunk_recv(nghttp2_session* http2, std::uint8_t flags,
                                         std::int32_t stream, const std::uint8_t* data,
                                         std::size_t size, void* user) {
  Session& session = session_of(user);
  session.frame_left_ -= std::min(session.frame_left_, size);
  Call* call = call_of(http2, stream);
  if (call == nullptr) return 0;
  const bool last = (flags & NGHTTP2_FLAG_END_STREAM) != 0 && session.frame_left_ == 0;
  session.on_data(*call, text_of(data, size), last);
  return 0;
}

int SessionCallbacks::on_frame_send(nghttp2_session* http2, const nghttp2_frame* frame,
                                    void* user) {
  if (frame->hd.type != NGHTTP2_HEADERS) return 0;
  if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
  Call* call = call_of(http2, frame->hd.stream_id);
  if (call != nullptr) session_of(user).on_answer_sent(*call);
  return 0;
}

int SessionCallbacks::on_stream_close(nghttp2_session* http2, std::int32_t stream,
                                      std::uint32_t /*error*/, void* user) {
  Call* call = call_of(http2, stream);
  if (call == nullptr) return 0;
  nghttp2_session_set_stream_user_data(http2, stream, nullptr);
  session_of(user).close(*call);
  return 0;
}

ssize_t SessionCallbacks::read_answer(nghttp2_session*, std::int32_t /*stream*/,
                                      std::uint8_t* buffer, std::size_t size, std::uint32_t* flags,
                                      nghttp2_data_source* source, void* user) {
  Call& call = *static_cast<Call*>(source->ptr);
  const std::size_t count = std::min(size, call.out.size() - call.out_sent);
  std::memcpy(buffer, call.out.data() + call.out_sent, count);
  call.out_sent += count;
  Session& session = session_of(user);
  call.progress = session.now_;
  if (call.out_sent < call.out.size()) return static_cast<ssize_t>(count);
  call.out.clear();
  call.out_sent = 0;
  if (call.finished) {
    *flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    session.submit_trailers(call);
  } else if (count == 0) {
    call.suspended = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  return static_cast<ssize_t>(count);
}

}  // namespace weir::server::grpc
