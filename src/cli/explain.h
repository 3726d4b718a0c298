#pragma once

#include <string>

#include "cli/environment.h"

namespace weir::cli {

// `weir explain POLICY [ROUTE]`: what happens with the store up, slow, down and coming back, and
// the most that can be admitted; or which limit of a domain a request meets, and why.
struct ExplainCommand {
  std::string policy;
  std::string route;    // or domain; empty: all of them
  std::string request;  // instead: which limit this one meets
  std::string workers;
  std::string outage;
  std::string store;
  bool json = false;
};

ExitCode explain(Environment& environment, const ExplainCommand& command);

}  // namespace weir::cli
