#include "drill/target/target_url.h"

#include <algorithm>
#include <string_view>

namespace weir::drill {

Result<TargetUrl> parse_target_url(const std::string& text) {
  constexpr std::string_view kScheme = "http://";
  const auto bad = [&text](const std::string& why) {
    return Error{ErrorCode::invalid_argument,
                 "--target is '" + text + "': " + why + "; allowed: http://HOST[:PORT][/PATH]"};
  };
  if (text.starts_with("https://")) {
    return bad("the drill speaks no TLS: name the address where the app itself listens");
  }
  if (!text.starts_with(kScheme)) return bad("it is no http address");
  if (std::any_of(text.begin(), text.end(), [](char c) { return c <= ' ' || c == 0x7f; })) {
    return bad("it has a blank or a control character");
  }
  const std::size_t end = std::min(text.find_first_of("/?#", kScheme.size()), text.size());
  TargetUrl url;
  url.host = text.substr(kScheme.size(), end - kScheme.size());
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
  url.address = has_port ? url.host : url.host + ":80";
  return url;
}

}  // namespace weir::drill
