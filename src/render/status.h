#pragma once

#include <string_view>

#include "weir/decision.h"

namespace weir::render {

// The HTTP status of a decision; base/http_status.h holds the map.
int http_status(const Decision& decision) noexcept;

// "Too Many Requests"; empty for a status that no door of ours sends.
std::string_view status_phrase(int status) noexcept;

// Whether something else than the store decided because the store could not: what Weir-Rung tells.
// A request that never reached a limit (unknown route, bad input, no limit) is not degraded.
bool degraded(const Decision& decision) noexcept;

// Whether there is more to say than "go ahead" or "not now": refused, or degraded.
bool remarkable(const Decision& decision) noexcept;

}  // namespace weir::render
