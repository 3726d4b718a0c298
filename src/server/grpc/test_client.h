#pragma once

// For tests only: the client's side of a session, on nghttp2's client or on frames by hand.

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/grpc/session.h"

namespace weir::server::grpc {

// One gRPC message with its prefix.
inline std::string framed(std::string_view message, char flag = 0) {
  std::string out(1, flag);
  for (int shift = 24; shift >= 0; shift -= 8) {
    out += static_cast<char>(message.size() >> shift & 0xff);
  }
  return out.append(message);
}

inline std::string frame(std::uint8_t type, std::uint8_t flags, std::int32_t stream,
                         std::string_view payload) {
  std::string out;
  for (int shift = 16; shift >= 0; shift -= 8) {
    out += static_cast<char>(payload.size() >> shift & 0xff);
  }
  out += static_cast<char>(type);
  out += static_cast<char>(flags);
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(stream >> shift & 0xff);
  return out.append(payload);
}

inline std::string preface() {
  return std::string(NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN) +
         frame(NGHTTP2_SETTINGS, 0, 0, "");
}

// A header block in literals without indexing: needs no state.
inline std::string literal_headers(
    const std::vector<std::pair<std::string, std::string>>& headers) {
  std::string out;
  for (const auto& [name, value] : headers) {
    out += '\0';
    for (const std::string* text : {&name, &value}) {
      std::size_t size = text->size();
      if (size < 127) {
        out += static_cast<char>(size);
      } else {
        out += static_cast<char>(127);
        for (size -= 127; size >= 128; size >>= 7) out += static_cast<char>(size % 128 + 128);
        out += static_cast<char>(size);
      }
      out += *text;
    }
  }
  return out;
}

inline std::string request_headers(std::string_view path) {
  return literal_headers({{":method", "POST"},
                          {":scheme", "http"},
                          {":authority", "weir"},
                          {":path", std::string(path)},
                          {"content-type", "application/grpc"},
                          {"te", "trailers"}});
}

// What a session sent, cut into frames.
struct SentFrame {
  std::uint8_t type = 0;
  std::uint8_t flags = 0;
  std::int32_t stream = 0;
  std::string payload;

  std::uint32_t word(std::size_t at) const {
    std::uint32_t value = 0;
    for (std::size_t i = at; i < at + 4; ++i) {
      value = value << 8U | static_cast<std::uint8_t>(payload.at(i));
    }
    return value;
  }
};

inline std::vector<SentFrame> frames_of(std::string_view bytes) {
  std::vector<SentFrame> out;
  while (bytes.size() >= 9) {
    const auto byte = [&bytes](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
    const std::size_t size = byte(0) * 65536U + byte(1) * 256U + byte(2);
    SentFrame one;
    one.type = byte(3);
    one.flags = byte(4);
    one.stream = static_cast<std::int32_t>(byte(5) * 16777216U + byte(6) * 65536U + byte(7) * 256U +
                                           byte(8));
    one.payload = bytes.substr(9, size);
    out.push_back(one);
    bytes.remove_prefix(std::min(bytes.size(), 9 + size));
  }
  return out;
}

// The error code of the GOAWAY among `bytes`; -1 where there is none.
inline std::int64_t goaway_error(std::string_view bytes) {
  for (const SentFrame& one : frames_of(bytes)) {
    if (one.type == NGHTTP2_GOAWAY) return one.word(4);
  }
  return -1;
}

// A gRPC client on nghttp2, joined to a Session in memory.
class TestClient {
 public:
  struct Answer {
    std::map<std::string, std::string> headers;  // and trailers
    std::string body;
    bool closed = false;
    std::uint32_t reset = 0;  // error code of the stream's end

    std::string status() const {
      const auto found = headers.find("grpc-status");
      return found == headers.end() ? "" : found->second;
    }
    // The body without the prefix of its one message.
    std::string message() const { return body.size() < 5 ? "" : body.substr(5); }
  };
  using Headers = std::vector<std::pair<std::string, std::string>>;

  explicit TestClient(Session& session) : session_(session) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_client_new(&http2_, callbacks, this);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(http2_, 0, nullptr, 0);
  }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;
  ~TestClient() { nghttp2_session_del(http2_); }

  // Starts a call. `body` is sent as it is; `end` half-closes after it.
  std::int32_t call(std::string_view path, std::string body, bool end = true, Headers extra = {}) {
    Headers headers = {{":method", "POST"},
                       {":scheme", "http"},
                       {":authority", "weir"},
                       {":path", std::string(path)},
                       {"te", "trailers"}};
    bool typed = false;
    for (auto& header : extra) {
      typed = typed || header.first == "content-type";
      if (header.first == ":method") {
        headers[0] = header;
      } else {
        headers.push_back(header);
      }
    }
    if (!typed) headers.emplace_back("content-type", "application/grpc");
    std::vector<nghttp2_nv> block;
    for (const auto& [name, value] : headers) {
      block.push_back({reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                       reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())),
                       name.size(), value.size(), 0});
    }
    nghttp2_data_provider provider;
    provider.source.ptr = this;
    provider.read_callback = read_body;
    const std::int32_t id =
        nghttp2_submit_request(http2_, nullptr, block.data(), block.size(), &provider, nullptr);
    bodies_[id] = {std::move(body), end};
    return id;
  }
  // Adds to the body of a call that was not ended.
  void more(std::int32_t id, std::string_view bytes, bool end) {
    bodies_[id].bytes += bytes;
    bodies_[id].end = end;
    nghttp2_session_resume_data(http2_, id);
  }
  void reset(std::int32_t id) { nghttp2_submit_rst_stream(http2_, 0, id, NGHTTP2_CANCEL); }
  void ping() { nghttp2_submit_ping(http2_, 0, nullptr); }

  // Moves bytes both ways until neither side has any.
  void run(MonoTime now) {
    for (bool moved = true; moved;) {
      moved = false;
      const std::uint8_t* data = nullptr;
      for (auto size = nghttp2_session_mem_send(http2_, &data); size > 0;
           size = nghttp2_session_mem_send(http2_, &data)) {
        session_.feed({reinterpret_cast<const char*>(data), static_cast<std::size_t>(size)}, now);
        moved = true;
      }
      std::string out;
      session_.pull(out, 1 << 20);
      if (!out.empty()) {
        nghttp2_session_mem_recv(http2_, reinterpret_cast<const std::uint8_t*>(out.data()),
                                 out.size());
        moved = true;
      }
    }
  }

  const Answer& answer(std::int32_t id) { return answers_[id]; }
  bool told_to_leave() const noexcept { return goaways_ > 0; }
  int goaways() const noexcept { return goaways_; }
  nghttp2_session* http2() noexcept { return http2_; }

 private:
  struct Body {
    std::string bytes;
    bool end = true;
  };

  static TestClient& self(void* user) { return *static_cast<TestClient*>(user); }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                       std::uint8_t, void* user) {
    self(user)
        .answers_[frame->hd.stream_id]
        .headers[std::string(reinterpret_cast<const char*>(name), name_size)] =
        std::string(reinterpret_cast<const char*>(value), value_size);
    return 0;
  }
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                     std::size_t size, void* user) {
    self(user).answers_[id].body.append(reinterpret_cast<const char*>(data), size);
    return 0;
  }
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* user) {
    self(user).answers_[id].closed = true;
    self(user).answers_[id].reset = error;
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_GOAWAY) ++self(user).goaways_;
    return 0;
  }
  static ssize_t read_body(nghttp2_session*, std::int32_t id, std::uint8_t* buffer,
                           std::size_t size, std::uint32_t* flags, nghttp2_data_source* source,
                           void*) {
    Body& body = static_cast<TestClient*>(source->ptr)->bodies_[id];
    const std::size_t count = std::min(size, body.bytes.size());
    body.bytes.copy(reinterpret_cast<char*>(buffer), count);
    body.bytes.erase(0, count);
    if (body.bytes.empty()) {
      if (body.end) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
      } else if (count == 0) {
        return NGHTTP2_ERR_DEFERRED;
      }
    }
    return static_cast<ssize_t>(count);
  }

  Session& session_;
  nghttp2_session* http2_ = nullptr;
  std::map<std::int32_t, Answer> answers_;
  std::map<std::int32_t, Body> bodies_;
  int goaways_ = 0;
};

// Answers each message with itself. "later" is answered when the test says so.
class Echo final : public Service {
 public:
  static constexpr std::string_view kUnary = "/test.Echo/Unary";
  static constexpr std::string_view kStream = "/test.Echo/Stream";

  std::span<const Method> methods() const noexcept override { return kMethods; }
  void on_message(Session& session, const CallContext& call, std::string_view message) override {
    last = call;
    ++messages;
    if (message == "later") return;
    answer(session, call.id, message);
    if (call.method == 0) {
      session.finish(call.id, Code::ok);
    } else {
      session.flush(call.id);
    }
  }
  void on_gone(Session&, const CallContext& call) noexcept override { gone.push_back(call.id); }

  static void answer(Session& session, CallId id, std::string_view message) {
    char* room = session.append_message(id, message.size());
    if (room != nullptr) message.copy(room, message.size());
  }

  CallContext last;
  int messages = 0;
  std::vector<CallId> gone;

 private:
  static constexpr Method kMethods[] = {{kUnary, MethodKind::unary},
                                        {kStream, MethodKind::streaming}};
};

}  // namespace weir::server::grpc
