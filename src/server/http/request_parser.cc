#include "server/http/request_parser.h"

#include <utility>  // Boost 1.74 needs it first

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weir::server::http {
namespace {

namespace beast_http = boost::beast::http;
using boost::beast::error_code;
using BeastView = boost::beast::string_view;

std::string_view view(BeastView text) {
  return {text.data(), text.size()};
}

// A part of the bytes of a request, wherever they stand now.
struct Part {
  std::uint32_t at = 0;
  std::uint32_t size = 0;
  std::string_view in(std::string_view bytes) const { return bytes.substr(at, size); }
};

// A target in absolute form without its scheme and authority, which say nothing here: RFC 9112
// (3.2.2) has every server take it. Anything else is left as it is.
std::string_view origin_form(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (target.size() < scheme.size() || !same_name(target.substr(0, scheme.size()), scheme)) {
      continue;
    }
    const std::size_t path = target.find_first_of("/?", scheme.size());
    if (path == std::string_view::npos) return "/";
    return target[path] == '/' ? target.substr(path) : target;
  }
  return target;
}

struct FieldPart {
  Part name;
  Part value;
  std::size_t end() const { return std::max(name.at + name.size, value.at + value.size); }
};

// What Host may hold: a registered name, an IPv4 address or an [IPv6] one, and a port. Empty is
// allowed where the target has no authority.
bool host_is_sound(std::string_view host) {
  for (const char c : host) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') ||
                         std::string_view("-._~!$&'()*+,;=:[]%").find(c) != std::string_view::npos;
    if (!allowed) return false;
  }
  return true;
}

}  // namespace

struct RequestParser::Impl {
  // Receives from Beast; remembers by offsets, because the buffer may move.
  class Sink final : public beast_http::basic_parser<true> {
   public:
    explicit Sink(Impl& owner) : owner_(owner) {}

   private:
    void on_request_impl(beast_http::verb, BeastView method, BeastView target, int version,
                         error_code&) override {
      owner_.method = owner_.part(method);
      owner_.target = owner_.part(target);
      owner_.request.http11 = version == 11;
    }
    void on_field_impl(beast_http::field name, BeastView text, BeastView value,
                       error_code& ec) override {
      if (owner_.head_done) return;  // a trailer: read past, never mixed with the header
      owner_.on_field(name, text, value, ec);
    }
    void on_header_impl(error_code& ec) override { owner_.on_header(*this, ec); }
    void on_body_init_impl(boost::optional<std::uint64_t> const&, error_code&) override {}
    std::size_t on_body_impl(BeastView body, error_code&) override {
      if (owner_.body.size == 0) owner_.body.at = owner_.part(body).at;
      owner_.body.size += static_cast<std::uint32_t>(body.size());
      return body.size();
    }
    void on_chunk_header_impl(std::uint64_t, BeastView, error_code&) override {}
    std::size_t on_chunk_body_impl(std::uint64_t, BeastView body, error_code&) override {
      owner_.chunks.append(body.data(), body.size());
      return body.size();
    }
    void on_finish_impl(error_code&) override {}
    void on_response_impl(int, BeastView, int, error_code&) override {}

    Impl& owner_;
  };

  explicit Impl(const Bounds& with) : bounds(with) { reset(); }

  void reset() {
    sink.emplace(*this);
    sink->eager(true);
    sink->header_limit(static_cast<std::uint32_t>(bounds.header_bytes));
    sink->body_limit(bounds.body_bytes);
    state = State::start;
    fault = {};
    consumed = 0;
    head_done = false;
    expects_continue = false;
    chunked = false;
    body = {};
    has_length = false;
    hosts = 0;
    chunks.clear();
    if (chunks.capacity() > kKeptChunkBytes) chunks.shrink_to_fit();
    fields.clear();
    views.clear();
  }

  Part part(BeastView text) const {
    return {static_cast<std::uint32_t>(text.data() - bytes.data()),
            static_cast<std::uint32_t>(text.size())};
  }
  bool inside(BeastView text) const {
    return text.data() >= bytes.data() && text.data() + text.size() <= bytes.data() + bytes.size();
  }

  // Refuses: Beast is told of a fault, and ours is the one that counts.
  void refuse(int status, std::string_view detail, error_code& ec) {
    fault = {status, detail};
    ec = beast_http::error::bad_field;
  }

  void on_field(beast_http::field id, BeastView name, BeastView value, error_code& ec) {
    if (fields.size() >= bounds.header_fields) {
      return refuse(431, "The request has too many header fields.", ec);
    }
    // Beast unfolds into a buffer of its own.
    if (!value.empty() && !inside(value)) {
      return refuse(400, "Folded header fields are not accepted.", ec);
    }
    fields.push_back({part(name), value.empty() ? Part{} : part(value)});
    switch (id) {
      case beast_http::field::host:
        if (++hosts > 1) return refuse(400, "The request has more than one Host.", ec);
        if (!host_is_sound(view(value))) return refuse(400, "The Host is malformed.", ec);
        return;
      case beast_http::field::transfer_encoding:
        if (!same_name(view(value), "chunked")) {
          return refuse(501, "The only transfer coding understood is chunked.", ec);
        }
        chunked = true;
        return;
      case beast_http::field::content_length:
        if (std::exchange(has_length, true)) {
          return refuse(400, "The request has more than one Content-Length.", ec);
        }
        if (view(value).find_first_not_of("0123456789") != std::string_view::npos) {
          return refuse(400, "The Content-Length is not a number.", ec);
        }
        return;
      case beast_http::field::expect:
        if (!same_name(view(value), "100-continue")) {
          return refuse(417, "The only expectation understood is 100-continue.", ec);
        }
        expects_continue = true;
        return;
      default:
        return;
    }
  }

  void on_header(const Sink& parser, error_code& ec) {
    head_done = true;
    const bool http11 = request.http11;
    if (target.size > bounds.target_bytes) {
      return refuse(414, "The request target is too long.", ec);
    }
    // Beast measures only what it has not taken yet.
    if (!fields.empty() && fields.back().end() + kHeaderEnd > bounds.header_bytes) {
      return refuse(431, "The request's header is too long.", ec);
    }
    if (http11 && hosts == 0) return refuse(400, "The request has no Host.", ec);
    if (!http11 && chunked) {
      return refuse(400, "HTTP/1.0 has no transfer codings.", ec);
    }
    expects_continue = expects_continue && http11;
    request.keep_alive = parser.keep_alive();
  }

  void fill() {
    request.method = method.in(bytes);
    request.target = origin_form(target.in(bytes));
    views.reserve(fields.size());
    for (const FieldPart& each : fields) {
      views.push_back({each.name.in(bytes), each.value.in(bytes)});
    }
    request.fields = views;
    request.body = chunked ? std::string_view(chunks) : body.in(bytes);
  }

  static constexpr std::size_t kHeaderEnd = 4;  // CR LF CR LF
  static constexpr std::size_t kKeptChunkBytes = 16 * 1024;

  const Bounds& bounds;
  std::optional<Sink> sink;
  std::string_view bytes;
  State state = State::start;
  Fault fault;
  std::size_t consumed = 0;
  bool head_done = false;
  bool expects_continue = false;
  bool chunked = false;
  bool has_length = false;
  unsigned hosts = 0;
  Part method;
  Part target;
  Part body;
  std::vector<FieldPart> fields;
  std::vector<Field> views;
  std::string chunks;
  Request request;
};

namespace {

// Whether the first line ends in a version of HTTP that is not one of ours.
bool names_another_version(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\r'));
  const std::size_t at = line.rfind(" HTTP/");
  if (at == std::string_view::npos) return false;
  const std::string_view version = line.substr(at + 6);
  return !version.starts_with("1.0") && !version.starts_with("1.1");
}

RequestParser::Fault fault_of(const error_code& ec, bool head_done, std::string_view bytes) {
  using beast_http::error;
  if (ec == error::header_limit) return {431, "The request's header is too long."};
  if (ec == error::body_limit) return {413, "The request's body is too long."};
  if (ec == error::bad_method) return {400, "The request method is malformed."};
  if (ec == error::bad_target) return {400, "The request target is malformed."};
  if (ec == error::bad_version && names_another_version(bytes)) {
    return {505, "This port speaks HTTP/1.1 and HTTP/1.0 only."};
  }
  if (ec == error::bad_version) return {400, "The request line is malformed."};
  if (ec == error::bad_content_length) {
    return {400, "The request's length is malformed or said twice."};
  }
  if (ec == error::bad_transfer_encoding) {
    return {400, "The request's transfer coding is malformed or contradicts its length."};
  }
  if (ec == error::bad_line_ending) return {400, "A line does not end in CR LF."};
  if (head_done) return {400, "The request's chunked body is malformed."};
  return {400, "A header field is malformed."};
}

}  // namespace

RequestParser::RequestParser(const Bounds& bounds) : impl_(std::make_unique<Impl>(bounds)) {}
RequestParser::~RequestParser() = default;

void RequestParser::reset() {
  impl_->reset();
}

RequestParser::State RequestParser::parse(std::string_view bytes) {
  Impl& in = *impl_;
  if (in.state == State::failed || in.state == State::done || bytes.size() <= in.consumed) {
    return in.state;
  }
  in.bytes = bytes;
  error_code ec;
  in.consumed += in.sink->put({bytes.data() + in.consumed, bytes.size() - in.consumed}, ec);
  if (ec && ec != beast_http::error::need_more) {
    // Ours says it better, where there is one.
    if (in.fault.detail.empty()) in.fault = fault_of(ec, in.head_done, bytes);
    return in.state = State::failed;
  }
  if (in.sink->is_done()) {
    in.fill();
    return in.state = State::done;
  }
  const auto& bounds = in.bounds;
  if (!in.head_done) {
    if (bytes.size() > bounds.header_bytes) {
      const bool in_line = in.consumed == 0;
      in.fault = in_line ? Fault{414, "The request target is too long."}
                         : Fault{431, "The request's header is too long."};
      return in.state = State::failed;
    }
    return in.state = State::head;
  }
  if (bytes.size() > bounds.header_bytes + bounds.body_bytes + bounds.framing_bytes ||
      (in.chunked && bytes.size() - in.consumed > bounds.header_bytes)) {
    in.fault = {413, "The request's body is too long."};
    return in.state = State::failed;
  }
  return in.state = State::body;
}

RequestParser::State RequestParser::state() const noexcept {
  return impl_->state;
}
const Request& RequestParser::request() const noexcept {
  return impl_->request;
}
RequestParser::Fault RequestParser::fault() const noexcept {
  return impl_->fault;
}
std::size_t RequestParser::consumed() const noexcept {
  return impl_->consumed;
}
bool RequestParser::expects_continue() const noexcept {
  return impl_->expects_continue;
}

}  // namespace weir::server::http
