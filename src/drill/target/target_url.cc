#include "drill/target/target_url.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string_view>

namespace weir::drill {
namespace {

bool is_port(std::string_view text) {
  std::uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, port);
  return read.ec == std::errc() && read.ptr == end && port > 0;
}

}  // namespace

Result<TargetUrl> parse_target_url(const std::string& text) {
  constexpr std::string_view kPlain = "http://";
  constexpr std::string_view kTls = "https://";
  const auto bad = [&text](const std::string& why) {
    return Error{ErrorCode::invalid_argument, "--target is '" + text + "': " + why +
                                                  "; allowed: http://HOST[:PORT][/PATH], or https"};
  };
  TargetUrl url;
  url.tls = text.starts_with(kTls);
  if (!url.tls && !text.starts_with(kPlain)) return bad("it is no http address");
  const std::size_t begin = (url.tls ? kTls : kPlain).size();
  if (std::any_of(text.begin(), text.end(), [](char c) { return c <= ' ' || c == 0x7f; })) {
    return bad("it has a blank or a control character");
  }
  const std::size_t end = std::min(text.find_first_of("/?#", begin), text.size());
  url.host = text.substr(begin, end - begin);
  url.path = text.substr(end, text.find('#', end) - end);
  if (!url.path.starts_with('/')) url.path.insert(0, "/");
  if (url.host.empty()) return bad("it names no host");
  if (url.host.find('@') != std::string::npos) {
    return bad("credentials belong in --header 'Authorization: …'");
  }
  const std::size_t colon = url.host.rfind(':');
  const std::size_t bracket = url.host.rfind(']');
  const bool has_port =
      colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  if (has_port && !is_port(std::string_view(url.host).substr(colon + 1))) {
    return bad("its port must be a number from 1 to 65535");
  }
  url.name = has_port ? url.host.substr(0, colon) : url.host;
  if (url.name.empty()) return bad("it names no host");
  url.address = has_port ? url.host : url.host + (url.tls ? ":443" : ":80");
  if (url.name.front() == '[') url.name = url.name.substr(1, url.name.size() - 2);
  return url;
}

}  // namespace weir::drill
