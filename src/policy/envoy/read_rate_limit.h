#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/envoy/domain.h"
#include "policy/field_reader.h"

namespace weir::policy {

// Fields that the reader of these files knows anywhere, be they read there or not.
extern const std::vector<std::string_view> kEnvoyFields;

// A truth value as YAML 1.1 has them: also yes and on.
std::optional<bool> read_envoy_bool(FaultList& faults, const Value& at);

// What a `rate_limit` says, before it is known whether its numbers hold.
struct RateLimitSaid {
  DescriptorLimit limit;  // name, replaces, requests_per_unit, unit, multiplier
  bool unlimited = false;
  bool meter = false;
  std::optional<Algorithm> algorithm;
  std::optional<std::uint64_t> burst;
};
std::optional<RateLimitSaid> read_rate_limit(FaultList& faults, const Value& at);

// The rule that counts it. `levels` are those of the way to it.
// Errors:      absent; the faults say why.
std::optional<Rule> make_domain_rule(FaultList& faults, const Value& at, const RateLimitSaid& said,
                                     std::string_view domain,
                                     const std::vector<DescriptorLevel>& levels, bool calendar);

}  // namespace weir::policy
