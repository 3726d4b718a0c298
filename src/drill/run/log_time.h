#pragma once

#include <optional>
#include <string_view>

#include "weir/clock.h"

namespace weir::drill {

// When the first line of that event was written, of those at or after `from`: a log of Weir's in
// logfmt, whose lines begin with time=2026-01-31T12:00:00.123Z.
//
// Guarantees:  `from` is taken to the millisecond, as the log's times are.
std::optional<Instant> time_of_event(std::string_view log, std::string_view event, Instant from);

}  // namespace weir::drill
