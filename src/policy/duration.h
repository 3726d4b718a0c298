#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "weir/clock.h"

namespace weir::policy {

// How durations are written in files, as messages name it.
inline constexpr std::string_view kDurationForm =
    "a whole number with a unit: ns, us, ms, s, m (minutes), h or d";

// "250ms", "10s", "1h": a whole number and a unit, nothing between them. Absent where it is not
// that, or past 292 years.
std::optional<Nanos> parse_duration(std::string_view text);

// The same, in the largest unit that holds it exactly.
std::string to_text(Nanos duration);

}  // namespace weir::policy
