#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>

namespace weir::server::grpc {

// The way from nghttp2 into a Session: plain functions, one an event.
struct SessionCallbacks {
  static void install(nghttp2_session_callbacks* callbacks);

  static int on_begin_frame(nghttp2_session*, const nghttp2_frame_hd* head, void* user);
  static int on_begin_headers(nghttp2_session*, const nghttp2_frame* frame, void* user);
  static int on_header(nghttp2_session* http2, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t flags, void* user);
  static int on_frame_recv(nghttp2_session* http2, const nghttp2_frame* frame, void* user);
  static int on_data_chunk_recv(nghttp2_session* http2, std::uint8_t flags, std::int32_t stream,
                                const std::uint8_t* data, std::size_t size, void* user);
  static int on_frame_send(nghttp2_session* http2, const nghttp2_frame* frame, void* user);
  static int on_stream_close(nghttp2_session* http2, std::int32_t stream, std::uint32_t error,
                             void* user);
  static ssize_t read_answer(nghttp2_session* http2, std::int32_t stream, std::uint8_t* buffer,
                             std::size_t size, std::uint32_t* flags, nghttp2_data_source* source,
                             void* user);
};

}  // namespace weir::server::grpc
