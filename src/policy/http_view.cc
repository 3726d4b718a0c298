#include "policy/http_view.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace weir::policy {
namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

bool is_token_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

// Requires: `name` in lower case.
bool is_named(std::string_view given, std::string_view name) {
  return given.size() == name.size() && std::equal(given.begin(), given.end(), name.begin(),
                                                   [](char a, char b) { return lower(a) == b; });
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return text.substr(0, 0);
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (lower(c) >= 'a' && lower(c) <= 'f') return lower(c) - 'a' + 10;
  return -1;
}

// Whether an encoded query name says `name`. An escape that is none stands for itself.
bool decodes_to(std::string_view encoded, std::string_view name) {
  std::size_t at = 0;
  for (std::size_t i = 0; i < encoded.size(); ++i, ++at) {
    char c = encoded[i] == '+' ? ' ' : encoded[i];
    if (c == '%' && i + 2 < encoded.size()) {
      const int high = hex_digit(encoded[i + 1]);
      const int low = hex_digit(encoded[i + 2]);
      if (high >= 0 && low >= 0) {
        c = static_cast<char>(high * 16 + low);
        i += 2;
      }
    }
    if (at >= name.size() || name[at] != c) return false;
  }
  return at == name.size();
}

// Cuts off what stands before the first `mark`, and takes it and the mark from `rest`.
std::string_view cut(std::string_view& rest, char mark) {
  const std::size_t at = rest.find(mark);
  const std::string_view out = rest.substr(0, at);
  rest = at == rest.npos ? std::string_view{} : rest.substr(at + 1);
  return out;
}

constexpr std::string_view kEmpty{"", 0};

}  // namespace

std::string_view to_string(HttpView::State state) {
  switch (state) {
    case HttpView::State::ready:
      return "well formed";
    case HttpView::State::bad_method:
      return "the method is no token of at most 32 bytes";
    case HttpView::State::bad_target:
      return "the target holds no path that can be matched";
    case HttpView::State::bad_host:
      return "there are different Hosts, or one that is no host";
    case HttpView::State::bad_peer:
      return "the peer is no address";
    case HttpView::State::bad_encoding:
      return "a header has no name";
  }
  return "malformed";
}

HttpView::State HttpView::take(const HttpRequest& request, const Model& model) noexcept {
  request_ = &request;
  method_size_ = host_size_ = scratch_used_ = 0;
  overflowed_ = false;
  client_.reset();
  State state = take_method(request.method);
  if (state == State::ready) state = take_headers();
  // A host in the target outranks the header: RFC 9112, section 3.2.2.
  if (state == State::ready) state = take_target(request.target);
  if (state == State::ready) state = take_client(model);
  return state;
}

HttpView::State HttpView::take_method(std::string_view method) noexcept {
  if (method.empty() || method.size() > method_.size()) return State::bad_method;
  for (const char c : method) {
    if (!is_token_char(c)) return State::bad_method;
    method_[method_size_++] = upper(c);
  }
  return State::ready;
}

HttpView::State HttpView::take_host(std::string_view host) noexcept {
  host = trimmed(host);
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == host.npos) return State::bad_host;
    host = host.substr(0, end + 1);
  } else {
    host = host.substr(0, host.find(':'));
  }
  if (host.ends_with('.')) host.remove_suffix(1);
  if (host.size() > host_.size()) return State::bad_host;
  host_size_ = 0;
  for (const char c : host) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f || c == '/' || c == '@')
      return State::bad_host;
    host_[host_size_++] = lower(c);
  }
  return State::ready;
}

HttpView::State HttpView::take_headers() noexcept {
  std::string_view host;
  for (const Descriptor& header : request_->headers) {
    if (header.name.empty()) return State::bad_encoding;
    if (!is_named(header.name, "host") && header.name != ":authority") continue;
    if (host.data() != nullptr && host != header.value) return State::bad_host;
    host = header.value.empty() ? kEmpty : header.value;
    if (const State state = take_host(header.value); state != State::ready) return state;
  }
  return State::ready;
}

HttpView::State HttpView::take_target(std::string_view target) noexcept {
  query_ = {};
  if (target == "*") {  // OPTIONS *
    path_ = target;
    return State::ready;
  }
  if (!target.starts_with('/')) {
    const std::size_t scheme = target.find("://");
    if (scheme == target.npos || scheme == 0 || scheme > 16) return State::bad_target;
    target.remove_prefix(scheme + 3);
    const std::size_t end = std::min(target.find_first_of("/?"), target.size());
    if (end == 0 || take_host(target.substr(0, end)) != State::ready) return State::bad_target;
    target.remove_prefix(end);
  }
  const std::size_t mark = target.find('?');
  if (mark != target.npos) query_ = target.substr(mark + 1);
  const std::string_view path = target.substr(0, mark);
  const auto normal = normalise_path(path.empty() ? "/" : path, path_buffer_);
  if (!normal) return State::bad_target;
  path_ = *normal;
  return State::ready;
}

HttpView::State HttpView::take_client(const Model& model) noexcept {
  if (request_->peer.empty()) return State::ready;
  // The last lines are the nearest proxies'; what stands before them is further than any walk goes.
  std::array<std::string_view, kMaxForwardedLines> lines;
  std::size_t count = 0;
  const auto headers = request_->headers;
  for (std::size_t i = headers.size(); i-- > 0 && count < lines.size();)
    if (is_named(headers[i].name, "x-forwarded-for"))
      lines[lines.size() - ++count] = headers[i].value;
  client_ = client_address(request_->peer, {lines.data() + lines.size() - count, count},
                           model.trusted_proxies);
  return client_ ? State::ready : State::bad_peer;
}

bool HttpView::keep(std::string_view bytes) noexcept {
  if (bytes.size() > kScratchBytes - scratch_used_) {
    overflowed_ = true;
    return false;
  }
  if (!bytes.empty()) std::memcpy(scratch_.data() + scratch_used_, bytes.data(), bytes.size());
  scratch_used_ += bytes.size();
  return true;
}

bool HttpView::decode(std::string_view encoded, std::string_view& out) noexcept {
  if (encoded.find_first_of("%+") == encoded.npos) {
    out = encoded;
    return true;
  }
  const std::size_t begin = scratch_used_;
  if (encoded.size() > kScratchBytes - scratch_used_) {
    overflowed_ = true;
    return false;
  }
  for (std::size_t i = 0; i < encoded.size(); ++i) {
    char c = encoded[i] == '+' ? ' ' : encoded[i];
    if (c == '%' && i + 2 < encoded.size()) {
      const int high = hex_digit(encoded[i + 1]);
      const int low = hex_digit(encoded[i + 2]);
      if (high >= 0 && low >= 0) {
        c = static_cast<char>(high * 16 + low);
        i += 2;
      }
    }
    scratch_[scratch_used_++] = c;
  }
  out = {scratch_.data() + begin, scratch_used_ - begin};
  return true;
}

std::string_view HttpView::header(std::string_view name) noexcept {
  std::string_view first;
  std::size_t begin = 0;
  bool joining = false;
  for (const Descriptor& line : request_->headers) {
    if (!is_named(line.name, name)) continue;
    const std::string_view value = line.value.empty() ? kEmpty : trimmed(line.value);
    if (first.data() == nullptr) {
      first = value;
      continue;
    }
    if (!joining) {
      begin = scratch_used_;
      joining = true;
      if (!keep(first)) return {};
    }
    if (!keep(", ") || !keep(value)) return {};
  }
  if (!joining) return first;
  return {scratch_.data() + begin, scratch_used_ - begin};
}

std::string_view HttpView::query_value(std::string_view name) noexcept {
  std::string_view found;
  for (std::string_view rest = query_; !rest.empty();) {
    std::string_view value = cut(rest, '&');
    const std::string_view key = cut(value, '=');
    if (!decodes_to(key, name)) continue;
    if (value.data() == nullptr) value = kEmpty;
    std::string_view decoded;
    if (!decode(value, decoded)) return {};
    if (found.data() != nullptr && found != decoded) return {};
    found = decoded;
  }
  return found;
}

std::string_view HttpView::cookie(std::string_view name) noexcept {
  std::string_view found;
  for (const Descriptor& line : request_->headers) {
    if (!is_named(line.name, "cookie")) continue;
    for (std::string_view rest = line.value; !rest.empty();) {
      std::string_view value = cut(rest, ';');
      const std::size_t equals = value.find('=');
      if (equals == value.npos || trimmed(value.substr(0, equals)) != name) continue;
      value = trimmed(value.substr(equals + 1));
      if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
        value = value.substr(1, value.size() - 2);
      if (found.data() != nullptr && found != value) return {};
      found = value;
    }
  }
  return found;
}

std::string_view HttpView::address_text() noexcept {
  if (!client_) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = client_->is_v4();
  inet_ntop(v4 ? AF_INET : AF_INET6, client_->bytes.data() + (v4 ? 12 : 0), text.data(),
            text.size());
  const std::size_t begin = scratch_used_;
  if (!keep(text.data())) return {};
  return {scratch_.data() + begin, scratch_used_ - begin};
}

std::string_view HttpView::value(const Source& source) noexcept {
  switch (source.kind) {
    case SourceKind::ip:
      return address_text();
    case SourceKind::path:
      return path_;
    case SourceKind::method:
      return method();
    case SourceKind::header:
      return header(source.name);
    case SourceKind::query:
      return query_value(source.name);
    case SourceKind::cookie:
      return cookie(source.name);
    case SourceKind::input:
      return {};
  }
  return {};
}

}  // namespace weir::policy
