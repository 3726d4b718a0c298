#pragma once

#include <string>

#include "weir/result.h"

namespace weir::drill {

// Where somebody's API is, taken apart.
struct TargetUrl {
  bool tls = false;     // https
  std::string address;  // host:port, to connect to
  std::string host;     // as the Host header has it
  std::string name;     // of the host, without its port and brackets
  std::string path;     // and the query; begins with '/'
};

// Reads http://HOST[:PORT][/PATH][?QUERY], or https.
//
// Errors:      invalid_argument, with what is allowed.
Result<TargetUrl> parse_target_url(const std::string& text);

}  // namespace weir::drill
