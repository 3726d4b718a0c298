#pragma once

#include <cstdint>
#include <string_view>

namespace weir {

// How a limit counts. docs/concepts/algorithms.md compares them.
enum class Algorithm : std::uint8_t {
  gcra,            // token bucket: burst at once, then evenly at the rate
  fixed_window,    // a counter a window, aligned to the epoch or the calendar
  sliding_window,  // two weighted windows: smooth, approximate from above
  sliding_log,     // every charge remembered: exact in every interval
};

std::string_view to_string(Algorithm algorithm);

// What a limit guards; picks the failure policy of a route that names none.
enum class Protects : std::uint8_t { security, side_effects, capacity, revenue, nothing };

// What a route does while the store cannot be asked.
enum class FailurePolicy : std::uint8_t {
  closed,   // refuse
  bounded,  // this worker's part of the limit, under the ceiling
  settle,   // the part; beyond it metered rules are served into the journal
  open,     // allow, under the ceiling if there is one
};

std::string_view to_string(Protects protects);
std::string_view to_string(FailurePolicy policy);

// security, side_effects -> closed; capacity -> bounded; revenue -> settle; nothing -> open.
FailurePolicy failure_policy_of(Protects protects);

// Largest limit, burst and cost.
inline constexpr std::uint64_t kMaxUnits = 0xffff'ffff;

}  // namespace weir
