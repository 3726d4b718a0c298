// The half of Session that follows one call: from its headers to its trailers.

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "server/grpc/call.h"
#include "server/grpc/session.h"
#include "server/grpc/session_callbacks.h"

namespace weir::server::grpc {
namespace {

constexpr std::uint8_t kNoCopy = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE;

// A header whose name and value live as long as the process.
nghttp2_nv fixed(std::string_view name, std::string_view value) {
  // nghttp2 takes pointers to what it may change, and does not change what it may not copy.
  return {reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
          value.size(), kNoCopy};
}

// As fixed(), but the value is copied.
nghttp2_nv copied(std::string_view name, std::string_view value) {
  nghttp2_nv header = fixed(name, value);
  header.flags = NGHTTP2_NV_FLAG_NO_COPY_NAME;
  return header;
}

constexpr std::string_view kIdentity = "identity";

}  // namespace

void Service::on_half_close(Session& session, const CallContext& call) {
  session.finish(call.id, Code::ok);
}

void Service::on_too_large(Session& session, const CallContext& call) {
  session.finish(call.id, Code::resource_exhausted, "the message is longer than allowed");
}

void Service::on_gone(Session& /*session*/, const CallContext& /*call*/) noexcept {}

Call* Session::open(CallId id) {
  Call* call = engine_.acquire().release();
  call->context.id = id;
  call->context.began = now_;
  call->progress = now_;
  highest_ = std::max(highest_, id);
  link(*call);
  return call;
}

void Session::close(Call& call) {
  unlink(call);
  partial_bytes_ -= call.partial;
  if (!call.finished) {
    engine_.counters().abandoned.add();
    if (call.service != nullptr && call.dispatched) call.service->on_gone(*this, call.context);
  }
  engine_.recycle(std::unique_ptr<Call>(&call));
}

void Session::link(Call& call) noexcept {
  call.previous = last_;
  (last_ != nullptr ? last_->next : first_) = &call;
  last_ = &call;
  ++open_calls_;
  engine_.counters().calls_open.add();
}

void Session::unlink(Call& call) noexcept {
  (call.previous != nullptr ? call.previous->next : first_) = call.next;
  (call.next != nullptr ? call.next->previous : last_) = call.previous;
  --open_calls_;
  engine_.counters().calls_open.add(-1);
}

int Session::on_header(Call& call, std::string_view name, std::string_view value) {
  call.header_bytes += name.size() + value.size();
  if (call.header_bytes > engine_.limits().max_header_bytes) {
    return fail(Fault::header_flood, NGHTTP2_ENHANCE_YOUR_CALM);
  }
  if (call.headers_done) return 0;  // trailers tell us nothing
  if (name == ":path") {
    const Engine::Target target = engine_.find(value);
    call.service = target.service;
    call.context.method = target.index;
    if (target.method != nullptr) call.kind = target.method->kind;
  } else if (name == ":method") {
    call.post = value == "POST";
  } else if (name == "content-type") {
    call.grpc_type = is_grpc_content_type(value);
  } else if (name == "grpc-timeout") {
    call.context.timeout = parse_timeout(value);
    call.bad_timeout = !call.context.timeout;
  } else if (name == "grpc-encoding") {
    call.encoded = value != kIdentity;
  }
  return 0;
}

void Session::on_headers_end(Call& call) {
  call.headers_done = true;
  if (!call.post) return respond_http(call, "405");
  if (!call.grpc_type) return respond_http(call, "415");
  const CallId id = call.context.id;
  if (call.service == nullptr) return finish(id, Code::unimplemented, "no such method");
  if (call.bad_timeout) finish(id, Code::internal, "grpc-timeout is malformed");
}

void Session::on_data(Call& call, std::string_view bytes, bool last) {
  while (!bytes.empty() && !call.finished) {
    if (call.kind == MethodKind::unary && call.dispatched) return;
    std::string_view message;
    const CallId id = call.context.id;
    switch (call.deframer.next(bytes, engine_.limits().max_message_bytes, message)) {
      case Deframer::Event::more:
        break;
      case Deframer::Event::message:
        on_message(call, message, last && bytes.empty());
        break;
      case Deframer::Event::too_large:
        return too_large(call);
      case Deframer::Event::compressed:
        return call.encoded ? finish(id, Code::unimplemented, "messages must not be compressed")
                            : finish(id, Code::internal, "compressed without grpc-encoding");
      case Deframer::Event::malformed:
        return finish(id, Code::internal, "the message's flag byte is neither 0 nor 1");
    }
  }
  call.progress = now_;
  settle_partial(call);
}

void Session::on_message(Call& call, std::string_view message, bool last) {
  if (call.kind == MethodKind::streaming || last) {
    if (call.has_message) return finish_cardinality(call);
    call.dispatched = true;
    call.service->on_message(*this, call.context, message);
    return;
  }
  if (call.has_message) return finish_cardinality(call);
  call.has_message = true;
  call.held.assign(message);
}

void Session::finish_cardinality(Call& call) {
  finish(call.context.id, Code::unimplemented, "the method takes exactly one message");
}

void Session::on_half_close(Call& call) {
  call.half_closed = true;
  if (call.finished) return;
  const CallId id = call.context.id;
  if (call.deframer.held() > 0) return finish(id, Code::internal, "the message is cut off");
  if (call.kind == MethodKind::streaming) return call.service->on_half_close(*this, call.context);
  if (call.dispatched) return;
  if (!call.has_message) return finish_cardinality(call);
  call.dispatched = true;
  call.service->on_message(*this, call.context, call.held);
  call.held.clear();
  settle_partial(call);
}

void Session::too_large(Call& call) {
  call.deframer.reset(0);
  call.held.clear();
  call.dispatched = true;
  settle_partial(call);
  call.service->on_too_large(*this, call.context);
}

void Session::settle_partial(Call& call) {
  const std::size_t holds = call.deframer.held() + call.held.size();
  partial_bytes_ += holds - call.partial;
  call.partial = holds;
  if (holds > 0 && partial_bytes_ > engine_.limits().max_partial_bytes) too_large(call);
}

void Session::respond_http(Call& call, std::string_view status) {
  call.finished = true;
  engine_.counters().http_errors.add();
  const std::array<nghttp2_nv, 1> headers = {fixed(":status", status)};
  nghttp2_submit_response(http2_, call.context.id, headers.data(), headers.size(), nullptr);
}

void Session::respond_trailers_only(Call& call) {
  call.responded = true;
  std::array<nghttp2_nv, 5> headers = {
      fixed(":status", "200"), fixed("content-type", "application/grpc"),
      fixed("grpc-status", wire_text(call.code)), fixed("grpc-accept-encoding", kIdentity),
      copied("grpc-message", call.message)};
  nghttp2_submit_response(http2_, call.context.id, headers.data(),
                          call.message.empty() ? headers.size() - 1 : headers.size(), nullptr);
}

void Session::respond(Call& call) {
  if (call.responded) {
    if (call.suspended) {
      call.suspended = false;
      nghttp2_session_resume_data(http2_, call.context.id);
    }
    return;
  }
  call.responded = true;
  const std::array<nghttp2_nv, 2> headers = {fixed(":status", "200"),
                                             fixed("content-type", "application/grpc")};
  nghttp2_data_provider answer;
  answer.source.ptr = &call;
  answer.read_callback = SessionCallbacks::read_answer;
  nghttp2_submit_response(http2_, call.context.id, headers.data(), headers.size(), &answer);
}

void Session::submit_trailers(Call& call) {
  const std::array<nghttp2_nv, 2> trailers = {fixed("grpc-status", wire_text(call.code)),
                                              copied("grpc-message", call.message)};
  nghttp2_submit_trailer(http2_, call.context.id, trailers.data(),
                         call.message.empty() ? 1 : trailers.size());
}

void Session::on_answer_sent(Call& call) {
  // The caller is still sending what nobody will read: say so, as RFC 9113 §8.1 does.
  if (call.half_closed) return;
  nghttp2_submit_rst_stream(http2_, NGHTTP2_FLAG_NONE, call.context.id, NGHTTP2_NO_ERROR);
}

}  // namespace weir::server::grpc
