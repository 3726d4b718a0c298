#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/field_reader.h"
#include "policy/model.h"

namespace weir::policy {

inline constexpr std::size_t kMaxRules = 32;
inline constexpr std::size_t kMaxMatches = 64;

// What a route needs to know of the file around it.
struct RouteScope {
  FaultList& faults;
  const std::vector<std::string>& inputs;
  std::uint8_t ipv6_prefix = 64;
};

// Reads `protects`, `when_store_fails`, `ceiling` and `overspend` of a map that has them.
void read_failure_policy(FaultList& faults, MapReader& map, Route& route);
// What these, and the route's rules, demand of each other.
void check_failure_policy(FaultList& faults, MapReader& map, const Route& route);

// The choices, as the message says them that misses one.
extern const std::string_view kFailureChoices;

// Reads one route. Faulty parts are left out of what is returned; the faults say so.
Route read_route(const RouteScope& scope, const std::string& name, const Value& at);

}  // namespace weir::policy
