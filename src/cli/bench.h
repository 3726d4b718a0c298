#pragma once

#include <string>

#include "cli/environment.h"

namespace weir::cli {

// `weir bench rls ADDR`, as written; an empty text leaves the default.
struct BenchCommand {
  std::string what;
  std::string address;
  std::string connections;
  std::string streams;
  std::string rate;
  std::string duration;
  std::string domain;
  std::string key;
  std::string keys;
  std::string distribution;
  std::string descriptors;
  std::string over_limit;
  std::string timeout;
  std::string svg;
  bool json = false;
};

// Guarantees:  undecided where the service cannot be reached, or a call was answered with an error
//              or not at all.
ExitCode bench(Environment& environment, const BenchCommand& command);

}  // namespace weir::cli
