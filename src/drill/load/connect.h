#pragma once

#include <string>

#include "weir/clock.h"
#include "weir/result.h"

namespace weir::drill {

// A connected non-blocking socket to host:port or unix:PATH; the caller closes it.
//
// Errors:      unavailable, naming the address and the reason; invalid_argument where it is none.
Result<int> connect_to(const std::string& address, Nanos patience);

}  // namespace weir::drill
