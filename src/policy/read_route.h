#pragma once

#include <cstddef>
#include <optional>
#include <string>
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

// Reads one route. Faulty parts are left out of what is returned; the faults say so.
Route read_route(const RouteScope& scope, const std::string& name, const Value& at);

}  // namespace weir::policy
