#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "policy/field_reader.h"
#include "policy/model.h"

namespace weir::policy {

inline constexpr std::size_t kMaxExemptions = 1'000;
inline constexpr std::size_t kMaxOverrides = 100'000;

// What a limit needs to know of the file and route around it.
struct LimitScope {
  FaultList& faults;
  const std::vector<std::string>& inputs;
  std::uint8_t ipv6_prefix = 64;
  std::string route;
  std::optional<Protects> protects;
};

// Reads one entry of `limits:`, short or long.
// Errors:      absent; the faults say why.
std::optional<Rule> read_limit(const LimitScope& scope, const Value& at);

// Reads `ceiling:`, short or long: how many units a second, minute or so, over all keys.
std::optional<Ceiling> read_ceiling(FaultList& faults, const Value& at);

}  // namespace weir::policy
