#pragma once

#include <string>

#include "cli/environment.h"

namespace weir::cli {

// `weir proxy`, as written; an empty text leaves the default.
struct ProxyCommand {
  std::string listen;
  std::string upstream;
  std::string name;
  std::string api;  // host:port
  std::string config;
  std::string scenario;  // the name of one that ships, or a file
};

// Serves until it is told to end.
ExitCode proxy(Environment& environment, const ProxyCommand& command);

}  // namespace weir::cli
