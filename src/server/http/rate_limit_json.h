#pragma once

#include <string>

#include "guard/rate_limiter.h"

namespace weir::server::http {

// The answer of a rate limit service as a RateLimitResponse in protobuf's JSON form: what is zero
// or not set is left out, numbers of 64 bits are strings, a duration is "42s".
void append_rate_limit_json(std::string& out, const guard::RateLimitAnswer& answer);

}  // namespace weir::server::http
