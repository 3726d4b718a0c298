#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/source.h"
#include "weir/breaker_config.h"
#include "weir/concurrency.h"

namespace weir::policy {

// Most breakers, and most concurrency limits, of one policy.
inline constexpr std::size_t kMaxSafeguards = 1'000;

// One entry of `breakers:`.
struct BreakerSpec {
  std::string name;
  BreakerConfig config;
  bool shadow = false;
  bool shared = false;  // by the fleet, through the store
};

// What a concurrency limit is sized for: so many calls a second, of which 99 in 100 take at most so
// long. Little's law says how many of them are under way at once.
struct ExpectedLoad {
  std::uint64_t per_second = 0;
  Nanos p99{0};

  // Calls under way at once, rounded up.
  std::uint64_t under_way() const noexcept;
};

// One entry of `concurrency:`.
struct ConcurrencySpec {
  std::string name;
  ConcurrencyConfig config;
  std::vector<Source> by;  // empty: one limit for all
  std::optional<ExpectedLoad> expect;
  bool shared = false;  // by the fleet, through the store
};

}  // namespace weir::policy
