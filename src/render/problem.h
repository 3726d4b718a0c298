#pragma once

#include <string>
#include <string_view>

#include "weir/decision.h"

namespace weir::render {

inline constexpr std::string_view kJsonContentType = "application/json";
inline constexpr std::string_view kProblemContentType = "application/problem+json";

// The body of a decision that is not allowed: a problem of RFC 9457 with type, title, status,
// detail, the members of the decision's JSON, and `violated-policies`, the names of the rules that
// denied.
//
// Guarantees:  names and numbers of the policy only, never a value of the client.
void append_problem(std::string& out, const Decision& decision);

// The body of a request that never became one: {"type":"about:blank","title":"Not Found",…}.
//
// Requires:    status is one of status_phrase(); detail is ours, not a piece of the request.
void append_problem(std::string& out, int status, std::string_view detail);

}  // namespace weir::render
