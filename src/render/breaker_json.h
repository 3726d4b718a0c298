#pragma once

#include <string>

#include "weir/breaker.h"
#include "weir/concurrency.h"

namespace weir::render {

// One JSON object each: the same from every door. What is not known is absent.
void append_breaker(std::string& out, const BreakerSnapshot& breaker);
void append_concurrency(std::string& out, const ConcurrencySnapshot& limit);
// {"admitted":false,"reason":"open","retry_after_ms":400}
void append_rejected(std::string& out, const Rejected& rejected);
// {"granted":true,"id":…} or {"granted":false,"reason":"full","retry_after_ms":1500}
void append_lease(std::string& out, const LeaseAnswer& answer);

}  // namespace weir::render
