#pragma once

#include <string>
#include <vector>

#include "cli/environment.h"

namespace weir::cli {

// `weir drill POLICY [SCENARIO…]`, as written; an empty text leaves the default.
struct DrillCommand {
  std::string policy;
  std::vector<std::string>
      scenarios;       // names of those that ship, `all`, or files; none: failover-11s
  std::string length;  // percent
  std::string rate;
  std::string clients;
  std::string cost;
  std::string report;  // directory
  std::string store;
  // Instead of a policy: somebody's API.
  std::string target;
  std::string proxy_store;
  std::string listen;
  std::string limit;
  std::string key;
  std::string keys;  // file
  std::string method;
  std::vector<std::string> headers;
  std::string body;
  std::string timeout;
  std::string wait;
  std::string expect;
  std::string tls_ca;  // file
  std::string tls_server_name;
  bool insecure = false;
  bool list = false;
  bool json = false;
};

// Guarantees:  answered_no where an expectation or a bound was broken.
ExitCode drill(Environment& environment, const DrillCommand& command);

}  // namespace weir::cli
