#pragma once

#include <string>

#include "cli/environment.h"

namespace weir::cli {

// `weir explain POLICY [ROUTE]`: what happens with the store up, slow, down and coming back, and
// the most that can be admitted; or which limit of a domain a request meets, and why; or, without a
// policy, what each failure of a store means.
struct ExplainCommand {
  std::string policy;
  std::string route;    // or domain; empty: all of them
  std::string request;  // instead: which limit this one meets
  std::string workers;
  std::string outage;
  std::string offered;
  std::string store;
  bool errors = false;  // instead of all that: the table of failures
  bool json = false;

  bool operator==(const ExplainCommand&) const = default;
};

ExitCode explain(Environment& environment, const ExplainCommand& command);

}  // namespace weir::cli
