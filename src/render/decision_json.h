#pragma once

#include <string>

#include "weir/decision.h"

namespace weir::render {

// The decision as one JSON object:
//   {"verdict":…,"rung":…,"reason":…,"route":…,"retry_after_ms":…,"rules":[…]}
// and of each rule: rule, limit, period_ms, burst (where it is not the limit), remaining,
// reset_after_ms, retry_after_ms, fits (where false), shadow (where true).
//
// Units:       _ms in whole milliseconds, rounded up so that waiting that long is enough;
//              period_ms exact, with decimals where it needs them.
// Guarantees:  always in this order; what is not known is absent; only numbers and names of the
//              policy, never a value of the client.
void append_decision_json(std::string& out, const Decision& decision);

// The same members without the braces, for bodies that hold more.
void append_decision_members(std::string& out, const Decision& decision);

}  // namespace weir::render
