#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/model.h"

namespace weir::policy {

// Most sources a rule counts by.
inline constexpr std::size_t kMaxSources = 8;

// A rule as read from a file or given in code, before its numbers are known to hold.
struct RuleDraft {
  std::uint64_t requests = 0;
  PeriodSpec per;
  std::vector<Source> by;  // as written
  std::optional<Algorithm> algorithm;
  std::optional<std::uint64_t> burst;
  std::string name;
  bool shadow = false;
  bool strict = false;
  bool meter = false;
  Place place;
};

// A fault of a draft: which field it is about, what is wrong and what would be right.
struct DraftProblem {
  std::string_view field;
  std::string what;
  std::string allowed;
};

// How a rule counts where it does not say: gcra; sliding_log where the route protects security.
Algorithm algorithm_of(const RuleDraft& draft, std::optional<Protects> protects);

// Checks the draft's numbers and makes the rule: names, canonical order and identity. Its slots,
// exemptions and overrides are the caller's.
// Errors:      absent; `problems` got every one.
std::optional<Rule> build_rule(const RuleDraft& draft, std::string_view route,
                               std::optional<Protects> protects,
                               std::vector<DraftProblem>& problems);

// The numbers of an override: the rule's, with another limit.
std::optional<limit::Numbers> build_numbers(const RuleDraft& draft, Algorithm algorithm,
                                            std::vector<DraftProblem>& problems);

// Fills Route::sources and every rule's slots. Requires: at most 32 rules of 8 sources.
void assign_slots(Route& route);

// Whether text may name a rule: 1 to 128 printable ASCII characters without '"' and '\'.
bool is_rule_name(std::string_view name);
// Whether text may name a route: 1 to 128 letters, digits, and any of "_-.:/".
bool is_route_name(std::string_view name);

}  // namespace weir::policy
