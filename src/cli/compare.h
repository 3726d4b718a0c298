#pragma once

#include <string>
#include <vector>

#include "cli/environment.h"

namespace weir::cli {

// `weir compare`, as written; an empty text leaves the default.
struct CompareCommand {
  std::string policy;                 // whose domains say what is asked
  std::vector<std::string> services;  // the old one, the new one
  std::vector<std::string> requests;  // "DOMAIN KEY=VALUE,… …"
  std::string file;                   // of such requests
  std::string hits = "0";
  bool one_budget = false;  // both count on one store
  bool shadow = false;      // some of its limits never deny
  bool json = false;
};

// Asks two rate limit services the same requests and says where they answer otherwise: code, limit,
// remaining, reset. Exit code 1 where they do.
ExitCode compare(Environment& environment, const CompareCommand& command);

}  // namespace weir::cli
