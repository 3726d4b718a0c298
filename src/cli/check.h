#pragma once

#include <string>
#include <vector>

#include "cli/environment.h"

namespace weir::cli {

// `weir check POLICY ROUTE k=v…`: decides in this process, on the policy's store.
struct CheckCommand {
  std::string policy;
  std::string route;
  std::vector<std::string> values;  // "ip=192.0.2.7", as written
  std::string cost = "1";
  std::string times = "1";
  std::string store;  // empty: the policy's
  std::string rls;    // ask the rate limit service there instead: see check_rls.h
  bool json = false;
};

// Most repetitions that --times takes.
inline constexpr std::uint64_t kMaxTimes = 1'000'000;

// Guarantees:  answered_no where any decision was limited, else undecided where any was refused,
//              else as_asked; usage where the request itself is wrong, with nothing charged.
ExitCode check(Environment& environment, const CheckCommand& command);

}  // namespace weir::cli
